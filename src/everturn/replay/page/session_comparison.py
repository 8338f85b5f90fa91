"""The data of the page: each session under every policy, and each policy summed over sessions.

Sums are those of the runs (`replay/runs.py`); nothing is priced here.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Final

import msgspec

from everturn.replay.reported import ReportedError, compute_error
from everturn.replay.runs import ReplayCost, ReplayRun, ReportedSums, SimulatedCall

# Recorded calls with charts, over all sessions and policies: about eight megabytes of HTML.
MAX_DRAWN_CALLS: Final = 40_000
# What a policy is compared with, in order of preference; else the first one shown.
_BASELINES: Final = ("recorded", "none")
_ORACLE: Final = "oracle"


class SessionComparison(msgspec.Struct, frozen=True):
    """One session under every policy, and the two bounds if they are known (RP-9)."""

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
    """Takes the bounds from the runs: each run has the floor of the calls it made, and one is the oracle."""
    shown = tuple(run for run in runs if not run.policy.startswith(_ORACLE))
    oracle = [run.totals.dollars for run in runs if run.policy.startswith(_ORACLE)]
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
    """One policy over one session or over all of them."""

    policy: str
    by_kind: dict[str, Decimal]
    calls: int
    peak: int
    mean: int
    read: int
    prompt: int
    breaks: dict[str, int]
    compactions: int
    refetches: int
    # How many of the important items are still in the context at the end (BY-6).
    kept: int
    mattered: int
    # Sessions that did not finish under this policy.
    unfinished: int
    # Of `recorded` only: the error against the usage that the recordings report, if they report any.
    error: ReportedError | None = None

    @property
    def dollars(self) -> Decimal:
        return sum(self.by_kind.values(), Decimal(0))

    @property
    def refetches_per_100(self) -> str:
        return f"{100 * self.refetches / self.calls:.1f}" if self.calls else "–"


def sum_runs(policy: str, runs: Sequence[ReplayRun]) -> PolicyTotals:
    sums = [run.totals for run in runs]
    calls = sum(each.calls for each in sums)
    breaks: Counter[str] = Counter()
    for each in sums:
        breaks.update(each.breaks)
    return PolicyTotals(
        policy=policy,
        by_kind={kind: _spent(kind, runs) for kind in ReplayCost.__struct_fields__},
        calls=calls,
        peak=max((each.peak for each in sums), default=0),
        mean=round(sum(each.mean * each.calls for each in sums) / max(1, calls)),
        read=sum(each.read for each in sums),
        prompt=sum(each.read + each.write_5m + each.write_1h + each.plain for each in sums),
        breaks=dict(breaks),
        compactions=sum(each.compactions for each in sums),
        refetches=sum(each.refetches for each in sums),
        kept=sum(left.kept for each in sums for left in each.left.values()),
        mattered=sum(left.total for each in sums for left in each.left.values()),
        unfinished=sum(bool(run.ended_early) for run in runs),
        error=compute_error(sum((run.reported or ReportedSums() for run in runs), ReportedSums())),
    )


def sum_policies(sessions: Iterable[SessionComparison]) -> tuple[PolicyTotals, ...]:
    """One for each policy, in order of first appearance."""
    runs = [run for session in sessions for run in session.runs]
    names = dict.fromkeys(run.policy for run in runs)
    return tuple(sum_runs(name, [run for run in runs if run.policy == name]) for name in names)


def baseline(found: Sequence[PolicyTotals]) -> PolicyTotals:
    """The policy that others are compared with. It must have finished, or the comparison would be unfair."""
    by_name = {each.policy: each for each in _finished(found)}
    return next((by_name[name] for name in _BASELINES if name in by_name), next(iter(by_name.values())))


def cheapest(found: Sequence[PolicyTotals]) -> PolicyTotals:
    return min(_finished(found), key=lambda each: each.dollars)


def in_order(found: Sequence[PolicyTotals]) -> list[PolicyTotals]:
    """The cheapest first; policies that did not finish last, whatever they cost."""
    return sorted(found, key=lambda each: (each.unfinished > 0, each.dollars))


def by_cost(sessions: Iterable[SessionComparison]) -> list[SessionComparison]:
    """The most expensive first; equal ones in their order."""
    return sorted(sessions, key=lambda each: -baseline(sum_policies([each])).dollars)


def how_many_are_drawn(sessions: Sequence[SessionComparison]) -> int:
    """How many sessions get charts: as many as fit, at least one. The calls of the others are not loaded."""
    room = MAX_DRAWN_CALLS
    for number, session in enumerate(sessions):
        room -= sum(run.totals.calls for run in session.runs)
        if room < 0 and number:
            return number
    return len(sessions)


def bound(amounts: Iterable[Decimal | None]) -> Decimal | None:
    """The sum, if it is known for every session."""
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
