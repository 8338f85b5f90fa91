"""When to reset: to compact although the window has room, because that is cheaper (EC-4, EC-5).

A cold reset replaces what would have to be written again. A warm reset follows the rule of a person who rents
skis and does not know how long the holiday lasts: buy once renting has cost as much as buying. Here renting
is reading the same context again with every call, and buying is a summary and what it makes us fetch again.
"""

from typing import Literal

import msgspec

from everturn.decide.economy.amounts import format_compared
from everturn.decide.economy.prices import RelativePrices
from everturn.decide.economy.settings import (
    COLD_SHARE,
    COLD_TOKENS,
    KEPT_TOKENS,
    MAX_WRITTEN_TOKENS,
    REFETCH_ASKS,
    REFETCH_TOKENS,
    REFETCHES,
    WARM_TOKENS,
    WINDOW_MARGIN,
    WRITTEN_TOKENS,
    EconomySettings,
)

ResetKind = Literal["cold", "warm", "window"]


class ResetInputs(msgspec.Struct, frozen=True, kw_only=True):
    """What is known before a call. Sizes are tokens of its prompt as it is now."""

    size: int
    window: int
    # What is expected to be read from the cache.
    read: int
    # The size right after the last reset; before the first one, system prompt and tools and a little more.
    base: int
    # What carrying has cost since the last reset, in input tokens.
    carry: float
    # What a summary costs, in input tokens; 0 without a model.
    summary: float
    # Dollars so far: what was spent, and what doing nothing would have cost, this call included.
    spent: float
    unmanaged: float
    # Whether the provider caches prompts at all.
    is_cached: bool = True
    # Of the size: system prompt and tools, and what nobody has answered yet. Every reset keeps both.
    head: int = 0
    unanswered: int = 0

    @property
    def kept(self) -> int:
        return kept_beyond_usual(self.unanswered)

    @property
    def freed(self) -> int:
        """What is left is never less than what must be kept, and usually what the last reset has left."""
        least = self.head + self.unanswered if self.kept else 0
        return max(0, self.size - max(self.base, least))

    @property
    def refetched_from(self) -> int:
        """The size of the context that a refetch reads once more (EC-5). Without a cache each token of it has
        the full price, so what is left after the reset is counted."""
        return self.size if self.is_cached else self.base


def kept_beyond_usual(unanswered: int) -> int:
    """Tokens that a reset keeps beyond what it usually does, if so many were not answered: a large result,
    or message. Smaller ones are in the measured numbers."""
    return unanswered - KEPT_TOKENS if unanswered > WRITTEN_TOKENS else 0


class ResetDecision(msgspec.Struct, frozen=True, kw_only=True):
    """A decision with its terms (EC-1): dollars now, and what they are compared with."""

    kind: ResetKind | None
    # What the reset costs now, and what it is compared with: the write it avoids, or the carry so far.
    cost: float
    against: float
    why: str


def decide_reset(given: ResetInputs, prices: RelativePrices, settings: EconomySettings) -> ResetDecision:
    freed = given.freed
    now = (prices.write * (WRITTEN_TOKENS + given.kept) + given.summary) * prices.dollars
    if given.size > given.window - WINDOW_MARGIN and freed >= WARM_TOKENS:
        why = f"{given.size:,} tokens are within {WINDOW_MARGIN:,} of the window"
        return ResetDecision(kind="window", cost=now, against=0.0, why=why)
    is_cold = given.read < COLD_SHARE * given.size
    if is_cold and freed >= COLD_TOKENS:
        found = _cold(given, now, prices)
    elif freed >= WARM_TOKENS:
        found = _warm(given, now, prices, settings)
    else:
        why = f"a reset would free {freed:,} tokens, too few to be worth a summary"
        return ResetDecision(kind=None, cost=now, against=0.0, why=why)
    if found.kind is None:
        return found
    limit = spending_limit(given.unmanaged, settings)
    written = MAX_WRITTEN_TOKENS + given.kept
    worst = prices.write * written + given.summary + _refetches(given.refetched_from, prices)
    worst *= prices.dollars
    if given.spent + worst > limit:
        spent, most = format_compared(given.spent + worst, limit)
        above = f"{spent} with it is above the limit of {most}"
        return msgspec.structs.replace(found, kind=None, why=f"{found.why}; but not now: {above}")
    return found


def _cold(given: ResetInputs, now: float, prices: RelativePrices) -> ResetDecision:
    unread = given.size - given.read
    again = (prices.write * unread + prices.read * given.read) * prices.dollars
    again_is = "written again" if given.is_cached else "sent again at the full price"
    paid, cost = format_compared(again, now)
    return ResetDecision(
        kind="cold" if now < again else None,
        cost=now,
        against=again,
        why=f"{unread:,} of {given.size:,} tokens would be {again_is} for {paid}, a reset costs {cost}",
    )


def _warm(given: ResetInputs, now: float, prices: RelativePrices, settings: EconomySettings) -> ResetDecision:
    due = (now / prices.dollars if prices.dollars else 0.0) + expected_refetches(given.size, prices, settings)
    cost, carried = due * prices.dollars, given.carry * prices.dollars
    paid, price = format_compared(carried, cost)
    return ResetDecision(
        kind="warm" if given.carry >= due else None,
        cost=cost,
        against=carried,
        why=f"carrying {given.size - given.base:,} tokens has cost {paid} since the last reset, "
        f"a reset and what it forgets cost {price}",
    )


def expected_refetches(size: int, prices: RelativePrices, settings: EconomySettings) -> float:
    """What a reset is expected to make us fetch again, in input tokens, weighed by the caution (EC-7)."""
    return settings.phi * _refetches(size, prices)


def _refetches(size: int, prices: RelativePrices) -> float:
    return REFETCHES * (prices.read * size + REFETCH_ASKS + prices.write * REFETCH_TOKENS)


def spending_limit(unmanaged: float, settings: EconomySettings) -> float:
    """The dollars that the session may have cost at this point (EC-8)."""
    return unmanaged + max(settings.above_share * unmanaged, settings.above_dollars)
