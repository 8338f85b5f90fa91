"""Narrow decoded JSON and TOML: a bare `isinstance` leaves the element types unknown to a type checker."""

from collections.abc import Mapping, Sequence
from typing import Any, cast


def as_mapping(value: object) -> Mapping[str, Any] | None:
    """The value if it is a mapping. Decoded documents have text keys only."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else None


def as_list(value: object) -> list[Any] | None:
    return cast("list[Any]", value) if isinstance(value, list) else None


def as_sequence(value: object) -> Sequence[Any] | None:
    """The value if it is a list or a tuple; a text is neither."""
    return cast("Sequence[Any]", value) if isinstance(value, list | tuple) else None
