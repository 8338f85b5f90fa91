"""The ways to a summary, each a flow of one shape: from a plan to an attempt (CP-6, CP-8, CP-9, CP-35).

An attempt has a text that was checked, formatted and let in, or the reason that it has none. In which order
ways are tried, and what follows: `flow.py`.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

import msgspec

from everturn.decide.compact.answer import checked
from everturn.decide.compact.divide import first_words
from everturn.decide.compact.gate import gate
from everturn.decide.compact.ground import Ground
from everturn.decide.compact.ladder import next_rung
from everturn.decide.compact.prepare import prepared, with_prompt
from everturn.decide.compact.provider import BETA, compaction_block, compaction_request
from everturn.decide.compact.unsent import as_sent
from everturn.decide.compact.values import Attempt, CompactionPlan, NotCompacting, Way
from everturn.decide.effects import Answer, AskModel, Effect, Failure
from everturn.decide.summary.summarize import summarize
from everturn.history.blocks import Block, text_block, text_of
from everturn.history.messages import Message
from everturn.history.records import Usage
from everturn.measure.models import find
from everturn.view.forks import CacheSafe, fork
from everturn.view.fragments.summarizer import SUMMARIZER
from everturn.view.fragments.summary_prompt import UNSAID, repair_prompt, summary_prompt
from everturn.view.requests import fork_marks, marked_request
from everturn.wire.anthropic import Request

Flow = Generator[Effect, Any, Attempt]


def _by_notes(plan: CompactionPlan, ground: Ground) -> Flow:
    """No call at all: the notes were kept for this."""
    if not ground.notes:
        return Attempt(way="notes", problem="there are no notes that could be used")
    return _let_in("notes", ground.notes, Usage(), plan, ground)
    yield  # a flow like the others, though it asks for nothing


def _by_fork(plan: CompactionPlan, ground: Ground) -> Flow:
    """A call that shares the conversation's cached prefix: only its prompt is new (PC-12)."""
    sent = as_sent(plan, ground)
    safe = sent or ground.safe
    prompt = summary_prompt(
        plan.asked.form,
        plan.asked.instructions,
        divided_at="" if sent else _divided_at(plan),
        quoted=plan.demanded,
    )
    messages = with_prompt(safe.messages, prompt)
    marks = fork_marks(fork(safe, ()), ground.capabilities)

    def request(said: Sequence[Message]) -> Request:
        return marked_request(msgspec.structs.replace(safe, messages=(*messages, *said)), marks)

    return (yield from _asked("fork", request, ground.betas, plan, ground, parent=safe))


def _by_direct_call(plan: CompactionPlan, ground: Ground) -> Flow:
    """A call of its own: short system prompt, no tools, no thinking, a cap on its output (CP-6)."""
    prompt = summary_prompt(plan.asked.form, plan.asked.instructions, quoted=plan.demanded)
    messages = prepared(ground.view, plan.summarized, ground.settings)
    tried = 0
    while True:
        ladder = messages

        def request(said: Sequence[Message], rung: tuple[Message, ...] = ladder) -> Request:
            return _direct_request((*with_prompt(rung, prompt), *said), ground)

        attempt = yield from _asked("direct", request, (), plan, ground)
        if attempt.failure is None or attempt.failure.kind != "too_long":
            return attempt
        rung = next_rung(messages, attempt.failure.overflow, tried, settings=ground.settings)
        if isinstance(rung, NotCompacting):
            return msgspec.structs.replace(attempt, problem=rung.why)
        messages, tried = rung, tried + 1


def _by_provider(plan: CompactionPlan, ground: Ground) -> Flow:
    """The API's own compaction: it summarizes everything, and its block is sent back as it came (CP-35)."""
    if not (ground.capabilities.native_compaction and ground.model.compacts and plan.asked.form == "full"):
        return Attempt(way="provider", problem="the provider cannot compact this")
    request = compaction_request(ground.safe, plan.asked.instructions)
    betas = (*ground.betas, BETA)
    answer: Answer | Failure = yield AskModel(request, betas, "compact", "provider", ground.safe)
    if isinstance(answer, Failure):
        return Attempt(way="provider", problem=answer.message, failure=answer)
    block = compaction_block(answer)
    if block is None:
        why = f"the provider gave no summary (stop reason {answer.stop_reason})"
        return Attempt(way="provider", problem=why, usage=answer.usage)
    return Attempt(way="provider", text=block.text, usage=answer.usage, block=block.block)


def _by_extract(plan: CompactionPlan, ground: Ground) -> Flow:
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


WAYS: Mapping[Way, Callable[[CompactionPlan, Ground], Flow]] = {
    "notes": _by_notes,
    "fork": _by_fork,
    "direct": _by_direct_call,
    "provider": _by_provider,
    "extract": _by_extract,
}


def _asked(
    way: Way,
    request: Callable[[Sequence[Message]], Request],
    betas: tuple[str, ...],
    plan: CompactionPlan,
    ground: Ground,
    *,
    parent: CacheSafe | None = None,
) -> Flow:
    """One question, and one more where the answer is refused by the gate."""
    said: tuple[Message, ...] = ()
    spent = Usage()
    attempt = Attempt(way=way)
    for _ in range(2):
        answer: Answer | Failure = yield AskModel(
            request(said), betas, "compact", "fork" if way == "fork" else "direct", parent
        )
        if isinstance(answer, Failure):
            problem = "; ".join(filter(None, (attempt.problem, answer.message or answer.kind)))
            return Attempt(way=way, problem=problem, usage=spent, failure=answer)
        spent = _both(spent, answer.usage)
        found = checked(answer, ground.settings)
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


def _let_in(way: Way, text: str, usage: Usage, plan: CompactionPlan, ground: Ground) -> Attempt:
    problem = gate(text, plan, estimate=ground.counts.estimator.text, settings=ground.settings)
    return Attempt(way=way, text="" if problem else text, problem=problem, usage=usage)


def _divided_at(plan: CompactionPlan) -> str:
    if plan.asked.form == "full":
        return ""
    return first_words(plan.summarized if plan.asked.form == "from" else plan.kept)


def _direct_request(messages: tuple[Message, ...], ground: Ground) -> Request:
    named = ground.how.summary_model
    model = (find(named) if named else ground.model) or ground.model
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
