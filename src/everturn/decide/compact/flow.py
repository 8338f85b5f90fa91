"""A compaction from top to bottom: strategies for a summary are tried in order (CP-6, CP-21, CP-28).

    PreCompact hooks ─ plan ─ strategy 1 ─ strategy 2 ─ ... ─ files, SessionStart hooks ─ records
                              │
                              ask ─ too long? drop the oldest rounds, ask again (at most 3 times)
                                  ─ check, format, gate; refused? ask the same strategy once more
                                  ─ result over the threshold? next strategy
                                  ─ no call left? strategies that need none

Nothing is appended here and nothing is performed: the flow yields effects and ends in a value. The old view
holds until its records are in the log.
"""

from collections.abc import Callable, Generator, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from everturn.decide.compact.build_records import build_compaction
from everturn.decide.compact.context import CompactionContext
from everturn.decide.compact.plan import plan_compaction as planned
from everturn.decide.compact.provider import with_block
from everturn.decide.compact.strategies import STRATEGIES, runnable_strategies, summary_model
from everturn.decide.compact.unsent import first_unsent
from everturn.decide.compact.values import (
    Attempt,
    Compaction,
    CompactionFailed,
    CompactionPlan,
    CompactionRequest,
    CompactionSkipped,
    Strategy,
    describe_attempts,
)
from everturn.decide.effects import AskModel, Effect, FileRead, HookOutcome, ModelFailure, ReadFiles, RunHooks


class _Surroundings(msgspec.Struct, frozen=True):
    """Files that were read and what hooks said; asked for once, whichever strategy succeeds."""

    files: tuple[FileRead, ...]
    context: tuple[str, ...]


def run_compaction(
    asked: CompactionRequest, context: CompactionContext, *, now: datetime, new_id: Callable[[], str]
) -> Generator[Effect, Any, Compaction | CompactionFailed | CompactionSkipped]:
    hooks: HookOutcome = yield RunHooks("PreCompact", _hook_payload(asked))
    if hooks.blocked:
        return CompactionSkipped(f"a PreCompact hook does not allow it: {hooks.blocked}")
    words = "\n\n".join(part for part in (asked.instructions, *hooks.instructions) if part.strip())
    plan = preview_compaction(msgspec.structs.replace(asked, instructions=words), context, now)
    if isinstance(plan, CompactionSkipped):
        return plan
    most, left = _max_tokens_after(plan, context), _calls(context)
    attempts: list[Attempt] = []
    surroundings: _Surroundings | None = None
    for strategy in context.strategies:
        own_plan = _plan_for(strategy, plan, context, now, most)
        attempt, left = yield from _counted(STRATEGIES[strategy](own_plan, context), left, context)
        if attempt.problem:
            attempts.append(attempt)
            if attempt.failure is not None and attempt.failure.kind == "cancelled":
                break
            continue
        surroundings = surroundings or (yield from _read_surroundings(own_plan, context))
        made = _finished(own_plan, attempt, surroundings, context, (*attempts, attempt), now, new_id)
        if made.tokens_after >= most and surroundings.files:
            # Files can be read again; a result that is too large is of no use at all.
            surroundings = _without_files(surroundings)
            made = _finished(own_plan, attempt, surroundings, context, (*attempts, attempt), now, new_id)
        if made.tokens_after < most:
            return made
        over = f"the result has {made.tokens_after:,} tokens, at or over the threshold of {most:,}"
        attempts.append(msgspec.structs.replace(attempt, problem=over))
    return CompactionFailed(attempts=tuple(attempts), why=_explain(attempts), plan=plan)


def _calls(context: CompactionContext) -> int:
    return context.settings.calls if context.calls is None else context.calls


def _counted(
    attempt: Generator[Effect, Any, Attempt], left: int, context: CompactionContext
) -> Generator[Effect, Any, tuple[Attempt, int]]:
    """An attempt that may make so many calls; one more gets our own refusal as its answer, with the reason
    why another one was needed. What is left is for the next strategy."""
    answer: Any = None
    while True:
        try:
            effect = attempt.send(answer)
        except StopIteration as done:
            return done.value, left
        # A shorter request after "too long" has a limit of its own (`overflow_retry.py`).
        is_counted = isinstance(effect, AskModel) and not effect.is_overflow_retry
        if is_counted and not left:
            before = f"{answer.message}; " if isinstance(answer, ModelFailure) else ""
            answer = ModelFailure("calls_spent", before + _spent(context))
            continue
        left -= is_counted
        answer = yield effect


def _spent(context: CompactionContext) -> str:
    calls = _calls(context)
    if not calls:
        return "no model is asked: too many compactions or summaries of this session have failed"
    return f"no model is asked again: the calls for this summary ({calls}) are spent"


def preview_compaction(
    asked: CompactionRequest, context: CompactionContext, now: datetime
) -> CompactionPlan | CompactionSkipped:
    """What would happen: the dry run (CP-29). Its strategies are those that can be tried now."""
    strategies = runnable_strategies(asked.form, context)
    return planned(
        context.view,
        asked,
        size=context.size,
        limits=context.limits,
        settings=context.settings,
        model=context.model,
        counts=context.counts,
        chain=context.chain,
        strategies=strategies,
        payer=summary_model(context) if strategies[:1] == ("direct",) else context.model,
        on=now.date(),
        measured=context.measured,
        transcript=context.transcript,
        tools=context.tools,
    )


def _plan_for(
    strategy: Strategy, plan: CompactionPlan, context: CompactionContext, now: datetime, most: int
) -> CompactionPlan:
    """Notes replace what they cover, and what came after it is kept as it is (SM-6). A fork leaves out what
    was not sent yet, where the result is still small enough."""
    if strategy not in ("notes", "fork") or plan.asked.form != "full":
        return plan
    at = context.notes_end_before if strategy == "notes" else first_unsent(plan, context)
    found = (
        preview_compaction(msgspec.structs.replace(plan.asked, form="up_to", at=at), context, now)
        if at
        else plan
    )
    if isinstance(found, CompactionSkipped):
        return plan
    too_much = found.tokens_kept > context.settings.most_unsent * most or found.expected_after >= most
    return plan if strategy == "fork" and too_much else found


def _hook_payload(asked: CompactionRequest) -> dict[str, Any]:
    return {"trigger": asked.trigger, "custom_instructions": asked.instructions}


def _max_tokens_after(plan: CompactionPlan, context: CompactionContext) -> int:
    """A result must be under the threshold, or it would trigger again at once; by hand, smaller is enough.
    What did not fit must become smaller even where it was under the threshold; and where the usage that was
    reported is far too low, as behind some gateways, smaller than it is by estimate."""
    if plan.asked.is_reactive:
        estimate = plan.fixed + plan.tokens_summarized + plan.tokens_kept
        return min(context.limits.auto, max(plan.tokens_before, estimate))
    return (
        context.limits.auto if plan.asked.trigger == "auto" else max(context.limits.auto, plan.tokens_before)
    )


_ADVICE: Final = (
    "Nothing was changed. You can compact with another strategy (`extractive` needs no model), compact a "
    "part of the conversation (`everturn compact --up-to`), rewind to an earlier message, or start again "
    "with /clear."
)


def _explain(attempts: Sequence[Attempt]) -> str:
    """What failed, and what the user can do about it; whoever cancelled needs no advice."""
    reasons = describe_attempts(attempts)
    is_cancelled = any(each.failure is not None and each.failure.kind == "cancelled" for each in attempts)
    return reasons if is_cancelled else f"{reasons}. {_ADVICE}"


def _read_surroundings(
    plan: CompactionPlan, context: CompactionContext
) -> Generator[Effect, Any, _Surroundings]:
    """What comes back beside the summary is read now, as it is on disk, and hooks may add to it (CP-18)."""
    files: tuple[FileRead, ...] = ()
    if plan.restoration.files:
        files = yield ReadFiles(plan.restoration.files, context.settings.read_characters)
    started: HookOutcome = yield RunHooks("SessionStart", {"source": "compact"})
    return _Surroundings(files, started.context)


def _without_files(surroundings: _Surroundings) -> _Surroundings:
    named = tuple(
        FileRead(each.path, problem=each.problem or "it did not fit into the context")
        for each in surroundings.files
    )
    return msgspec.structs.replace(surroundings, files=named)


def _finished(
    plan: CompactionPlan,
    attempt: Attempt,
    surroundings: _Surroundings,
    context: CompactionContext,
    attempts: tuple[Attempt, ...],
    now: datetime,
    new_id: Callable[[], str],
) -> Compaction:
    made = build_compaction(
        plan,
        attempt.text,
        attempt.strategy,
        surroundings.files,
        surroundings.context,
        transcript=context.transcript,
        now=now,
        new_id=new_id,
        autonomous=context.settings.autonomous,
        attempts=attempts,
        counts=context.counts,
        settings=context.settings,
    )
    made = msgspec.structs.replace(made, plan=plan)
    return with_block(made, attempt.block) if attempt.block else made
