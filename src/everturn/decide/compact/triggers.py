"""Whether a compaction is due: now and by itself, or ahead of time and on request (CP-20, CP-23, CP-24).

Sizes are compared in `measure/thresholds.py` alone, except for the lower threshold of a proposal, which is a
share of the automatic one.
"""

from datetime import datetime
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
    now: datetime,
    breaker: CompactionBreaker,
    refill: RefillBreaker,
    chain: CompactionChain,
    filled_by: str = "",
    settings: CompactSettings = DEFAULTS,
) -> CompactionRequest | CompactionSkipped:
    """An automatic compaction, or the reason that there is none. `filled_by` is what fills the context, shown
    where another compaction would not help."""
    if not thresholds.auto_compaction:
        return CompactionSkipped("automatic compaction is disabled")
    if is_internal(source, settings):
        return CompactionSkipped(f"{source} is itself part of a compaction")
    if not check_thresholds(size, limits, thresholds).above_auto:
        return CompactionSkipped(f"{size:,} tokens are below the automatic threshold of {limits.auto:,}")
    if breaker.is_open and breaker.state(now) == "open":
        return CompactionSkipped(breaker.describe())
    if refill.stops(chain, settings) or refill.stays_off(chain, settings):
        return CompactionSkipped(_refills(refill, chain, filled_by, settings))
    return CompactionRequest(trigger="auto")


def is_internal(source: str, settings: CompactSettings = DEFAULTS) -> bool:
    return any(source == name or source.startswith(f"{name}:") for name in settings.internal_sources)


def _refills(refill: RefillBreaker, chain: CompactionChain, filled_by: str, settings: CompactSettings) -> str:
    left = max(0, settings.retry_calls - chain.turns_since)
    what = f" What fills it: {filled_by}." if filled_by else ""
    return (
        f"The context was full again {chain.turns_since} turns after a compaction, {refill.in_a_row + 1} "
        f"times in a row, so another one would not help.{what} Ask for less at once, or move what is large "
        f"into files. The next attempt comes after {left} more turns."
    )


class Proposal(msgspec.Struct, frozen=True):
    """A compaction ahead of time, to be confirmed where the user wants to be asked."""

    asked: CompactionRequest
    why: str


class ProposalState(msgspec.Struct, frozen=True):
    """What follows from the answer to the last proposal: below this size nothing is proposed again."""

    quiet_below: int = 0


def proposal_threshold(limits: ContextThresholds, settings: CompactSettings = DEFAULTS) -> int:
    return round(limits.auto * settings.cold_share)


def propose_compaction(
    size: int,
    limits: ContextThresholds,
    *,
    activity: ActivityState,
    before: ProposalState,
    settings: CompactSettings = DEFAULTS,
) -> Proposal | CompactionSkipped:
    threshold = proposal_threshold(limits, settings)
    if size < threshold:
        return CompactionSkipped(f"{size:,} tokens are below the threshold for a proposal, {threshold:,}")
    if size >= limits.auto:
        return CompactionSkipped("the automatic threshold is reached: that compaction needs no proposal")
    if activity == "busy":
        return CompactionSkipped("the cache is warm and the task is not finished")
    if size < before.quiet_below:
        return CompactionSkipped(f"the user was asked; not again below {before.quiet_below:,} tokens")
    good = "the cache is cold" if activity == "cache_cold" else "the task is finished"
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
) -> tuple[CompactionRequest | CompactionSkipped, ProposalState]:
    """What follows from the user's answer: compact now, later, or not before it must be."""
    if response == "accept":
        return proposal.asked, ProposalState()
    if response == "defer":
        return CompactionSkipped("deferred by the user"), ProposalState(size + settings.defer_tokens)
    return CompactionSkipped("declined by the user"), ProposalState(limits.auto)
