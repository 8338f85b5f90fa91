"""Prices in units of one plain input token, so that one formula holds for all models (EC-5)."""

from decimal import Decimal

import msgspec

from everturn.history.records import Usage
from everturn.measure.model import Rates
from everturn.measure.pricing import PER_MILLION


class RelativePrices(msgspec.Struct, frozen=True):
    read: float
    write_5m: float
    write_1h: float
    output: float
    # Dollars for one plain input token.
    dollars: float

    @classmethod
    def from_rates(cls, rates: Rates) -> "RelativePrices":
        def over(part: Decimal) -> float:
            return float(part / rates.input) if rates.input else 0.0

        base = float(rates.input / PER_MILLION)
        return cls(over(rates.read), over(rates.write_5m), over(rates.write_1h), over(rates.output), base)

    @classmethod
    def without_cache(cls, rates: Rates) -> "RelativePrices":
        """Where nothing is cached, every token of a prompt has the plain price with every call."""
        return msgspec.structs.replace(cls.from_rates(rates), read=1.0, write_5m=1.0, write_1h=1.0)

    def input_side(self, usage: Usage) -> float:
        """What the prompt of a call cost, in dollars."""
        hours = usage.cache_creation.ephemeral_1h_input_tokens if usage.cache_creation else 0
        written = usage.cache_creation_input_tokens - hours
        units = usage.input_tokens + self.read * usage.cache_read_input_tokens
        units += self.write_5m * written + self.write_1h * hours
        return units * self.dollars

    def whole(self, usage: Usage) -> float:
        return self.input_side(usage) + self.output * usage.output_tokens * self.dollars
