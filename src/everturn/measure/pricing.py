"""What a request costs, line by line: usage as the API reports it, times the rates of its model.

Top-level usage excludes compaction; if `iterations` are reported, the bill is their sum (api-facts 2.4).
Modifiers multiply (api-facts 1.7): fast speed has its own base rates, `inference_geo: "us"` and batches are
factors on the base rate that applies.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, Final, Literal, cast

from everturn.measure.model import BATCH, US_ONLY, Model, Rates, Speed

ChargeKind = Literal["input", "cache_read", "cache_write_5m", "cache_write_1h", "output", "web_search"]

PER_MILLION: Final = Decimal(1_000_000)
# Ten dollars per thousand searches (api-facts 1.7).
WEB_SEARCH: Final = Decimal(10_000)


@dataclass(frozen=True, slots=True)
class PriceLine:
    """A number of tokens (or searches) at a price in dollars per million."""

    kind: ChargeKind
    tokens: int
    rate: Decimal
    # "message" or "compaction": the call of the request that the line is for.
    iteration: str = "message"

    @property
    def dollars(self) -> Decimal:
        return self.tokens * self.rate / PER_MILLION


@dataclass(frozen=True, slots=True)
class PricedUsage:
    lines: tuple[PriceLine, ...]

    @property
    def dollars(self) -> Decimal:
        return sum((line.dollars for line in self.lines), Decimal(0))


def price_reads(tokens: int, calls: Iterable[tuple[Model, date]]) -> Decimal | None:
    """What so many tokens cost that each of these calls reads from the cache; None if no price is known. Some
    calls write them instead, which costs more, so it is a lower bound."""
    rates = [model.rates(on=on, prompt_tokens=0).read for model, on in calls if model.prices]
    return tokens * sum(rates, Decimal(0)) / PER_MILLION if rates else None


@dataclass(frozen=True, slots=True)
class BilledTokens:
    """The disjoint kinds of tokens of one call."""

    input: int = 0
    read: int = 0
    write_5m: int = 0
    write_1h: int = 0
    output: int = 0

    @property
    def prompt(self) -> int:
        return self.input + self.read + self.write_5m + self.write_1h


def compute_priced_usage(usage: Mapping[str, Any], model: Model, *, on: date) -> PricedUsage:
    """The bill for a `usage` object of the Messages API."""
    lines: list[PriceLine] = []
    for kind, part in _calls(usage):
        tokens = read_billed_tokens(part)
        lines.extend(price_tokens(tokens, rates_for(usage, model, tokens, on=on), iteration=kind))
    searches = _count(_mapping(usage.get("server_tool_use")), "web_search_requests")
    if searches:
        lines.append(PriceLine("web_search", searches, WEB_SEARCH))
    return PricedUsage(tuple(lines))


def price_tokens(tokens: BilledTokens, rates: Rates, *, iteration: str = "message") -> tuple[PriceLine, ...]:
    """One line per kind of token that occurs."""
    every: tuple[tuple[ChargeKind, int, Decimal], ...] = (
        ("input", tokens.input, rates.input),
        ("cache_read", tokens.read, rates.read),
        ("cache_write_5m", tokens.write_5m, rates.write_5m),
        ("cache_write_1h", tokens.write_1h, rates.write_1h),
        ("output", tokens.output, rates.output),
    )
    return tuple(PriceLine(kind, count, rate, iteration) for kind, count, rate in every if count)


def price_in_dollars(tokens: BilledTokens, rates: Rates) -> Decimal:
    """The sum of the lines of `price_tokens`, without making them."""
    dollars = Decimal(0)
    for count, rate in (
        (tokens.input, rates.input),
        (tokens.read, rates.read),
        (tokens.write_5m, rates.write_5m),
        (tokens.write_1h, rates.write_1h),
        (tokens.output, rates.output),
    ):
        if count:
            dollars += count * rate / PER_MILLION
    return dollars


def rates_for(usage: Mapping[str, Any], model: Model, tokens: BilledTokens, *, on: date) -> Rates:
    speed: Speed = "fast" if usage.get("speed") == "fast" else "standard"
    rates = model.rates(on=on, prompt_tokens=tokens.prompt, speed=speed)
    if usage.get("inference_geo") == "us" and model.us_surcharge:
        rates = rates.times(US_ONLY)
    if usage.get("service_tier") == "batch":
        rates = rates.times(BATCH)
    return rates


def read_billed_tokens(usage: Mapping[str, Any]) -> BilledTokens:
    """The billed tokens of a usage object. Writes without a breakdown by TTL count as 5m, the default."""
    written = _count(usage, "cache_creation_input_tokens")
    write_1h = min(written, _count(_mapping(usage.get("cache_creation")), "ephemeral_1h_input_tokens"))
    return BilledTokens(
        input=_count(usage, "input_tokens"),
        read=_count(usage, "cache_read_input_tokens"),
        write_5m=written - write_1h,
        write_1h=write_1h,
        output=_count(usage, "output_tokens"),
    )


def _calls(usage: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    iterations: Any = usage.get("iterations")
    if not isinstance(iterations, list) or not iterations:
        return [("message", usage)]
    parts = [_mapping(part) for part in cast(list[Any], iterations)]
    return [(str(part.get("type", "message")), part) for part in parts]


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], value) if isinstance(value, Mapping) else {}


def _count(usage: Mapping[str, Any], name: str) -> int:
    """0 for what is no count: negative numbers, too, would reduce the bill."""
    value = usage.get(name)
    return max(0, value) if isinstance(value, int) else 0
