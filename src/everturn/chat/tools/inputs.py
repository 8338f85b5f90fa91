"""The input of a call, checked field by field: a model that asked wrongly is told how to ask.

Schemas promise the API what a call looks like; models do not always keep to them.
"""

from collections.abc import Mapping
from typing import Any


class ToolError(Exception):
    """Why nothing was done, and what would help. The words are for the model."""


class ToolInput:
    """Fields of one call. A missing optional field has its default; a wrong type is refused."""

    def __init__(self, tool: str, fields: Mapping[str, Any]) -> None:
        self.tool = tool
        self._fields = fields

    def words(self, name: str, default: str | None = None) -> str:
        """A string; one without a default must be there and not be empty."""
        value = self._fields.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, str) or (default is None and not value):
            raise self._wrong(
                name, "a string" if default is not None else "a string that is not empty", value
            )
        return value

    def text(self, name: str) -> str:
        """A string that must be there and may be empty."""
        value = self._fields.get(name)
        if not isinstance(value, str):
            raise self._wrong(name, "a string", value)
        return value

    def number(self, name: str, default: int, *, least: int = 0, most: int | None = None) -> int:
        value = self._fields.get(name)
        if value is None:
            return default
        if isinstance(value, str) and value.strip().isdecimal():
            value = int(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise self._wrong(name, f"a whole number, {least:,} or more", value)
        return value if most is None else min(value, most)

    def flag(self, name: str, default: bool) -> bool:
        value = self._fields.get(name)
        if value is None:
            return default
        if value in ("true", "false"):
            return value == "true"
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false", value)
        return value

    def choice(self, name: str, options: tuple[str, ...]) -> str:
        """One of these; the first where none was chosen."""
        value = self._fields.get(name)
        if value is None:
            return options[0]
        if value not in options:
            raise self._wrong(name, f"one of {', '.join(options)}", value)
        return str(value)

    def items(self, name: str) -> list[Mapping[str, Any]]:
        value = self._fields.get(name)
        if not isinstance(value, list) or not all(isinstance(each, Mapping) for each in value):
            raise self._wrong(name, "a list of objects", value)
        return value

    def _wrong(self, name: str, wanted: str, value: object) -> ToolError:
        if value is None:
            return ToolError(f"{self.tool} needs `{name}`: {wanted}.")
        return ToolError(f"`{name}` of {self.tool} must be {wanted}; it was {str(value)[:80]!r}.")
