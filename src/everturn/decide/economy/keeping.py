"""Which exchanges a reset keeps: those that are expected to cost more to fetch again than to carry (EC-6)."""

import msgspec

from everturn.decide.economy.prices import RelativePrices
from everturn.decide.economy.reuse import ReuseTable, ToolExchange
from everturn.decide.economy.settings import CARRIED_CALLS, KEEP_WEIGHT, REFETCH_ASKS, EconomySettings


class KeepRule(msgspec.Struct, frozen=True):
    """The terms of the comparison, in plain input tokens (EC-1)."""

    table: ReuseTable
    # A refetch beside its own tokens: the call that asks for it reads the context once more.
    refetch: float
    # One token: to write it, and to write it and read it until the next reset.
    write: float
    carry: float
    # How much worse a refetch is than its tokens (EC-7).
    phi: float
    # Tokens of everything that is kept for this reason.
    max_tokens: int
    # The last round is kept word for word if it has no more tokens than this.
    last_round: int
    # Tokens of the outline: lines about files that are no longer shown.
    outline: int

    def within(self, threshold: int) -> "KeepRule":
        """In a small window less is kept: a quarter of the threshold for each part. Our choice."""
        most = threshold // 4
        return msgspec.structs.replace(
            self,
            max_tokens=min(self.max_tokens, most),
            last_round=min(self.last_round, most),
            outline=min(self.outline, most),
        )

    def gain(self, exchange: ToolExchange) -> float:
        """What keeping it is expected to save, per token; negative if it is cheaper to fetch it again."""
        tokens = max(1, exchange.tokens)
        expected = self.table.chance(exchange) * self.phi * (self.refetch + self.write * tokens)
        return expected / tokens - self.carry


def make_keep_rule(
    table: ReuseTable, base: int, prices: RelativePrices, settings: EconomySettings
) -> KeepRule:
    """`base` is the size of the context after a reset."""
    return KeepRule(
        table,
        refetch=prices.read * base + REFETCH_ASKS,
        write=prices.write,
        carry=prices.write + prices.read * CARRIED_CALLS,
        phi=KEEP_WEIGHT * settings.phi,
        max_tokens=settings.keep_tokens,
        last_round=settings.last_round_tokens,
        outline=settings.outline_tokens,
    )
