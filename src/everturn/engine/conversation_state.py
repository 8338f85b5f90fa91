"""What is known of a conversation: its settings, its log, and what is kept up to date record by record.

The log says what happened; the tracker follows its view (sizes, results, messages, thinking); the calibrator
and the overhead meter learn from reported usage; the provider cache says what the provider holds for us.
`conversation.py` prepares turns from this, `compactor.py` compacts it.
"""

import copy
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from everturn.decide.events import EventContext
from everturn.decide.view_tracker import TrackerInputs, ViewTracker
from everturn.engine.provider_cache import ProviderCache
from everturn.engine.values import ConversationSettings, NewId
from everturn.history.edits import Edit, Undone
from everturn.history.log import Log
from everturn.history.records import Record, make_edit_record
from everturn.measure.calibration import Calibration, Calibrator
from everturn.measure.meter import ContextSize
from everturn.measure.outline import Preamble
from everturn.measure.overhead import OverheadMeter, is_conversation_start
from everturn.measure.thresholds import ContextThresholds, compute_thresholds
from everturn.measure.tokens import ROUGH, TokenCount, TokenCounter

# So many messages and replies may wait to be counted: whoever asks must not wait for long. Our choice.
MAX_UNCOUNTED: Final = 64


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
        # For each compaction of this process, the preamble of the last request before it.
        self._preambles_before: dict[str, Preamble] = {}
        # Messages that are in the log and not counted yet, and what is learned between them; then messages
        # that are counted and not in the tracker yet.
        self._uncounted: list[Record | Callable[[], None]] = []
        self._unfolded: list[Record] = []
        # Whether the last usage shows that the cache is gone in which results were deleted (MC-20).
        self.lost_deletions = False
        self._sized: tuple[_SizeKey, ContextSize] | None = None

    def add(self, record: Record) -> None:
        self._fold()
        self._calibrator.add(record)
        self._overhead.add(record)
        if self.log.append(record) == "replaced":
            self._tracker = self._track_replaced(record)
            self.cache.forget_view()
        elif not record.is_boundary:
            self._tracker.add(record)

    def copy(self) -> "ConversationState":
        """The same log and view, to try edits on. What is learned from usage, and what the provider's cache
        holds, is shared: an edit changes neither."""
        self._fold()
        made = copy.copy(self)
        made.log = self.log.copy()
        made._uncounted, made._unfolded = [], []
        made._tracker = self._tracker.copy(self.log.view, self._tracker_inputs())
        return made

    def take_over(self, tried: "ConversationState", edits: Iterable[Record]) -> None:
        """Append the edits that a copy has, behind what was added meanwhile."""
        for record in edits:
            tip = self.log.tip
            self.add(msgspec.structs.replace(record, parent=tip.uuid if tip else record.parent))
        self.lost_deletions = tried.lost_deletions

    def _track_replaced(self, record: Record) -> ViewTracker:
        view, inputs, before = self.log.view, self._tracker_inputs(), self._tracker.thinking
        if isinstance(record.edit, Undone):
            written_with = self._preambles_before.get(record.edit.boundary)
            return ViewTracker.of_replaced(
                view, inputs, before=before, is_undone=True, written_with=written_with
            )
        if view.boundary is not None and self.cache.sent is not None:
            self._preambles_before[view.boundary.uuid] = self.cache.sent.preamble
        return ViewTracker.of_replaced(view, inputs, before=before, is_undone=False)

    def forget_preambles(self, records: Iterable[Record]) -> None:
        """Another process has made these compactions: what it sent before them is not known."""
        for record in records:
            self._preambles_before.pop(record.uuid, None)

    def add_unfolded(self, record: Record) -> None:
        """Add a message that nothing is decided from: the tracker reads it when somebody asks for it."""
        if self.log.is_compacting or record.edit is not None or record.compact_summary:
            # It may replace the view.
            self.add(record)
            return
        self.log.append(record)
        self.count_later(record)

    def count_later(self, each: Record | Callable[[], None]) -> None:
        """A step is run in its place between the messages: it finds what was known before it."""
        self._uncounted.append(each)
        if len(self._uncounted) > MAX_UNCOUNTED:
            self.count()

    def count(self) -> None:
        """Bring up to date what is learned from usage."""
        if not self._uncounted:
            return
        # A step that asks for something finds nothing to count, and so only the messages before it.
        waiting, self._uncounted = self._uncounted, []
        for each in waiting:
            if isinstance(each, Record):
                self._calibrator.add(each)
                self._overhead.add(each)
                self._unfolded.append(each)
            else:
                each()
        # A step may have asked for the size when not all of the log was counted.
        self._sized = None

    def _fold(self) -> None:
        self.count()
        records, self._unfolded = self._unfolded, []
        for record in records:
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
        self.count()
        return self._calibrator.calibration()

    def size(self, settings: ConversationSettings) -> ContextSize:
        """Computed once for a log and these settings: a turn asks several times."""
        key = _SizeKey(len(self.log.records), settings, self._has_same_preamble(settings))
        if self._sized is None or not self._sized[0].is_same(key):
            size = self.tracker.size(
                settings.preamble,
                settings.costs,
                overhead=self.known_overhead(settings),
                calibration=self.calibration if settings.options.tokens.calibrate else None,
            )
            self._sized = key, size
        return self._sized[1]

    def preamble_tokens(self, settings: ConversationSettings) -> int:
        """System prompt and tools, as the usage told or by our count."""
        return self.known_overhead(settings) or self.tracker.outline.preamble_tokens

    def known_overhead(self, settings: ConversationSettings) -> int | None:
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
