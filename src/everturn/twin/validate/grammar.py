"""The notation of the tables that say which fields exist, and the check of a value against them.

A table maps a shape's name to its fields: `"text! str, citations [citation]?"`. The sign `!` means required,
`...` at the end that other fields may be there too.

    str int number bool any object    plain values           name       another shape, or a family of shapes
    [T]  {T}                          list of, map of        'a'/'b'    one of these strings
    T?                                T or null              T/T        whichever fits the kind of value

A family is told apart by `type`, and the type becomes a step of the path, as the API words it:
`messages.0.content.1.text.citations: ...`. Which fields need a beta header is decided in `betas.py`.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from everturn.twin.values import ApiError, invalid_request

ShapeCheck = Callable[[Any, str], None]
Table = Mapping[str, str]

REQUIRED = "Field required"
EXTRA = "Extra inputs are not permitted"
NOT_A_STRING = "Input should be a valid string"
NOT_A_LIST = "Input should be a valid list"
NOT_AN_OBJECT = "Input should be a valid dictionary"


def invalid_field(path: str, reason: str) -> ApiError:
    return invalid_request(f"{path}: {reason}" if path else reason)


def join_path(path: str, step: str | int) -> str:
    return f"{path}.{step}" if path else str(step)


def one_of(choices: Iterable[str]) -> str:
    """'a', 'b' or 'c'."""
    *most, last = [f"'{choice}'" for choice in choices]
    return f"{', '.join(most)} or {last}" if most else last


def unknown_tag(tag: str, expected: Iterable[str]) -> str:
    known = ", ".join(f"'{name}'" for name in sorted(expected))
    return f"Input tag '{tag}' found using 'type' does not match any of the expected tags: {known}"


def plain(kind: type | tuple[type, ...], reason: str) -> ShapeCheck:
    def check(value: Any, path: str) -> None:
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise invalid_field(path, reason)

    return check


def anything(value: Any, path: str) -> None:
    """Whatever JSON can say."""


def integer(*, at_least: int) -> ShapeCheck:
    is_integer = plain(int, "Input should be a valid integer")

    def check(value: Any, path: str) -> None:
        is_integer(value, path)
        if value < at_least:
            raise invalid_field(path, f"Input should be greater than or equal to {at_least}")

    return check


def fraction(value: Any, path: str) -> None:
    PLAIN["number"](value, path)
    if not value >= 0:
        raise invalid_field(path, "Input should be greater than or equal to 0")
    if value > 1:
        raise invalid_field(path, "Input should be less than or equal to 1")


def text(*, pattern: str | None = None, at_most: int | None = None, at_least: int = 0) -> ShapeCheck:
    is_string = plain(str, NOT_A_STRING)
    matches = re.compile(pattern.removesuffix("$") + r"\Z").match if pattern else None

    def check(value: Any, path: str) -> None:
        is_string(value, path)
        if len(value) < at_least:
            unit = "character" if at_least == 1 else "characters"
            raise invalid_field(path, f"String should have at least {at_least} {unit}")
        if at_most is not None and len(value) > at_most:
            raise invalid_field(path, f"String should have at most {at_most} characters")
        if matches is not None and not matches(value):
            raise invalid_field(path, f"String should match pattern '{pattern}'")

    return check


def literal(choices: tuple[str, ...]) -> ShapeCheck:
    reason = f"Input should be {one_of(choices)}"

    def check(value: Any, path: str) -> None:
        if not isinstance(value, str) or value not in choices:
            raise invalid_field(path, reason)

    return check


def list_of(member: ShapeCheck) -> ShapeCheck:
    def check(value: Any, path: str) -> None:
        if not isinstance(value, list):
            raise invalid_field(path, NOT_A_LIST)
        for index, item in enumerate(value):
            member(item, join_path(path, index))

    return check


def map_of(member: ShapeCheck) -> ShapeCheck:
    def check(value: Any, path: str) -> None:
        if not isinstance(value, dict):
            raise invalid_field(path, NOT_AN_OBJECT)
        for key, item in value.items():
            member(item, join_path(path, key))

    return check


def nullable(inner: ShapeCheck) -> ShapeCheck:
    def check(value: Any, path: str) -> None:
        if value is not None:
            inner(value, path)

    return check


def either(choices: tuple[tuple[type, ShapeCheck], ...]) -> ShapeCheck:
    """The choice whose kind of value was sent; the complaint is that of the last one."""

    def check(value: Any, path: str) -> None:
        chosen = next((inner for kind, inner in choices if isinstance(value, kind)), choices[-1][1])
        chosen(value, path)

    return check


def fields(known: dict[str, ShapeCheck], required: tuple[str, ...], *, open_ended: bool) -> ShapeCheck:
    """An object with these fields. Missing ones are reported before unknown ones."""

    def check(value: Any, path: str) -> None:
        if not isinstance(value, dict):
            raise invalid_field(path, NOT_AN_OBJECT)
        for name in required:
            if name not in value:
                raise invalid_field(join_path(path, name), REQUIRED)
        for name, item in value.items():
            inner = known.get(name)
            if inner is not None:
                inner(item, join_path(path, name))
            elif not open_ended:
                raise invalid_field(join_path(path, name), EXTRA)

    return check


def family(members: Mapping[str, ShapeCheck], *, untyped: str | None = None) -> ShapeCheck:
    """Shapes told apart by `type`; `untyped` is the one meant where `type` is missing or null."""

    def check(value: Any, path: str) -> None:
        if not isinstance(value, dict):
            raise invalid_field(path, NOT_AN_OBJECT)
        tag = value.get("type")
        if tag is None:
            tag = untyped
        if tag is None:
            raise invalid_field(path, "Unable to extract tag using discriminator 'type'")
        inner = members.get(tag) if isinstance(tag, str) else None
        if inner is None:
            raise invalid_field(path, unknown_tag(str(tag), members))
        inner(value, join_path(path, tag))

    return check


PLAIN: dict[str, ShapeCheck] = {
    "str": plain(str, NOT_A_STRING),
    "int": plain(int, "Input should be a valid integer"),
    "number": plain((int, float), "Input should be a valid number"),
    "bool": plain(bool, "Input should be a valid boolean"),
    "object": plain(dict, NOT_AN_OBJECT),
    "any": anything,
}


def _python_type(spelled: str) -> type:
    by_start = {"[": list, "'": str}
    return by_start.get(spelled[0]) or {"str": str, "bool": bool}.get(spelled, dict)


class Grammar:
    """Named checks, made from tables; a table may name what was made before it, and itself."""

    def __init__(self) -> None:
        self._named: dict[str, ShapeCheck] = dict(PLAIN)

    def __getitem__(self, name: str) -> ShapeCheck:
        return self._named[name]

    def define(self, name: str, check: ShapeCheck) -> None:
        self._named[name] = check

    def shapes(self, table: Table) -> None:
        for name, spelled in table.items():
            self._named[name] = self.shape(spelled)

    def family(self, name: str, table: Table, *, untyped: str | None = None) -> dict[str, ShapeCheck]:
        """`type` is part of every member and not spelled in the table."""
        members = {tag: self.shape(f"type any, {spelled}".rstrip(", ")) for tag, spelled in table.items()}
        self._named[name] = family(members, untyped=untyped)
        return members

    def shape(self, spelled: str) -> ShapeCheck:
        known: dict[str, ShapeCheck] = {}
        required: list[str] = []
        open_ended = spelled.endswith("...")
        for part in filter(None, spelled.removesuffix("...").split(", ")):
            name, kind = part.strip().split(" ", 1)
            if name.endswith("!"):
                name = name[:-1]
                required.append(name)
            known[name] = self.kind(kind.strip())
        return fields(known, tuple(required), open_ended=open_ended)

    def kind(self, spelled: str) -> ShapeCheck:
        if spelled.endswith("?"):
            return nullable(self.kind(spelled[:-1]))
        choices = re.findall(r"\[[^\]]*\](?:\])?|\{[^}]*\}|'[^']*'|[^/]+", spelled)
        if len(choices) > 1:
            return self._choice(choices)
        if spelled[0] == "'":
            return literal((spelled[1:-1],))
        if spelled[0] == "[":
            return list_of(self.kind(spelled[1:-1]))
        if spelled[0] == "{":
            return map_of(self.kind(spelled[1:-1]))
        return self._later(spelled)

    def _choice(self, choices: list[str]) -> ShapeCheck:
        if all(choice[0] == "'" for choice in choices):
            return literal(tuple(choice[1:-1] for choice in choices))
        return either(tuple((_python_type(choice), self.kind(choice)) for choice in choices))

    def _later(self, name: str) -> ShapeCheck:
        """Looked up when used, so that shapes can nest in each other."""
        if name in PLAIN:
            return PLAIN[name]
        return lambda value, path: self._named[name](value, path)
