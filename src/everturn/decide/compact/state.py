"""What is remembered from one compaction to the next: failures, calls in vain, refills.

The breakers are values (`breakers.py`); this holds the current ones, tells the world when one opens, and runs
the PostCompact hooks once a new view is in force.
"""

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

import msgspec

from everturn.decide.compact.breakers import WITHOUT_CALLS, CompactionBreaker, RefillBreaker, filled_by
from everturn.decide.compact.context import CompactionContext
from everturn.decide.compact.settings import DEFAULTS, CompactSettings
from everturn.decide.compact.triggers import should_compact
from everturn.decide.compact.values import (
    Compaction,
    CompactionChain,
    CompactionFailed,
    CompactionRequest,
    CompactionSkipped,
)
from everturn.decide.effects import Effect, Emit, HookOutcome, RunHooks
from everturn.decide.events import (
    BreakerClosed,
    BreakerOpened,
    EventContext,
    compaction_done,
    compaction_not_done,
    reason_of,
)
from everturn.decide.notes.document import Notes, cut_notes
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
        self.breaker = CompactionBreaker(limit=settings.failures, calls=settings.calls)
        self.refill = RefillBreaker()
        self._before = self.breaker

    def remember(self, breaker: CompactionBreaker, refill: RefillBreaker) -> None:
        """What an earlier process knew; the limits are those of now. It comes from a file: a count below zero
        would buy calls."""
        settings = self.settings
        self.breaker = msgspec.structs.replace(
            breaker,
            failures=max(0, breaker.failures),
            spent=max(0, breaker.spent),
            limit=settings.failures,
            calls=settings.calls,
        )
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
    ) -> Generator[Effect, Any, CompactionRequest | CompactionSkipped]:
        """Whether this turn must be compacted first. The chain and what fills the context are looked up only
        where they matter: both take a walk through the whole view (OV-3)."""
        is_over = check_thresholds(size, limits, thresholds).above_auto
        follows = chain() if is_over else CompactionChain(source=moment.source)
        is_told = self.refill.stays_off(follows)
        stops = is_told or self.refill.stops(follows, self.settings)
        found = should_compact(
            size,
            limits,
            thresholds=thresholds,
            source=moment.source,
            breaker=self.breaker,
            refill=self.refill,
            chain=follows,
            filled_by=filled_by(metrics(), self.settings) if stops else "",
            settings=self.settings,
        )
        if stops and isinstance(found, CompactionSkipped) and not is_told:
            self.refill = msgspec.structs.replace(self.refill, stopped=follows.follows)
            count = self.refill.in_a_row + 1
            yield Emit(BreakerOpened(moment=moment, breaker="rapid_refill", count=count, detail=found.why))
        return found

    def grant_calls(
        self, asked: CompactionRequest, ground: CompactionContext
    ) -> CompactionContext | CompactionSkipped:
        """The same ground with the calls that are left. An open breaker lets nobody call a model, however
        urgent it is; whoever compacts by hand has all calls that one compaction may make."""
        self._before = self.breaker
        if asked.trigger == "manual":
            return ground
        stops = self.breaker.is_open or self.refill.stops(ground.chain, self.settings)
        calls = 0 if stops else self.breaker.calls_left
        if not calls and not set(ground.how.ways) & set(WITHOUT_CALLS):
            return CompactionSkipped(
                self.breaker.says or "the context fills again as fast as it is compacted"
            )
        return msgspec.structs.replace(ground, calls=calls)

    def asked(self) -> None:
        self.breaker = self.breaker.asked()

    def cancelled(self) -> None:
        """Whoever cancels has looked: no model has failed."""
        self.breaker = self._before

    def succeeded(self, made: Compaction, moment: EventContext) -> Generator[Effect, Any, tuple[str, ...]]:
        """What the PostCompact hooks have to say: it joins the view (CP-18)."""
        was, way = self._before, made.attempts[-1].way if made.attempts else "extract"
        self.breaker = self.breaker.succeeded(way)
        if was.is_open:
            yield Emit(BreakerClosed(moment=moment, breaker="failures"))
        if not was.calls_left and self.breaker.calls_left:
            yield Emit(BreakerClosed(moment=moment, breaker="summary_calls"))
        yield from self._told_of_calls(moment)
        if made.plan is not None:
            is_own = made.plan.asked.trigger == "auto"
            # Whoever compacts by hand has looked: that is no loop.
            self.refill = self.refill.compacted(made.plan.chain, self.settings) if is_own else RefillBreaker()
            yield Emit(compaction_done(made.plan, made, moment, made.plan.metrics))
            summary = "\n".join(text_of(block) for block in made.summary.blocks)
            payload = {"trigger": made.plan.asked.trigger, "compact_summary": summary}
            told: HookOutcome = yield RunHooks("PostCompact", payload)
            return told.context
        return ()

    def failed(self, failed: CompactionFailed, moment: EventContext) -> Generator[Effect, Any, None]:
        if reason_of(failed.attempts) == "cancelled":
            self.cancelled()
        else:
            self.breaker = self.breaker.failed(failed.why)
        if failed.plan is not None:
            yield Emit(compaction_not_done(failed.plan, failed, moment))
        if self.breaker.is_open and not self._before.is_open:
            opened = BreakerOpened(
                moment=moment, breaker="failures", count=self.breaker.failures, detail=self.breaker.says
            )
            yield Emit(opened)
        else:
            yield from self._told_of_calls(moment)

    def _told_of_calls(self, moment: EventContext) -> Generator[Effect, Any, None]:
        breaker = self.breaker
        if self._before.calls_left and not breaker.calls_left:
            opened = BreakerOpened(
                moment=moment, breaker="summary_calls", count=breaker.spent, detail=breaker.says
            )
            yield Emit(opened)


class UsableNotes(NamedTuple):
    """Notes cut to size, and the first record that they do not cover; empty where they are of no use."""

    text: str = ""
    end_before: str = ""


def usable_notes(notes: Notes | None, view: View, counts: TokenCounter, *, path: str) -> UsableNotes:
    settings = NotesSettings()
    kept = select_kept_records(notes, view, counts, settings, session="running")
    if notes is None or not isinstance(kept, KeptRecords):
        return UsableNotes()
    records = view.records
    end_before = records[kept.start].uuid if kept.start < len(records) else ""
    return UsableNotes(cut_notes(notes.body, path, settings), end_before)
