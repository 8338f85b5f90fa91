"""The settings of the economic policy, and its measured numbers. Where they come from: docs/economy.md."""

from datetime import timedelta
from typing import Final, Literal

import msgspec

from everturn.decide.economy.pauses import DEFAULT_PAUSES, PauseTable, parse_pauses
from everturn.decide.economy.reuse import DEFAULT_REUSE, ReuseTable, parse_reuse

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
# The most that a recorded reset has written: what the limit of EC-8 reckons with.
MAX_WRITTEN_TOKENS: Final = 30_000
# Output of a summary.
SUMMARY_TOKENS: Final = 3_500
# A reset causes so many refetches, each of this many tokens, asked for with so many.
REFETCHES: Final = 2.5
REFETCH_TOKENS: Final = 4_300
REFETCH_ASKS: Final = 600
# The table of reuse counts only needs that can be shown, so it counts too few. A refetch that this weight
# avoids costs less than one that a higher caution avoids (docs/log.md).
KEEP_WEIGHT: Final = 1.2
# Calls that read what a reset keeps, until the next one.
CARRIED_CALLS: Final = 35


class EconomySettings(msgspec.Struct, frozen=True, kw_only=True):
    # Decide by price when to compact. Off: only the thresholds decide.
    enabled: bool = True
    # The default is the one with at most one refetch per 100 calls more than `claude-code` on recorded
    # sessions (EC-7).
    caution: Caution = "balanced"
    # Keep the cache alive through pauses with calls of our own (EC-2, EC-11): paid calls that nobody asked
    # for, so it must be switched on.
    holds: bool = False
    # Dollars that the holds of one conversation may cost in all.
    hold_dollars: float = 2.0
    # Holds never take a conversation more than this share above what doing nothing would have cost: a short
    # one may be over (docs/economy.md). At a read price of 0.1 there is one at most after the first call.
    hold_share: float = 0.15
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

    # Tokens of earlier calls and results that a reset keeps word for word because they are likely to be
    # needed again, and of the last round, which is kept whole up to this size (EC-6).
    keep_tokens: int = 12_000
    last_round_tokens: int = 3_000
    # Tokens of a list of the files that a reset takes out of sight, with names that they define.
    outline_tokens: int = 1_500

    # Tables that `everturn tune` has fitted, a row each; empty for those of recorded sessions (EC-9).
    pauses: tuple[str, ...] = ()
    reuse: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """A row that cannot be read is refused where it is given."""
        parse_pauses(self.pauses)
        parse_reuse(self.reuse)

    @property
    def pause_table(self) -> PauseTable:
        return parse_pauses(self.pauses) if self.pauses else DEFAULT_PAUSES

    @property
    def reuse_table(self) -> ReuseTable:
        return parse_reuse(self.reuse) if self.reuse else DEFAULT_REUSE

    @property
    def phi(self) -> float:
        return CAUTIONS[self.caution]
