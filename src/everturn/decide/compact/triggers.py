"""Whether a compaction is due: now and by itself, or ahead of time and on request (CP-20, CP-23, CP-24).

Sizes are compared with marks in `measure/thresholds.py` alone, except for the lower mark of a proposal, which
is a share of one of those.
"""

from typing import Literal

import msgspec

from everturn.decide.compact.breakers import CompactionBreaker, RefillBreaker
from everturn.decide.compact.settings import DEFAULTS, CompactSettings
from everturn.decide.compact.values import CompactionChain, CompactionRequest, CompactionSkipped
from everturn.measure.thresholds import ContextThresholds, ThresholdSettings, check_thresholds

ActivityState = Literal["busy", "cache_cold", "task_finished"]
ProposalResponse = Literal["accept", "defer", "decline"]


def should_compact(
    size: int,
    limits: ContextThresholds,
    *,
    thresholds: ThresholdSettings,
    source: str,
    breaker: CompactionBreaker,
    refill: RefillBreaker,
    chain: CompactionChain,
    filled_by: str = "",
    settings: CompactSettings = DEFAULTS,
) -> CompactionRequest | CompactionSkipped:
    """An automatic compaction, or the reason that there is none. `filled_by` is told where it is hopeless."""
    if not thresholds.auto_compaction:
        return CompactionSkipped("automatic compaction is disabled")
    if is_internal(source, settings):
        return CompactionSkipped(f"{source} is itself part of a compaction")
    if not check_thresholds(size, limits, thresholds).above_auto:
        return CompactionSkipped(f"{size:,} tokens are below the automatic mark of {limits.auto:,}")
    if breaker.is_open:
        return CompactionSkipped(breaker.says)
    if refill.stops(chain, settings) or refill.stays_off(chain):
        return CompactionSkipped(_refills(refill, chain, filled_by))
    return CompactionRequest(trigger="auto")


def is_internal(source: str, settings: CompactSettings = DEFAULTS) -> bool:
    return any(source == name or source.startswith(f"{name}:") for name in settings.internal_sources)


def _refills(refill: RefillBreaker, chain: CompactionChain, filled_by: str) -> str:
    what = f" What fills it: {filled_by}." if filled_by else ""
    return (
        f"The context was full again {chain.turns_since} turns after a compaction, for the "
        f"{refill.in_a_row + 1}. time in a row, so another one would not help.{what} "
        "Ask for less at once, or move what is large into files."
    )


class Proposal(msgspec.Struct, frozen=True):
    """A compaction ahead of time, to be confirmed where the user wants to be asked."""

    asked: CompactionRequest
    why: str


class Cold(msgspec.Struct, frozen=True):
    """Below this size nothing is proposed again: what the user said to the last proposal."""

    quiet_below: int = 0


def propose_compaction(
    size: int,
    limits: ContextThresholds,
    *,
    moment: ActivityState,
    cold: Cold,
    settings: CompactSettings = DEFAULTS,
) -> Proposal | CompactionSkipped:
    mark = round(limits.auto * settings.cold_share)
    if size < mark:
        return CompactionSkipped(f"{size:,} tokens are below the mark for a proposal, {mark:,}")
    if size >= limits.auto:
        return CompactionSkipped("the automatic mark is reached: that compaction needs no proposal")
    if moment == "busy":
        return CompactionSkipped("the cache is warm and the task is not finished")
    if size < cold.quiet_below:
        return CompactionSkipped(f"the user was asked; not again below {cold.quiet_below:,} tokens")
    good = "the cache is cold" if moment == "cache_cold" else "the task is finished"
    return Proposal(
        CompactionRequest(trigger="auto"), f"{size:,} of {limits.auto:,} tokens are used, and {good}"
    )


def answer_proposal(
    proposal: Proposal,
    response: ProposalResponse,
    *,
    size: int,
    limits: ContextThresholds,
    settings: CompactSettings = DEFAULTS,
) -> tuple[CompactionRequest | CompactionSkipped, Cold]:
    """What follows from the user's word: now, later, or not before it must be."""
    if response == "accept":
        return proposal.asked, Cold()
    if response == "defer":
        return CompactionSkipped("deferred by the user"), Cold(size + settings.defer_tokens)
    return CompactionSkipped("declined by the user"), Cold(limits.auto)
