"""Dollars in the reasons of decisions: with as many digits as a reader needs to compare them (EC-1)."""

from typing import Final

MAX_DIGITS: Final = 6


def format_compared(one: float, other: float, *, digits: int = 3) -> tuple[str, str]:
    """Two amounts that are compared. With so many digits, or with more where they would look equal."""
    for more in range(digits, MAX_DIGITS + 1):
        shown = f"${one:.{more}f}", f"${other:.{more}f}"
        if shown[0] != shown[1]:
            return shown
    return f"${one:.{digits}f}", f"${other:.{digits}f}"
