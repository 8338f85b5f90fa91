"""What the page is made from: each session under every scheme, and one scheme summed over sessions.

Sums are those of the runs (`replay/runs.py`); nothing is billed here.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Final

import msgspec

from everturn.replay.runs import ReplayCost, ReplayRun, SimulatedCall

# Recorded calls that are drawn, over all sessions and policies: about eight megabytes of page.
MAX_DRAWN_CALLS: Final = 40_000
# What a policy is compared with, in this order of preference; else the first one shown.
_BASELINES: Final = ("recorded", "none")
_ORACLE: Final = "oracle"


class SessionComparison(msgspec.Struct, frozen=True):
    """One session under every scheme, and the two bounds where they are known (RP-9)."""

    name: str
    runs: tuple[ReplayRun, ...]
    floor: Decimal | None = None
    oracle: Decimal | None = None
    model: str = ""
    notes: tuple[str, ...] = ()
    path: str = ""


def build_session_comparison(
    runs: Sequence[ReplayRun], *, name: str, path: str = "", model: str = "", notes: tuple[str, ...] = ()
) -> SessionComparison:
    """The bounds are among the runs: each knows the floor of the calls it made, and one is the oracle's."""
    shown = tuple(run for run in runs if not run.scheme.startswith(_ORACLE))
    oracle = [run.totals.dollars for run in runs if run.scheme.startswith(_ORACLE)]
    floors = [run.floor for run in shown if run.floor and not run.ended_early]
    return SessionComparison(
        name=name,
        runs=shown,
        floor=min(floors, default=None),
        oracle=min(oracle, default=None),
        model=model,
        notes=notes,
        path=path,
    )


class PolicyTotals(msgspec.Struct, frozen=True):
    """One scheme over one session or over all of them."""

    scheme: str
    by_kind: dict[str, Decimal]
    calls: int
    peak: int
    mean: int
    read: int
    prompt: int
    breaks: dict[str, int]
    compactions: int
    faults: int
    # How many of so many things that mattered still stand in the context at the end (BY-6).
    kept: int
    mattered: int
    # Sessions that did not come to their end under this scheme.
    unfinished: int

    @property
    def dollars(self) -> Decimal:
        return sum(self.by_kind.values(), Decimal(0))

    @property
    def faults_per_100(self) -> str:
        return f"{100 * self.faults / self.calls:.1f}" if self.calls else "–"


def tally(scheme: str, runs: Sequence[ReplayRun]) -> PolicyTotals:
    sums = [run.totals for run in runs]
    calls = sum(each.calls for each in sums)
    breaks: Counter[str] = Counter()
    for each in sums:
        breaks.update(each.breaks)
    return PolicyTotals(
        scheme=scheme,
        by_kind={kind: _spent(kind, runs) for kind in ReplayCost.__struct_fields__},
        calls=calls,
        peak=max((each.peak for each in sums), default=0),
        mean=round(sum(each.mean * each.calls for each in sums) / max(1, calls)),
        read=sum(each.read for each in sums),
        prompt=sum(each.read + each.write_5m + each.write_1h + each.plain for each in sums),
        breaks=dict(breaks),
        compactions=sum(each.compactions for each in sums),
        faults=sum(each.faults for each in sums),
        kept=sum(left.kept for each in sums for left in each.left.values()),
        mattered=sum(left.total for each in sums for left in each.left.values()),
        unfinished=sum(bool(run.ended_early) for run in runs),
    )


def sum_policies(chapters: Iterable[SessionComparison]) -> tuple[PolicyTotals, ...]:
    """One for each scheme, in the order in which schemes first appear."""
    runs = [run for chapter in chapters for run in chapter.runs]
    names = dict.fromkeys(run.scheme for run in runs)
    return tuple(tally(name, [run for run in runs if run.scheme == name]) for name in names)


def baseline(found: Sequence[PolicyTotals]) -> PolicyTotals:
    """What the others are compared with: it must have come to the end, or the comparison flatters it."""
    by_name = {each.scheme: each for each in _finished(found)}
    return next((by_name[name] for name in _BASELINES if name in by_name), next(iter(by_name.values())))


def cheapest(found: Sequence[PolicyTotals]) -> PolicyTotals:
    return min(_finished(found), key=lambda each: each.dollars)


def in_order(found: Sequence[PolicyTotals]) -> list[PolicyTotals]:
    """The cheapest first; those that did not come to the end last, whatever they had cost by then."""
    return sorted(found, key=lambda each: (each.unfinished > 0, each.dollars))


def by_cost(chapters: Iterable[SessionComparison]) -> list[SessionComparison]:
    """The most expensive first; equal ones as they came."""
    return sorted(chapters, key=lambda each: -baseline(sum_policies([each])).dollars)


def how_many_are_drawn(chapters: Sequence[SessionComparison]) -> int:
    """From the first on, as many as fit; one in any case. The calls of the others are not needed."""
    room = MAX_DRAWN_CALLS
    for number, chapter in enumerate(chapters):
        room -= sum(run.totals.calls for run in chapter.runs)
        if room < 0 and number:
            return number
    return len(chapters)


def bound(amounts: Iterable[Decimal | None]) -> Decimal | None:
    """The sum, where it is known for every session."""
    known = list(amounts)
    found = [each for each in known if each is not None]
    return sum(found, Decimal(0)) if known and len(found) == len(known) else None


def prompt(call: SimulatedCall) -> int:
    return call.read + written(call) + call.plain


def written(call: SimulatedCall) -> int:
    return call.write_5m + call.write_1h


def _finished(found: Sequence[PolicyTotals]) -> Sequence[PolicyTotals]:
    return [each for each in found if not each.unfinished] or found


def _spent(kind: str, runs: Sequence[ReplayRun]) -> Decimal:
    return sum((getattr(run.totals.spent, kind) for run in runs), Decimal(0))
