"""Prices in units of one plain input token, so that one formula holds for all models (EC-5)."""

from decimal import Decimal

import msgspec

from everturn.history.records import Usage
from everturn.measure.model import Rates
from everturn.measure.prefix_cache import Ttl
from everturn.measure.pricing import PER_MILLION


class RelativePrices(msgspec.Struct, frozen=True):
    read: float
    write_5m: float
    write_1h: float
    output: float
    # Dollars for one plain input token.
    dollars: float
    # How long the entries of the conversation live: with which of the two prices its calls write.
    ttl: Ttl = "5m"

    @classmethod
    def from_rates(cls, rates: Rates, ttl: Ttl = "5m") -> "RelativePrices":
        def over(part: Decimal) -> float:
            return float(part / rates.input) if rates.input else 0.0

        base = float(rates.input / PER_MILLION)
        writes = over(rates.write_5m), over(rates.write_1h)
        return cls(over(rates.read), *writes, over(rates.output), base, ttl)

    @classmethod
    def without_cache(cls, rates: Rates) -> "RelativePrices":
        """Where nothing is cached, every token of a prompt has the plain price with every call."""
        return msgspec.structs.replace(cls.from_rates(rates), read=1.0, write_5m=1.0, write_1h=1.0)

    @property
    def write(self) -> float:
        """What a call of the conversation pays for a token that is not cached yet."""
        return self.write_1h if self.ttl == "1h" else self.write_5m

    def input_side(self, usage: Usage) -> float:
        """What the prompt of a call cost, in dollars."""
        hours = usage.cache_creation.ephemeral_1h_input_tokens if usage.cache_creation else 0
        written = usage.cache_creation_input_tokens - hours
        units = usage.input_tokens + self.read * usage.cache_read_input_tokens
        units += self.write_5m * written + self.write_1h * hours
        return units * self.dollars

    def whole(self, usage: Usage) -> float:
        return self.input_side(usage) + self.output * usage.output_tokens * self.dollars
