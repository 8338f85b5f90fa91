"""A compaction from top to bottom: a chain of ways to a summary that always ends well (CP-6, CP-21, CP-28).

    PreCompact hooks ─ plan ─ way 1 ─ way 2 ─ ... ─ files, SessionStart hooks ─ records
                              │
                              ask ─ too long? drop the oldest rounds, ask again (at most 3 times)
                                  ─ check, format, gate; refused? ask once more on the same way
                                  ─ result over the mark? next way

Nothing is appended here and nothing is performed: the flow yields effects and ends in a value. Until its
records are in the log, the old view is in force.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from everturn.decide.compact.answer import checked
from everturn.decide.compact.divide import first_words
from everturn.decide.compact.finish import finish
from everturn.decide.compact.gate import gate
from everturn.decide.compact.ladder import next_rung
from everturn.decide.compact.plan import plan as planned
from everturn.decide.compact.prepare import prepared, with_prompt
from everturn.decide.compact.provider import BETA, compaction_block, compaction_request, with_block
from everturn.decide.compact.settings import CompactSettings
from everturn.decide.compact.values import (
    Asked,
    Attempt,
    Chain,
    Compaction,
    CompactionFailed,
    CompactionPlan,
    NotCompacting,
    Way,
)
from everturn.decide.effects import (
    Answer,
    AskModel,
    Effect,
    Failure,
    FileRead,
    HookOutcome,
    ReadFiles,
    RunHooks,
)
from everturn.decide.summary.settings import SummarySettings
from everturn.decide.summary.summarize import summarize
from everturn.history.blocks import Block, text_block
from everturn.history.log import View
from everturn.history.messages import Message
from everturn.history.records import Usage
from everturn.measure.capabilities import Capabilities
from everturn.measure.models import Model
from everturn.measure.thresholds import Limits
from everturn.measure.tokens import Counts
from everturn.view.forks import CacheSafe
from everturn.view.fragments.summarizer import SUMMARIZER
from everturn.view.fragments.summary_prompt import repair_prompt, summary_prompt
from everturn.view.requests import marked_request
from everturn.wire.anthropic import Request

Flow = Generator[Effect, Any, Attempt]


class Ground(msgspec.Struct, frozen=True, kw_only=True):
    """What a compaction stands on: the conversation as it is, and how it is to be treated."""

    view: View
    size: int
    limits: Limits
    model: Model
    # Another model for the direct way; empty for the same one.
    summary_model: str = ""
    capabilities: Capabilities
    counts: Counts
    chain: Chain
    # The conversation as its next request would send it, with the markers of the last one.
    safe: CacheSafe
    ways: tuple[Way, ...]
    settings: CompactSettings
    summary: SummarySettings
    # The session's own notes, cut to size, and the first record that they do not cover; empty where there
    # are none that can be used.
    notes: str = ""
    notes_end_before: str = ""
    # Named to the model as the place of exact details.
    transcript: str = ""
    autonomous: bool = False


class _World(msgspec.Struct, frozen=True):
    """What was read and run for this compaction; asked for once, whichever way succeeds."""

    files: tuple[FileRead, ...]
    context: tuple[str, ...]


def compaction(
    asked: Asked, ground: Ground, *, now: datetime, new_id: Callable[[], str]
) -> Generator[Effect, Any, Compaction | CompactionFailed | NotCompacting]:
    hooks: HookOutcome = yield RunHooks("PreCompact", _hook_payload(asked))
    if hooks.blocked:
        return NotCompacting(f"a PreCompact hook does not allow it: {hooks.blocked}")
    words = "\n\n".join(part for part in (asked.instructions, *hooks.instructions) if part.strip())
    plan = plan_of(msgspec.structs.replace(asked, instructions=words), ground, now)
    if isinstance(plan, NotCompacting):
        return plan
    attempts: list[Attempt] = []
    world: _World | None = None
    for way in plan.ways:
        its_plan = _plan_for(way, plan, ground, now)
        attempt: Attempt = yield from _attempt(way, its_plan, ground)
        if attempt.problem:
            attempts.append(attempt)
            continue
        world = world or (yield from _look_around(its_plan, ground))
        made = _finished(its_plan, attempt, world, ground, (*attempts, attempt), now, new_id)
        if made.tokens_after < _most(plan, ground):
            return made
        over = f"the result has {made.tokens_after:,} tokens, at or over the mark of {_most(plan, ground):,}"
        attempts.append(msgspec.structs.replace(attempt, problem=over))
    return CompactionFailed(attempts=tuple(attempts), why=_summed_up(attempts))


def plan_of(asked: Asked, ground: Ground, now: datetime) -> CompactionPlan | NotCompacting:
    """What would happen: the dry run (CP-29)."""
    return planned(
        ground.view,
        asked,
        size=ground.size,
        limits=ground.limits,
        settings=ground.settings,
        model=ground.model,
        counts=ground.counts,
        chain=ground.chain,
        ways=ground.ways,
        on=now.date(),
    )


def _plan_for(way: Way, plan: CompactionPlan, ground: Ground, now: datetime) -> CompactionPlan:
    """Notes stand for what they cover; what came after it is kept as it is (SM-6)."""
    if way != "notes" or not ground.notes_end_before or plan.asked.form != "full":
        return plan
    asked = msgspec.structs.replace(plan.asked, form="up_to", at=ground.notes_end_before)
    found = plan_of(asked, ground, now)
    return plan if isinstance(found, NotCompacting) else found


def _hook_payload(asked: Asked) -> dict[str, Any]:
    return {"trigger": asked.trigger, "custom_instructions": asked.instructions}


def _most(plan: CompactionPlan, ground: Ground) -> int:
    """A result must be under the mark, or it would trigger again at once; by hand, smaller is enough."""
    return ground.limits.auto if plan.asked.trigger == "auto" else max(ground.limits.auto, plan.tokens_before)


def _summed_up(attempts: Sequence[Attempt]) -> str:
    return "; ".join(f"{attempt.way}: {attempt.problem}" for attempt in attempts) or "no way is allowed"


def _look_around(plan: CompactionPlan, ground: Ground) -> Generator[Effect, Any, _World]:
    """What comes back beside the summary is read now, as it is on disk, and hooks may add to it (CP-18)."""
    files: tuple[FileRead, ...] = ()
    if plan.restoring.files:
        files = yield ReadFiles(plan.restoring.files, ground.settings.read_characters)
    started: HookOutcome = yield RunHooks("SessionStart", {"source": "compact"})
    return _World(files, started.context)


def _finished(
    plan: CompactionPlan,
    attempt: Attempt,
    world: _World,
    ground: Ground,
    attempts: tuple[Attempt, ...],
    now: datetime,
    new_id: Callable[[], str],
) -> Compaction:
    made = finish(
        plan,
        attempt.text,
        attempt.way,
        world.files,
        world.context,
        transcript=ground.transcript,
        now=now,
        new_id=new_id,
        autonomous=ground.autonomous,
        attempts=attempts,
        counts=ground.counts,
        settings=ground.settings,
    )
    return with_block(made, attempt.block) if attempt.block else made


# ── the ways ─────────────────────────────────────────────────────────────────────────────────────


def _attempt(way: Way, plan: CompactionPlan, ground: Ground) -> Flow:
    return _WAYS[way](plan, ground)


def _by_notes(plan: CompactionPlan, ground: Ground) -> Flow:
    """No call at all: the notes were kept for this."""
    if not ground.notes:
        return Attempt(way="notes", problem="there are no notes that could be used")
    return _let_in("notes", ground.notes, Usage(), plan, ground)
    yield  # a flow like the others, though it asks for nothing


def _by_fork(plan: CompactionPlan, ground: Ground) -> Flow:
    """A call that shares the conversation's cached prefix: only its prompt is new (PC-12)."""
    safe = ground.safe
    quoted = plan.demanded
    prompt = summary_prompt(
        plan.asked.form, plan.asked.instructions, divided_at=_divided_at(plan), quoted=quoted
    )
    messages = with_prompt(safe.messages, prompt)

    def request(said: Sequence[Message]) -> Request:
        return marked_request(msgspec.structs.replace(safe, messages=(*messages, *said)), safe.marks)

    return (yield from _asked("fork", request, safe.parameters.betas, plan, ground))


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
    answer: Answer | Failure = yield AskModel(
        request, (*ground.safe.parameters.betas, BETA), "compact", "provider"
    )
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
        settings=ground.summary,
    )
    problem = gate(made.text, plan, estimate=ground.counts.estimator.text, settings=ground.settings)
    return Attempt(way="extract", text="" if problem else made.text, problem=problem)
    yield  # a flow like the others, though it asks for nothing


_WAYS: Mapping[Way, Callable[[CompactionPlan, Ground], Flow]] = {
    "notes": _by_notes,
    "fork": _by_fork,
    "direct": _by_direct_call,
    "provider": _by_provider,
    "extract": _by_extract,
}


# ── asking ───────────────────────────────────────────────────────────────────────────────────────


def _asked(
    way: Way,
    request: Callable[[Sequence[Message]], Request],
    betas: tuple[str, ...],
    plan: CompactionPlan,
    ground: Ground,
) -> Flow:
    """One question, and one more where the answer is refused by the gate."""
    said: tuple[Message, ...] = ()
    spent = Usage()
    attempt = Attempt(way=way)
    for _ in range(2):
        answer: Answer | Failure = yield AskModel(
            request(said), betas, "compact", "fork" if way == "fork" else "direct"
        )
        if isinstance(answer, Failure):
            return Attempt(way=way, problem=answer.message or answer.kind, usage=spent, failure=answer)
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
    words = tuple(block for block in blocks if block.kind == "text")
    told = Message("user", (text_block(repair_prompt(problem)),))
    return (Message("assistant", words), told) if words else (told,)


def _let_in(way: Way, text: str, usage: Usage, plan: CompactionPlan, ground: Ground) -> Attempt:
    problem = gate(text, plan, estimate=ground.counts.estimator.text, settings=ground.settings)
    return Attempt(way=way, text="" if problem else text, problem=problem, usage=usage)


def _divided_at(plan: CompactionPlan) -> str:
    if plan.asked.form == "full":
        return ""
    return first_words(plan.summarized if plan.asked.form == "from" else plan.kept)


def _direct_request(messages: tuple[Message, ...], ground: Ground) -> Request:
    return Request(
        model=ground.summary_model or ground.model.id,
        messages=messages,
        system=(text_block(SUMMARIZER),),
        settings={"max_tokens": min(ground.settings.max_output, ground.model.max_output)},
    )


def _both(one: Usage, other: Usage) -> Usage:
    return Usage(
        one.input_tokens + other.input_tokens,
        one.cache_creation_input_tokens + other.cache_creation_input_tokens,
        one.cache_read_input_tokens + other.cache_read_input_tokens,
        one.output_tokens + other.output_tokens,
    )
