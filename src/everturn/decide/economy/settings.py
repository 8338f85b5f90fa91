"""The settings of the economic policy, and its measured numbers. Where they come from: docs/economy.md."""

from datetime import timedelta
from typing import Final, Literal

import msgspec

Caution = Literal["frugal", "balanced", "careful"]

# How much worse a refetch is than the tokens it costs (EC-7).
CAUTIONS: Final[dict[Caution, float]] = {"frugal": 1.0, "balanced": 3.0, "careful": 6.0}

# A reset before a call that would read less than this share of its prompt, if it frees so much (EC-4).
COLD_SHARE: Final = 0.5
COLD_TOKENS: Final = 20_000
# A reset once carrying has cost as much as resetting, if it frees so much (EC-5).
WARM_TOKENS: Final = 25_000
# A reset this far below the window, whatever it costs.
WINDOW_MARGIN: Final = 40_000
# What a conversation holds besides system prompt and tools after its first reset, and what a reset writes.
KEPT_TOKENS: Final = 6_000
WRITTEN_TOKENS: Final = 16_000
# Output of a summary.
SUMMARY_TOKENS: Final = 3_500
# A reset causes so many refetches, each of this many tokens, asked for with so many.
REFETCHES: Final = 2.5
REFETCH_TOKENS: Final = 4_300
REFETCH_ASKS: Final = 600


class EconomySettings(msgspec.Struct, frozen=True, kw_only=True):
    # Decide by price when to compact. Off: only the thresholds decide.
    enabled: bool = False
    caution: Caution = "balanced"
    # Keep the cache alive through pauses with calls of our own (EC-2, EC-11): paid calls that nobody asked
    # for, so it must be switched on.
    holds: bool = False
    # Dollars that the holds of one conversation may cost in all.
    hold_dollars: float = 2.0
    # Dollars that the holds of all conversations of an adapter, or of a tenant of the gateway, may cost on
    # one day.
    day_dollars: float = 10.0
    # A hold is sent this long after the last call: just before a five-minute entry expires.
    hold_after: timedelta = timedelta(seconds=290)
    # Defer tools that were never called, when that is cheaper; decided once per session (EC-10).
    defer_tools: bool = False
    # Never more than this above what doing nothing would have cost, whichever is larger (EC-8).
    above_share: float = 0.03
    above_dollars: float = 0.05

    @property
    def phi(self) -> float:
        return CAUTIONS[self.caution]
