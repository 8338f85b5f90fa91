"""What is known of a conversation: its settings, its log, and what is kept up to date record by record.

The log says what happened; the tracker follows its view (sizes, results, messages, thinking); the calibrator
and the overhead meter learn from reported usage; the provider cache says what the provider holds for us.
`conversation.py` prepares turns from this, `compactor.py` compacts it.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import NamedTuple

from everturn.decide.events import EventContext
from everturn.decide.view_tracker import TrackerInputs, ViewTracker
from everturn.engine.provider_cache import ProviderCache
from everturn.engine.values import ConversationSettings, NewId
from everturn.history.edits import Edit, Undone
from everturn.history.log import Log
from everturn.history.records import Record, make_edit_record
from everturn.measure.calibration import Calibration, Calibrator
from everturn.measure.meter import ContextSize
from everturn.measure.overhead import OverheadMeter, is_conversation_start
from everturn.measure.thresholds import ContextThresholds, compute_thresholds
from everturn.measure.tokens import ROUGH, TokenCount, TokenCounter


class _SizeKey(NamedTuple):
    """What the size of a context depends on."""

    records: int
    settings: ConversationSettings
    # Whether system prompt and tools are those of the last request.
    is_same_preamble: bool

    def is_same(self, other: "_SizeKey") -> bool:
        return (
            self.records == other.records
            and self.settings is other.settings
            and self.is_same_preamble == other.is_same_preamble
        )


class ConversationState:
    def __init__(self, setting: ConversationSettings, cache: ProviderCache) -> None:
        self.setting = setting
        self.cache = cache
        self.log = Log()
        self.counts = TokenCounter(setting.estimator or ROUGH)
        self._calibrator = Calibrator(self.counts)
        self._overhead = OverheadMeter(self.counts, (setting.model.id, *setting.model.aliases))
        self._tracker = ViewTracker(self.log.view, self._tracker_inputs(), is_new=False)
        # Messages that are in the log and not in the tracker yet.
        self._unfolded: list[Record] = []
        # Whether the last usage shows that the cache is gone in which results were deleted (MC-20).
        self.lost_deletions = False
        self._sized: tuple[_SizeKey, ContextSize] | None = None

    def add(self, record: Record) -> None:
        self._fold()
        self._calibrator.add(record)
        self._overhead.add(record)
        if self.log.append(record) == "replaced":
            self._tracker = ViewTracker.of_replaced(
                self.log.view, self._tracker_inputs(), is_undone=isinstance(record.edit, Undone)
            )
            self.cache.forget_view()
        elif not record.is_boundary:
            self._tracker.add(record)

    def add_unfolded(self, record: Record) -> None:
        """Add a message that nothing is decided from: the tracker reads it when somebody asks for it."""
        if self.log.is_compacting or record.edit is not None or record.compact_summary:
            # It may replace the view.
            self.add(record)
            return
        self.log.append(record)
        self._unfolded.append(record)

    def _fold(self) -> None:
        records, self._unfolded = self._unfolded, []
        for record in records:
            self._calibrator.add(record)
            self._overhead.add(record)
            self._tracker.add(record)

    @property
    def tracker(self) -> ViewTracker:
        """What is in view. A view that is replaced gets a new one."""
        self._fold()
        return self._tracker

    def note_observed(self) -> bool:
        """A caller's own request is sent: where its breakpoints are is not known. Returns whether the
        provider has not seen this view, but has seen an earlier one."""
        self._tracker.reached = -1
        # The tracker is asked only where the answer can be yes.
        is_new, self._tracker.is_new = self._tracker.is_new and self.tracker.is_new, False
        return is_new

    def appender(self, now: datetime, new_id: NewId) -> Callable[..., None]:
        """A function that appends edits as records; None stands for no edit."""

        def append(*edits: Edit | None) -> None:
            for edit in edits:
                if edit is not None:
                    self.add(make_edit_record(edit, uuid=new_id(), after=self.log.tip, at=now))

        return append

    def _tracker_inputs(self) -> TrackerInputs:
        settings = self.setting
        return TrackerInputs(
            settings.options.tools,
            settings.capabilities,
            settings.costs,
            self.counts,
            settings.preamble.tools,
        )

    def last_use(self, now: datetime) -> datetime | None:
        """When the provider's cache was last used; now, while a hold keeps it alive."""
        return now if self.cache.is_held(now) else self.tracker.last_reply

    # ── sizes ────────────────────────────────────────────────────────────────────────────────────

    @property
    def calibration(self) -> Calibration:
        """How far estimates are off in this session, learned from its own usage (TOK-7)."""
        self._fold()
        return self._calibrator.calibration()

    def size(self, settings: ConversationSettings) -> ContextSize:
        """Computed once for a log and these settings: a turn asks several times."""
        key = _SizeKey(len(self.log.records), settings, self._has_same_preamble(settings))
        if self._sized is None or not self._sized[0].is_same(key):
            size = self.tracker.size(
                settings.preamble,
                settings.costs,
                overhead=self._known_overhead(settings),
                calibration=self.calibration if settings.options.tokens.calibrate else None,
            )
            self._sized = key, size
        return self._sized[1]

    def preamble_tokens(self, settings: ConversationSettings) -> int:
        """System prompt and tools, as the usage told or by our count."""
        return self._known_overhead(settings) or self.tracker.outline.preamble_tokens

    def _known_overhead(self, settings: ConversationSettings) -> int | None:
        """What system prompt and tools take, as the first usage told; None once they have changed, or if the
        log does not go back to the beginning.
        """
        is_same = self._has_same_preamble(settings)
        starts = is_conversation_start(self.log.records)
        return self._overhead.tokens(self.calibration) if is_same and starts else None

    def _has_same_preamble(self, settings: ConversationSettings) -> bool:
        sent = self.cache.sent
        return sent is None or sent.preamble is settings.preamble or sent.preamble == settings.preamble

    def estimate_tokens(self, records: Iterable[Record]) -> int:
        """Tokens of records as they were recorded, whatever is in view; not padded."""
        total = sum((self.counts.of(record).whole for record in records), TokenCount()).total
        return self.calibration.corrected(total) if self.setting.options.tokens.calibrate else total


def thresholds_of(settings: ConversationSettings) -> ContextThresholds:
    model, options = settings.model, settings.options
    return compute_thresholds(model.window, model.max_output, options.effective_thresholds)


def event_context(settings: ConversationSettings, now: datetime) -> EventContext:
    return EventContext(at=now, source=settings.source, model=settings.model.id)
