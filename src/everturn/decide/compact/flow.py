"""A compaction from top to bottom: a chain of ways to a summary that always ends well (CP-6, CP-21, CP-28).

    PreCompact hooks ─ plan ─ way 1 ─ way 2 ─ ... ─ files, SessionStart hooks ─ records
                              │
                              ask ─ too long? drop the oldest rounds, ask again (at most 3 times)
                                  ─ check, format, gate; refused? ask once more on the same way
                                  ─ result over the mark? next way
                                  ─ no call left? on to the ways that need none

Nothing is appended here and nothing is performed: the flow yields effects and ends in a value. Until its
records are in the log, the old view is in force.
"""

from collections.abc import Callable, Generator, Sequence
from datetime import datetime
from typing import Any

import msgspec

from everturn.decide.compact.build_records import build_compaction
from everturn.decide.compact.context import CompactionContext
from everturn.decide.compact.plan import plan_compaction as planned
from everturn.decide.compact.provider import with_block
from everturn.decide.compact.strategies import STRATEGIES
from everturn.decide.compact.unsent import first_unsent
from everturn.decide.compact.values import (
    Attempt,
    Compaction,
    CompactionFailed,
    CompactionPlan,
    CompactionRequest,
    CompactionSkipped,
    Strategy,
)
from everturn.decide.effects import AskModel, Effect, FileRead, HookOutcome, ModelFailure, ReadFiles, RunHooks


class _World(msgspec.Struct, frozen=True):
    """What was read and run for this compaction; asked for once, whichever way succeeds."""

    files: tuple[FileRead, ...]
    context: tuple[str, ...]


def run_compaction(
    asked: CompactionRequest, ground: CompactionContext, *, now: datetime, new_id: Callable[[], str]
) -> Generator[Effect, Any, Compaction | CompactionFailed | CompactionSkipped]:
    hooks: HookOutcome = yield RunHooks("PreCompact", _hook_payload(asked))
    if hooks.blocked:
        return CompactionSkipped(f"a PreCompact hook does not allow it: {hooks.blocked}")
    words = "\n\n".join(part for part in (asked.instructions, *hooks.instructions) if part.strip())
    plan = preview_compaction(msgspec.structs.replace(asked, instructions=words), ground, now)
    if isinstance(plan, CompactionSkipped):
        return plan
    most, left = _max_tokens_after(plan, ground), _calls(ground)
    attempts: list[Attempt] = []
    world: _World | None = None
    for way in plan.ways:
        its_plan = _plan_for(way, plan, ground, now, most)
        attempt, left = yield from _counted(STRATEGIES[way](its_plan, ground), left, ground)
        if attempt.problem:
            attempts.append(attempt)
            if attempt.failure is not None and attempt.failure.kind == "cancelled":
                break
            continue
        world = world or (yield from _look_around(its_plan, ground))
        made = _finished(its_plan, attempt, world, ground, (*attempts, attempt), now, new_id)
        if made.tokens_after >= most and world.files:
            # Files can be read again; a result that is too large is of no use at all.
            world = _without_files(world)
            made = _finished(its_plan, attempt, world, ground, (*attempts, attempt), now, new_id)
        if made.tokens_after < most:
            return made
        over = f"the result has {made.tokens_after:,} tokens, at or over the mark of {most:,}"
        attempts.append(msgspec.structs.replace(attempt, problem=over))
    return CompactionFailed(attempts=tuple(attempts), why=_summed_up(attempts), plan=plan)


def _calls(ground: CompactionContext) -> int:
    return ground.settings.calls if ground.calls is None else ground.calls


def _counted(
    way: Generator[Effect, Any, Attempt], left: int, ground: CompactionContext
) -> Generator[Effect, Any, tuple[Attempt, int]]:
    """A way that may make so many calls; one more gets our own refusal as its answer, with the reason why
    another one was needed. What is left is for the next way."""
    answer: Any = None
    while True:
        try:
            effect = way.send(answer)
        except StopIteration as done:
            return done.value, left
        if isinstance(effect, AskModel) and not left:
            before = f"{answer.message}; " if isinstance(answer, ModelFailure) else ""
            answer = ModelFailure("calls_spent", before + _spent(ground))
            continue
        left -= isinstance(effect, AskModel)
        answer = yield effect


def _spent(ground: CompactionContext) -> str:
    calls = _calls(ground)
    if not calls:
        return "no model is asked: too many compactions of this session have not helped"
    return f"no model is asked again: the calls for this summary ({calls}) are spent"


def preview_compaction(
    asked: CompactionRequest, ground: CompactionContext, now: datetime
) -> CompactionPlan | CompactionSkipped:
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
        ways=ground.how.ways,
        on=now.date(),
        measured=ground.measured,
        transcript=ground.how.transcript,
    )


def _plan_for(
    way: Strategy, plan: CompactionPlan, ground: CompactionContext, now: datetime, most: int
) -> CompactionPlan:
    """Notes stand for what they cover, and what came after it is kept as it is (SM-6). A fork leaves out what
    was not sent yet, where the result would still be small enough."""
    if way not in ("notes", "fork") or plan.asked.form != "full":
        return plan
    at = ground.notes_end_before if way == "notes" else first_unsent(plan, ground)
    found = (
        preview_compaction(msgspec.structs.replace(plan.asked, form="up_to", at=at), ground, now)
        if at
        else plan
    )
    if isinstance(found, CompactionSkipped):
        return plan
    too_much = found.tokens_kept > ground.settings.most_unsent * most or found.expected_after >= most
    return plan if way == "fork" and too_much else found


def _hook_payload(asked: CompactionRequest) -> dict[str, Any]:
    return {"trigger": asked.trigger, "custom_instructions": asked.instructions}


def _max_tokens_after(plan: CompactionPlan, ground: CompactionContext) -> int:
    """A result must be under the mark, or it would trigger again at once; by hand, smaller is enough. What
    did not fit must become smaller even where it was under the mark; and where the usage that was reported
    is far too low, as behind some gateways, smaller than it is by estimate."""
    if plan.asked.is_reactive:
        estimate = plan.fixed + plan.tokens_summarized + plan.tokens_kept
        return min(ground.limits.auto, max(plan.tokens_before, estimate))
    return ground.limits.auto if plan.asked.trigger == "auto" else max(ground.limits.auto, plan.tokens_before)


def _summed_up(attempts: Sequence[Attempt]) -> str:
    return "; ".join(f"{attempt.way}: {attempt.problem}" for attempt in attempts) or "no way is allowed"


def _look_around(plan: CompactionPlan, ground: CompactionContext) -> Generator[Effect, Any, _World]:
    """What comes back beside the summary is read now, as it is on disk, and hooks may add to it (CP-18)."""
    files: tuple[FileRead, ...] = ()
    if plan.restoration.files:
        files = yield ReadFiles(plan.restoration.files, ground.settings.read_characters)
    started: HookOutcome = yield RunHooks("SessionStart", {"source": "compact"})
    return _World(files, started.context)


def _without_files(world: _World) -> _World:
    named = tuple(
        FileRead(each.path, problem=each.problem or "no room was left for it") for each in world.files
    )
    return msgspec.structs.replace(world, files=named)


def _finished(
    plan: CompactionPlan,
    attempt: Attempt,
    world: _World,
    ground: CompactionContext,
    attempts: tuple[Attempt, ...],
    now: datetime,
    new_id: Callable[[], str],
) -> Compaction:
    made = build_compaction(
        plan,
        attempt.text,
        attempt.way,
        world.files,
        world.context,
        transcript=ground.how.transcript,
        now=now,
        new_id=new_id,
        autonomous=ground.how.autonomous,
        attempts=attempts,
        counts=ground.counts,
        settings=ground.settings,
    )
    made = msgspec.structs.replace(made, plan=plan)
    return with_block(made, attempt.block) if attempt.block else made
