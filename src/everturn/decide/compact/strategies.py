"""The ways to a summary, each a flow of one shape: from a plan to an attempt (CP-6, CP-8, CP-9, CP-35).

An attempt has a text that was checked, formatted and let in, or the reason that it has none. In which order
ways are tried, and what follows: `flow.py`.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

import msgspec

from everturn.decide.compact.context import CompactionContext
from everturn.decide.compact.divide import first_words
from everturn.decide.compact.gate import check_gate
from everturn.decide.compact.overflow_retry import drop_oldest_rounds
from everturn.decide.compact.prepare import prepare_messages, with_prompt
from everturn.decide.compact.provider import BETA, build_compaction_request, compaction_block
from everturn.decide.compact.summary_response import check_summary
from everturn.decide.compact.unsent import as_sent
from everturn.decide.compact.values import Attempt, CompactionPlan, CompactionSkipped, Strategy
from everturn.decide.effects import AskModel, Effect, ModelAnswer, ModelFailure
from everturn.decide.extractive.summarize import summarize
from everturn.history.blocks import Block, text_block, text_of
from everturn.history.messages import Message
from everturn.history.records import Usage
from everturn.measure.model_table import find_model
from everturn.view.forks import CapturedRequest, make_fork
from everturn.view.fragments.summarizer import SUMMARIZER
from everturn.view.fragments.summary_prompt import UNSAID, repair_prompt, summary_prompt
from everturn.view.requests import build_request, place_fork_breakpoints
from everturn.wire.anthropic import Request

AttemptFlow = Generator[Effect, Any, Attempt]


def _by_notes(plan: CompactionPlan, ground: CompactionContext) -> AttemptFlow:
    """No call at all: the notes were kept for this."""
    if not ground.notes:
        return Attempt(way="notes", problem="there are no notes that could be used")
    return _let_in("notes", ground.notes, Usage(), plan, ground)
    yield  # a flow like the others, though it asks for nothing


def _by_fork(plan: CompactionPlan, ground: CompactionContext) -> AttemptFlow:
    """A call that shares the conversation's cached prefix: only its prompt is new (PC-12)."""
    sent = as_sent(plan, ground)
    safe = sent or ground.captured
    prompt = summary_prompt(
        plan.asked.form,
        plan.asked.instructions,
        divided_at="" if sent else _divided_at(plan),
        quoted=plan.must_quote,
    )
    messages = with_prompt(safe.messages, prompt)
    marks = place_fork_breakpoints(make_fork(safe, ()), ground.capabilities)

    def request(said: Sequence[Message]) -> Request:
        return build_request(msgspec.structs.replace(safe, messages=(*messages, *said)), marks)

    return (yield from _asked("fork", request, ground.betas, plan, ground, parent=safe))


def _by_direct_call(plan: CompactionPlan, ground: CompactionContext) -> AttemptFlow:
    """A call of its own: short system prompt, no tools, no thinking, a cap on its output (CP-6)."""
    prompt = summary_prompt(plan.asked.form, plan.asked.instructions, quoted=plan.must_quote)
    messages = prepare_messages(ground.view, plan.summarized, ground.settings)
    tried = 0
    while True:
        ladder = messages

        def request(said: Sequence[Message], rung: tuple[Message, ...] = ladder) -> Request:
            return _direct_request((*with_prompt(rung, prompt), *said), ground)

        attempt = yield from _asked("direct", request, (), plan, ground)
        if attempt.failure is None or attempt.failure.kind != "too_long":
            return attempt
        rung = drop_oldest_rounds(messages, attempt.failure.overflow, tried, settings=ground.settings)
        if isinstance(rung, CompactionSkipped):
            return msgspec.structs.replace(attempt, problem=rung.why)
        messages, tried = rung, tried + 1


def _by_provider(plan: CompactionPlan, ground: CompactionContext) -> AttemptFlow:
    """The API's own compaction: it summarizes everything, and its block is sent back as it came (CP-35)."""
    if not (ground.capabilities.native_compaction and ground.model.compacts and plan.asked.form == "full"):
        return Attempt(way="provider", problem="the provider cannot compact this")
    request = build_compaction_request(ground.captured, plan.asked.instructions)
    betas = (*ground.betas, BETA)
    answer: ModelAnswer | ModelFailure = yield AskModel(
        request, betas, "compact", "provider", ground.captured
    )
    if isinstance(answer, ModelFailure):
        return Attempt(way="provider", problem=answer.message, failure=answer)
    block = compaction_block(answer)
    if block is None:
        why = f"the provider gave no summary (stop reason {answer.stop_reason})"
        return Attempt(way="provider", problem=why, usage=answer.usage)
    return Attempt(way="provider", text=block.text, usage=answer.usage, block=block.block)


def _by_extract(plan: CompactionPlan, ground: CompactionContext) -> AttemptFlow:
    """The summarizer that needs no model: a dead API never means a dead session (BY-5)."""
    made = summarize(
        plan.summarized,
        instructions=plan.asked.instructions,
        form=plan.asked.form,
        settings=ground.how.summary,
    )
    # The gate looks for what a model gets wrong; this text is ours, and may quote anything.
    tokens = ground.counts.estimator.text(made.text)
    if tokens >= plan.tokens_summarized:
        return Attempt(way="extract", problem=f"it is no smaller ({tokens:,} tokens) than what it replaces")
    return Attempt(way="extract", text=made.text)
    yield  # a flow like the others, though it asks for nothing


STRATEGIES: Mapping[Strategy, Callable[[CompactionPlan, CompactionContext], AttemptFlow]] = {
    "notes": _by_notes,
    "fork": _by_fork,
    "direct": _by_direct_call,
    "provider": _by_provider,
    "extract": _by_extract,
}


def _asked(
    way: Strategy,
    request: Callable[[Sequence[Message]], Request],
    betas: tuple[str, ...],
    plan: CompactionPlan,
    ground: CompactionContext,
    *,
    parent: CapturedRequest | None = None,
) -> AttemptFlow:
    """One question, and one more where the answer is refused by the gate."""
    said: tuple[Message, ...] = ()
    spent = Usage()
    attempt = Attempt(way=way)
    for _ in range(2):
        answer: ModelAnswer | ModelFailure = yield AskModel(
            request(said), betas, "compact", "fork" if way == "fork" else "direct", parent
        )
        if isinstance(answer, ModelFailure):
            problem = "; ".join(filter(None, (attempt.problem, answer.message or answer.kind)))
            return Attempt(way=way, problem=problem, usage=spent, failure=answer)
        spent = _both(spent, answer.usage)
        found = check_summary(answer, ground.settings)
        attempt = Attempt(way=way, problem=found.problem, usage=spent)
        if not found.problem:
            attempt = _let_in(way, found.text, spent, plan, ground)
        if not attempt.problem:
            return attempt
        said = _again(answer.blocks, attempt.problem)
    return attempt


def _again(blocks: tuple[Block, ...], problem: str) -> tuple[Message, ...]:
    """The refused answer and what was wrong with it. Calls in it were not answered, so they go."""
    words = tuple(block for block in blocks if block.kind == "text" and text_of(block).strip())
    told = Message("user", (text_block(repair_prompt(problem)),))
    return Message("assistant", words or (UNSAID,)), told


def _let_in(
    way: Strategy, text: str, usage: Usage, plan: CompactionPlan, ground: CompactionContext
) -> Attempt:
    problem = check_gate(text, plan, estimate=ground.counts.estimator.text, settings=ground.settings)
    return Attempt(way=way, text="" if problem else text, problem=problem, usage=usage)


def _divided_at(plan: CompactionPlan) -> str:
    if plan.asked.form == "full":
        return ""
    return first_words(plan.summarized if plan.asked.form == "from" else plan.kept)


def _direct_request(messages: tuple[Message, ...], ground: CompactionContext) -> Request:
    named = ground.how.summary_model
    model = (find_model(named) if named else ground.model) or ground.model
    settings: dict[str, Any] = {"max_tokens": min(ground.settings.max_output, model.max_output)}
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
