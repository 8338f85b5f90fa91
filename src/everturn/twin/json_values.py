"""Typed access to decoded JSON, whose values can be anything that a client sent."""

from typing import Any, TypeGuard


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    """Whether a decoded value is a JSON object; its keys are always strings."""
    return isinstance(value, dict)


def is_list(value: Any) -> TypeGuard[list[Any]]:
    """Whether a decoded value is a JSON array."""
    return isinstance(value, list)


def as_object(value: Any) -> dict[str, Any]:
    """The value if it is an object, otherwise an empty object."""
    return value if is_object(value) else {}


def as_objects(value: Any) -> list[dict[str, Any]]:
    """The objects in the value if it is an array, otherwise an empty list."""
    return [item for item in value if is_object(item)] if is_list(value) else []
