"""What is remembered from one compaction to the next: failures, refills, and whether to try again.

The breakers are values (`breakers.py`); this holds the current ones, tells the world when one opens, and runs
the PostCompact hooks once a new view is in force.
"""

from collections.abc import Callable, Generator
from typing import Any, Final, NamedTuple

import msgspec

from everturn.decide.compact.breakers import Breaker, Refill, filled_by
from everturn.decide.compact.ground import Ground
from everturn.decide.compact.settings import DEFAULTS, CompactSettings
from everturn.decide.compact.values import Asked, Chain, Compaction, CompactionFailed, NotCompacting, Way
from everturn.decide.compact.when import should_compact
from everturn.decide.effects import Effect, Emit, HookOutcome, RunHooks
from everturn.decide.events import (
    BreakerClosed,
    BreakerOpened,
    Moment,
    compaction_done,
    compaction_not_done,
    reason_of,
)
from everturn.decide.notes.document import Notes, cut_notes
from everturn.decide.notes.kept import Kept, kept_behind
from everturn.decide.notes.settings import NotesSettings
from everturn.history.blocks import text_of
from everturn.history.log import View
from everturn.measure.accounting import Metrics
from everturn.measure.thresholds import Limits, Thresholds, levels
from everturn.measure.tokens import Counts

# These spend nothing: they are tried even where a breaker is open.
WITHOUT_CALLS: Final[tuple[Way, ...]] = ("notes", "extract")


class Keeper:
    def __init__(self, settings: CompactSettings = DEFAULTS) -> None:
        self.settings = settings
        self.breaker = Breaker(limit=settings.failures)
        self.refill = Refill()
        # The boundary behind which the context was last found to refill too fast: that is told once.
        self._told = ""

    def due(
        self,
        size: int,
        limits: Limits,
        thresholds: Thresholds,
        *,
        moment: Moment,
        chain: Callable[[], Chain],
        metrics: Callable[[], Metrics],
    ) -> Generator[Effect, Any, Asked | NotCompacting]:
        """Whether this turn must be compacted first. The chain and what fills the context are looked up only
        where they matter: both take a walk through the whole view (OV-3)."""
        is_over = levels(size, limits, thresholds).above_auto
        follows = chain() if is_over else Chain(source=moment.source)
        stops = self.refill.stops(follows, self.settings)
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
        if stops and isinstance(found, NotCompacting) and self._told != follows.follows:
            self._told = follows.follows
            count = self.refill.in_a_row + 1
            yield Emit(BreakerOpened(moment=moment, breaker="rapid_refill", count=count, detail=found.why))
        return found

    def spared(self, ground: Ground) -> Ground | NotCompacting:
        """The same ground with the ways that are left: an open breaker lets nobody call a model, however
        urgent it is."""
        if not (self.breaker.is_open or self.refill.stops(ground.chain, self.settings)):
            return ground
        ways = tuple(way for way in ground.how.ways if way in WITHOUT_CALLS)
        if not ways:
            return NotCompacting(self.breaker.says or "the context fills again as fast as it is compacted")
        return msgspec.structs.replace(ground, how=msgspec.structs.replace(ground.how, ways=ways))

    def succeeded(self, made: Compaction, moment: Moment) -> Generator[Effect, Any, tuple[str, ...]]:
        """What the PostCompact hooks have to say: it joins the view (CP-18)."""
        was_open = self.breaker.is_open
        self.breaker = self.breaker.succeeded()
        if was_open:
            yield Emit(BreakerClosed(moment=moment, breaker="failures"))
        if made.plan is not None:
            is_own = made.plan.asked.trigger == "auto"
            # Whoever compacts by hand has looked: that is no loop.
            self.refill = self.refill.compacted(made.plan.chain, self.settings) if is_own else Refill()
            yield Emit(compaction_done(made.plan, made, moment, made.plan.metrics))
            summary = "\n".join(text_of(block) for block in made.summary.blocks)
            payload = {"trigger": made.plan.asked.trigger, "compact_summary": summary}
            told: HookOutcome = yield RunHooks("PostCompact", payload)
            return told.context
        return ()

    def failed(self, failed: CompactionFailed, moment: Moment) -> Generator[Effect, Any, None]:
        was_open = self.breaker.is_open
        if reason_of(failed.attempts) != "cancelled":
            self.breaker = self.breaker.failed(failed.why)
        if failed.plan is not None:
            yield Emit(compaction_not_done(failed.plan, failed, moment))
        if self.breaker.is_open and not was_open:
            opened = BreakerOpened(
                moment=moment, breaker="failures", count=self.breaker.failures, detail=self.breaker.says
            )
            yield Emit(opened)


class UsableNotes(NamedTuple):
    """Notes cut to size, and the first record that they do not cover; empty where they are of no use."""

    text: str = ""
    end_before: str = ""


def usable_notes(notes: Notes | None, view: View, counts: Counts, *, path: str) -> UsableNotes:
    settings = NotesSettings()
    kept = kept_behind(notes, view, counts, settings, session="running")
    if notes is None or not isinstance(kept, Kept):
        return UsableNotes()
    records = view.records
    end_before = records[kept.start].uuid if kept.start < len(records) else ""
    return UsableNotes(cut_notes(notes.body, path, settings), end_before)
