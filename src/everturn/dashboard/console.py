"""Where a command prints: a console without markup, and whether its encoding has our shapes."""

from typing import TextIO

from rich.console import Console


def open_console(file: TextIO | None = None, *, color: bool) -> Console:
    """Prints text as it is. With `color`, the terminal decides whether there is any (NO_COLOR, pipes)."""
    return Console(file=file, no_color=None if color else True, highlight=False, emoji=False, markup=False)


def can_print(shapes: str, file: TextIO) -> bool:
    try:
        shapes.encode(file.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
