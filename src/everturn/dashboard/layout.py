"""Terminal layout: safe text, short numbers, tables that fit the width.

Text from session files reaches the terminal only through `plain`, because control characters in a path or
command could control the reader's terminal.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple

from rich.cells import cell_len, set_cell_size

from everturn.terminal_text import printable

CutSide = Literal["start", "middle", "end"]

GAP: Final = 2


class Column(NamedTuple):
    head: str
    align: Literal["<", ">"] = ">"
    # The one column that takes the remaining width, and is cut if there is too little.
    grows: bool = False
    cut: CutSide = "end"
    # If the screen is too narrow, columns with the highest number are left out first; 0 is never left out.
    optional: int = 0


def plain(text: str, *, ascii_only: bool) -> str:
    """The text without control characters, line breaks, invisible formatting (such as bidi marks) and
    surrogates.
    """
    safe = printable(text)
    return safe.encode("ascii", "replace").decode() if ascii_only else safe


def fit(text: str, width: int, *, cut: CutSide = "end", ellipsis: str) -> str:
    """The text in at most this many columns; a cut is marked."""
    if cell_len(text) <= width:
        return text
    room = width - cell_len(ellipsis)
    if room < 1:
        return set_cell_size(text, max(0, width)).rstrip()
    if cut == "end":
        return set_cell_size(text, room).rstrip() + ellipsis
    head = set_cell_size(text, room // 2).rstrip() if cut == "middle" else ""
    return head + ellipsis + _last_columns(text, room - cell_len(head))


def _last_columns(text: str, room: int) -> str:
    start = len(text)
    while start and cell_len(text[start - 1 :]) <= room:
        start -= 1
    return text[start:]


def table(
    columns: Sequence[Column], rows: Iterable[Sequence[str]], width: int, *, ellipsis: str, least: int = 12
) -> list[str]:
    """Heading and rows. `least` is the width that the growing column gets before optional columns are left
    out.
    """
    lines = [[column.head for column in columns], *(list(row) for row in rows)]
    kept = list(range(len(columns)))
    while _too_wide(columns, lines, kept, width, least):
        optional = [at for at in kept if columns[at].optional]
        fixed = [at for at in kept if not columns[at].grows]
        if optional:
            kept.remove(max(optional, key=lambda at: columns[at].optional))
        elif len(fixed) > 1:
            # Names that cannot be told apart are worth less than one more number.
            kept.remove(fixed[-1])
        else:
            break
    widths = _widths(columns, lines, kept, width)
    return [_row(columns, line, kept, widths, width, ellipsis) for line in lines]


def _too_wide(
    columns: Sequence[Column], lines: Sequence[Sequence[str]], kept: Sequence[int], width: int, least: int
) -> bool:
    natural = {at: max(cell_len(line[at]) for line in lines) for at in kept}
    wanted = [min(natural[at], least) if columns[at].grows else natural[at] for at in kept]
    return sum(wanted) + GAP * (len(kept) - 1) > width


def _widths(
    columns: Sequence[Column], lines: Sequence[Sequence[str]], kept: Sequence[int], width: int
) -> dict[int, int]:
    widths = {at: max(cell_len(line[at]) for line in lines) for at in kept}
    over = sum(widths.values()) + GAP * (len(kept) - 1) - width
    for at in kept:
        if columns[at].grows and over > 0:
            widths[at] = max(1, widths[at] - over)
    return widths


def _row(
    columns: Sequence[Column],
    line: Sequence[str],
    kept: Sequence[int],
    widths: dict[int, int],
    width: int,
    ellipsis: str,
) -> str:
    cells: list[str] = []
    for at in kept:
        text = fit(line[at], widths[at], cut=columns[at].cut, ellipsis=ellipsis)
        space = " " * (widths[at] - cell_len(text))
        cells.append(text + space if columns[at].align == "<" else space + text)
    return fit((" " * GAP).join(cells).rstrip(), width, ellipsis=ellipsis)


class Screen(NamedTuple):
    """The width of the output and whether it is limited to ASCII."""

    width: int
    ascii_only: bool = False

    @property
    def ellipsis(self) -> str:
        return "~" if self.ascii_only else "…"

    def plain(self, text: str) -> str:
        return plain(text, ascii_only=self.ascii_only)

    def fitted(self, text: str, *, cut: CutSide = "end") -> str:
        return fit(self.plain(text), self.width, cut=cut, ellipsis=self.ellipsis)

    def wrapped(self, text: str) -> list[str]:
        """Wrapped to the width; a word that is too long is cut."""
        lines: list[str] = []
        for word in self.plain(text).split():
            if lines and cell_len(lines[-1]) + 1 + cell_len(word) <= self.width:
                lines[-1] += f" {word}"
            else:
                lines.append(word)
        return [fit(line, self.width, ellipsis=self.ellipsis) for line in lines]

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> list[str]:
        safe = [[self.plain(cell) for cell in row] for row in rows]
        return table(columns, safe, self.width, ellipsis=self.ellipsis)


def tokens(count: int) -> str:
    """Short: 950, 12.3k, 201k, 1M, 1.2M."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        # Just below a unit, rounding would give 1000 of the smaller one.
        if count >= size * 0.9995:
            value = count / size
            is_round = value >= 99.95 or (unit == "M" and count % size == 0)
            return f"{value:.0f}{unit}" if is_round else f"{value:.1f}{unit}"
    return str(count)


def percent(fraction: float) -> str:
    """One decimal; a small value that rounds to zero is shown as less than the smallest one."""
    return "<0.1%" if 0 < fraction < 0.0005 else f"{fraction:.1%}"


def counted(number: int, what: str, several: str = "") -> str:
    """A number with its noun: "1 call", "2 calls"."""
    return f"{number:,} {what if number == 1 else several or what + 's'}"
