"""The strategies for a summary, each a flow from a plan to an attempt (CP-6, CP-8, CP-9, CP-35).

An attempt has a text that was checked, formatted and accepted, or the reason that it has none. The order of
strategies, and what follows: `flow.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from everturn.decide.authorship import typed_words
from everturn.decide.compact.budget import truncate_middle
from everturn.decide.compact.context import CompactionContext
from everturn.decide.compact.divide import first_words
from everturn.decide.compact.gate import check_gate, false_origin
from everturn.decide.compact.overflow_retry import drop_oldest_rounds, messages_left_out
from everturn.decide.compact.prepare import prepare_messages, with_prompt
from everturn.decide.compact.provider import BETA, build_compaction_request, compaction_block
from everturn.decide.compact.summary_calls import SummaryCalls
from everturn.decide.compact.summary_fitting import (
    EXTRACT_SHARE,
    cut_to_window,
    ended_at_window,
    estimate_messages,
    explain_too_long,
    summary_model,
    with_room,
)
from everturn.decide.compact.summary_response import check_summary
from everturn.decide.compact.unsent import as_sent
from everturn.decide.compact.values import (
    Attempt,
    CompactionForm,
    CompactionPlan,
    CompactionSkipped,
    Strategy,
)
from everturn.decide.effects import AskModel, Flow, ModelFailure
from everturn.decide.extractive.summarize import summarize
from everturn.history.blocks import Block, text_block, text_of
from everturn.history.messages import Message
from everturn.history.records import Usage
from everturn.measure.tokens import pad_estimate
from everturn.view.forks import CapturedRequest, make_fork
from everturn.view.fragments.summarizer import SUMMARIZER
from everturn.view.fragments.summary_prompt import (
    UNSAID,
    repair_prompt,
    summary_prompt,
)
from everturn.view.requests import build_request, place_fork_breakpoints
from everturn.wire.anthropic import Request

NO_NOTES: Final = "no usable notes found"
# A shorter extract of what did not fit would say nothing.
_MIN_EXTRACT: Final = 500
# Tokens of one message that was typed while the model worked.
_MAX_TYPED: Final = 500
AttemptFlow = Flow[Attempt]


def runnable_strategies(form: CompactionForm, context: CompactionContext) -> tuple[Strategy, ...]:
    """Those of the chain that can be tried now: a dry run must not promise the others (CP-29)."""
    return tuple(each for each in context.strategies if not _hindrance(each, form, context))


def _hindrance(strategy: Strategy, form: CompactionForm, context: CompactionContext) -> str:
    """Why a strategy cannot be tried at all; "" where it can."""
    match strategy:
        case "notes":
            return "" if context.notes else NO_NOTES
        case "provider":
            can = context.capabilities.native_compaction and context.model.compacts and form == "full"
            return "" if can else "the provider cannot compact this"
        case "fork" if context.calls != 0:
            # What was not sent yet may be left out of it.
            return explain_too_long(context.least.sent, context.model)
        case "fork" | "direct":
            return "no model may be asked" if context.calls == 0 else ""
        case "extractive":
            return ""


def _by_notes(plan: CompactionPlan, context: CompactionContext, calls: SummaryCalls) -> AttemptFlow:
    """No call at all: the session's notes are the summary."""
    if problem := _hindrance("notes", plan.asked.form, context):
        return Attempt(strategy="notes", problem=problem)
    return _accept("notes", context.notes, Usage(), plan, context)
    yield  # a generator like the others, though it asks for nothing


def _by_fork(plan: CompactionPlan, context: CompactionContext, calls: SummaryCalls) -> AttemptFlow:
    """A call that shares the conversation's cached prefix: only its prompt is new (PC-12)."""
    sent = as_sent(plan, context)
    if problem := explain_too_long(context.least.sent if sent else context.least.total, context.model):
        return Attempt(strategy="fork", problem=problem)
    parent = sent or context.captured
    prompt = summary_prompt(
        plan.asked.form,
        plan.asked.instructions,
        divided_at="" if sent else _divided_at(plan),
        typed=_typed_meanwhile(plan, context),
        max_tokens=context.settings.summary_tokens,
    )
    messages = with_prompt(parent.messages, prompt)
    breakpoints = place_fork_breakpoints(make_fork(parent, ()), context.capabilities)

    def request(said: Sequence[Message]) -> Request:
        return build_request(msgspec.structs.replace(parent, messages=(*messages, *said)), breakpoints)

    return (yield from _asked("fork", request, context.betas, plan, context, calls, parent=parent))


def _by_direct_call(plan: CompactionPlan, context: CompactionContext, calls: SummaryCalls) -> AttemptFlow:
    """A call of its own: short system prompt, no tools, no thinking, a cap on its output (CP-6). If the whole
    does not fit, it reads the newest rounds and an extract of everything.
    """
    whole = prepare_messages(context.view, plan.summarized, context.settings)
    messages = cut_to_window(whole, plan, context)
    if isinstance(messages, CompactionSkipped):
        return Attempt(strategy="direct", problem=messages.why)
    tried, spent = 0, Usage()
    while True:
        current = messages
        unread = messages_left_out(whole, messages)
        extract = _extract(whole[:unread], plan, context)
        prompt = summary_prompt(
            plan.asked.form,
            plan.asked.instructions,
            extract=extract,
            # An extract has it.
            typed=() if extract else _typed_meanwhile(plan, context),
            max_tokens=context.settings.summary_tokens,
        )

        def request(
            said: Sequence[Message], shown: tuple[Message, ...] = current, prompt: str = prompt
        ) -> Request:
            return _direct_request((*with_prompt(shown, prompt), *said), context)

        attempt = yield from _asked("direct", request, (), plan, context, calls, is_retry=tried > 0)
        spent = _both(spent, attempt.usage)
        attempt = msgspec.structs.replace(attempt, usage=spent)
        if attempt.failure is None or attempt.failure.kind != "too_long":
            return msgspec.structs.replace(attempt, unread=unread)
        overflow = with_room(attempt.failure.overflow, messages, context)
        shorter = drop_oldest_rounds(messages, overflow, tried, settings=context.settings)
        if isinstance(shorter, CompactionSkipped):
            return msgspec.structs.replace(attempt, problem=shorter.why)
        messages, tried = shorter, tried + 1


def _extract(left_out: Sequence[Message], plan: CompactionPlan, context: CompactionContext) -> str:
    """What the model cannot read, in the words of the summary that needs no model; "" for nothing, or for so
    little that an extract of it would say nothing.
    """
    budget = min(context.summary.budget, int(estimate_messages(left_out, context) * EXTRACT_SHARE))
    if budget < _MIN_EXTRACT:
        return ""
    made = summarize(
        plan.summarized,
        budget=budget,
        form=plan.asked.form,
        settings=context.summary,
        tools=context.tools,
        queued=context.queued,
    )
    return made.text


def _typed_meanwhile(plan: CompactionPlan, context: CompactionContext) -> tuple[str, ...]:
    """What the user typed while the model worked and no record has: a model would not see it. What is older
    than all that is summarized belongs to an earlier view."""
    if not context.queued:
        return ()
    started = next((each.timestamp for each in plan.summarized if each.timestamp), "")
    typed = sorted((each for each in context.queued if each.timestamp >= started), key=lambda q: q.timestamp)
    words = (typed_words(each.text) for each in typed)
    estimate = context.counts.estimator.text
    return tuple(truncate_middle(text, _MAX_TYPED, estimate).text for text in words if text)


def _by_provider(plan: CompactionPlan, context: CompactionContext, calls: SummaryCalls) -> AttemptFlow:
    """The API's own compaction: it summarizes everything, and its block is sent back unchanged (CP-35)."""
    parent = context.captured if plan.asked.form == "full" else as_sent(plan, context)
    tokens = context.least.total if plan.asked.form == "full" else context.least.sent
    problem = _hindrance("provider", "full", context) or explain_too_long(tokens, context.model)
    if problem or parent is None:
        return Attempt(strategy="provider", problem=problem or "the provider cannot compact this part")
    request = build_compaction_request(parent, plan.asked.instructions)
    betas = (*context.betas, BETA)
    answer = yield from calls.ask(AskModel(request, betas, "compact", "provider", parent))
    if isinstance(answer, ModelFailure):
        return Attempt(strategy="provider", problem=answer.message, failure=answer)
    block = compaction_block(answer)
    if block is None:
        why = f"the provider gave no summary (stop reason {answer.stop_reason})"
        return Attempt(strategy="provider", problem=why, usage=answer.usage)
    if problem := false_origin(block.text):
        return Attempt(strategy="provider", problem=problem, usage=answer.usage)
    return Attempt(strategy="provider", text=block.text, usage=answer.usage, block=block.block)


def _by_extraction(plan: CompactionPlan, context: CompactionContext, calls: SummaryCalls) -> AttemptFlow:
    """The summarizer that needs no model: a session goes on while the API is down (BY-5)."""
    wanted = context.settings.summary_tokens
    settings = context.summary.shortened_to(wanted) if wanted else context.summary
    made = summarize(
        plan.summarized,
        budget=min(settings.budget, _room_for_extract(plan, context)),
        instructions=plan.asked.instructions,
        form=plan.asked.form,
        settings=settings,
        tools=context.tools,
        queued=context.queued,
    )
    text = made.text
    # The gate looks for what a model gets wrong; this text is ours, and may quote anything.
    tokens = context.counts.estimator.text(text)
    if tokens >= plan.tokens_summarized:
        return Attempt(
            strategy="extractive",
            problem=f"it is not smaller ({tokens:,} tokens) than what it replaces",
            grows_by=tokens - plan.tokens_summarized,
        )
    return Attempt(strategy="extractive", text=text)
    yield  # a generator like the others, though it asks for nothing


def _room_for_extract(plan: CompactionPlan, context: CompactionContext) -> int:
    """In a small window the usual budget would fill the context again at once: at most half of the room up to
    the automatic threshold is used, counted with padding.
    """
    taken, limits = plan.fixed + plan.tokens_kept, context.limits
    room = limits.auto - taken if taken < limits.auto else context.room_for_newest - taken
    return max(_MIN_EXTRACT, room * 3 // 8)


STRATEGIES: Mapping[Strategy, Callable[[CompactionPlan, CompactionContext, SummaryCalls], AttemptFlow]] = {
    "notes": _by_notes,
    "fork": _by_fork,
    "direct": _by_direct_call,
    "provider": _by_provider,
    "extractive": _by_extraction,
}


def _asked(
    strategy: Strategy,
    request: Callable[[Sequence[Message]], Request],
    betas: tuple[str, ...],
    plan: CompactionPlan,
    context: CompactionContext,
    calls: SummaryCalls,
    *,
    parent: CapturedRequest | None = None,
    is_retry: bool = False,
) -> AttemptFlow:
    """One question, and one more where the answer is refused by the gate."""
    said: tuple[Message, ...] = ()
    spent = Usage()
    attempt = Attempt(strategy=strategy)
    for is_repair in (False, True):
        effect = AskModel(
            request(said),
            betas,
            "compact",
            "fork" if strategy == "fork" else "direct",
            parent,
            is_overflow_retry=is_retry and not is_repair,
        )
        answer = yield from calls.ask(effect)
        if isinstance(answer, ModelFailure):
            problem = "; ".join(filter(None, (attempt.problem, answer.message or answer.kind)))
            return Attempt(strategy=strategy, problem=problem, usage=spent, failure=answer)
        spent = _both(spent, answer.usage)
        # A fork is asked of the conversation's own model.
        if failure := ended_at_window(answer, context.model if parent else summary_model(context)):
            return Attempt(strategy=strategy, problem=failure.message, usage=spent, failure=failure)
        found = check_summary(answer, context.settings)
        attempt = Attempt(strategy=strategy, problem=found.problem, usage=spent)
        if not found.problem:
            attempt = _accept(strategy, found.text, spent, plan, context)
        if not attempt.problem:
            return attempt
        said = _again(answer.blocks, attempt.problem)
    return attempt


def _again(blocks: tuple[Block, ...], problem: str) -> tuple[Message, ...]:
    """The refused answer and what was wrong with it. Calls in it were not answered, so they go."""
    words = tuple(block for block in blocks if block.kind == "text" and text_of(block).strip())
    told = Message("user", (text_block(repair_prompt(problem)),))
    return Message("assistant", words or (UNSAID,)), told


def _accept(
    strategy: Strategy, text: str, usage: Usage, plan: CompactionPlan, context: CompactionContext
) -> Attempt:
    problem = check_gate(text, plan, estimate=context.counts.estimator.text, settings=context.settings)
    if not problem:
        return Attempt(strategy=strategy, text=text, usage=usage)
    grown = pad_estimate(context.counts.estimator.text(text)) - plan.tokens_summarized
    return Attempt(strategy=strategy, problem=problem, usage=usage, grows_by=grown if grown >= 0 else None)


def _divided_at(plan: CompactionPlan) -> str:
    if plan.asked.form == "full":
        return ""
    return first_words(plan.summarized if plan.asked.form == "from" else plan.kept)


def is_refused_text(attempt: Attempt) -> bool:
    """Whether a model answered, and its words were refused each time."""
    return bool(attempt.problem) and attempt.failure is None


def with_own_model(strategy: Strategy, context: CompactionContext) -> CompactionContext | None:
    """The same without a summary model: the conversation's own model is dearer and better. None if it was the
    one that was asked."""
    named = context.settings.summary_model
    if strategy != "direct" or not named or summary_model(context).id == context.model.id:
        return None
    settings = msgspec.structs.replace(context.settings, summary_model="")
    return msgspec.structs.replace(context, settings=settings)


def _direct_request(messages: tuple[Message, ...], context: CompactionContext) -> Request:
    named, model = context.settings.summary_model, summary_model(context)
    settings: dict[str, Any] = {"max_tokens": min(context.settings.max_output, model.max_output)}
    # Some models think unless they are told not to, and some of those cannot be told.
    if model.thinks_by_default and "disabled" in model.thinking:
        settings["thinking"] = {"type": "disabled"}
    return Request(
        model=named or model.id, messages=messages, system=(text_block(SUMMARIZER),), settings=settings
    )


def _both(one: Usage, other: Usage) -> Usage:
    return Usage(
        one.input_tokens + other.input_tokens,
        one.cache_creation_input_tokens + other.cache_creation_input_tokens,
        one.cache_read_input_tokens + other.cache_read_input_tokens,
        one.output_tokens + other.output_tokens,
    )
