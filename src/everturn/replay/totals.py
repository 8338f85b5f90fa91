"""The sums of a run (RP-7). What a fetched block costs when it is first written belongs to the faults."""

from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal

from everturn.measure.model import Rates
from everturn.measure.model_table import model_or_default
from everturn.measure.pricing import PER_MILLION
from everturn.replay.runs import ReplayCost, RetainedCount, SimulatedCall, Totals


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
        faults=sum(len(call.faults) for call in calls),
        left=left,
    )


def sum_costs(calls: Sequence[SimulatedCall]) -> ReplayCost:
    sums: Counter[str] = Counter()
    for call, fetched in _with_fetched(calls):
        for kind, dollars in _kinds(call, fetched):
            sums[kind] += dollars  # pyright: ignore[reportArgumentType]
    return ReplayCost(**{kind: Decimal(dollars) for kind, dollars in sums.items()})


def _with_fetched(calls: Sequence[SimulatedCall]) -> Iterator[tuple[SimulatedCall, int]]:
    """Each call with the tokens in it that a fault before it fetched."""
    fetched = 0
    for call in calls:
        if call.source == "fault":
            fetched = sum(fault.tokens for fault in call.faults)
            yield call, 0
        else:
            yield call, fetched if call.source == "main" else 0
            fetched = 0 if call.source == "main" else fetched


def _kinds(call: SimulatedCall, fetched: int) -> Iterator[tuple[str, Decimal]]:
    whole = {"compact": "summaries", "fault": "faults", "refresh": "refresh"}.get(call.source)
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
        yield "faults", again * rate / PER_MILLION


def rates_of(call: SimulatedCall) -> Rates:
    model = model_or_default(call.model).model
    return model.rates(on=call.at.date(), prompt_tokens=call.context)
