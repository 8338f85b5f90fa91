"""Results of a simulation: calls, their costs, and totals (RP-7). They are made in `simulate.py`."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Literal

import msgspec

from everturn.measure.model import Rates
from everturn.measure.model_table import model_or_default
from everturn.measure.pricing import PER_MILLION
from everturn.replay.refetches import Refetch

# main: a recorded call. compact: the call that writes a summary. refresh: a call that only keeps the cache
# entry from expiring. refetch: a call that fetches content again that is no longer in the context.
CallSource = Literal["main", "compact", "refresh", "refetch"]


class SimulatedCall(msgspec.Struct, frozen=True):
    """One call as it would have been billed. `number` is that of the recorded call it belongs to."""

    thread: str
    number: int
    at: datetime
    source: CallSource
    read: int
    write_5m: int
    write_1h: int
    plain: int
    output: int
    dollars: Decimal
    context: int
    # Results hidden before this call, and a description of all edits before it.
    cleared: int = 0
    why: str = ""
    # Why much less was read than the previous call had cached; empty if that did not happen.
    broke: str = ""
    refetches: tuple[Refetch, ...] = ()
    model: str = ""
    # What the provider's cache did on its own before this call (RP-12): entries with these ends were in it
    # although no call before had written them; entries that end behind this position were gone.
    found: tuple[int, ...] = ()
    lost_behind: int | None = None


class ReplayCost(msgspec.Struct, frozen=True, kw_only=True):
    """Dollars by kind: recorded calls by kind of token, calls that a policy adds as a whole."""

    plain: Decimal = Decimal(0)
    write_5m: Decimal = Decimal(0)
    write_1h: Decimal = Decimal(0)
    read: Decimal = Decimal(0)
    output: Decimal = Decimal(0)
    summaries: Decimal = Decimal(0)
    # The extra calls, and the first payment for what they fetched.
    refetches: Decimal = Decimal(0)
    refresh: Decimal = Decimal(0)

    @property
    def dollars(self) -> Decimal:
        return sum((getattr(self, name) for name in ReplayCost.__struct_fields__), Decimal(0))


class RetainedCount(msgspec.Struct, frozen=True):
    """How many of the important items are still in the context at the end (BY-6)."""

    kept: int = 0
    total: int = 0


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """The sums of a run. `calls` counts the recorded calls that were made; tokens are those of all calls."""

    calls: int = 0
    spent: ReplayCost = ReplayCost()
    read: int = 0
    write_5m: int = 0
    write_1h: int = 0
    plain: int = 0
    output: int = 0
    peak: int = 0
    mean: float = 0.0
    breaks: dict[str, int] = {}
    compactions: int = 0
    refreshes: int = 0
    # Certain refetches (tier 1), and probable ones (tier 2): lower bounds (RP-14).
    refetches: int = 0
    probable_refetches: int = 0
    # By kind: user_instructions, paths, identifiers, errors.
    left: dict[str, RetainedCount] = {}

    @property
    def dollars(self) -> Decimal:
        return self.spent.dollars

    @property
    def hit_rate(self) -> float:
        """The share of all input that was read from the cache."""
        return self.read / max(1, self.read + self.write_5m + self.write_1h + self.plain)

    @property
    def refetches_per_100(self) -> float:
        """Of both tiers."""
        return 100 * (self.refetches + self.probable_refetches) / max(1, self.calls)


class ReportedSums(msgspec.Struct, frozen=True, kw_only=True):
    """Replayed calls beside the usage that was reported for them. Only calls with reported usage count."""

    calls: int = 0
    near_context: int = 0
    near_read: int = 0
    near_written: int = 0
    read: int = 0
    reported_read: int = 0
    written: int = 0
    reported_written: int = 0
    # Dollars of the input.
    dollars: Decimal = Decimal(0)
    reported_dollars: Decimal = Decimal(0)

    def __add__(self, other: "ReportedSums") -> "ReportedSums":
        return ReportedSums(
            **{name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__}
        )


class ReportedComparison(msgspec.Struct, frozen=True, kw_only=True):
    """`recorded` beside the reported usage: as predicted, and with what the provider's cache did on its own
    copied from the recording. The second alone would say little: it is nearly the same by construction.
    """

    predicted: ReportedSums = ReportedSums()
    with_events: ReportedSums = ReportedSums()
    # Cache events that were copied, and the sum of what each changed, whatever its sign.
    events: int = 0
    event_dollars: Decimal = Decimal(0)
    # Those of them that lost everything, system prompt and tools included.
    unread_events: int = 0
    unread_dollars: Decimal = Decimal(0)
    # What the file says was paid for the whole session, as `everturn audit` counts it, and the part of it
    # that is the output of the replayed calls.
    paid: Decimal = Decimal(0)
    reported_output: Decimal = Decimal(0)
    # What replay computes for the same sessions: input and output of the recorded calls, and added calls.
    input: Decimal = Decimal(0)
    output: Decimal = Decimal(0)
    added: Decimal = Decimal(0)
    # Those of the recorded calls for which the file reports no usage.
    unreported: Decimal = Decimal(0)
    # Sessions whose file says that something was paid, also if none of these calls was replayed.
    paid_sessions: int = 0
    # Sessions with reported usage, and those whose input dollars are within 3 % with the events.
    sessions: int = 0
    near_sessions: int = 0

    def __add__(self, other: "ReportedComparison") -> "ReportedComparison":
        return ReportedComparison(
            **{name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__}
        )


class ReplayRun(msgspec.Struct, frozen=True):
    """A session under a policy. `ended_early` says which call no longer fitted the window; else empty."""

    session: str
    policy: str
    calls: tuple[SimulatedCall, ...]
    totals: Totals
    ended_early: str = ""
    # Assumptions: models replaced by similar ones, the scale of token estimates, the window.
    notes: tuple[str, ...] = ()
    # The lower bound for the cost of the calls that were made (RP-9).
    floor: Decimal = Decimal(0)
    # The calls beside the usage that the recording reports; None unless it was replayed as it was recorded.
    reported: ReportedComparison | None = None
    # The file begins in the middle of the session: what was before is one block of estimated size.
    begins_in_middle: bool = False
    # What the session costs if the future is known (EC-12); None without an index of uses.
    clairvoyant: Decimal | None = None
    # Models that are not in the price table, and what each is priced as.
    guessed: tuple[str, ...] = ()
    # Dollars that the agent itself recorded, if no price is known for one of its models (RP-17).
    recorded_cost: Decimal | None = None
    # The policy is a bound: it knows later uses. Who knows how long pauses are cannot run live either.
    is_bound: bool = False
    knows_future: bool = False


def totals_of(calls: Sequence[SimulatedCall], left: dict[str, RetainedCount]) -> Totals:
    main = [call for call in calls if call.source == "main"]
    return Totals(
        calls=len(main),
        spent=sum_costs(calls),
        read=sum(call.read for call in calls),
        write_5m=sum(call.write_5m for call in calls),
        write_1h=sum(call.write_1h for call in calls),
        plain=sum(call.plain for call in calls),
        output=sum(call.output for call in calls),
        peak=max((call.context for call in main), default=0),
        mean=sum(call.context for call in main) / max(1, len(main)),
        breaks=dict(sorted(Counter(call.broke for call in calls if call.broke).items())),
        compactions=sum(call.source == "compact" for call in calls),
        refreshes=sum(call.source == "refresh" for call in calls),
        refetches=sum(refetch.tier == 1 for call in calls for refetch in call.refetches),
        probable_refetches=sum(refetch.tier == 2 for call in calls for refetch in call.refetches),
        left=left,
    )


def sum_costs(calls: Sequence[SimulatedCall]) -> ReplayCost:
    sums: Counter[str] = Counter()
    for call, fetched in _with_fetched(calls):
        for kind, dollars in _kinds(call, fetched):
            sums[kind] += dollars  # pyright: ignore[reportArgumentType]
    return ReplayCost(**{kind: Decimal(dollars) for kind, dollars in sums.items()})


def _with_fetched(calls: Sequence[SimulatedCall]) -> Iterator[tuple[SimulatedCall, int]]:
    """Each call with the number of its tokens that the refetch before it added."""
    fetched = 0
    for call in calls:
        if call.source == "refetch":
            fetched = sum(refetch.tokens for refetch in call.refetches)
            yield call, 0
        else:
            yield call, fetched if call.source == "main" else 0
            fetched = 0 if call.source == "main" else fetched


def _kinds(call: SimulatedCall, fetched: int) -> Iterator[tuple[str, Decimal]]:
    whole = {"compact": "summaries", "refetch": "refetches", "refresh": "refresh"}.get(call.source)
    if whole:
        yield whole, call.dollars
        return
    rates = rates_of(call)
    for kind, tokens, rate in (
        ("write_1h", call.write_1h, rates.write_1h),
        ("write_5m", call.write_5m, rates.write_5m),
        ("plain", call.plain, rates.input),
        ("read", call.read, rates.read),
        ("output", call.output, rates.output),
    ):
        again = min(fetched, tokens) if kind not in ("read", "output") else 0
        fetched -= again
        yield kind, (tokens - again) * rate / PER_MILLION
        yield "refetches", again * rate / PER_MILLION


def rates_of(call: SimulatedCall) -> Rates:
    model = model_or_default(call.model).model
    return model.rates(on=call.at.date(), prompt_tokens=call.context)
