"""Typed events: one for every decision that someone may want to count or be told about (TL-1).

An event holds numbers and our own texts. Anything that may quote a message, a file or a provider is
`Private`: it is not passed on unless the listener has asked for content (TL-3). Where events go:
`session/events/`.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Final, Literal

import msgspec

from everturn.decide.cache_breaks import DetectedBreak
from everturn.decide.compact.values import (
    Attempt,
    Compaction,
    CompactionChain,
    CompactionFailed,
    CompactionForm,
    CompactionPlan,
    Strategy,
)
from everturn.decide.economy.trust import HoldCheck
from everturn.decide.effects import FailureKind, HookEvent, HookOutcome
from everturn.decide.micro.context import MicroPlan, PlanKind
from everturn.decide.retention import ScoredSummary
from everturn.history.edits import Cleared, ThinkingDropped, Trigger
from everturn.history.records import Usage
from everturn.history.repair import Repair, RepairKind
from everturn.measure.accounting import Metrics, Shares
from everturn.measure.prediction import PredictionCheck, Verdict

# What a value is computed from when somebody reads it: sinks write the property of that name instead.
Source = Annotated[ScoredSummary | None, msgspec.Meta(extra={"written_as": "score"})]
# Text that may contain what a person, a file or a provider said.
Private = Annotated[str, msgspec.Meta(extra={"private": True})]
CompactionFailureReason = Literal[
    "no_summary", "api_error", "too_long", "cancelled", "refused", "timeout", "over_threshold", "blocked",
    "calls_spent", "view_refused",
]  # fmt: skip
Cause = Literal["key_changed", "expiry", "server_side"]
BreakerKind = Literal["failures", "rapid_refill", "summary_calls"]


class EventContext(msgspec.Struct, frozen=True, kw_only=True):
    """Time, session, source and model: what all events of one turn have in common."""

    at: datetime
    session: str = ""
    source: str = "main"
    model: str = ""


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="event"):
    moment: EventContext


class ContextBreakdown(msgspec.Struct, frozen=True):
    """What filled the context (TOK-11), without the names of files."""

    total: int
    shares: Shares
    wasted: int
    files_read_again: int


class MicroCompacted(Event, frozen=True, kw_only=True, tag="micro_compacted"):
    """Kind "thinking": after an idle hour, all thinking except that of the last turns (MC-13)."""

    kind: PlanKind | Literal["thinking"]
    results: int
    tokens_before: int
    tokens_after: int
    tokens_saved: int
    why: str = ""
    # Files whose content the model no longer sees. A read tool that answers a second read with "unchanged"
    # must forget them, so that the next read is a real one (MC-4).
    files: tuple[Private, ...] = ()


class CompactionDone(Event, frozen=True, kw_only=True, tag="compaction_done"):
    """`usage` is that of the summary calls, over all attempts."""

    trigger: Trigger
    form: CompactionForm
    way: Strategy
    tokens_before: int
    tokens_after: int
    attempts: int
    usage: Usage
    chain: CompactionChain
    figures: ContextBreakdown | None = None
    scored: Source = None
    # The terms of the decision, where it was made by price (EC-1).
    why: str = ""

    @property
    def score(self) -> float | None:
        """The retention score of the summary (BY-6)."""
        return self.scored.figures.score if self.scored else None


class CompactionNotDone(Event, frozen=True, kw_only=True, tag="compaction_not_done"):
    trigger: Trigger
    form: CompactionForm
    reason: CompactionFailureReason
    ways: tuple[Strategy, ...]
    tokens_before: int
    usage: Usage
    chain: CompactionChain
    # A provider's message may quote what it was sent.
    detail: Private = ""


class ProposalAnswered(Event, frozen=True, kw_only=True, tag="proposal_answered"):
    """The user's answer to a compaction that was proposed ahead of time (CP-24)."""

    response: Literal["accept", "defer", "decline"]
    tokens: int
    why: str


class Compacting(Event, frozen=True, kw_only=True, tag="compacting"):
    """While a summary is being written (CP-7)."""

    way: Strategy
    seconds: float
    characters: int


class NotesTaken(Event, frozen=True, kw_only=True, tag="notes_taken"):
    covers: str
    tokens: int
    seconds: float


class CacheHeld(Event, frozen=True, kw_only=True, tag="cache_held"):
    """A call that kept the provider's cache alive during a pause, with its terms; or why it failed (EC-1).
    Dollars are what it cost, and what it was expected to save; `usage` is None if it was not answered, and
    the dollars are what counts for it then: it may have been billed.
    """

    at: datetime
    tokens: int
    why: str
    dollars: float = 0.0
    expected: float = 0.0
    usage: Usage | None = None


class CacheNotHeld(Event, frozen=True, kw_only=True, tag="cache_not_held"):
    """A pause begins and the cache is not kept alive, with the terms of that decision. Said once for each
    kind of reason.
    """

    why: str
    dollars: float
    expected: float


class HoldChecked(Event, frozen=True, kw_only=True, tag="hold_checked"):
    """What the first return after a hold has read: whether the hold has kept the prefix (EC-3)."""

    kept: bool
    tokens_read: int
    tokens_held: int
    why: str


class ToolsDeferred(Event, frozen=True, kw_only=True, tag="tools_deferred"):
    """Tools that were never called are no longer part of every prompt; the model finds them by a search
    (EC-10). `tools` is how many, `tokens` what their definitions cost with every call.
    """

    tools: int
    tokens: int
    why: str


class PriceUnknown(Event, frozen=True, kw_only=True, tag="price_unknown"):
    """The policy decides by price, and the price of this model is not known: it decides by the thresholds
    instead, or, if that model only writes summaries, with the price of the conversation's own. Said once for
    each model of a conversation.
    """

    why: str


class NotesRejected(Event, frozen=True, kw_only=True, tag="notes_rejected"):
    """Notes that could not be used as the summary, or could not be updated."""

    why: str


class CacheBroken(Event, frozen=True, kw_only=True, tag="cache_broken"):
    cause: Cause
    why: str
    parts: tuple[str, ...]
    tokens_lost: int
    idle: float
    disagreement: str = ""


class KeyChangesRepeated(Event, frozen=True, kw_only=True, tag="key_changes_repeated"):
    """The cache key of a conversation changes again and again, so that little or nothing is read from the
    cache (CB-3). Said once; `what` is the last change, without texts."""

    changed: int
    calls: int
    parts: tuple[str, ...]
    what: str
    tokens_lost: int
    dollars: float


class BreakerOpened(Event, frozen=True, kw_only=True, tag="breaker_opened"):
    breaker: BreakerKind
    count: int
    detail: Private = ""


class BreakerClosed(Event, frozen=True, kw_only=True, tag="breaker_closed"):
    breaker: BreakerKind


class Repaired(Event, frozen=True, kw_only=True, tag="repaired"):
    """A broken view that was made valid: how often each kind of repair was needed."""

    kinds: Mapping[RepairKind, int]
    details: tuple[Private, ...] = ()


class PredictionMissed(Event, frozen=True, kw_only=True, tag="prediction_missed"):
    verdict: Verdict
    predicted_read: int
    reported_read: int
    missed: int
    why: str


class SummaryUncached(Event, frozen=True, kw_only=True, tag="summary_uncached"):
    """A summary call that shares the conversation's prefix and still read little of it from the cache."""

    read: int
    prompt: int
    why: str


class HookTrouble(Event, frozen=True, kw_only=True, tag="hook_trouble"):
    """A hook that failed, timed out, or blocked something."""

    hook: HookEvent
    problems: int
    is_blocked: bool
    details: tuple[Private, ...] = ()


class PassedThrough(Event, frozen=True, kw_only=True, tag="passed_through"):
    """An error inside everturn: the caller keeps its own list, and its request was sent unchanged."""

    why: str
    detail: Private = ""


class ForksRepeated(Event, frozen=True, kw_only=True, tag="forks_repeated"):
    """A caller's lists keep differing from what it sent before, so its conversation is forked again and again
    (GW-11). `where` is the path of the first difference in the list, without its content."""

    forks: int
    calls: int
    where: str
    difference: str


class TranscriptShared(Event, frozen=True, kw_only=True, tag="transcript_shared"):
    """Another process writes the transcript of a conversation that arrived here: this process continues in a
    copy of it."""

    holder: str
    records: int
    path: Private = ""


class TranscriptDamaged(Event, frozen=True, kw_only=True, tag="transcript_damaged"):
    """A transcript that was opened for a caller is not as it was written. `what` is the first problem."""

    problems: int
    what: Private = ""
    path: Private = ""


def make_micro_compacted(plan: MicroPlan, size: int, moment: EventContext) -> MicroCompacted | None:
    """None if the plan changes nothing. `size` is the context before it."""
    cleared = {call for edit in plan.edits if isinstance(edit, Cleared) for call in edit.calls}
    results = len(cleared | set(plan.delete)) + len(plan.offload)
    if not (plan.edits or plan.delete or plan.offload):
        return None
    return MicroCompacted(
        moment=moment,
        kind=plan.kind,
        results=results,
        tokens_before=size,
        tokens_after=max(0, size - plan.tokens_saved),
        tokens_saved=plan.tokens_saved,
        why=plan.why,
        files=plan.forgotten,
    )


def thinking_dropped(edit: ThinkingDropped, tokens: int, size: int, moment: EventContext) -> MicroCompacted:
    return MicroCompacted(
        moment=moment,
        kind="thinking",
        results=0,
        tokens_before=size,
        tokens_after=max(0, size - tokens),
        tokens_saved=tokens,
        why=edit.why,
    )


def make_compaction_done(
    plan: CompactionPlan, made: Compaction, moment: EventContext, metrics: Metrics | None = None
) -> CompactionDone:
    return CompactionDone(
        moment=moment,
        trigger=plan.asked.trigger,
        form=plan.asked.form,
        way=made.attempts[-1].strategy if made.attempts else plan.strategies[0],
        tokens_before=made.tokens_before,
        tokens_after=made.tokens_after,
        attempts=len(made.attempts),
        usage=_spent(made.attempts),
        chain=plan.chain,
        figures=make_context_breakdown(metrics) if metrics else None,
        scored=made.receipt.scored,
        why=plan.asked.economics,
    )


def make_compaction_not_done(
    plan: CompactionPlan, failed: CompactionFailed, moment: EventContext
) -> CompactionNotDone:
    return CompactionNotDone(
        moment=moment,
        trigger=plan.asked.trigger,
        form=plan.asked.form,
        reason=find_failure_reason(failed.attempts),
        ways=tuple(attempt.strategy for attempt in failed.attempts),
        tokens_before=plan.tokens_before,
        usage=_spent(failed.attempts),
        chain=plan.chain,
        detail=failed.why,
    )


_REASONS: Final[Mapping[FailureKind, CompactionFailureReason]] = {
    "too_long": "too_long",
    "api_error": "api_error",
    "refused": "refused",
    "timeout": "timeout",
    "cancelled": "cancelled",
    "calls_spent": "calls_spent",
}


def find_failure_reason(attempts: Sequence[Attempt]) -> CompactionFailureReason:
    """The reason of the last attempt, in one word; a summary that was made but not used was too large."""
    if not attempts:
        return "no_summary"
    last = attempts[-1]
    if last.failure is not None:
        return _REASONS[last.failure.kind]
    return "over_threshold" if last.text else "no_summary"


def make_context_breakdown(metrics: Metrics) -> ContextBreakdown:
    return ContextBreakdown(metrics.total, metrics.shares, metrics.wasted, metrics.files_read_again)


def make_cache_broken(verdict: DetectedBreak, moment: EventContext) -> CacheBroken:
    expired = verdict.why.startswith("possible TTL expiry")
    cause: Cause = "key_changed" if verdict.changes else "expiry" if expired else "server_side"
    return CacheBroken(
        moment=moment,
        cause=cause,
        why=verdict.why,
        parts=tuple(dict.fromkeys(change.part for change in verdict.changes)),
        tokens_lost=verdict.tokens_lost,
        idle=verdict.idle,
        disagreement=verdict.disagreement,
    )


def make_hold_checked(check: HoldCheck, moment: EventContext) -> HoldChecked:
    return HoldChecked(
        moment=moment, kept=check.kept, tokens_read=check.read, tokens_held=check.held, why=check.why
    )


def make_prediction_missed(check: PredictionCheck, moment: EventContext) -> PredictionMissed | None:
    """None if the prediction was right, or if only the token counts differ: estimates always do."""
    if check.verdict in ("as predicted", "other total"):
        return None
    return PredictionMissed(
        moment=moment,
        verdict=check.verdict,
        predicted_read=check.predicted.read,
        reported_read=check.reported.read,
        missed=check.missed,
        why=check.why,
    )


def make_repaired(repairs: Sequence[Repair], moment: EventContext) -> Repaired | None:
    if not repairs:
        return None
    kinds: dict[RepairKind, int] = {}
    for repair in repairs:
        kinds[repair.kind] = kinds.get(repair.kind, 0) + 1
    details = tuple(f"{repair.where}: {repair.what}" for repair in repairs)
    return Repaired(moment=moment, kinds=kinds, details=details)


def make_hook_trouble(event: HookEvent, outcome: HookOutcome, moment: EventContext) -> HookTrouble | None:
    if not (outcome.problems or outcome.blocked):
        return None
    details = (*outcome.problems, *([outcome.blocked] if outcome.blocked else ()))
    return HookTrouble(
        moment=moment,
        hook=event,
        problems=len(outcome.problems),
        is_blocked=bool(outcome.blocked),
        details=details,
    )


def _spent(attempts: Sequence[Attempt]) -> Usage:
    return Usage(
        input_tokens=sum(attempt.usage.input_tokens for attempt in attempts),
        cache_creation_input_tokens=sum(attempt.usage.cache_creation_input_tokens for attempt in attempts),
        cache_read_input_tokens=sum(attempt.usage.cache_read_input_tokens for attempt in attempts),
        output_tokens=sum(attempt.usage.output_tokens for attempt in attempts),
    )
