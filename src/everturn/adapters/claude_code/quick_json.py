"""JSON read without importing `json`, which takes longer to load than a status line takes to be drawn.

The scanner behind `json` is a C type of its own. It is no public name, so anything unexpected falls back to
`json`; the answers are the same (tests). Looking into what was read never fails: a field that is missing or
of another kind is None.
"""


class _Plain:
    """What the scanner wants to know: how json.loads is set up by default."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float
    memo: dict[str, str] = {}  # noqa: RUF012, the scanner clears it after each use


def decode(text: str) -> object:
    """The value in a text; ValueError where it is none."""
    stripped = text.strip(" \t\r\n\ufeff")
    try:
        from _json import make_scanner

        value, end = make_scanner(_Plain)(stripped, 0)  # type: ignore[arg-type]
    except (ImportError, AttributeError, TypeError):
        import json

        return json.loads(stripped)
    except StopIteration:
        raise ValueError("it is empty or begins with no value") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if end != len(stripped):
        raise ValueError(f"something follows its end, at character {end}")
    return value


def get_path(value: object, *names: str) -> object:
    """The field at the end of these names; None where there is no such field."""
    for name in names:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def get_number(value: object, *names: str) -> float | None:
    """A number that can be calculated with: neither true nor false, neither endless nor undefined."""
    found = get_path(value, *names)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    return found if abs(found) < 1e15 else None


def get_text(value: object, *names: str) -> str:
    found = get_path(value, *names)
    return found if isinstance(found, str) else ""
