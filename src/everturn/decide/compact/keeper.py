"""What is remembered from one compaction to the next: failures, refills, and whether to try again.

The breakers are values (`breakers.py`); this holds the current ones, tells the world when one opens, and runs
the PostCompact hooks once a new view is in force.
"""

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from everturn.decide.compact.breakers import Breaker, Refill, filled_by
from everturn.decide.compact.settings import CompactSettings
from everturn.decide.compact.values import Asked, Chain, Compaction, CompactionFailed, NotCompacting
from everturn.decide.compact.when import should_compact
from everturn.decide.effects import Effect, Emit, RunHooks
from everturn.decide.events import BreakerOpened, Moment, compaction_done, compaction_not_done
from everturn.decide.notes.document import Notes, cut_notes
from everturn.decide.notes.kept import Kept, kept_behind
from everturn.decide.notes.settings import NotesSettings
from everturn.history.blocks import text_of
from everturn.history.log import View
from everturn.measure.accounting import Metrics
from everturn.measure.thresholds import Limits, Thresholds
from everturn.measure.tokens import Counts


class Keeper:
    def __init__(self) -> None:
        self.breaker = Breaker()
        self.refill = Refill()

    def due(
        self,
        size: int,
        limits: Limits,
        thresholds: Thresholds,
        *,
        chain: Chain,
        metrics: Callable[[], Metrics],
        settings: CompactSettings,
    ) -> Asked | NotCompacting:
        """Whether this turn must be compacted first. What fills the context is looked up only when that is
        worth saying."""
        stops = self.refill.stops(chain, settings)
        return should_compact(
            size,
            limits,
            thresholds=thresholds,
            source=chain.source,
            breaker=self.breaker,
            refill=self.refill,
            chain=chain,
            filled_by=filled_by(metrics(), settings) if stops else "",
            settings=settings,
        )

    def succeeded(self, made: Compaction, moment: Moment) -> Generator[Effect, Any, None]:
        self.breaker = self.breaker.succeeded()
        if made.plan is not None:
            self.refill = self.refill.compacted(made.plan.chain)
            yield Emit(compaction_done(made.plan, made, moment, made.plan.metrics))
            summary = "\n".join(text_of(block) for block in made.summary.blocks)
            payload = {"trigger": made.plan.asked.trigger, "compact_summary": summary}
            yield RunHooks("PostCompact", payload)

    def failed(self, failed: CompactionFailed, moment: Moment) -> Generator[Effect, Any, None]:
        was_open = self.breaker.is_open
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
