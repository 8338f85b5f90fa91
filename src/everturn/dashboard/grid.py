"""The window as a grid of equal cells, and the symbol of each kind of content.

Cells are assigned by largest remainder, so that they add up exactly. A kind worth at least half a cell always
has one, taken from the kind with the most cells. The last cell of a kind is partial if its tokens do not fill
it. Shapes differ, so that nothing depends on colour alone.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

ROWS: Final = 10
COLUMNS: Final = 20
FREE: Final = "free"
BUFFER: Final = "buffer"
# In drawing order: what is sent first comes first.
LABELS: Final[Mapping[str, str]] = {
    "system": "System prompt, tools",
    "unrecorded": "Not in the file",
    "summary": "Summary",
    "human": "Human",
    "assistant": "Assistant",
    "thinking": "Thinking",
    "tool_requests": "Tool requests",
    "tool_results": "Tool results",
    "images": "Images, documents",
    "attachments": "Attachments",
    "injected": "Added by the harness",
    "local_output": "Local command output",
    "other": "Other",
}


class Cell(msgspec.Struct, frozen=True):
    key: str
    # Whether the cell is full of tokens; the last cell of a kind may not be.
    full: bool = True


class Symbol(NamedTuple):
    full: str
    partial: str
    # For terminals without these shapes; lower case if partial.
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
    """Parts in drawing order, as (kind, tokens). Together they are the window, or more if it overflows."""
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


def apportion(weights: Sequence[int], total: int) -> tuple[int, ...]:
    """`total` divided in proportion to the weights, in whole numbers that sum to it.

    Each share is less than one away from the exact value. If all weights are zero, so are the shares.
    """
    whole = sum(weights)
    if whole <= 0 or total <= 0:
        return (0,) * len(weights)
    shares = [weight * total // whole for weight in weights]
    left = total - sum(shares)
    # Equal remainders go to the first, so that equal input gives equal output.
    by_remainder = sorted(range(len(weights)), key=lambda at: (-(weights[at] * total % whole), at))
    for at in by_remainder[:left]:
        shares[at] += 1
    return tuple(shares)
