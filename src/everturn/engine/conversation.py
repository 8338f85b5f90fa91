"""One conversation: the turn from start to end, and its answer.

Each kind of state has one owner: the log (what happened) and the view tracker (what is in view, updated
record by record) are in the `ConversationState`, breakers and counters in the `Compactor`, what the provider
holds for us in the `ProviderCache`.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import msgspec

from everturn.decide.cache_breaks import Baseline, CacheBreakDetector, DetectedBreak, Diagnosis, NoBreak
from everturn.decide.compact.state import CompactionState
from everturn.decide.compact.triggers import Proposal, ProposalResponse
from everturn.decide.compact.values import Compaction, CompactionPlan, CompactionRequest, CompactionSkipped
from everturn.decide.effects import Flow, WriteFile, emit, write_file
from everturn.decide.events import thinking_dropped
from everturn.decide.micro.cache_edit_state import (
    apply_plan,
    consume_pending,
    rebuild_state,
    record_savings,
)
from everturn.decide.micro.context import MicroContext, MicroPlan
from everturn.decide.micro.declarative import AppliedContextEdit, describe_applied
from everturn.decide.micro.order import plan_micro_compaction
from everturn.decide.notes.document import Notes
from everturn.decide.view_tracker import ViewTracker
from everturn.engine.capture import capture_request
from everturn.engine.compactor import Compactor
from everturn.engine.conversation_state import ConversationState, event_context, thresholds_of
from everturn.engine.economy import Economy
from everturn.engine.holds import PlannedHold
from everturn.engine.provider_cache import ProviderCache
from everturn.engine.values import (
    WAITS,
    CompactionOutcome,
    ConversationSettings,
    NewId,
    ReplyAssessment,
    Turn,
)
from everturn.engine.view_edits import drop_thinking, end_deletions, tell_unsendable
from everturn.history.edits import Edit, ThinkingDropped, Undone
from everturn.history.log import Log
from everturn.history.records import Record, Usage, record_time, reported_usage
from everturn.history.repair import Repair
from everturn.measure.accounting import Metrics
from everturn.measure.calibration import Calibration
from everturn.measure.meter import ContextSize
from everturn.measure.outline import BlockLocation
from everturn.measure.prediction import Forecast
from everturn.measure.thresholds import ContextThresholds, ThresholdLevels, check_thresholds
from everturn.wire.queued_messages import QueuedMessage


class Conversation:
    """`records` are an existing log. If the last call in it had the same cache key, as the detector knows
    (CB-7), its replies tell what the provider's cache holds; otherwise the first turn says that its
    prediction is a guess.
    """

    def __init__(
        self,
        setting: ConversationSettings,
        records: Iterable[Record] = (),
        *,
        forecast: Forecast | None = None,
        detector: CacheBreakDetector | None = None,
    ) -> None:
        self.cache = ProviderCache(forecast, detector)
        self._state = ConversationState(setting, self.cache)
        self.economy = Economy(self._state)
        self._compactor = Compactor(self._state, self.economy)
        self._load(records, replays=forecast is None)

    # ── one turn ─────────────────────────────────────────────────────────────────────────────────

    def turn(self, now: datetime, new_id: NewId) -> Flow[Turn]:
        """Prepare the next request. Called again before it was answered, it gives the same request."""
        state, cache = self._state, self.cache
        start, append = len(self.log.records), state.appender(now, new_id)
        settings, notes = self._effective_settings()
        append(end_deletions(state, settings, now))
        dropped = drop_thinking(state, settings, cache.sent, now)
        yield from self._emit_thinking_dropped(dropped, settings, now)
        append(dropped)
        plan = plan_micro_compaction(self._micro_context(settings, now))
        self._tracker.cached = apply_plan(self._tracker.cached, self._tracker.results, plan)
        append(*plan.edits, *(yield from _write_offloaded(plan)), self._consume_deletions(plan))
        outcome = yield from self._compactor.compact_if_due(settings, now, new_id)
        if isinstance(outcome, Compaction):
            # The prompt may be recomputed (CP-19); now is when a different one costs least.
            settings, notes = self._effective_settings()
        append(end_deletions(state, settings, now))
        append(drop_thinking(state, settings, settings, now))
        latched = cache.latch(settings)
        append(tell_unsendable(state, settings, latched.parameters))
        self._notify_detector(settings.source, plan)
        breakpoints, prediction, changes = cache.begin_call(self._tracker, settings, latched.parameters, now)
        messages = tuple(self._tracker.outline.messages)
        captured = capture_request(settings, latched.parameters, messages, breakpoints)
        notes = (*cache.doubts, *notes, *latched.refused, *breakpoints.why)
        appended = tuple(self.log.records[start:])
        return Turn(appended, plan, breakpoints, prediction, changes, self.size, notes, captured, outcome)

    def record_reply(
        self,
        records: Sequence[Record],
        usage: Usage,
        now: datetime,
        *,
        diagnosis: Diagnosis | None = None,
        applied: Sequence[AppliedContextEdit] = (),
    ) -> ReplyAssessment:
        """Add the answer to the log, and compare its usage with the prediction."""
        source = (self.cache.sent or self.setting).source
        if any(edit.detector_notice == "deleted" for edit in applied):
            self.detector.deleted(source)
        check = self.cache.settle(self._tracker, usage, now, describe_applied(applied))
        verdict = self.detector.after_call(source, usage, diagnosis)
        self._tracker.results.settle()
        self._compactor.accepted()
        expected = check.predicted.read if check else 0
        hold_check = self.economy.record_reply(usage, now, expected=expected)
        # Nothing was read although deletions were made in the cache: that cache is gone (MC-20).
        self._state.lost_deletions = bool(self._tracker.cached.pinned) and not usage.cache_read_input_tokens
        saved = 0
        for record in records:
            if record.reply and record.reply.deleted_tokens is not None:
                self._tracker.cached, saved = record_savings(
                    self._tracker.cached, record.reply.deleted_tokens
                )
            self.add(record)
        return ReplyAssessment(check, verdict, saved, hold_check)

    def observe(self, now: datetime) -> None:
        """A request is sent as its caller made it: nothing is decided. Its key is noted, so that a cache
        break can be explained."""
        settings = self.setting
        if self._state.note_observed():
            self.detector.compacted(settings.source)
        self.cache.observe_call(settings, now)

    def record_observed_reply(
        self, records: Sequence[Record], usage: Usage, now: datetime, *, diagnosis: Diagnosis | None = None
    ) -> DetectedBreak | NoBreak:
        """Add the answer to an observed request to the log, and see whether the cache broke."""
        self.cache.settle_observed()
        verdict = self.detector.after_call((self.cache.sent or self.setting).source, usage, diagnosis)
        self._compactor.accepted()
        self.economy.record_observed_reply(usage, now)
        for record in records:
            self.add_observed(record)
        return verdict

    # ── the steps of a turn ──────────────────────────────────────────────────────────────────────

    def _effective_settings(self) -> tuple[ConversationSettings, tuple[str, ...]]:
        """The requested settings. But inside a tool loop the API requires the thinking of that loop
        unchanged, so a change that would invalidate it waits for the end of the loop (PC-16).
        """
        sent, wanted = self.cache.sent, self.setting
        if sent is None or not self._tracker.flattener.in_tool_loop:
            return wanted, ()
        is_same_model = sent.has_same_model(wanted)
        if not is_same_model and wanted.decides == "engine":
            waits = "the model"
        elif (
            is_same_model
            and sent.preamble != wanted.preamble
            and wanted.model.binds_thinking
            and self._tracker.thinking.is_sent
        ):
            waits = "system prompt and tools"
        else:
            return wanted, ()
        kept = msgspec.structs.replace(wanted, model=sent.model, preamble=sent.preamble, costs=sent.costs)
        return kept, (f"a change of {waits} {WAITS}",)

    def _micro_context(self, settings: ConversationSettings, now: datetime) -> MicroContext:
        tracker = self._tracker
        return MicroContext(
            results=tracker.results,
            options=settings.options,
            source=settings.source,
            now=now,
            last_reply=self._state.last_use(now),
            size=self._state.size(settings).tokens,
            capabilities=settings.capabilities,
            in_tool_loop=tracker.flattener.in_tool_loop,
            binds_thinking=settings.model.binds_thinking,
            thinking_tokens_after=tracker.thinking.tokens_after,
            cached=tracker.cached,
            records=self.log.view.records,
            counts=self._state.counts,
        )

    def _emit_thinking_dropped(
        self, edit: ThinkingDropped | None, settings: ConversationSettings, now: datetime
    ) -> Flow[None]:
        """Report dropped thinking that could have been sent (MC-13), not what the API would refuse."""
        if edit is not None and edit.until:
            yield from self._emit_dropped(edit, settings, now)

    def _emit_dropped(
        self, edit: ThinkingDropped, settings: ConversationSettings, now: datetime
    ) -> Flow[None]:
        tokens = self._tracker.thinking.tokens_dropped_by(edit)
        size = self.size.next_request
        yield from emit(thinking_dropped(edit, tokens, size, event_context(settings, now)))

    def _consume_deletions(self, plan: MicroPlan) -> Edit | None:
        self._tracker.cached, edit = consume_pending(self._tracker.cached, why=plan.why)
        return edit

    def _notify_detector(self, source: str, plan: MicroPlan) -> None:
        # Called in any case: a flag that is not taken now would be attributed to the next turn.
        dropped = self._tracker.thinking.took_dropped()
        if plan.detector_notice == "deleted" or dropped:
            self.detector.deleted(source)
        if self._tracker.is_new:
            self.detector.compacted(source)
        self._tracker.is_new = False

    # ── compaction ───────────────────────────────────────────────────────────────────────────────

    def compact(self, asked: CompactionRequest, now: datetime, new_id: NewId) -> Flow[CompactionOutcome]:
        return self._compactor.compact(asked, now, new_id)

    def overflowed(self, now: datetime, new_id: NewId) -> Flow[CompactionOutcome]:
        return self._compactor.overflowed(now, new_id)

    def refused(self, refusal: str, now: datetime, new_id: NewId) -> Flow[bool]:
        """After a refusal for another reason than its length. Returns whether the next turn gives a different
        request."""
        return self._compactor.refused(refusal, now, new_id)

    def refused_thinking(self, refusal: str, now: datetime, new_id: NewId) -> Flow[bool]:
        """The same where the API has refused the thinking in it: the next turn sends none of it."""
        edit = self._tracker.thinking.drop_refused(refusal)
        if edit is None:
            return False
        yield from self._emit_dropped(edit, self.setting, now)
        self._state.appender(now, new_id)(edit)
        return True

    def dry_run(self, asked: CompactionRequest, now: datetime) -> CompactionPlan | CompactionSkipped:
        return self._compactor.dry_run(asked, now)

    def propose_compaction(self, now: datetime) -> Proposal | None:
        return self._compactor.propose(now)

    def answer_proposal(
        self, proposal: Proposal, response: ProposalResponse, now: datetime, new_id: NewId
    ) -> Flow[CompactionOutcome]:
        return self._compactor.answer_proposal(proposal, response, now, new_id)

    # ── holds ────────────────────────────────────────────────────────────────────────────────────

    def plan_hold(self, now: datetime) -> PlannedHold | None:
        return self.economy.plan_hold(now)

    def record_hold(
        self, planned: PlannedHold, usage: Usage, now: datetime, dollars: float | None = None
    ) -> None:
        self.economy.record_hold(planned, usage, now, dollars)

    @property
    def compaction_state(self) -> CompactionState:
        return self._compactor.memory

    @property
    def notes(self) -> Notes | None:
        """The session's notes, if it keeps any: they can be used as a summary (SM-6)."""
        return self._compactor.notes

    @notes.setter
    def notes(self, notes: Notes | None) -> None:
        self._compactor.notes = notes

    def take_queued(self, queued: Iterable[QueuedMessage]) -> None:
        """What the user typed while the model worked, if no record has it: for the extractive summary."""
        self._compactor.queued = tuple(queued)

    # ── what is known ────────────────────────────────────────────────────────────────────────────

    def add(self, record: Record) -> None:
        self._state.add(record)
        if isinstance(record.edit, Undone):
            self.economy.record_undo()

    def add_from_elsewhere(self, records: Iterable[Record], baselines: Mapping[str, Baseline]) -> None:
        """Add what another process has recorded of this conversation, with its baselines. Its calls tell what
        the provider's cache holds by now; the breakpoints of our own last request are behind them. Thinking
        in view is bound to the system prompt and tools of its last call, which may not be ours."""
        cache, ours, records = self.cache, self.cache.sent or self.setting, tuple(records)
        cache.detector = CacheBreakDetector(cache.detector.settings, baselines)
        self._add_replayed(records, replays=cache.continues_last_call(ours))
        self._state.forget_preambles(records)
        cache.forget_view()
        if not cache.keeps_preamble(ours):
            self._tracker.thinking.prefix_changed("system prompt and tools may have been different")

    def add_observed(self, record: Record) -> None:
        """Add a message of a conversation in which nothing is decided."""
        self._state.add_unfolded(record)

    @property
    def setting(self) -> ConversationSettings:
        """To change the model or the policy, set a new value."""
        return self._state.setting

    @setting.setter
    def setting(self, setting: ConversationSettings) -> None:
        if not setting.counts_like(self._state.setting):
            # What was observed is counted as it was sent.
            self._state.count()
        self._state.setting = setting

    @property
    def log(self) -> Log:
        return self._state.log

    @property
    def _tracker(self) -> ViewTracker:
        """A view that is replaced gets a new one."""
        return self._state.tracker

    @property
    def detector(self) -> CacheBreakDetector:
        return self.cache.detector

    @property
    def size(self) -> ContextSize:
        return self._state.size(self.setting)

    @property
    def thresholds(self) -> ContextThresholds:
        return thresholds_of(self.setting)

    @property
    def levels(self) -> ThresholdLevels:
        """Which thresholds the next request reaches. Between a clearing and the next reported usage there are
        no warnings about a nearly full context (MC-5).
        """
        size, settings = self.size, self.setting.options.effective_thresholds
        return check_thresholds(size.next_request, self.thresholds, settings, warns=not size.freed)

    @property
    def last_reply(self) -> datetime | None:
        """When the model last answered, as far as the view tells."""
        return self._tracker.last_reply

    @property
    def calibration(self) -> Calibration:
        return self._state.calibration

    @property
    def metrics(self) -> Metrics:
        """What fills the context (TOK-11), kept up to date record by record."""
        return self._tracker.accounts.metrics()

    @property
    def repairs(self) -> tuple[Repair, ...]:
        """The repairs that were needed for the API to accept what is in view (TR-11)."""
        return self._tracker.flattener.repairs

    def estimate_text(self, text: str) -> int:
        return self._state.counts.estimator.text(text)

    def estimate_tokens(self, records: Iterable[Record]) -> int:
        return self._state.estimate_tokens(records)

    def recount(self) -> None:
        """`costs` now counts blocks that were not answered yet differently."""
        self._tracker.outline.recount()

    def distrust_thinking(self, why: str, since: str) -> None:
        """Thinking from the record `since` on may be bound to a different prefix than the one that is sent
        (PC-16): on a model that checks this, it is not sent again.
        """
        self._tracker.thinking.prefix_changed(why, since)

    def view_changed(self, why: str, since: str) -> None:
        """The messages from the record `since` on are not what was sent before. Only those in front of it may
        still be in the provider's cache.
        """
        self.distrust_thinking(why, since)
        self._compactor.changed_from = since
        tracker, settings = self._tracker, self.setting
        outline = tracker.build_outline(settings.preamble, settings.costs)
        before = tracker.flattener.place_of(since) - 1
        last = BlockLocation(before, len(outline.messages[before].blocks) - 1) if before >= 0 else None
        tracker.reached = min(tracker.reached, outline.position_of(last) if last else -1)

    # ── after a restart ──────────────────────────────────────────────────────────────────────────

    def _load(self, records: Iterable[Record], *, replays: bool) -> None:
        """Load an existing log. `replays`: what it says about the provider's cache is not known yet."""
        continues = self.cache.continues_last_call(self.setting)
        self._add_replayed(records, replays=continues and replays)
        if self.log.records:
            self._resume(continues=continues)

    def _add_replayed(self, records: Iterable[Record], *, replays: bool) -> None:
        last_reply = ""
        for record in records:
            if replays and record.message_id != last_reply:
                last_reply = self._replay_call(record) or last_reply
            self.add(record)

    def _replay_call(self, record: Record) -> str:
        """Replay a reply of an earlier process; returns its message id if it told
        something about the cache.
        """
        settings, reply, usage = self.setting, record.reply, reported_usage(record)
        # The request began no earlier than the last record before its reply.
        asked_at = record_time(self.log.records[-1]) if self.log.records else None
        if reply is None or usage is None or asked_at is None:
            return ""
        if reply.model in (settings.model.id, *settings.model.aliases):
            self.cache.replay_call(self._tracker, settings, usage, asked_at)
        return reply.message_id

    def _resume(self, *, continues: bool) -> None:
        tracker = self._tracker
        tracker.cached = rebuild_state(
            tracker.results, (each.edit for each in self.log.view.records if each.edit)
        )
        tracker.thinking.ask_replies()
        if continues:
            self.cache.sent = self.setting
            return
        if not self.cache.keeps_preamble(self.setting):
            tracker.thinking.prefix_changed("system prompt and tools may have been different")
        self.cache.called_at = self.cache.called_at or tracker.last_reply
        self.cache.doubts = ("resumed without a call of the same cache key: no read is predicted",)


def _write_offloaded(plan: MicroPlan) -> Flow[list[Edit]]:
    """Write the text first: a result leaves the context only after its text is stored elsewhere."""
    edits: list[Edit] = []
    for wanted in plan.offload:
        path = yield from write_file(WriteFile(wanted.name, wanted.content))
        edits.append(wanted.written_to(path))
    return edits
