"""How likely something that was shown is needed again, by tool, size and age (EC-6).

Counted in recorded sessions: of so many exchanges (a call and its result) of a kind, so many were needed by
one of the next calls. `python -m everturn.replay.reuse_table` counts them again.
"""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final, Literal, NamedTuple, get_args

import msgspec

from everturn.measure.tool_table import ToolPurpose

ExchangeKind = Literal["reads", "searches", "runs", "edits", "writes", "agents", "other"]
KINDS: Final[tuple[ExchangeKind, ...]] = get_args(ExchangeKind)

# Tokens of a call and its result from which a column of the table begins, and calls since then.
SIZES: Final = (0, 300, 1_000, 3_000)
AGES: Final = (0, 5, 20)
# Needed by one of so many calls: about as many as there are between two resets.
HORIZON: Final = 50
# A cell with few exchanges borrows from its row: so many exchanges of the row's average are added to it.
_BORROWED: Final = 10

_LINE: Final = re.compile(
    rf"(?P<kind>{'|'.join(KINDS)}) (?P<size>\d+)(?P<ages>(?: \d+/\d+){{{len(AGES)}}})", re.ASCII
)
_KINDS: Final[dict[ToolPurpose, ExchangeKind]] = {
    "reads": "reads",
    "searches": "searches",
    "lists": "searches",
    "runs": "runs",
    "edits": "edits",
    "writes": "writes",
    "runs_agent": "agents",
    "collects_agent": "agents",
    "fetches": "other",
    "searches_web": "other",
    "asks": "other",
    "other": "other",
}


def exchange_kind(does: ToolPurpose) -> ExchangeKind | None:
    """None for tools whose state is restored in another way: tasks, plans, skills, deferred tools."""
    return _KINDS.get(does)


class ToolExchange(NamedTuple):
    """What the table is looked up by. `age` is in calls."""

    kind: ExchangeKind
    tokens: int
    age: int


class ReuseCount(msgspec.Struct, frozen=True, array_like=True):
    """Of so many exchanges, so many were needed again."""

    exchanges: int = 0
    needed: int = 0


class ReuseRow(msgspec.Struct, frozen=True, array_like=True):
    """One kind and size (an index of SIZES); a count for each of AGES."""

    kind: ExchangeKind
    size: int
    ages: tuple[ReuseCount, ...]


class ReuseTable(msgspec.Struct, frozen=True):
    rows: tuple[ReuseRow, ...]

    def chance(self, exchange: ToolExchange) -> float:
        """The chance that it is needed by one of the next calls."""
        size, age = place(exchange.tokens, SIZES), place(exchange.age, AGES)
        row = next((each for each in self.rows if (each.kind, each.size) == (exchange.kind, size)), None)
        if row is None:
            return 0.0
        count = row.ages[age]
        # Pessimists of both kinds in one: an empty row says one in three.
        whole = (sum(each.needed for each in row.ages) + 1) / (sum(each.exchanges for each in row.ages) + 3)
        return (count.needed + _BORROWED * whole) / (count.exchanges + _BORROWED)

    def to_lines(self) -> tuple[str, ...]:
        """As a setting has it: kind, size, and needed/exchanges for each age."""
        return tuple(
            " ".join(
                (row.kind, str(SIZES[row.size]), *(f"{each.needed}/{each.exchanges}" for each in row.ages))
            )
            for row in self.rows
        )


def parse_reuse(lines: Iterable[str]) -> ReuseTable:
    """Reads what `to_lines` wrote. Raises ValueError with what is wrong."""
    return ReuseTable(tuple(map(_parse_row, lines)))


def _parse_row(line: str) -> ReuseRow:
    found = _LINE.fullmatch(line.strip())
    if found is None or int(found["size"]) not in SIZES:
        raise ValueError(
            f"{line!r} is not a row of a reuse table, for example 'reads 300 58/173 45/294 39/755'"
        )
    counts = (pair.split("/") for pair in found["ages"].split())
    ages = tuple(ReuseCount(int(every), int(needed)) for needed, every in counts)
    return ReuseRow(KINDS[KINDS.index(found["kind"])], SIZES.index(int(found["size"])), ages)  # pyright: ignore[reportArgumentType]


def place(value: int, starts: tuple[int, ...]) -> int:
    """The column that a value belongs to."""
    return sum(start <= value for start in starts) - 1


def fit_reuse(seen: Iterable[tuple[ToolExchange, bool]]) -> ReuseTable:
    """`seen` are exchanges, and whether each was needed again."""
    every: Counter[tuple[ExchangeKind, int, int]] = Counter()
    needed: Counter[tuple[ExchangeKind, int, int]] = Counter()
    for exchange, is_needed in seen:
        cell = exchange.kind, place(exchange.tokens, SIZES), place(exchange.age, AGES)
        every[cell] += 1
        needed[cell] += is_needed
    return ReuseTable(
        tuple(
            ReuseRow(
                kind,
                size,
                tuple(
                    ReuseCount(every[kind, size, age], needed[kind, size, age]) for age in range(len(AGES))
                ),
            )
            for kind in KINDS
            for size in range(len(SIZES))
            if any(every[kind, size, age] for age in range(len(AGES)))
        )
    )


def _row(kind: ExchangeKind, size: int, *ages: tuple[int, int]) -> ReuseRow:
    return ReuseRow(kind, size, tuple(ReuseCount(*each) for each in ages))


# 76 recordings of Claude Code sessions, three of them earlier snapshots of others, counted on 2026-11-16
# (docs/economy.md says how to count them again).
DEFAULT_REUSE: Final = ReuseTable(
    (
        _row("reads", 0, (52, 17), (77, 2), (182, 0)),
        _row("reads", 1, (173, 58), (294, 45), (755, 39)),
        _row("reads", 2, (108, 42), (245, 44), (822, 25)),
        _row("reads", 3, (47, 25), (174, 86), (660, 89)),
        _row("searches", 0, (245, 18), (753, 45), (2_991, 103)),
        _row("searches", 1, (107, 14), (336, 41), (1_708, 60)),
        _row("searches", 2, (47, 9), (153, 22), (721, 24)),
        _row("searches", 3, (22, 5), (71, 3), (385, 0)),
        _row("runs", 0, (700, 38), (1_977, 40), (8_297, 87)),
        _row("runs", 1, (164, 9), (460, 18), (2_026, 55)),
        _row("runs", 2, (76, 14), (221, 24), (782, 8)),
        _row("runs", 3, (17, 1), (61, 6), (270, 1)),
        _row("edits", 0, (214, 29), (512, 34), (1_791, 39)),
        _row("edits", 1, (314, 109), (757, 140), (2_061, 140)),
        _row("edits", 2, (85, 43), (229, 62), (618, 72)),
        _row("edits", 3, (12, 12), (36, 12), (117, 2)),
        _row("writes", 0, (5, 1), (15, 2), (15, 0)),
        _row("writes", 1, (9, 3), (25, 0), (94, 0)),
        _row("writes", 2, (13, 12), (30, 19), (207, 51)),
        _row("writes", 3, (2, 2), (6, 6), (55, 12)),
        _row("agents", 0, (1, 0), (18, 0), (105, 0)),
        _row("agents", 1, (12, 9), (39, 5), (217, 1)),
        _row("agents", 2, (20, 7), (73, 20), (363, 71)),
        _row("agents", 3, (10, 2), (39, 10), (153, 28)),
        _row("other", 0, (19, 2), (48, 3), (93, 0)),
        _row("other", 1, (21, 0), (65, 0), (208, 0)),
        _row("other", 2, (13, 2), (44, 3), (98, 0)),
        _row("other", 3, (1, 0), (1, 0), (0, 0)),
    )
)
