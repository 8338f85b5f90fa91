"""The window as a grid of cells, each an equal part of it, and how each kind of content is marked.

Cells are given out by largest remainder, so that they add up exactly; a kind worth at least half a cell
always has one, taken from the kind that has the most. The last cell of a kind is partial when its tokens
do not fill it. Shapes differ from each other, so that nothing is said by colour alone.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from everturn.dashboard.figures.apportion import apportion

ROWS: Final = 10
COLUMNS: Final = 20
FREE: Final = "free"
BUFFER: Final = "buffer"


class Cell(msgspec.Struct, frozen=True):
    key: str
    # A whole cell's worth of tokens; the last cell of a kind may hold less.
    full: bool = True


class Symbol(NamedTuple):
    full: str
    partial: str
    # For terminals without shapes; small where partial.
    letter: str
    style: str

    def drawn(self, *, full: bool, ascii_only: bool) -> str:
        if ascii_only:
            return self.letter if full else self.letter.lower()
        return self.full if full else self.partial


SYMBOLS: Final[dict[str, Symbol]] = {
    "system": Symbol("■", "□", "S", "blue"),
    "unrecorded": Symbol("▣", "▢", "N", "white"),
    "summary": Symbol("◉", "◎", "Y", "magenta"),
    "human": Symbol("●", "○", "H", "bright_green"),
    "assistant": Symbol("◆", "◇", "A", "cyan"),
    "thinking": Symbol("▼", "▽", "T", "bright_magenta"),
    "tool_requests": Symbol("▸", "▹", "Q", "yellow"),
    "tool_results": Symbol("▲", "△", "R", "bright_yellow"),
    "images": Symbol("★", "☆", "I", "bright_red"),
    "attachments": Symbol("▰", "▱", "D", "green"),
    "injected": Symbol("▮", "▯", "J", "bright_blue"),
    "local_output": Symbol("◂", "◃", "L", "bright_cyan"),
    "other": Symbol("✦", "✧", "O", "bright_white"),
    FREE: Symbol("·", "·", ".", "bright_black"),
    BUFFER: Symbol("▒", "▒", "#", "red"),
}

Grid = tuple[tuple[Cell, ...], ...]


def grid(parts: Sequence[tuple[str, int]], window: int, *, rows: int = ROWS, columns: int = COLUMNS) -> Grid:
    """Parts in drawing order, as (kind, tokens); together they are the window, or more when it overflows."""
    total = rows * columns
    whole = max(window, sum(tokens for _, tokens in parts), 1)
    room = [*parts, (FREE, whole - sum(tokens for _, tokens in parts))]
    shares = list(apportion([tokens for _, tokens in room], total))
    _show_the_small(room, shares, whole, total)
    cells = [
        cell
        for (key, tokens), share in zip(room, shares, strict=True)
        for cell in _cells(key, share, tokens * total / whole)
    ]
    return tuple(tuple(cells[at : at + columns]) for at in range(0, total, columns))


def _show_the_small(room: Sequence[tuple[str, int]], shares: list[int], whole: int, total: int) -> None:
    for at, (_, tokens) in enumerate(room):
        if shares[at] == 0 and 2 * tokens * total >= whole and max(shares) > 1:
            shares[shares.index(max(shares))] -= 1
            shares[at] = 1


def _cells(key: str, share: int, exact: float) -> list[Cell]:
    if key in (FREE, BUFFER) or exact >= share:
        return [Cell(key)] * share
    return [*[Cell(key)] * (share - 1), Cell(key, full=False)]
