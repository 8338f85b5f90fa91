"""How likely a conversation goes on after a silence.

Fitted to recorded sessions, the end of a recording counted as never. `everturn tune` fits a table to a
person's own sessions.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

import msgspec

# A hold renews an entry shortly before its hour is over.
HOUR: Final = 3_590.0
_LINE: Final = re.compile(r"(\d{1,9}) (\d{1,9})/(\d{1,9})", re.ASCII)


class PauseRow(msgspec.Struct, frozen=True):
    """Of so many silences that had lasted this long, so many ended within the next hour."""

    seconds: float
    silences: int
    returns: int

    @property
    def chance(self) -> float:
        """One return and one silence more: a row that saw nothing is not certain of it."""
        return (self.returns + 1) / (self.silences + 2)


def chance_between(rows: Sequence[PauseRow], seconds: float) -> float:
    """The chance after so many seconds, in proportion between two rows: with entries of an hour, a pause
    reaches its first hold shortly before the second row."""
    for row, following in pairwise(rows):
        if row.seconds <= seconds < following.seconds:
            share = (seconds - row.seconds) / (following.seconds - row.seconds)
            return row.chance + share * (following.chance - row.chance)
    return rows[0].chance if seconds < rows[0].seconds else rows[-1].chance


class PauseTable(msgspec.Struct, frozen=True):
    rows: tuple[PauseRow, ...]

    def chance(self, seconds: float) -> float:
        """The chance that somebody returns within an hour, after a silence of so many seconds. None beyond
        the table: nobody waits for ever.
        """
        return 0.0 if seconds > self.rows[-1].seconds + HOUR / 2 else chance_between(self.rows, seconds)

    def to_lines(self) -> tuple[str, ...]:
        """As a setting has it: seconds, and returns/silences."""
        return tuple(f"{row.seconds:.0f} {row.returns}/{row.silences}" for row in self.rows)


def parse_pauses(lines: Iterable[str]) -> PauseTable:
    """Reads what `to_lines` wrote. Raises ValueError with what is wrong."""
    rows = tuple(map(_parse_row, lines))
    for row, following in pairwise(rows):
        if following.seconds <= row.seconds:
            raise ValueError(
                f"the row of {following.seconds:.0f} seconds in a table of pauses stands behind that of "
                f"{row.seconds:.0f}: order the rows by their seconds"
            )
    return PauseTable(rows)


def _parse_row(line: str) -> PauseRow:
    found = _LINE.fullmatch(line.strip())
    if found is None:
        raise ValueError(f"{line!r} is not a row of a table of pauses, for example '290 104/198'")
    seconds, returns, silences = map(int, found.groups())
    if returns > silences:
        raise ValueError(
            f"{line!r} says that {returns} of {silences} silences ended; at most all of them can"
        )
    return PauseRow(float(seconds), silences, returns)


def fit_pauses(silences: Iterable[float], *, first: float = 290.0, rows: int = 6) -> PauseTable:
    """`silences` in seconds; infinity where nobody came back."""
    every = sorted(silences)
    return PauseTable(tuple(_row(every, first + number * HOUR) for number in range(rows)))


def _row(every: Sequence[float], seconds: float) -> PauseRow:
    lasting = [each for each in every if each >= seconds]
    return PauseRow(seconds, len(lasting), sum(each < seconds + 3_600.0 for each in lasting))


# 76 Claude Code sessions (docs/economy.md says how to fit them again).
DEFAULT_PAUSES: Final = PauseTable(
    (
        PauseRow(290.0, 198, 104),
        PauseRow(3_880.0, 94, 7),
        PauseRow(7_470.0, 87, 4),
        PauseRow(11_060.0, 83, 1),
        PauseRow(14_650.0, 82, 2),
        PauseRow(18_240.0, 80, 1),
    )
)
