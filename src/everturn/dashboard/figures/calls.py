"""The calls of a session as the API reported them: each counted once, with cache use and price.

One response is written as several lines that repeat its usage; the most complete one counts, as in
`replay/call_ledger.py`. Calls that are not in the file, such as those that wrote a summary, are not
included. `output_tokens` is recorded during streaming and often too small, so the price of the output is a
lower bound.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any, get_args

import msgspec

from everturn.history.records import Record, Usage, fuller_usage, name_responses, record_time, reported_usage
from everturn.measure.model import Model
from everturn.measure.pricing import ChargeKind, PriceLine, compute_priced_usage, price_reads
from everturn.session.recorded import find_recorded_model


class ReportedCall(msgspec.Struct, frozen=True):
    message_id: str
    model: str
    day: date | None
    usage: Usage
    # As in the file, including fields that only pricing needs (iterations, speed, searches).
    reported: Mapping[str, Any]


class CacheUse(msgspec.Struct, frozen=True, kw_only=True):
    """Input tokens of all calls by cache use; `hit_rate` is None without input."""

    calls: int
    read: int
    written: int
    plain: int
    output: int
    hit_rate: float | None


class CostLine(msgspec.Struct, frozen=True):
    """`kind` as in `measure/pricing.py`: input, cache_read, cache_write_5m, ..."""

    kind: str
    tokens: int
    dollars: Decimal


class AgentFilesCost(msgspec.Struct, frozen=True):
    """What the sub-agents of a session cost whose calls are in files of their own."""

    files: int
    calls: int
    dollars: Decimal


class Cost(msgspec.Struct, frozen=True):
    """At list price. `unpriced` counts the calls to models without a known price. `agent_files` is not part
    of the sum; None if no such files were found or asked for."""

    dollars: Decimal
    lines: tuple[CostLine, ...]
    unpriced: Mapping[str, int]
    agent_files: AgentFilesCost | None = None


class _Message(msgspec.Struct):
    usage: dict[str, Any] | None = None


class _Line(msgspec.Struct):
    message: _Message | None = None


_read_line = msgspec.json.Decoder(_Line).decode


def collect_calls(records: Sequence[Record]) -> tuple[ReportedCall, ...]:
    """In the order in which they began."""
    found: dict[tuple[str, str], ReportedCall] = {}
    for record, name in zip(records, name_responses(records), strict=True):
        usage = reported_usage(record)
        if usage is None or record.reply is None:
            continue
        key = name, record.reply.request_id
        known = found.get(key)
        if known is not None and fuller_usage(known.usage, usage) is known.usage:
            continue
        moment = record_time(record)
        day = known.day if known else moment.date() if moment else None
        call = ReportedCall(record.message_id, record.reply.model, day, usage, _as_reported(record, usage))
        found[key] = call
    return tuple(found.values())


def cache_use(calls: Sequence[ReportedCall]) -> CacheUse:
    read = sum(call.usage.cache_read_input_tokens for call in calls)
    context = sum(call.usage.context for call in calls)
    return CacheUse(
        calls=len(calls),
        read=read,
        written=sum(call.usage.cache_creation_input_tokens for call in calls),
        plain=sum(call.usage.input_tokens for call in calls),
        output=sum(call.usage.output_tokens for call in calls),
        hit_rate=read / context if context else None,
    )


def cost_of(calls: Iterable[ReportedCall]) -> Cost:
    lines: list[PriceLine] = []
    unpriced: dict[str, int] = {}
    for call in calls:
        model = find_recorded_model(call.model)
        if model is None:
            unpriced[call.model] = unpriced.get(call.model, 0) + 1
            continue
        lines.extend(compute_priced_usage(call.reported, model, on=_priced_on(call, model)).lines)
    by_kind = ((kind, [line for line in lines if line.kind == kind]) for kind in get_args(ChargeKind))
    summed = tuple(_sum_of(kind, its) for kind, its in by_kind if its)
    return Cost(sum((line.dollars for line in summed), Decimal(0)), summed, unpriced)


def price_definitions(tokens: int, calls: Iterable[ReportedCall]) -> Decimal | None:
    """What it has cost at least to read so many tokens with each of these calls; None without a price."""
    found = ((find_recorded_model(call.model), call) for call in calls)
    return price_reads(tokens, ((model, _priced_on(call, model)) for model, call in found if model))


def cost_of_agent_files(here: Sequence[Record], files: Sequence[Sequence[Record]]) -> AgentFilesCost | None:
    """What the files of sub-agents add to the calls of a session. What both have is counted once."""
    if not files:
        return None
    own = collect_calls(here)
    both = collect_calls([*here, *(record for records in files for record in records)])
    dollars = cost_of(both).dollars - cost_of(own).dollars
    return AgentFilesCost(len(files), len(both) - len(own), dollars)


def _sum_of(kind: str, lines: Sequence[PriceLine]) -> CostLine:
    dollars = sum((line.dollars for line in lines), Decimal(0))
    return CostLine(kind, sum(line.tokens for line in lines), dollars)


def _priced_on(call: ReportedCall, model: Model) -> date:
    """Prices change over time. A call without a readable time is priced as on the model's release date."""
    return call.day or model.released


def _as_reported(record: Record, usage: Usage) -> Mapping[str, Any]:
    try:
        message = _read_line(record.raw).message
    except msgspec.DecodeError:
        message = None
    return message.usage if message and message.usage else msgspec.to_builtins(usage)
