"""Comparison of policies over any number of sessions: one row each (RP-7, BY-10).

Dollars are the total cost, including summaries, refetches and refreshes. Savings are computed over the calls
that both runs made, because `none` stops when the window is full and costs nothing after that. What the
provider's cache saves is reported separately: you get it with any policy.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Final

import msgspec

from everturn.measure.pricing import PER_MILLION
from everturn.replay.policies import RECORDED
from everturn.replay.reported import ReportedError, compute_error
from everturn.replay.runs import (
    ReplayCost,
    ReplayRun,
    ReportedSums,
    RetainedCount,
    SimulatedCall,
    rates_of,
)

NONE: Final = "none"


class Saving(msgspec.Struct, frozen=True):
    """Dollars saved compared with another policy, and that policy's dollars; negative if it costs more."""

    dollars: Decimal = Decimal(0)
    of: Decimal = Decimal(0)

    @property
    def share(self) -> float:
        return float(self.dollars / self.of) if self.of else 0.0

    def __add__(self, other: "Saving") -> "Saving":
        return Saving(self.dollars + other.dollars, self.of + other.of)


class ComparisonRow(msgspec.Struct, frozen=True, kw_only=True):
    """One policy over all sessions."""

    policy: str
    sessions: int = 0
    unfinished: int = 0
    calls: int = 0
    dollars: Decimal = Decimal(0)
    spent: ReplayCost = ReplayCost()
    # Compared with the same calls without context management, and as recorded; None if that was not replayed.
    against_none: Saving | None = None
    against_recorded: Saving | None = None
    # What the same calls would have cost without a cache, minus what they cost: saved by the provider's
    # cache.
    by_cache: Saving = Saving()
    peak: int = 0
    mean: float = 0.0
    hit_rate: float = 0.0
    breaks: dict[str, int] = {}
    compactions: int = 0
    refreshes: int = 0
    refetches: int = 0
    refetches_per_100: float = 0.0
    left: dict[str, RetainedCount] = {}
    floor: Decimal = Decimal(0)
    # Of `recorded` only: its error against the usage that the recordings report; None if they report none.
    error: ReportedError | None = None


class ComparisonTable(msgspec.Struct, frozen=True):
    """The table and the assumptions behind it. The JSON output is this value, encoded."""

    rows: tuple[ComparisonRow, ...]
    sessions: int
    notes: tuple[str, ...] = ()


class Comparison:
    """Adds up runs one session at a time, so that only one session has to be in memory."""

    def __init__(self) -> None:
        self._sums: dict[str, _Sum] = {}
        self._sessions = 0

    def add(self, runs: Iterable[ReplayRun]) -> None:
        by_policy = {run.policy: run for run in runs}
        self._sessions += bool(by_policy)
        for name, run in by_policy.items():
            self._sums.setdefault(name, _Sum(name)).add(run, by_policy)

    def compared(self, notes: Sequence[str] = ()) -> ComparisonTable:
        return ComparisonTable(
            tuple(each.row() for each in self._sums.values()), self._sessions, tuple(notes)
        )


class _Sum:
    """The sums of one policy while sessions are added."""

    def __init__(self, policy: str) -> None:
        self._policy = policy
        self._counts: Counter[str] = Counter()
        self._breaks: Counter[str] = Counter()
        self._spent: dict[str, Decimal] = dict.fromkeys(ReplayCost.__struct_fields__, Decimal(0))
        self._floor = Decimal(0)
        self._contexts = 0.0
        self._peak = 0
        self._left: dict[str, RetainedCount] = {}
        self._against: dict[str, Saving] = {}
        self._by_cache = Saving()
        self._reported = ReportedSums()

    def add(self, run: ReplayRun, others: Mapping[str, ReplayRun]) -> None:
        totals = run.totals
        self._counts.update(
            sessions=1,
            unfinished=int(bool(run.ended_early)),
            calls=totals.calls,
            compactions=totals.compactions,
            refreshes=totals.refreshes,
            refetches=totals.refetches,
            read=totals.read,
            prompt=totals.read + totals.write_5m + totals.write_1h + totals.plain,
        )
        self._breaks.update(totals.breaks)
        for kind in self._spent:
            self._spent[kind] += getattr(totals.spent, kind)
        self._floor += run.floor
        self._contexts += totals.mean * totals.calls
        self._peak = max(self._peak, totals.peak)
        for name, left in totals.left.items():
            known = self._left.get(name, RetainedCount())
            self._left[name] = RetainedCount(known.kept + left.kept, known.total + left.total)
        for name in (NONE, RECORDED):
            if name in others:
                saved = saving(run.calls, others[name].calls)
                self._against[name] = self._against.get(name, Saving()) + saved
        self._by_cache += _by_cache(run.calls)
        self._reported += run.reported or ReportedSums()

    def row(self) -> ComparisonRow:
        count, spent = self._counts, ReplayCost(**self._spent)
        return ComparisonRow(
            policy=self._policy,
            sessions=count["sessions"],
            unfinished=count["unfinished"],
            calls=count["calls"],
            dollars=spent.dollars,
            spent=spent,
            against_none=self._against.get(NONE),
            against_recorded=self._against.get(RECORDED),
            by_cache=self._by_cache,
            peak=self._peak,
            mean=self._contexts / max(1, count["calls"]),
            hit_rate=count["read"] / max(1, count["prompt"]),
            breaks=dict(self._breaks.most_common()),
            compactions=count["compactions"],
            refreshes=count["refreshes"],
            refetches=count["refetches"],
            refetches_per_100=100 * count["refetches"] / max(1, count["calls"]),
            left=self._left,
            floor=self._floor,
            error=compute_error(self._reported),
        )


def saving(ours: Sequence[SimulatedCall], theirs: Sequence[SimulatedCall]) -> Saving:
    """What `ours` saves on the calls that both runs made, thread by thread."""
    made, other = _made(ours), _made(theirs)
    common = {thread: min(number, other.get(thread, 0)) for thread, number in made.items()}
    spent, baseline = _up_to(common, ours), _up_to(common, theirs)
    return Saving(baseline - spent, baseline)


def _made(calls: Sequence[SimulatedCall]) -> dict[str, int]:
    return {call.thread: call.number for call in calls if call.source == "main"}


def _up_to(numbers: Mapping[str, int], calls: Sequence[SimulatedCall]) -> Decimal:
    counted = (call.dollars for call in calls if call.number <= numbers.get(call.thread, 0))
    return sum(counted, Decimal(0))


def _by_cache(calls: Sequence[SimulatedCall]) -> Saving:
    """Compared with the same calls at the uncached input price."""
    plain = sum((_uncached(call) for call in calls if call.source != "refresh"), Decimal(0))
    return Saving(plain - sum((call.dollars for call in calls), Decimal(0)), plain)


def _uncached(call: SimulatedCall) -> Decimal:
    rates = rates_of(call)
    return (call.context * rates.input + call.output * rates.output) / PER_MILLION
