"""Parses JSON without importing `json`, whose import takes longer than drawing the status line.

Uses the C scanner behind `json`. It is not a public name, so anything unexpected falls back to `json`; tests
check that both give the same values. Reading a missing field, or one of another type, returns None.
"""

# Type checkers know this name; `typing` is slow to import.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeGuard


class _Plain:
    """The scanner's settings: the defaults of json.loads."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float
    memo: dict[str, str] = {}  # noqa: RUF012, the scanner clears it after each use


def decode(text: str) -> object:
    """Parse a JSON text. Raises ValueError if it is not valid."""
    stripped = text.strip(" \t\r\n\ufeff")
    try:
        from _json import make_scanner

        value, end = make_scanner(_Plain)(stripped, 0)  # type: ignore[arg-type]
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except (ImportError, AttributeError, TypeError, StopIteration, SystemError):
        # SystemError: CPython's scanner cannot raise JSONDecodeError while `json` is not imported, which is
        # the case for truncated input. `json` itself says what is wrong and where.
        import json

        return json.loads(stripped)
    if end != len(stripped):
        raise ValueError(f"extra data at character {end}")
    return value


def is_object(value: object) -> "TypeGuard[dict[str, object]]":
    return isinstance(value, dict)


def is_list(value: object) -> "TypeGuard[list[object]]":
    return isinstance(value, list)


def get_path(value: object, *names: str) -> object:
    """The field at this path; None if it does not exist."""
    for name in names:
        if not is_object(value):
            return None
        value = value.get(name)
    return value


def get_number(value: object, *names: str) -> float | None:
    """A finite number at this path; None for anything else, including booleans."""
    found = get_path(value, *names)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    return found if abs(found) < 1e15 else None


def get_text(value: object, *names: str) -> str:
    found = get_path(value, *names)
    return found if isinstance(found, str) else ""
