"""Typed access to decoded JSON and TOML, whose values can be anything that someone else wrote.

A bare `isinstance` leaves the element types unknown to a type checker.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether a decoded value is a JSON object; its keys are always strings."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Whether a decoded value is a JSON array."""
    return isinstance(value, list)


def is_mapping(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Whether a value is a mapping of any kind, also one that a caller passed instead of JSON."""
    return isinstance(value, Mapping)


def is_sequence(value: object) -> TypeGuard[Sequence[Any]]:
    """Whether a value is an array: decoded JSON has lists, a caller's own body may have tuples."""
    return isinstance(value, (list, tuple))


def as_object(value: object) -> dict[str, Any]:
    """The value if it is an object, otherwise an empty object."""
    return value if is_object(value) else {}


def as_objects(value: object) -> list[dict[str, Any]]:
    """The objects in the value if it is an array, otherwise an empty list."""
    return [item for item in value if is_object(item)] if is_list(value) else []


def as_mapping(value: object) -> Mapping[str, Any] | None:
    """The value if it is a mapping of any kind."""
    return value if is_mapping(value) else None


def as_list(value: object) -> list[Any] | None:
    """The value if it is a list; a tuple or a text is not."""
    return value if is_list(value) else None


def as_sequence(value: object) -> Sequence[Any] | None:
    """The value if it is a list or a tuple; a text is neither."""
    return value if is_sequence(value) else None
