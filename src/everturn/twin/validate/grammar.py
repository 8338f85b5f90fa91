"""The notation for tables of fields, and the checks that are built from them.

A table maps the name of a shape to its fields: `"text! str, citations [citation]?"`. `!` means required,
`...` at the end allows other fields.

    str int number bool any object    plain values           name       another shape, or a family of shapes
    [T]  {T}                          list of, map of        'a'/'b'    one of these strings
    T?                                T or null              T/T        by the type of the value

The shapes of a family are distinguished by `type`, and the type becomes part of the path, as in the API's
errors: `messages.0.content.1.text.citations: ...`. `betas.py` lists the fields that need a beta header.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from everturn.twin.values import ApiError, invalid_request
from everturn.wire.json_values import is_list, is_object

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
    """Any JSON value."""


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
        if not is_list(value):
            raise invalid_field(path, NOT_A_LIST)
        for index, item in enumerate(value):
            member(item, join_path(path, index))

    return check


def map_of(member: ShapeCheck) -> ShapeCheck:
    def check(value: Any, path: str) -> None:
        if not is_object(value):
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
    """Check by the type of the value. If no choice has its type, the error is that of the last one."""

    def check(value: Any, path: str) -> None:
        chosen = next((inner for kind, inner in choices if isinstance(value, kind)), choices[-1][1])
        chosen(value, path)

    return check


def fields(known: dict[str, ShapeCheck], required: tuple[str, ...], *, open_ended: bool) -> ShapeCheck:
    """Check an object with these fields. Missing fields are reported before unknown ones."""

    def check(value: Any, path: str) -> None:
        if not is_object(value):
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
    """Check by `type`; `untyped` is used if `type` is missing or null."""

    def check(value: Any, path: str) -> None:
        if not is_object(value):
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


def _python_type(notation: str) -> type:
    by_start = {"[": list, "'": str}
    return by_start.get(notation[0]) or {"str": str, "bool": bool}.get(notation, dict)


class Grammar:
    """Named checks, built from tables. A table can refer to any name, also to itself."""

    def __init__(self) -> None:
        self._named: dict[str, ShapeCheck] = dict(PLAIN)

    def __getitem__(self, name: str) -> ShapeCheck:
        return self._named[name]

    def define(self, name: str, check: ShapeCheck) -> None:
        self._named[name] = check

    def shapes(self, table: Table) -> None:
        for name, notation in table.items():
            self._named[name] = self.shape(notation)

    def family(self, name: str, table: Table, *, untyped: str | None = None) -> dict[str, ShapeCheck]:
        """Define a family. The field `type` is added to every member."""
        members = {tag: self.shape(f"type any, {notation}".rstrip(", ")) for tag, notation in table.items()}
        self._named[name] = family(members, untyped=untyped)
        return members

    def shape(self, notation: str) -> ShapeCheck:
        known: dict[str, ShapeCheck] = {}
        required: list[str] = []
        open_ended = notation.endswith("...")
        for part in filter(None, notation.removesuffix("...").split(", ")):
            name, kind = part.strip().split(" ", 1)
            if name.endswith("!"):
                name = name[:-1]
                required.append(name)
            known[name] = self.kind(kind.strip())
        return fields(known, tuple(required), open_ended=open_ended)

    def kind(self, notation: str) -> ShapeCheck:
        if notation.endswith("?"):
            return nullable(self.kind(notation[:-1]))
        choices = re.findall(r"\[[^\]]*\](?:\])?|\{[^}]*\}|'[^']*'|[^/]+", notation)
        if len(choices) > 1:
            return self._choice(choices)
        if notation[0] == "'":
            return literal((notation[1:-1],))
        if notation[0] == "[":
            return list_of(self.kind(notation[1:-1]))
        if notation[0] == "{":
            return map_of(self.kind(notation[1:-1]))
        return self._later(notation)

    def _choice(self, choices: list[str]) -> ShapeCheck:
        if all(choice[0] == "'" for choice in choices):
            return literal(tuple(choice[1:-1] for choice in choices))
        return either(tuple((_python_type(choice), self.kind(choice)) for choice in choices))

    def _later(self, name: str) -> ShapeCheck:
        """Look the name up when the check runs, so that shapes can refer to each other."""
        if name in PLAIN:
            return PLAIN[name]
        return lambda value, path: self._named[name](value, path)
