"""How far `recorded` is from the usage that the recording reports, call by call (RP-3, RP-12).

Replayed under the policy that made the recording, each call should read and write what the API reported. Only
the input is compared: a transcript is written while a reply streams, so the output that it reports is often
incomplete.
"""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Final

import msgspec

from everturn.history.records import Usage
from everturn.measure.pricing import PER_MILLION
from everturn.replay.playing.cache_billing import CacheEvent
from everturn.replay.runs import ReplayCost, ReportedComparison, ReportedSums, SimulatedCall, rates_of

# A context is near the reported one within this share of it; reads and writes within this share of the
# context.
_NEAR_CONTEXT: Final = 0.01
_NEAR_CACHE: Final = 0.05
_NEAR_SESSION: Final = 0.03


class ReportedError(msgspec.Struct, frozen=True, kw_only=True):
    """An error of `recorded`. The last three are shares of the reported sum: positive if replay has more."""

    # Shares of the calls: the context within 1 %, cache reads and writes within 5 % of the context.
    context_within_1: float
    reads_within_5: float
    writes_within_5: float
    read: float
    written: float
    input_dollars: float


class RecordedErrors(msgspec.Struct, frozen=True, kw_only=True):
    """Both errors of `recorded`, which are always shown together (RP-12)."""

    calls: int
    reported_input_dollars: Decimal
    predicted: ReportedError
    with_events: ReportedError
    events: int
    event_dollars: Decimal
    # Those of the events whose calls read nothing, not even system prompt and tools.
    unread_events: int
    unread_dollars: Decimal
    # The share of the sessions whose input dollars are within 3 % with the events.
    sessions_within_3: float


class PaidComparison(msgspec.Struct, frozen=True, kw_only=True):
    """What the files say was paid, and each reason why replay comes to something else (RP-13). The parts add
    up to the dollars of `recorded` for these sessions.
    """

    # Sessions whose file says what was paid: with reported usage and a known price.
    sessions: int
    paid: Decimal
    dollars: Decimal
    # Calls on abandoned branches, web searches and other surcharges: paid, not replayed.
    not_replayed: Decimal
    # Calls whose usage the file does not report: replayed, not in what was paid.
    unreported: Decimal
    # The error of the input, with the recorded cache events.
    input: Decimal
    # Output is counted from the content, because files record it while it streams.
    output: Decimal
    # Calls that wrote a recorded summary: paid, not recorded.
    summaries: Decimal


def compare_with_paid(found: ReportedComparison) -> PaidComparison | None:
    """None if no file says what was paid."""
    sums = found.with_events
    if not found.paid:
        return None
    return PaidComparison(
        sessions=found.paid_sessions,
        paid=found.paid,
        not_replayed=sums.reported_dollars + found.reported_output - found.paid,
        unreported=found.unreported,
        input=sums.dollars - sums.reported_dollars,
        output=found.input + found.output - found.unreported - sums.dollars - found.reported_output,
        summaries=found.added,
        dollars=found.input + found.output + found.added,
    )


def describe_paid(found: PaidComparison, sessions: int) -> str:
    """One sentence for people: both figures and the difference by reason. `sessions` are all of them."""
    parts = (
        ("abandoned branches and surcharges, not replayed", found.not_replayed),
        ("calls without reported usage", found.unreported),
        ("error of the input", found.input),
        ("output counted from the content", found.output),
        ("summaries that the agent did not record", found.summaries),
    )
    said = ", ".join(
        f"{'+' if part >= 0 else '-'}${abs(part):,.2f} {name}" for name, part in parts if round(part, 2)
    )
    some = "1 session reports" if found.sessions == 1 else f"{found.sessions:,} sessions report"
    who = "The files report" if found.sessions == sessions else some
    them = "" if found.sessions == sessions else " for them"
    # Over several files audit counts a response once that some of them repeat; a replay has it in each.
    which = "everturn audit" if found.sessions == 1 else "everturn audit of each, one by one"
    compared = f"{who} ${found.paid:,.2f} ({which}); recorded comes to ${found.dollars:,.2f}{them}"
    return f"{compared}: {said}." if said else f"{compared}."


def compare_with_reported(pairs: Iterable[tuple[SimulatedCall, Usage]]) -> ReportedSums:
    """`pairs` are replayed calls with the usage that the recording has for them."""
    return sum((_compare(call, usage) for call, usage in pairs if usage.context), ReportedSums())


def make_comparison(
    predicted: ReportedSums,
    with_events: ReportedSums,
    events: Sequence[CacheEvent],
    *,
    paid: Decimal,
    reported_output: Decimal,
    spent: ReplayCost,
    unreported: Decimal,
) -> ReportedComparison:
    """The comparison of one session. `events` are those that were copied, `spent` is what replay computes for
    it, `unreported` the part of it that is calls without reported usage.
    """
    if not paid and not with_events.calls:
        # Without any report there is nothing to compare, and its dollars explain nothing.
        return ReportedComparison()
    unread = [event for event in events if event.loses_all]
    near = abs(_error(with_events.dollars, with_events.reported_dollars)) <= _NEAR_SESSION
    return ReportedComparison(
        predicted=predicted,
        with_events=with_events,
        events=len(events),
        event_dollars=_sum_changes(events),
        unread_events=len(unread),
        unread_dollars=_sum_changes(unread),
        paid=paid,
        reported_output=reported_output,
        input=spent.plain + spent.write_5m + spent.write_1h + spent.read,
        output=spent.output,
        added=spent.summaries + spent.refresh + spent.refetches,
        unreported=unreported,
        paid_sessions=int(paid > 0),
        sessions=int(with_events.calls > 0),
        near_sessions=int(with_events.calls > 0 and near),
    )


def _sum_changes(events: Iterable[CacheEvent]) -> Decimal:
    """What the events changed in dollars, whatever the sign."""
    return sum((abs(event.dollars) for event in events), Decimal(0))


def compute_errors(found: ReportedComparison) -> RecordedErrors | None:
    """None if no call has reported usage: nothing can be said then."""
    if not found.predicted.calls:
        return None
    return RecordedErrors(
        calls=found.predicted.calls,
        reported_input_dollars=found.predicted.reported_dollars,
        predicted=_compute_error(found.predicted),
        with_events=_compute_error(found.with_events),
        events=found.events,
        event_dollars=found.event_dollars,
        unread_events=found.unread_events,
        unread_dollars=found.unread_dollars,
        sessions_within_3=found.near_sessions / max(1, found.sessions),
    )


def _compute_error(sums: ReportedSums) -> ReportedError:
    return ReportedError(
        context_within_1=sums.near_context / sums.calls,
        reads_within_5=sums.near_read / sums.calls,
        writes_within_5=sums.near_written / sums.calls,
        read=_error(sums.read, sums.reported_read),
        written=_error(sums.written, sums.reported_written),
        input_dollars=_error(sums.dollars, sums.reported_dollars),
    )


def describe_errors(policy: str, errors: RecordedErrors | None) -> str:
    """One sentence for people, the same in a terminal and on the page."""
    if errors is None:
        return (
            f"{policy}: no reported usage to compare with (none in the files, or another model was set), so "
            "the error of this row is not known."
        )
    copied = f"{errors.events:,} recorded cache event{'' if errors.events == 1 else 's'}"
    return (
        f"{policy} against the usage that the recording reports ({errors.calls:,} calls). Predicted: "
        f"{_spell(errors.predicted)}. With {copied} "
        f"(${errors.event_dollars:,.2f}) copied: {_spell(errors.with_events)}; input dollars within 3% on "
        f"{errors.sessions_within_3:.0%} of the sessions.{_describe_unread(errors)}"
    )


def _describe_unread(errors: RecordedErrors) -> str:
    """The reason for events that no prediction can have: the file does not tell what changed."""
    if not errors.unread_events:
        return ""
    count = errors.unread_events
    who = "1 call reads" if count == 1 else f"{count:,} calls read"
    return (
        f" {who} nothing (${errors.unread_dollars:,.2f} of the events), not even system prompt and tools, "
        "while the entry was alive: the agent had changed them, as a restart with the time in the system "
        "prompt does, or the provider lost everything. The file does not tell, so it is not predicted."
    )


def short_errors(errors: RecordedErrors) -> str:
    """Both errors of the input dollars, for a column."""
    return f"{errors.predicted.input_dollars:+.1%} / {errors.with_events.input_dollars:+.1%}"


def _spell(error: ReportedError) -> str:
    return (
        f"input dollars {error.input_dollars:+.1%}, cache reads {error.read:+.1%}, cache writes "
        f"{error.written:+.1%} in total, context within 1% on {error.context_within_1:.1%} of the calls, "
        f"reads within 5% of the context on {error.reads_within_5:.1%}, writes on "
        f"{error.writes_within_5:.1%}"
    )


def sum_reported_output(pairs: Iterable[tuple[SimulatedCall, Usage]]) -> Decimal:
    """The reported output of the replayed calls, at their rates."""
    return sum(
        (usage.output_tokens * rates_of(call).output / PER_MILLION for call, usage in pairs if usage.context),
        Decimal(0),
    )


def _compare(call: SimulatedCall, usage: Usage) -> ReportedSums:
    context, written = usage.context, call.write_5m + call.write_1h
    near = _NEAR_CACHE * context
    return ReportedSums(
        calls=1,
        near_context=abs(call.context - context) <= _NEAR_CONTEXT * context,
        near_read=abs(call.read - usage.cache_read_input_tokens) <= near,
        near_written=abs(written - usage.cache_creation_input_tokens) <= near,
        read=call.read,
        reported_read=usage.cache_read_input_tokens,
        written=written,
        reported_written=usage.cache_creation_input_tokens,
        dollars=_price_input(call, call.plain, call.read, call.write_5m, call.write_1h),
        reported_dollars=_price_reported(call, usage),
    )


def _price_reported(call: SimulatedCall, usage: Usage) -> Decimal:
    """At the rates of the replayed call, so that only tokens differ."""
    split = usage.cache_creation
    hour = split.ephemeral_1h_input_tokens if split else 0
    short = usage.cache_creation_input_tokens - hour
    return _price_input(call, usage.input_tokens, usage.cache_read_input_tokens, short, hour)


def _price_input(call: SimulatedCall, plain: int, read: int, write_5m: int, write_1h: int) -> Decimal:
    rates = rates_of(call)
    dollars = plain * rates.input + read * rates.read + write_5m * rates.write_5m + write_1h * rates.write_1h
    return dollars / PER_MILLION


def _error(ours: int | Decimal, reported: int | Decimal) -> float:
    return float((ours - reported) / reported) if reported else 0.0
