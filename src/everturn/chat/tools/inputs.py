"""Tool definitions for the API, and checked access to the input of a call.

Models do not always follow the schema, so every field is checked; the error message says what is expected.
"""

from collections.abc import Mapping
from typing import Any, TypeGuard, cast

FieldSchema = Mapping[str, Any]


class ToolError(Exception):
    """Why the call failed and what to do instead. The message is for the model."""


class ToolInput:
    """The fields of one call. A missing optional field has its default; a wrong type raises ToolError."""

    def __init__(self, tool: str, fields: Mapping[str, Any]) -> None:
        self.tool = tool
        self._fields = fields

    def string(self, name: str, default: str | None = None) -> str:
        """A string. Without a default it is required and must not be empty."""
        value = self._fields.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, str) or (default is None and not value):
            raise self._wrong(name, "a string" if default is not None else "a non-empty string", value)
        return value

    def any_string(self, name: str) -> str:
        """A required string that may be empty."""
        value = self._fields.get(name)
        if not isinstance(value, str):
            raise self._wrong(name, "a string", value)
        return value

    def integer(self, name: str, default: int, *, least: int = 0, most: int | None = None) -> int:
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

    def boolean(self, name: str, default: bool) -> bool:
        value = self._fields.get(name)
        if value is None:
            return default
        if value in ("true", "false"):
            return value == "true"
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false", value)
        return value

    def enum(self, name: str, options: tuple[str, ...]) -> str:
        """One of the options; the first is the default."""
        value = self._fields.get(name)
        if value is None:
            return options[0]
        if value not in options:
            raise self._wrong(name, f"one of {', '.join(options)}", value)
        return str(value)

    def objects(self, name: str) -> list[Mapping[str, Any]]:
        items = self._fields.get(name)
        if not _are_objects(items):
            raise self._wrong(name, "a list of objects", items)
        return items

    def _wrong(self, name: str, wanted: str, value: object) -> ToolError:
        if value is None:
            return ToolError(f"{self.tool} needs `{name}`: {wanted}.")
        return ToolError(f"`{name}` of {self.tool} must be {wanted}; it was {str(value)[:80]!r}.")


def _are_objects(value: object) -> TypeGuard[list[Mapping[str, Any]]]:
    return isinstance(value, list) and all(isinstance(each, Mapping) for each in cast(list[object], value))


# ── definitions ──────────────────────────────────────────────────────────────────────────────────


def tool_definition(
    name: str, description: str, fields: Mapping[str, FieldSchema], *required: str
) -> dict[str, Any]:
    return {
        "name": name,
        "description": " ".join(description.split()),
        "input_schema": {"type": "object", "properties": dict(fields), "required": list(required)},
    }


def string_field(about: str) -> FieldSchema:
    return {"type": "string", "description": about}


def integer_field(about: str, *, least: int = 0) -> FieldSchema:
    return {"type": "integer", "minimum": least, "description": about}


def boolean_field(about: str) -> FieldSchema:
    return {"type": "boolean", "description": about}


def enum_field(about: str, *options: str) -> FieldSchema:
    return {"type": "string", "enum": list(options), "description": about}
