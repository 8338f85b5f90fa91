"""What is remembered from one compaction to the next: failures, calls without a summary, refills.

The breakers are values (`breakers.py`); this holds the current ones, emits an event when one opens or closes,
and runs the PostCompact hooks once a new view holds.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from everturn.decide.compact.breakers import (
    STRATEGIES_WITHOUT_CALLS,
    CompactionBreaker,
    RefillBreaker,
    filled_by,
)
from everturn.decide.compact.context import CompactionContext
from everturn.decide.compact.settings import DEFAULTS, CompactSettings
from everturn.decide.compact.strategies import NO_NOTES
from everturn.decide.compact.triggers import (
    ActivityState,
    Proposal,
    ProposalResponse,
    ProposalState,
    answer_proposal,
    is_internal,
    proposal_threshold,
    propose_compaction,
    should_compact,
)
from everturn.decide.compact.values import (
    Attempt,
    Compaction,
    CompactionChain,
    CompactionFailed,
    CompactionPlan,
    CompactionRequest,
    CompactionSkipped,
    describe_attempts,
)
from everturn.decide.effects import Flow, RunHooks, emit, run_hooks
from everturn.decide.events import (
    BreakerClosed,
    BreakerOpened,
    EventContext,
    NotesRejected,
    ProposalAnswered,
    find_failure_reason,
    make_compaction_done,
    make_compaction_not_done,
)
from everturn.decide.notes.document import NOTES_SUFFIX, Notes, cut_notes
from everturn.decide.notes.kept import KeptRecords, select_kept_records
from everturn.decide.notes.settings import NotesSettings
from everturn.history.blocks import text_of
from everturn.history.log import View
from everturn.measure.accounting import Metrics
from everturn.measure.thresholds import ContextThresholds, ThresholdSettings, check_thresholds
from everturn.measure.tokens import TokenCounter


class CompactionState:
    def __init__(self, settings: CompactSettings = DEFAULTS) -> None:
        self.settings = settings
        self.breaker = CompactionBreaker.from_settings(settings)
        self.refill = RefillBreaker()
        self.proposals = ProposalState()
        self._before = self.breaker
        # The plan of the last compaction that succeeded.
        self._made: CompactionPlan | None = None

    def remember(self, breaker: CompactionBreaker, refill: RefillBreaker) -> None:
        """What an earlier process knew; the limits are those of now."""
        self.breaker = breaker.with_limits(self.settings)
        self.refill = msgspec.structs.replace(refill, in_a_row=max(0, refill.in_a_row))

    def due(
        self,
        size: int,
        limits: ContextThresholds,
        thresholds: ThresholdSettings,
        *,
        moment: EventContext,
        chain: Callable[[], CompactionChain],
        metrics: Callable[[], Metrics],
    ) -> Flow[CompactionRequest | CompactionSkipped]:
        """Whether this turn must be compacted first. The chain and what fills the context are looked up only
        where they matter: both take a walk through the whole view (OV-3)."""
        is_over = check_thresholds(size, limits, thresholds).above_auto
        follows = chain() if is_over else CompactionChain(source=moment.source)
        is_told = self.refill.stays_off(follows, self.settings)
        stops = is_told or self.refill.stops(follows, self.settings)
        found = should_compact(
            size,
            limits,
            thresholds=thresholds,
            source=moment.source,
            now=moment.at,
            breaker=self.breaker,
            refill=self.refill,
            chain=follows,
            filled_by=filled_by(metrics(), self.settings) if stops else "",
            settings=self.settings,
        )
        if stops and isinstance(found, CompactionSkipped) and not is_told:
            self.refill = msgspec.structs.replace(self.refill, stopped=follows.follows)
            count = self.refill.in_a_row + 1
            yield from emit(
                BreakerOpened(moment=moment, breaker="rapid_refill", count=count, detail=found.why)
            )
        return found

    def grant_calls(
        self, asked: CompactionRequest, context: CompactionContext, now: datetime
    ) -> CompactionContext | CompactionSkipped:
        """The same context with the calls that are left. An open breaker lets nobody call a model, however
        urgent it is; a half-open one grants a single call (CP-39). Whoever compacts by hand has all calls
        that one compaction may make."""
        self._before = self.breaker
        if asked.trigger == "manual":
            return context
        calls = 0 if self.refill.stops(context.chain, self.settings) else self._granted(now)
        if not calls and not set(context.strategies) & set(STRATEGIES_WITHOUT_CALLS):
            return CompactionSkipped(
                self.breaker.describe() or "the context fills again as fast as it is compacted"
            )
        return msgspec.structs.replace(context, calls=calls)

    def _granted(self, now: datetime) -> int:
        match self.breaker.state(now):
            case "closed":
                return self.breaker.calls_left
            case "half-open":
                # Noted before the call: a crash in the middle of it gives no second try.
                self.breaker = self.breaker.before_try(now)
                return 1
            case "open":
                return 0

    def propose(
        self,
        size: int,
        limits: ContextThresholds,
        thresholds: ThresholdSettings,
        *,
        moment: EventContext,
        activity: Callable[[], ActivityState],
    ) -> Proposal | None:
        """A compaction ahead of time (CP-24). What the conversation is doing is looked up only above the
        threshold: it takes a walk through the view."""
        is_off = not thresholds.auto_compaction or is_internal(moment.source, self.settings)
        if is_off or self.breaker.is_open or size < proposal_threshold(limits, self.settings):
            return None
        found = propose_compaction(
            size, limits, activity=activity(), before=self.proposals, settings=self.settings
        )
        return found if isinstance(found, Proposal) else None

    def answer(
        self,
        proposal: Proposal,
        response: ProposalResponse,
        size: int,
        limits: ContextThresholds,
        moment: EventContext,
    ) -> Flow[CompactionRequest | CompactionSkipped]:
        found, self.proposals = answer_proposal(
            proposal, response, size=size, limits=limits, settings=self.settings
        )
        yield from emit(ProposalAnswered(moment=moment, response=response, tokens=size, why=proposal.why))
        return found

    def count_call(self, now: datetime) -> None:
        self.breaker = self.breaker.before_call(now)

    def count_reply(self) -> None:
        """A call of the conversation itself was answered: an open breaker waits for some of them."""
        self.breaker = self.breaker.after_reply()

    def cancelled(self) -> None:
        """A cancellation is not a failure of a model."""
        self.breaker = self._before

    def succeeded(self, made: Compaction, moment: EventContext) -> Flow[tuple[str, ...]]:
        """What the PostCompact hooks have to say: it joins the view (CP-18)."""
        self.proposals = ProposalState()
        self._made = made.plan
        was = self._before
        strategy = made.attempts[-1].strategy if made.attempts else "extractive"
        self.breaker = self.breaker.after_success(strategy)
        if was.is_open:
            yield from emit(BreakerClosed(moment=moment, breaker="failures"))
        if not was.calls_left and self.breaker.calls_left:
            yield from emit(BreakerClosed(moment=moment, breaker="summary_calls"))
        yield from self._told_of_calls(moment)
        yield from _told_of_notes(made.attempts, moment)
        if made.plan is not None:
            is_own = made.plan.asked.trigger == "auto" and not made.plan.asked.economics
            # A person who compacts by hand has looked, and a reset for its price was weighed: no loop.
            self.refill = self.refill.compacted(made.plan.chain, self.settings) if is_own else RefillBreaker()
            yield from emit(make_compaction_done(made.plan, made, moment, made.plan.metrics))
            summary = "\n".join(text_of(block) for block in made.summary.blocks)
            payload = {"trigger": made.plan.asked.trigger, "compact_summary": summary}
            told = yield from run_hooks(RunHooks("PostCompact", payload))
            return told.context
        return ()

    def failed(self, failed: CompactionFailed, moment: EventContext) -> Flow[None]:
        if find_failure_reason(failed.attempts) == "cancelled":
            self.cancelled()
        else:
            self.breaker = self.breaker.after_failure(describe_attempts(failed.attempts), moment.at)
        yield from _told_of_notes(failed.attempts, moment)
        if failed.plan is not None:
            yield from emit(make_compaction_not_done(failed.plan, failed, moment))
        if self.breaker.is_open and not self._before.is_open:
            opened = BreakerOpened(
                moment=moment, breaker="failures", count=self.breaker.failures, detail=self.breaker.describe()
            )
            yield from emit(opened)
        else:
            yield from self._told_of_calls(moment)

    def refused(self, why: str, moment: EventContext) -> Flow[None]:
        """The API refused the view that the last compaction had made: that was no success, and counts as a
        failure. Its plan is not known after a restart; then there is no event of it."""
        self.breaker = msgspec.structs.replace(self.breaker, failures=self._before.failures)
        was_open = self.breaker.is_open
        self.breaker = self.breaker.after_failure(why, moment.at)
        if self._made is not None:
            failed = make_compaction_not_done(self._made, CompactionFailed(attempts=(), why=why), moment)
            yield from emit(msgspec.structs.replace(failed, reason="view_refused"))
        if self.breaker.is_open and not was_open:
            count, detail = self.breaker.failures, self.breaker.describe()
            yield from emit(BreakerOpened(moment=moment, breaker="failures", count=count, detail=detail))

    def _told_of_calls(self, moment: EventContext) -> Flow[None]:
        breaker = self.breaker
        if self._before.calls_left and not breaker.calls_left:
            opened = BreakerOpened(
                moment=moment, breaker="summary_calls", count=breaker.spent, detail=breaker.describe()
            )
            yield from emit(opened)


def _told_of_notes(attempts: Sequence[Attempt], moment: EventContext) -> Flow[None]:
    """Notes that there were, and that could not be the summary (SM-7)."""
    for attempt in attempts:
        if attempt.strategy == "notes" and attempt.problem not in ("", NO_NOTES):
            # What follows a colon may quote a pin (TL-3).
            yield from emit(NotesRejected(moment=moment, why=attempt.problem.partition(":")[0]))


class UsableNotes(NamedTuple):
    """Notes cut to size, and the first record that they do not cover; empty where they are of no use."""

    text: str = ""
    end_before: str = ""


def usable_notes(
    notes: Notes | None,
    view: View,
    counts: TokenCounter,
    settings: NotesSettings,
    *,
    transcript: str = "",
) -> UsableNotes:
    """Notes that are cut point to their file, which stands beside the transcript."""
    kept = select_kept_records(notes, view, counts, settings)
    if notes is None or not isinstance(kept, KeptRecords):
        return UsableNotes()
    records = view.records
    end_before = records[kept.start].uuid if kept.start < len(records) else ""
    return UsableNotes(
        cut_notes(notes.body, f"{transcript}{NOTES_SUFFIX}" if transcript else "", settings), end_before
    )
