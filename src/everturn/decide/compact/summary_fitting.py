"""Summary requests that fit into the window, with room for the summary behind them (CP-9).

A request that is known to be too long is shortened before it is sent. What the API says about one that was
sent, a refusal or a summary that reached the end of the window, tells how much more has to go.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from everturn.decide.compact.context import CompactionContext, LeastTokens
from everturn.decide.compact.overflow_retry import drop_oldest_rounds
from everturn.decide.compact.unanswered import widest_window
from everturn.decide.compact.values import Attempt, CompactionPlan, CompactionSkipped
from everturn.decide.effects import ModelAnswer, ModelFailure
from everturn.history.messages import Message
from everturn.measure.model import Model
from everturn.measure.model_table import find_named
from everturn.measure.thresholds import compute_thresholds
from everturn.measure.tokens import estimate_block
from everturn.wire.overflow import Overflow

# The API's reason for a reply that filled the window (api-facts 6).
WINDOW_FULL: Final = "model_context_window_exceeded"
# Reported tokens over estimated ones. A larger ratio says that more was sent than the view holds.
_MAX_SCALE: Final = 2.0
# The extract of messages that did not fit: its share of their tokens.
EXTRACT_SHARE: Final = 0.25


def summary_model(context: CompactionContext) -> Model:
    """Who writes the summary of a direct call; of a name that is not in the table, the conversation's own
    figures hold."""
    named = context.settings.summary_model
    return (find_named(named) if named else context.model) or context.model


def cut_to_window(
    messages: tuple[Message, ...], plan: CompactionPlan, context: CompactionContext
) -> tuple[Message, ...] | CompactionSkipped:
    """Without the oldest rounds, if with them the request is known to be too long, or to leave no room for
    the summary: the refusal of the API would not tell more (CP-9). Not at all, if the newest round alone is
    too long and no model is needed: its head and tail are kept anyway.
    """
    model = summary_model(context)
    rough = estimate_messages(messages, context)
    # The share of the view that is summarized, in tokens as they were reported.
    known = plan.tokens_summarized + plan.tokens_kept
    reported = context.least.total * plan.tokens_summarized // known if known else 0
    scale = min(max(1.0, reported / rough), _MAX_SCALE) if rough else 1.0
    tokens = round(rough * scale)
    effective = compute_thresholds(widest_window(model), model.max_output).effective
    if tokens <= effective:
        return messages
    gap = Overflow("anthropic", rough, round((effective - context.summary.budget) / scale))
    estimator = context.counts.estimator
    shorter = drop_oldest_rounds(
        messages, gap, 0, settings=context.settings, estimate=lambda block: estimate_block(block, estimator)
    )
    if isinstance(shorter, CompactionSkipped) or "extractive" not in context.strategies:
        return shorter
    problem = explain_too_long(
        estimate_messages(shorter, context), model, "the newest part of the conversation"
    )
    return CompactionSkipped(problem) if problem else shorter


def estimate_messages(messages: Sequence[Message], context: CompactionContext) -> int:
    estimator = context.counts.estimator
    return sum(estimate_block(block, estimator) for each in messages for block in each.blocks)


def with_room(
    overflow: Overflow | None, messages: Sequence[Message], context: CompactionContext
) -> Overflow | None:
    """So much more has to go that the extract of what goes has room too, and the summary itself: one that
    ends at the window cannot be used, and was paid for. Where our own count is far from the refusal's, only
    what it says goes."""
    if overflow is None or not overflow.gap:
        return overflow
    is_long = estimate_messages(messages, context) * 2 > overflow.limit
    reserve = min(context.settings.max_output, summary_model(context).max_output) if is_long else 0
    gap = overflow.gap + min(reserve, overflow.limit // 5)
    extract = min(int(gap * EXTRACT_SHARE / (1 - EXTRACT_SHARE)) + 1, context.summary.budget)
    return msgspec.structs.replace(overflow, tokens=overflow.limit + gap + extract)


def explain_too_long(tokens: int, model: Model, what: str = "the conversation") -> str:
    """Why a request is not sent that the API would refuse; "" where it may fit."""
    window = widest_window(model)
    if tokens <= window:
        return ""
    return f"{what} has at least {tokens:,} tokens, and {model.id} takes {window:,}"


def ended_at_window(answer: ModelAnswer, model: Model) -> ModelFailure | None:
    """A summary that had no room left: asked again, it would have less. A shorter request is wanted, as after
    a refusal."""
    if answer.stop_reason != WINDOW_FULL:
        return None
    window = widest_window(model)
    why = f"the summary reached the end of the window ({window:,} tokens)"
    return ModelFailure("too_long", why, Overflow("anthropic", window + 1, window))


def learn_from_overflow(attempt: Attempt, context: CompactionContext) -> CompactionContext:
    """What a fork that was too long tells the next strategy: how many tokens the view has at least."""
    failure = attempt.failure
    if attempt.strategy != "fork" or failure is None or failure.overflow is None:
        return context
    sent, unsent = context.least.sent, context.least.unsent
    least = LeastTokens(sent, max(unsent, failure.overflow.tokens - sent))
    return msgspec.structs.replace(context, least=least)
