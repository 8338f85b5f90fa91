"""How far `recorded` is from the usage that the recording reports, call by call (RP-3).

Replayed under the policy that made the recording, each call should read and write what the API reported. Only
the input is compared: a transcript is written while a reply streams, so the output that it reports is often
incomplete.
"""

from collections.abc import Iterable
from decimal import Decimal
from typing import Final

import msgspec

from everturn.history.records import Usage
from everturn.measure.pricing import PER_MILLION
from everturn.replay.runs import ReportedSums, SimulatedCall, rates_of

# A context is near the reported one within this share of it; reads and writes within this share of the
# context.
_NEAR_CONTEXT: Final = 0.01
_NEAR_CACHE: Final = 0.05


class ReportedError(msgspec.Struct, frozen=True, kw_only=True):
    """The error of `recorded`. The last three are shares of the reported sum: positive if replay has more."""

    calls: int
    # Shares of the calls: the context within 1 %, cache reads and writes within 5 % of the context.
    context_within_1: float
    reads_within_5: float
    writes_within_5: float
    read: float
    written: float
    input_dollars: float
    reported_input_dollars: Decimal


def compare_with_reported(pairs: Iterable[tuple[SimulatedCall, Usage]]) -> ReportedSums:
    """`pairs` are replayed calls with the usage that the recording has for them."""
    return sum((_compare(call, usage) for call, usage in pairs if usage.context), ReportedSums())


def compute_error(sums: ReportedSums) -> ReportedError | None:
    """None if no call has reported usage: nothing can be said then."""
    if not sums.calls:
        return None
    return ReportedError(
        calls=sums.calls,
        context_within_1=sums.near_context / sums.calls,
        reads_within_5=sums.near_read / sums.calls,
        writes_within_5=sums.near_written / sums.calls,
        read=_error(sums.read, sums.reported_read),
        written=_error(sums.written, sums.reported_written),
        input_dollars=_error(sums.dollars, sums.reported_dollars),
        reported_input_dollars=sums.reported_dollars,
    )


def describe_error(policy: str, error: ReportedError | None) -> str:
    """One sentence for people, the same in a terminal and on the page."""
    if error is None:
        return f"{policy}: the recording reports no usage, so the error of this row is not known."
    return (
        f"{policy} against the usage that the recording reports ({error.calls:,} calls): input dollars "
        f"{error.input_dollars:+.1%}, cache reads {error.read:+.1%}, cache writes {error.written:+.1%} in "
        f"total; context within 1% on {error.context_within_1:.1%} of the calls, reads within 5% of the "
        f"context on {error.reads_within_5:.1%}, writes on {error.writes_within_5:.1%}."
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
