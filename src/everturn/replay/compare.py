"""Comparison of policies over any number of sessions: one row each (RP-7, BY-10).

Dollars are the total cost, including summaries, refetches and refreshes. Savings are computed over the calls
that both runs made, because `none` stops when the window is full and costs nothing after that. A saving is
positive if the policy is cheaper, everywhere (RP-13). Sessions whose file begins in the middle are in the
totals, but not in the savings: their past is one block of estimated size. What the provider's cache saves is
reported separately: you get it with any policy.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Final

import msgspec

from everturn.measure.pricing import PER_MILLION
from everturn.replay.intervals import SEED, Interval, PairedCosts, draw_sessions, saving_interval
from everturn.replay.policies import RECORDED
from everturn.replay.reported import PaidComparison, RecordedErrors, compare_with_paid, compute_errors
from everturn.replay.runs import (
    ReplayCost,
    ReplayRun,
    ReportedComparison,
    RetainedCount,
    SimulatedCall,
    rates_of,
)

NONE: Final = "none"


class Saving(msgspec.Struct, frozen=True):
    """Dollars saved compared with another policy, and that policy's dollars; negative if it costs more."""

    dollars: Decimal = Decimal(0)
    of: Decimal = Decimal(0)
    # 95 % of what the share would be with other sessions; None if there are too few to say (RP-15).
    interval: Interval | None = None

    @property
    def share(self) -> float:
        return float(self.dollars / self.of) if self.of else 0.0

    @property
    def is_clear(self) -> bool:
        """Whether zero is outside of the interval."""
        return self.interval is not None and not self.interval.has_zero

    def __add__(self, other: "Saving") -> "Saving":
        """Without an interval: that of a sum needs the sessions."""
        return Saving(self.dollars + other.dollars, self.of + other.of)


# A headline names a policy only if it stays within these limits (RP-15): refetches per 100 calls, and the
# share of the user's own words that are in the context at the end.
MAX_REFETCHES_PER_100: Final = 2.5
MIN_USER_WORDS: Final = 0.9
_USER_WORDS: Final = "user_instructions"
LIMITS: Final = (
    f"at most {MAX_REFETCHES_PER_100} refetches per 100 calls and at least {MIN_USER_WORDS:.0%} of the "
    "user's words kept"
)


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
    # Certain refetches (tier 1), and probable ones (tier 2). Both are lower bounds (RP-14).
    refetches: int = 0
    probable_refetches: int = 0
    # Of both tiers.
    refetches_per_100: float = 0.0
    left: dict[str, RetainedCount] = {}
    floor: Decimal = Decimal(0)
    # The same sessions if the future is known (EC-12); None if it was not computed for all of them.
    clairvoyant: Decimal | None = None
    # Of `recorded` only: its error against the usage that the recordings report; None if they report none.
    error: RecordedErrors | None = None
    # Of `recorded` only: why its dollars differ from what the files say was paid; None if they do not say it.
    paid: PaidComparison | None = None
    # A bound, or a policy that knows how long pauses are: it cannot run live.
    is_bound: bool = False
    knows_future: bool = False


class ComparisonTable(msgspec.Struct, frozen=True):
    """The table and the assumptions behind it. The JSON output is this value, encoded."""

    rows: tuple[ComparisonRow, ...]
    sessions: int
    notes: tuple[str, ...] = ()
    # Sessions whose file begins in the middle: not in the savings.
    begun_in_middle: int = 0
    # Sessions of models without a known price, and what their files say was paid where they do (RP-17).
    guessed: int = 0
    recorded_costs: int = 0
    recorded_dollars: Decimal = Decimal(0)


def why_not_in_headline(row: ComparisonRow) -> str:
    """Why a headline must not name this policy; "" if it may."""
    words = row.left.get(_USER_WORDS, RetainedCount())
    if row.knows_future:
        return "it knows what comes"
    if row.unfinished:
        return "it did not finish every session"
    if row.refetches_per_100 > MAX_REFETCHES_PER_100:
        return (
            f"it has {row.refetches_per_100:.1f} refetches per 100 calls, more than {MAX_REFETCHES_PER_100}"
        )
    if words.total and words.kept < MIN_USER_WORDS * words.total:
        return f"it keeps {words.kept / words.total:.0%} of the user's words, less than {MIN_USER_WORDS:.0%}"
    return ""


def short_saving(saved: Saving) -> str:
    """The share alone: positive is saved; `~` if the difference is within the interval."""
    return f"{saved.share:+.1%}" + ("~" if saved.interval is not None and not saved.is_clear else "")


def describe_saving(saved: Saving) -> str:
    """The share with its interval: positive is saved."""
    if saved.interval is None:
        return f"{saved.share:+.1%}"
    shown = f"{saved.share:+.1%} ({saved.interval.low:+.1%} to {saved.interval.high:+.1%})"
    return shown if saved.is_clear else f"{shown}, no difference"


def state_saving(saved: Saving, against: str) -> str:
    """As the end of a sentence about a policy: `saves 12.8% against recorded`, with its interval."""
    if f"{abs(saved.share):.1%}" == "0.0%":
        said = f"costs the same as {against}"
    elif saved.share > 0:
        said = f"saves {saved.share:.1%} against {against}"
    else:
        said = f"costs {-saved.share:.1%} more than {against}"
    if saved.interval is None:
        return said
    said += f" (saved: {saved.interval.low:+.1%} to {saved.interval.high:+.1%})"
    return said if saved.is_clear else f"{said}, no difference"


def describe_guesses(compared: ComparisonTable) -> str:
    """What is not known about sessions of models without a known price (RP-17); "" if there are none."""
    if not compared.guessed:
        return ""
    said = (
        f"{compared.guessed:,} of {compared.sessions:,} sessions are of models without a known price, named "
        "below: their dollars are those of the model they are measured as. Their own cache is not simulated, "
        "and they are not in the errors of recorded."
    )
    if not compared.recorded_costs:
        return said
    paid = f"${compared.recorded_dollars:,.2f} was paid"
    return f"{said} The files of {compared.recorded_costs:,} of them say that {paid}."


def make_headline(compared: ComparisonTable) -> str:
    """One sentence about the best policy that a headline may name."""
    rows = [
        (row, row.against_recorded)
        for row in compared.rows
        if row.against_recorded is not None and row.policy != RECORDED and not why_not_in_headline(row)
    ]
    if not rows:
        return f"No policy can be named that was compared with {RECORDED} and has {LIMITS}."
    if not any(saved.of for _, saved in rows):
        return f"No call of these sessions can be compared with {RECORDED}."
    row, saved = max(rows, key=lambda each: each[1].share)
    what = f"{row.policy} {state_saving(saved, RECORDED)}"
    if saved.interval is None:
        if saved.share < 0:
            what = f"No policy with {LIMITS} is cheaper than {RECORDED}: {what}"
        return f"{what}; too few sessions to say how far that holds for others."
    if not saved.is_clear or saved.share <= 0:
        return f"No policy with {LIMITS} is clearly cheaper than {RECORDED}: {what}."
    return f"{what}, with {LIMITS}."


class Comparison:
    """Adds up runs one session at a time, so that only one session has to be in memory."""

    def __init__(self, *, seed: int = SEED) -> None:
        self._sums: dict[str, _Sum] = {}
        self._sessions = 0
        self._in_middle = self._guessed = 0
        self._costs: list[Decimal] = []
        self._seed = seed

    def add(self, runs: Iterable[ReplayRun]) -> None:
        by_policy = {run.policy: run for run in runs}
        self._sessions += bool(by_policy)
        self._in_middle += any(run.begins_in_middle for run in by_policy.values())
        self._guessed += any(run.guessed for run in by_policy.values())
        costs = {run.recorded_cost for run in by_policy.values() if run.recorded_cost is not None}
        self._costs += costs
        for name, run in by_policy.items():
            self._sums.setdefault(name, _Sum(name)).add(run, by_policy, self._sessions - 1)

    def compared(self, notes: Sequence[str] = ()) -> ComparisonTable:
        draws = draw_sessions(self._sessions, seed=self._seed)
        rows = tuple(each.row(self._sessions, draws) for each in self._sums.values())
        return ComparisonTable(
            rows,
            self._sessions,
            tuple(notes),
            self._in_middle,
            self._guessed,
            len(self._costs),
            sum(self._costs, Decimal(0)),
        )


class _Sum:
    """The sums of one policy while sessions are added."""

    def __init__(self, policy: str) -> None:
        self._policy = policy
        self._counts: Counter[str] = Counter()
        self._breaks: Counter[str] = Counter()
        self._spent: dict[str, Decimal] = dict.fromkeys(ReplayCost.__struct_fields__, Decimal(0))
        self._floor = Decimal(0)
        self._clairvoyant: Decimal | None = Decimal(0)
        self._contexts = 0.0
        self._peak = 0
        self._left: dict[str, RetainedCount] = {}
        # By the policy compared with, and by the number of the session.
        self._against: dict[str, dict[int, PairedCosts]] = {}
        self._is_bound = self._knows_future = False
        self._by_cache = Saving()
        self._reported = ReportedComparison()

    def add(self, run: ReplayRun, others: Mapping[str, ReplayRun], number: int) -> None:
        self._is_bound, self._knows_future = run.is_bound, run.knows_future
        totals = run.totals
        self._counts.update(
            sessions=1,
            unfinished=int(bool(run.ended_early)),
            calls=totals.calls,
            compactions=totals.compactions,
            refreshes=totals.refreshes,
            refetches=totals.refetches,
            probable=totals.probable_refetches,
            read=totals.read,
            prompt=totals.read + totals.write_5m + totals.write_1h + totals.plain,
        )
        self._breaks.update(totals.breaks)
        for kind in self._spent:
            self._spent[kind] += getattr(totals.spent, kind)
        self._floor += run.floor
        if self._clairvoyant is not None and run.clairvoyant is not None:
            self._clairvoyant += run.clairvoyant
        else:
            self._clairvoyant = None
        self._contexts += totals.mean * totals.calls
        self._peak = max(self._peak, totals.peak)
        for name, left in totals.left.items():
            known = self._left.get(name, RetainedCount())
            self._left[name] = RetainedCount(known.kept + left.kept, known.total + left.total)
        for name in (NONE, RECORDED):
            if name in others:
                against = self._against.setdefault(name, {})
                if not run.begins_in_middle:
                    against[number] = pair_costs(run.calls, others[name].calls)
        self._by_cache += _by_cache(run.calls)
        self._reported += run.reported or ReportedComparison()

    def _saving(self, name: str, sessions: int, draws: Sequence[Counter[int]]) -> Saving | None:
        if name not in self._against:
            return None
        pairs = [self._against[name].get(at, PairedCosts()) for at in range(sessions)]
        of = sum((pair.of for pair in pairs), Decimal(0))
        spent = sum((pair.dollars for pair in pairs), Decimal(0))
        return Saving(of - spent, of, saving_interval(pairs, draws))

    def row(self, sessions: int, draws: Sequence[Counter[int]]) -> ComparisonRow:
        count, spent = self._counts, ReplayCost(**self._spent)
        return ComparisonRow(
            policy=self._policy,
            sessions=count["sessions"],
            unfinished=count["unfinished"],
            calls=count["calls"],
            dollars=spent.dollars,
            spent=spent,
            against_none=self._saving(NONE, sessions, draws),
            against_recorded=self._saving(RECORDED, sessions, draws),
            by_cache=self._by_cache,
            peak=self._peak,
            mean=self._contexts / max(1, count["calls"]),
            hit_rate=count["read"] / max(1, count["prompt"]),
            breaks=dict(self._breaks.most_common()),
            compactions=count["compactions"],
            refreshes=count["refreshes"],
            refetches=count["refetches"],
            probable_refetches=count["probable"],
            refetches_per_100=100 * (count["refetches"] + count["probable"]) / max(1, count["calls"]),
            left=self._left,
            floor=self._floor,
            clairvoyant=self._clairvoyant,
            error=compute_errors(self._reported),
            paid=compare_with_paid(self._reported),
            is_bound=self._is_bound,
            knows_future=self._knows_future,
        )


def pair_costs(ours: Sequence[SimulatedCall], theirs: Sequence[SimulatedCall]) -> PairedCosts:
    """The dollars of the calls that both runs made, thread by thread."""
    made, other = _made(ours), _made(theirs)
    common = {thread: min(number, other.get(thread, 0)) for thread, number in made.items()}
    return PairedCosts(_up_to(common, ours), _up_to(common, theirs))


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
