"""A compaction from top to bottom: strategies for a summary are tried in order (CP-6, CP-21, CP-28).

    PreCompact hooks ─ plan ─ strategy 1 ─ strategy 2 ─ ... ─ files, SessionStart hooks ─ records
                              │
                              ask ─ too long? drop the oldest rounds, ask again (at most 3 times)
                                  ─ check, format, gate; refused? ask the same strategy once more;
                                    refused again? not the summary model but the conversation's own
                                  ─ result over the threshold? next strategy
                                  ─ no call left? strategies that need none

Nothing is appended here and nothing is performed: the flow yields effects and ends in a value. The old view
holds until its records are in the log.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from everturn.decide.compact.build_records import build_compaction
from everturn.decide.compact.context import CompactionContext
from everturn.decide.compact.exchanges import current_exchanges, read_paths
from everturn.decide.compact.outline import FileOutline
from everturn.decide.compact.plan import plan_compaction
from everturn.decide.compact.provider import with_block
from everturn.decide.compact.receipt import count_pictures
from everturn.decide.compact.strategies import (
    STRATEGIES,
    is_refused_text,
    runnable_strategies,
    with_own_model,
)
from everturn.decide.compact.summary_calls import CallObserver, SummaryCalls
from everturn.decide.compact.summary_fitting import learn_from_overflow, summary_model
from everturn.decide.compact.unanswered import (
    has_open_calls,
    has_unanswered,
    start_of_last_round,
    start_of_paused_turn,
    start_of_unanswered,
)
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
from everturn.decide.effects import FileRead, Flow, ReadFiles, RunHooks, read_files, run_hooks
from everturn.history.rounds import find_cut_points
from everturn.measure.tokens import TokenCount, pad_estimate
from everturn.view.tool_loop import demands_thinking


class _Surroundings(msgspec.Struct, frozen=True):
    """Files that were read and what hooks said; asked for once, whichever strategy succeeds."""

    files: tuple[FileRead, ...]
    context: tuple[str, ...]
    # Files whose reads are kept, as they are now: to know which reads are out of date.
    now: tuple[FileRead, ...] = ()


def run_compaction(
    asked: CompactionRequest,
    context: CompactionContext,
    *,
    now: datetime,
    new_id: Callable[[], str],
    observer: CallObserver | None = None,
) -> Flow[Compaction | CompactionFailed | CompactionSkipped]:
    hooks = yield from run_hooks(RunHooks("PreCompact", _hook_payload(asked)))
    if hooks.blocked:
        return CompactionSkipped(f"a PreCompact hook does not allow it: {hooks.blocked}")
    words = "\n\n".join(part for part in (asked.instructions, *hooks.instructions) if part.strip())
    plan = preview_compaction(msgspec.structs.replace(asked, instructions=words), context, now)
    if isinstance(plan, CompactionSkipped):
        return plan
    most, calls = _max_tokens_after(plan, context), SummaryCalls(context, observer)
    attempts: list[Attempt] = []
    smallest: Compaction | None = None
    surroundings: _Surroundings | None = None
    for strategy in context.strategies:
        own_plan = _plan_for(strategy, plan, context, now, most)
        attempt = yield from STRATEGIES[strategy](own_plan, context, calls)
        if is_refused_text(attempt) and (own := with_own_model(strategy, context)) is not None:
            attempts.append(attempt)
            made_by_own = yield from STRATEGIES[strategy](own_plan, own, calls)
            attempt = msgspec.structs.replace(made_by_own, model=context.model.id)
        if attempt.problem:
            attempts.append(attempt)
            if attempt.failure is not None and attempt.failure.kind == "cancelled":
                break
            context = learn_from_overflow(attempt, context)
            continue
        surroundings = surroundings or (yield from _read_surroundings(own_plan, context))
        own_plan = _without_outdated(own_plan, surroundings, context)
        made = _finished(own_plan, attempt, surroundings, context, (*attempts, attempt), now, new_id)
        if made.tokens_after >= min(most, context.limits.auto) and surroundings.files:
            # Files can be read again, and must not be why the context is full at once.
            surroundings = _without_files(surroundings)
            made = _finished(own_plan, attempt, surroundings, context, (*attempts, attempt), now, new_id)
        if _keeps_too_much(own_plan, made, context, most):
            own_plan = _without_kept(own_plan)
            made = _finished(own_plan, attempt, surroundings, context, (*attempts, attempt), now, new_id)
        if made.tokens_after < most:
            return made
        if smallest is None or made.tokens_after < smallest.tokens_after:
            smallest = made
        limit = "the threshold of" if plan.asked.trigger == "auto" else "what is there now:"
        over = f"the result has {made.tokens_after:,} tokens, at or over {limit} {most:,}"
        attempts.append(msgspec.structs.replace(attempt, problem=over, grows_by=made.tokens_after - most))
    if asked.is_reactive and smallest is not None and _has_room(smallest, plan, context):
        return smallest
    if asked.trigger == "manual" and not asked.is_reactive and attempts:
        grown = [each.grows_by for each in attempts if each.grows_by is not None]
        if len(grown) == len(attempts):
            return _no_smaller(attempts, before=min(most, plan.tokens_before), after=most + min(grown))
    return CompactionFailed(attempts=tuple(attempts), why=_explain(attempts), plan=plan)


def _has_room(made: Compaction, plan: CompactionPlan, context: CompactionContext) -> bool:
    """Whether a request that did not fit does now, though the threshold of a small window is lower still: a
    conversation that compacts again soon is better than one that has ended."""
    room = context.room_for_newest * 3 // 4
    return made.tokens_after < min(room, max(context.size, plan.tokens_before))


def preview_compaction(
    asked: CompactionRequest, context: CompactionContext, now: datetime
) -> CompactionPlan | CompactionSkipped:
    """What would happen: the dry run (CP-29). Its strategies are those that can be tried now. Nothing, where
    the smallest summary that is accepted would enlarge the context: then no call is paid for one."""
    plan = _preview(asked, context, now)
    if isinstance(plan, CompactionSkipped) or asked.trigger != "manual" or asked.is_reactive:
        return plan
    least, before = _smallest(plan, context, now).tokens_after, _max_tokens_after(plan, context)
    if least < before:
        return plan
    # The size that was just shown; the other may be an estimate with padding.
    shown = min(before, plan.tokens_before)
    return CompactionSkipped(
        f"A compaction would enlarge the context, from {shown:,} to at least {least:,} tokens: what would "
        "be summarized is smaller than a summary."
    )


def _no_smaller(attempts: Sequence[Attempt], *, before: int, after: int) -> CompactionSkipped:
    """Asked for by hand where nothing can be gained, for example right after a compaction: nothing has
    failed, so it does not count as a failure (CP-22, CP-27)."""
    why = (
        f"A compaction would not make the context smaller: it has {before:,} tokens, and would have "
        f"{after:,} with a summary. Nothing was changed."
    )
    return CompactionSkipped(why, tuple(attempts))


def _smallest(plan: CompactionPlan, context: CompactionContext, now: datetime) -> Compaction:
    """The result with as few words as the gate accepts, without files and hooks."""
    words = "word " * context.settings.least_words
    nothing = _Surroundings((), ())
    attempt = Attempt(strategy="extractive", text=words)
    bare = _without_kept(plan)
    return _finished(bare, attempt, nothing, context, (), now, lambda: "", is_scored=False)


def _preview(
    asked: CompactionRequest, context: CompactionContext, now: datetime
) -> CompactionPlan | CompactionSkipped:
    """What nobody has answered yet is not summarized but kept, wherever it fits into the window (CP-37); and
    where prices decide, the whole last round, if less than now remains with it (EC-6)."""
    if asked.form == "from" and has_unanswered(context.view.records):
        # What is kept stands before such a summary, and what has to be answered must stand behind it.
        return CompactionSkipped(
            "A compaction from a message on would summarize the newest message, which has no answer yet. "
            "Send it first, or compact everything, or up to a message: both keep it."
        )
    if asked.form != "full" or asked.keeps_nothing:
        return _planned(asked, context, now)
    if last := _start_of_kept_round(context):
        kept = _planned(_up_to(asked, context.view.records[last].uuid), context, now)
        if (
            isinstance(kept, CompactionPlan)
            and _least_after(kept, context) < context.size
            and _fits(kept, context)
        ):
            return _with_newest(kept, context)
    start = _start_of_newest(context)
    if not start:
        if has_unanswered(context.view.records) and _fits_as_it_is(asked, context):
            return CompactionSkipped(
                f"There is nothing to summarize: all of the {context.size:,} tokens are the newest message, "
                "which is kept."
            )
        return _keep_last_messages(asked, start, context, now) or _planned(asked, context, now)
    kept = _planned(_up_to(asked, context.view.records[start].uuid), context, now)
    if isinstance(kept, CompactionSkipped):
        # Nothing but that message could be summarized, and if it fits there is no need to.
        if _fits_as_it_is(asked, context):
            return kept
        return _keep_last_messages(asked, start, context, now) or _planned(asked, context, now)
    least = _least_after(kept, context)
    # By hand and between a call and its result, a summary that is shorter than expected may still help.
    may_be_short = asked.trigger == "manual" and has_open_calls(kept.kept)
    if _fits_as_it_is(asked, context) and least >= context.size and not may_be_short:
        return CompactionSkipped(
            f"A compaction would enlarge the context, from {context.size:,} to about {least:,} tokens: "
            "nearly all of it is the newest message, which is kept."
        )
    if _fits(kept, context):
        return _with_newest(kept, context)
    return _keep_last_messages(asked, start, context, now) or _planned(asked, context, now)


def _start_of_newest(context: CompactionContext) -> int:
    """Where what has no answer yet begins. The API takes a paused reply back only in a turn that begins with
    thinking, where it demands thinking at all: then that turn is kept from its question on."""
    records = context.view.records
    thinking = (context.captured.parameters.thinking or {}).get("type", "")
    turn = start_of_paused_turn(records) if demands_thinking(thinking) else 0
    return turn or start_of_unanswered(records)


def _keep_last_messages(
    asked: CompactionRequest, start: int, context: CompactionContext, now: datetime
) -> CompactionPlan | None:
    """As many of the last messages as fit, where not all do that have no answer yet. Those before them come
    along as text, as far as there is room."""
    records = context.view.records
    for cut in find_cut_points(records):
        if start < cut < len(records) and has_unanswered(records[cut:]):
            later = msgspec.structs.replace(_up_to(asked, records[cut].uuid), carries_rest=True)
            kept = _planned(later, context, now)
            if isinstance(kept, CompactionPlan) and _fits(kept, context):
                return _with_newest(kept, context)
    return None


def _with_newest(kept: CompactionPlan, context: CompactionContext) -> CompactionPlan:
    strategies = runnable_strategies("full", context)
    return msgspec.structs.replace(kept, keeps_newest=True, strategies=strategies)


def _start_of_kept_round(context: CompactionContext) -> int:
    """Where the last round begins, if prices decide and it is small enough to be kept whole; otherwise 0."""
    if context.keep is None:
        return 0
    records = context.view.records
    unanswered = start_of_unanswered(records)
    last = start_of_last_round(records)
    if last <= 0 or (unanswered and last >= unanswered):
        return 0
    tokens = sum((context.counts.of(each).whole for each in records[last:]), TokenCount())
    return last if tokens.padded <= context.keep.last_round else 0


def _up_to(asked: CompactionRequest, at: str) -> CompactionRequest:
    return msgspec.structs.replace(asked, form="up_to", at=at)


def _whole(asked: CompactionRequest) -> CompactionRequest:
    return msgspec.structs.replace(asked, form="full", at="")


def _fits_as_it_is(asked: CompactionRequest, context: CompactionContext) -> bool:
    return not asked.is_reactive and context.size < context.room_for_newest


def _fits(plan: CompactionPlan, context: CompactionContext) -> bool:
    """Whether a request with this result has room in the window. If a request did not fit, our estimates
    were too low: then they are taken in proportion. What would come along as text anyway is not larger as it
    was recorded."""
    if not plan.asked.is_reactive:
        return _least_after(plan, context) < context.room_for_newest
    if plan.tokens_kept <= context.settings.max_unanswered(context.limits.auto):
        return True
    estimate = plan.fixed + plan.tokens_summarized + plan.tokens_kept
    scale = max(1.0, context.model.window / max(1, estimate))
    return _least_after(plan, context) * scale < context.limits.auto


def _least_after(plan: CompactionPlan, context: CompactionContext) -> int:
    """What is kept and a summary: restored files give way where there is no room for them."""
    return plan.fixed + plan.tokens_kept + pad_estimate(context.settings.expected_summary)


def _planned(
    asked: CompactionRequest, context: CompactionContext, now: datetime
) -> CompactionPlan | CompactionSkipped:
    strategies = runnable_strategies(asked.form, context)
    payer = summary_model(context) if strategies[:1] == ("direct",) else None
    return plan_compaction(asked, context, strategies=strategies, payer=payer, on=now.date())


def _plan_for(
    strategy: Strategy, plan: CompactionPlan, context: CompactionContext, now: datetime, most: int
) -> CompactionPlan:
    """Where this strategy divides the view, if the user did not say where."""
    if plan.asked.keeps_nothing or (plan.asked.form != "full" and not plan.keeps_newest):
        return plan
    match strategy:
        case "notes":
            # They replace what they cover, and what came after it is kept as it is (SM-6).
            return _divided(plan, context.notes_end_before, context, now) or plan
        case "fork":
            # What was not sent yet is left out, where the result is still small enough.
            found = _divided(plan, first_unsent(plan, context), context, now)
            return found if found and not _is_too_much(found, context, most) else plan
        case "provider" if plan.keeps_newest:
            # It can only summarize a conversation that ends with a message of the user: the last request.
            found = _divided(plan, first_unsent(plan, context, least_share=0.0), context, now)
            if found is None and has_open_calls(plan.kept):
                # Its summary would replace a call whose result is yet to come: another strategy keeps it.
                return plan
            whole = _planned(_whole(plan.asked), context, now)
            if isinstance(whole, CompactionSkipped):
                return found or plan
            # Another strategy keeps what was said last as it was recorded.
            has_other = strategy != context.strategies[-1] and not plan.asked.is_reactive
            return found or (plan if has_other and _cuts_newest(whole, plan) else whole)
        case _:
            return plan


def _cuts_newest(whole: CompactionPlan, plan: CompactionPlan) -> bool:
    """Whether a compaction of everything carries less of the newest message than this plan, which keeps
    it."""
    question = whole.restoration.unanswered
    blocks = (block for record in plan.kept for block in record.blocks)
    return question is None or question.is_cut or any(map(count_pictures, blocks))


def _divided(
    plan: CompactionPlan, at: str, context: CompactionContext, now: datetime
) -> CompactionPlan | None:
    """None if that is not possible, or if something would be summarized that has no answer yet."""
    found = _planned(_up_to(plan.asked, at), context, now) if at else None
    if found is None or isinstance(found, CompactionSkipped):
        return None
    return None if plan.keeps_newest and len(found.kept) < len(plan.kept) else found


def _is_too_much(plan: CompactionPlan, context: CompactionContext, most: int) -> bool:
    return plan.tokens_kept > context.settings.most_unsent * most or plan.expected_after >= most


def _hook_payload(asked: CompactionRequest) -> dict[str, Any]:
    return {"trigger": asked.trigger, "custom_instructions": asked.instructions}


def _max_tokens_after(plan: CompactionPlan, context: CompactionContext) -> int:
    """A result must be under the threshold, or it would trigger again at once; by hand, it must be smaller
    than what was there. What did not fit must become smaller even where it was under the threshold; and where
    the usage that was reported is far too low, as behind some gateways, smaller than it is by estimate."""
    before = max(context.size, plan.fixed + plan.tokens_summarized + plan.tokens_kept)
    if plan.asked.is_reactive:
        return min(context.limits.auto, before)
    if plan.asked.trigger == "manual":
        return before
    # The newest message is worth a context that is full again after its answer (CP-37).
    is_over = plan.keeps_newest and _least_after(plan, context) >= context.limits.auto
    return context.room_for_newest if is_over else context.limits.auto


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


def _read_surroundings(plan: CompactionPlan, context: CompactionContext) -> Flow[_Surroundings]:
    """What comes back beside the summary is read now, as it is on disk, and hooks may add to it (CP-18)."""
    wanted = (*plan.restoration.files, *read_paths(plan.restoration.exchanges, context.tools))
    read: tuple[FileRead, ...] = ()
    if wanted:
        read = yield from read_files(ReadFiles(wanted, context.settings.read_characters))
    started = yield from run_hooks(RunHooks("SessionStart", {"source": "compact"}))
    first = len(plan.restoration.files)
    return _Surroundings(read[:first], started.context, now=read[first:])


def _without_files(surroundings: _Surroundings) -> _Surroundings:
    named = tuple(
        FileRead(each.path, problem=each.problem or "it did not fit into the context")
        for each in surroundings.files
    )
    return msgspec.structs.replace(surroundings, files=named)


def _without_outdated(
    plan: CompactionPlan, surroundings: _Surroundings, context: CompactionContext
) -> CompactionPlan:
    """A file that somebody else has changed since must not come back as it once was (cc#92949)."""
    current = current_exchanges(plan.restoration.exchanges, surroundings.now, context.tools)
    return msgspec.structs.replace(
        plan, restoration=msgspec.structs.replace(plan.restoration, exchanges=current)
    )


def _keeps_too_much(plan: CompactionPlan, made: Compaction, context: CompactionContext, most: int) -> bool:
    """Whether what prices keep is why the context is full at once, or hardly smaller than before."""
    if not (plan.restoration.exchanges or plan.restoration.outline.lines):
        return False
    return made.tokens_after >= min(most, context.limits.auto, context.size * 9 // 10)


def _without_kept(plan: CompactionPlan) -> CompactionPlan:
    """Without what prices keep."""
    bare = msgspec.structs.replace(plan.restoration, exchanges=(), outline=FileOutline())
    return msgspec.structs.replace(plan, restoration=bare)


def _finished(
    plan: CompactionPlan,
    attempt: Attempt,
    surroundings: _Surroundings,
    context: CompactionContext,
    attempts: tuple[Attempt, ...],
    now: datetime,
    new_id: Callable[[], str],
    *,
    is_scored: bool = True,
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
        is_scored=is_scored,
    )
    made = msgspec.structs.replace(made, plan=plan)
    return with_block(made, attempt.block) if attempt.block else made
