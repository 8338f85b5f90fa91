"""The data of the page: each session under every policy, and each policy summed over sessions.

Sums are those of the runs (`replay/runs.py`); nothing is priced here.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Final

import msgspec

from everturn.replay.reported import RecordedErrors, compute_errors
from everturn.replay.runs import ReplayCost, ReplayRun, ReportedComparison, SimulatedCall

# Recorded calls with charts, over all sessions and policies: about eight megabytes of HTML.
MAX_DRAWN_CALLS: Final = 40_000
# What a policy is compared with, in order of preference; else the first one shown.
_BASELINES: Final = ("recorded", "none")


class SessionComparison(msgspec.Struct, frozen=True):
    """One session under every policy, and the two bounds if they are known (RP-9)."""

    name: str
    runs: tuple[ReplayRun, ...]
    floor: Decimal | None = None
    clairvoyant: Decimal | None = None
    model: str = ""
    notes: tuple[str, ...] = ()
    path: str = ""
    # The first words of the user, and when the session began.
    title: str = ""
    began: datetime | None = None


def build_session_comparison(
    runs: Sequence[ReplayRun],
    *,
    name: str,
    path: str = "",
    model: str = "",
    notes: tuple[str, ...] = (),
    title: str = "",
    began: datetime | None = None,
) -> SessionComparison:
    """Takes the bounds from the runs. A run that is itself a bound is not shown as a policy."""
    shown = tuple(run for run in runs if not run.is_bound)
    finished = [run for run in shown if not run.ended_early]
    return SessionComparison(
        name=name,
        runs=shown,
        floor=min((run.floor for run in finished if run.floor), default=None),
        clairvoyant=min((run.clairvoyant for run in finished if run.clairvoyant is not None), default=None),
        model=model,
        notes=notes,
        path=path,
        title=title,
        began=began,
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
    # Sessions that did not finish under this policy.
    unfinished: int
    # Of `recorded` only: the error against the usage that the recordings report, if they report any.
    error: RecordedErrors | None = None

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
        refetches=sum(each.refetches + each.probable_refetches for each in sums),
        unfinished=sum(bool(run.ended_early) for run in runs),
        error=compute_errors(
            sum((run.reported or ReportedComparison() for run in runs), ReportedComparison())
        ),
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
