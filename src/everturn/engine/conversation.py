"""One conversation: its log, and the turn from start to end.

Each kind of state has one owner: the log (what happened), the view tracker (what is in view, updated record
by record), the compaction state (breakers and counters), the provider cache (what the provider holds for us).
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from everturn.decide.betas import required_betas
from everturn.decide.cache_breaks import CacheBreakDetector, Diagnosis
from everturn.decide.compact.build_records import said_by_hooks
from everturn.decide.compact.chain import chain_of, plan_undo_after_refusal
from everturn.decide.compact.context import CompactionContext
from everturn.decide.compact.flow import preview_compaction, run_compaction
from everturn.decide.compact.state import CompactionState, usable_notes
from everturn.decide.compact.summary_calls import CallObserver
from everturn.decide.compact.triggers import ActivityState, Proposal, ProposalResponse
from everturn.decide.compact.values import (
    Compaction,
    CompactionFailed,
    CompactionPlan,
    CompactionRequest,
    CompactionSkipped,
)
from everturn.decide.compact.work import is_task_finished
from everturn.decide.effects import AskModel, Flow, ModelAnswer, ModelFailure, WriteFile, emit, write_file
from everturn.decide.events import EventContext, SummaryUncached, thinking_dropped
from everturn.decide.micro.cache_edit_state import (
    CacheEditState,
    apply_plan,
    consume_pending,
    expire_deletions,
    rebuild_state,
    record_savings,
)
from everturn.decide.micro.context import MicroContext, MicroPlan
from everturn.decide.micro.declarative import (
    AppliedContextEdit,
    build_context_management,
    describe_applied,
    thinking_in_replies,
)
from everturn.decide.micro.order import plan_micro_compaction
from everturn.decide.notes.document import Notes
from everturn.decide.tools import build_tool_table
from everturn.decide.view_tracker import TrackerInputs, ViewTracker
from everturn.engine.provider_cache import ProviderCache
from everturn.engine.values import (
    COMPACTION_DISABLED,
    CompactionOutcome,
    ConversationSettings,
    NewId,
    ReplyAssessment,
    Turn,
)
from everturn.history.edits import CacheDeletionsEnded, Compacted, Edit, ThinkingDropped, ToldAsText, Undone
from everturn.history.log import Log
from everturn.history.records import Record, Usage, make_edit_record, record_time, reported_usage
from everturn.history.repair import Repair
from everturn.measure.accounting import Metrics
from everturn.measure.calibration import MIN_SAMPLES, Calibration, Calibrator
from everturn.measure.meter import ContextSize
from everturn.measure.overhead import OverheadMeter, is_conversation_start
from everturn.measure.prediction import Forecast
from everturn.measure.thresholds import (
    ContextThresholds,
    ThresholdLevels,
    check_thresholds,
    compute_thresholds,
)
from everturn.measure.tokens import ROUGH, TokenCount, TokenCounter
from everturn.view.breakpoints import Breakpoints, keep_existing
from everturn.view.cache_key import thinking_mode
from everturn.view.forks import CapturedRequest
from everturn.view.key_parameters import KeyParameters
from everturn.view.tool_loop import unsendable_calls


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
        self.setting = setting
        self.log = Log()
        self.cache = ProviderCache(forecast, detector)
        self.compaction_state = CompactionState(setting.options.compact)
        self._lost_deletions = False
        # The session's notes, if it keeps any: they can be used as a summary (SM-6).
        self.notes: Notes | None = None
        # Since the last accepted request: that one was too long, and why a compacted view was refused.
        self._has_overflowed = False
        self._refusal = ""
        # The last record of a log that already existed; "" for a new conversation.
        self._resumed_at = ""
        self._counts = TokenCounter(setting.estimator or ROUGH)
        self._calibrator = Calibrator(self._counts)
        self._overhead = OverheadMeter(self._counts, (setting.model.id, *setting.model.aliases))
        self._tracker = ViewTracker(self.log.view, self._tracker_inputs(), is_new=False)
        self._load(records, replays=forecast is None)

    @property
    def detector(self) -> CacheBreakDetector:
        return self.cache.detector

    @property
    def size(self) -> ContextSize:
        return self._size(self.setting)

    def estimate_text(self, text: str) -> int:
        return self._counts.estimator.text(text)

    @property
    def calibration(self) -> Calibration:
        """How far estimates are off in this session, learned from its own usage (TOK-7)."""
        return self._calibrator.calibration()

    @property
    def thresholds(self) -> ContextThresholds:
        return _thresholds(self.setting)

    @property
    def levels(self) -> ThresholdLevels:
        """Which thresholds the next request reaches. Between a clearing and the next reported usage there are
        no warnings about a nearly full context (MC-5).
        """
        size, settings = self.size, self.setting.options.effective_thresholds
        return check_thresholds(size.next_request, self.thresholds, settings, warns=not size.freed)

    @property
    def metrics(self) -> Metrics:
        """What fills the context (TOK-11), kept up to date record by record."""
        return self._tracker.accounts.metrics()

    @property
    def repairs(self) -> tuple[Repair, ...]:
        """The repairs that were needed for the API to accept what is in view (TR-11)."""
        return self._tracker.flattener.repairs

    def add(self, record: Record) -> None:
        self._calibrator.add(record)
        self._overhead.add(record)
        if self.log.append(record) == "replaced":
            self._tracker = ViewTracker.of_replaced(
                self.log.view, self._tracker_inputs(), is_undone=isinstance(record.edit, Undone)
            )
            self.cache.forget_view()
        elif not record.is_boundary:
            self._tracker.add(record)

    # ── one turn ─────────────────────────────────────────────────────────────────────────────────

    def turn(self, now: datetime, new_id: NewId) -> Flow[Turn]:
        """Prepare the next request. Called again before it was answered, it gives the same request."""
        start, append = len(self.log.records), self._appender(now, new_id)
        settings, notes = self._effective_settings()
        append(self._ended_deletions(settings, now))
        dropped = self._drop_thinking(settings, self.cache.sent, now)
        yield from self._emit_thinking_dropped(dropped, settings, now)
        append(dropped)
        plan = plan_micro_compaction(self._micro_context(settings, now))
        self._tracker.cached = apply_plan(self._tracker.cached, self._tracker.results, plan)
        append(*plan.edits, *(yield from _write_offloaded(plan)), self._consume_deletions(plan))
        outcome = yield from self._compact_if_due(settings, now, new_id)
        if isinstance(outcome, Compaction):
            # The prompt may be recomputed (CP-19); now is when a different one costs least.
            settings, notes = self._effective_settings()
        append(self._ended_deletions(settings, now))
        append(self._drop_thinking(settings, settings, now))
        latched = self.cache.latch(settings)
        append(self._tell_unsendable(settings, latched.parameters))
        self._notify_detector(settings.source, plan)
        breakpoints, prediction, changes = self.cache.begin_call(
            self._tracker, settings, latched.parameters, now
        )
        messages = tuple(self._tracker.outline.messages)
        captured = _capture(settings, latched.parameters, messages, breakpoints)
        notes = (*self.cache.doubts, *notes, *latched.refused, *breakpoints.why)
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
        self.compaction_state.count_reply()
        self._has_overflowed, self._refusal = False, ""
        # Nothing was read although deletions were made in the cache: that cache is gone (MC-20).
        self._lost_deletions = bool(self._tracker.cached.pinned) and not usage.cache_read_input_tokens
        saved = 0
        for record in records:
            if record.reply and record.reply.deleted_tokens is not None:
                self._tracker.cached, saved = record_savings(
                    self._tracker.cached, record.reply.deleted_tokens
                )
            self.add(record)
        return ReplyAssessment(check, verdict, saved)

    def estimate_tokens(self, records: Iterable[Record]) -> int:
        """Tokens of records as they were recorded, whatever is in view; not padded."""
        total = sum((self._counts.of(record).whole for record in records), TokenCount()).total
        is_known = self.setting.options.tokens.calibrate and self.calibration.samples >= MIN_SAMPLES
        return self.calibration.corrected(total) if is_known else total

    def distrust_thinking(self, why: str) -> None:
        """Recorded thinking may be bound to a different prefix than the one that is sent (PC-16): on a model
        that checks this, it is not sent again.
        """
        self._tracker.thinking.prefix_changed(why)

    # ── compaction ───────────────────────────────────────────────────────────────────────────────

    def compact(self, asked: CompactionRequest, now: datetime, new_id: NewId) -> Flow[CompactionOutcome]:
        """Replace the view by a summary of it, with the first strategy that succeeds; or say why not."""
        self._make_sendable(now, new_id)
        context = self._compaction_context(self.setting)
        if context is None:
            return COMPACTION_DISABLED
        context = self.compaction_state.grant_calls(asked, context, now)
        if isinstance(context, CompactionSkipped):
            return context
        observer = CallObserver(
            before_call=partial(self.compaction_state.count_call, now),
            after_call=partial(self._note_summary_call, now),
        )
        outcome = yield from run_compaction(asked, context, now=now, new_id=new_id, observer=observer)
        event_context = _event_context(self.setting, now)
        match outcome:
            case Compaction():
                outcome = _append_behind(self.log.tip, outcome)
                for record in outcome.records:
                    self.add(record)
                # The size that every surface shows from now on.
                outcome = msgspec.structs.replace(outcome, tokens_after=self.size.next_request)
                said = yield from self.compaction_state.succeeded(outcome, event_context)
                for record in said_by_hooks(said, after=self.log.records[-1], now=now, new_id=new_id):
                    self.add(record)
            case CompactionFailed():
                yield from self.compaction_state.failed(outcome, event_context)
            case CompactionSkipped():
                pass
        return outcome

    def overflowed(self, now: datetime, new_id: NewId) -> Flow[CompactionOutcome]:
        """The API said that the request was too long: compact once, so that it can be tried again (CP-26)."""
        self._has_overflowed = True
        return (yield from self.compact(CompactionRequest(trigger="auto", is_reactive=True), now, new_id))

    def refused(self, refusal: str, now: datetime, new_id: NewId) -> Flow[bool]:
        """The API refused the request, and not for its length. Compactions since the last accepted request
        are undone: the last accepted view, and what is new, can be tried (CP-38). Returns whether there were
        any.
        """
        append = self._appender(now, new_id)
        undone: Undone | None = None
        while (found := plan_undo_after_refusal(self.log.view, refusal)) is not None:
            append(undone := found)
        if undone is None:
            return False
        self._refusal = undone.why
        yield from self.compaction_state.refused(undone.why, _event_context(self.setting, now))
        return True

    def dry_run(self, asked: CompactionRequest, now: datetime) -> CompactionPlan | CompactionSkipped:
        """What a compaction would do (CP-29)."""
        context = self._compaction_context(self.setting)
        return preview_compaction(asked, context, now) if context else COMPACTION_DISABLED

    def propose_compaction(self, now: datetime) -> Proposal | None:
        """Propose a compaction ahead of time, at a good moment: the cache is cold or the
        task is finished (CP-24).
        """
        settings = self.setting
        if not settings.options.may_compact:
            return None
        return self.compaction_state.propose(
            self.size.next_request,
            self.thresholds,
            settings.options.effective_thresholds,
            moment=_event_context(settings, now),
            activity=lambda: self._activity(now),
        )

    def answer_proposal(
        self, proposal: Proposal, response: ProposalResponse, now: datetime, new_id: NewId
    ) -> Flow[CompactionOutcome]:
        """Apply the user's answer to a proposal: compact now, propose again later, or not
        before the automatic threshold.
        """
        size, context = self.size.next_request, _event_context(self.setting, now)
        found = yield from self.compaction_state.answer(proposal, response, size, self.thresholds, context)
        if isinstance(found, CompactionSkipped):
            return found
        return (yield from self.compact(found, now, new_id))

    def _activity(self, now: datetime) -> ActivityState:
        last_reply = self._tracker.last_reply
        if (
            last_reply is None
            or self.cache.seconds_idle_beyond_ttl(self.setting, now, last_reply) is not None
        ):
            return "cache_cold"
        tools = build_tool_table(self.setting.options.tools)
        is_finished = is_task_finished(self.log.view.records, self.compaction_state.settings, tools)
        return "task_finished" if is_finished else "busy"

    def _compact_if_due(
        self, settings: ConversationSettings, now: datetime, new_id: NewId
    ) -> Flow[CompactionOutcome]:
        """Compact if the threshold is reached and no breaker, recursion guard or switch
        forbids it (CP-20).
        """
        if not settings.options.may_compact:
            return COMPACTION_DISABLED
        thresholds = _thresholds(settings)
        if self._refusal:
            return (yield from self._compact_otherwise(thresholds, now, new_id))
        due = yield from self.compaction_state.due(
            self.size.next_request,
            thresholds,
            settings.options.effective_thresholds,
            moment=_event_context(settings, now),
            chain=lambda: chain_of(self.log.view, threshold=thresholds.auto, source=settings.source),
            metrics=lambda: self.metrics,
        )
        if isinstance(due, CompactionSkipped):
            return due
        return (yield from self.compact(due, now, new_id))

    def _compact_otherwise(
        self, thresholds: ContextThresholds, now: datetime, new_id: NewId
    ) -> Flow[CompactionOutcome]:
        """After a refused view: the last accepted one is sent if it fits with what is new. Otherwise it is
        summarized whole, because what was kept may be what the API refused.
        """
        if not self._has_overflowed and self.size.next_request < thresholds.effective:
            return CompactionSkipped(f"The last accepted view is sent: {self._refusal}")
        asked = CompactionRequest(trigger="auto", is_reactive=True, keeps_nothing=True)
        return (yield from self.compact(asked, now, new_id))

    def _make_sendable(self, now: datetime, new_id: NewId) -> None:
        """A summary call sends the conversation too: what the API would refuse has to go before it."""
        append = self._appender(now, new_id)
        append(self._ended_deletions(self.setting, now))
        append(self._drop_thinking(self.setting, self.cache.sent, now))
        shared = self._shared_settings(self.setting)
        append(self._tell_unsendable(shared, self.cache.summary_parameters(shared)))

    def _note_summary_call(
        self, now: datetime, effect: AskModel, answer: ModelAnswer | ModelFailure
    ) -> SummaryUncached | None:
        """A summary call that shares our prefix changes what the provider's cache holds; if it read little of
        it, listeners are told why.
        """
        if effect.strategy == "direct" or effect.parent is None or isinstance(answer, ModelFailure):
            return None
        settings = self._shared_settings(self.setting)
        idle = self.cache.seconds_idle_beyond_ttl(settings, now, self._tracker.last_reply)
        self.cache.note_summary_call(
            self._tracker, settings, effect.parent, effect.strategy, answer.usage, now
        )
        usage = answer.usage
        if 2 * usage.cache_read_input_tokens >= usage.context:
            return None
        if self.cache.sent is not None and self.cache.sent.model != self.setting.model:
            why = f"{self.setting.model.id} has not seen this conversation before"
        elif idle is not None:
            why = f"the cache had expired: nothing was sent for {idle:.0f} s"
        elif not self._answered_messages():
            why = "the messages in view have not been sent in this form before"
        else:
            why = "the provider no longer had the entries of the last request"
        return SummaryUncached(
            moment=_event_context(self.setting, now),
            read=usage.cache_read_input_tokens,
            prompt=usage.context,
            why=why,
        )

    def _compaction_context(self, settings: ConversationSettings) -> CompactionContext | None:
        if not settings.options.may_compact:
            return None
        view, thresholds = self.log.view, _thresholds(settings)
        shared = self._shared_settings(settings)
        messages = self._tracker.messages(shared.preamble, shared.costs)
        parameters = self.cache.summary_parameters(shared)
        answered = self._answered_messages()
        written = self.cache.written_breakpoints(self._tracker, shared, answered)
        latest = self.cache.breakpoints if shared is self.cache.sent else Breakpoints()
        written, latest = (keep_existing(each, shared.preamble, messages) for each in (written, latest))
        captured = _capture(shared, parameters, messages, latest if latest.places else written)
        notes = usable_notes(
            self.notes,
            view,
            self._counts,
            settings.options.notes,
            transcript=settings.transcript,
            resumed_at=self._resumed_at,
        )
        return CompactionContext(
            view=view,
            size=self.size.next_request,
            measured=self._tracker.measured(),
            limits=thresholds,
            model=settings.model,
            capabilities=settings.capabilities,
            counts=self._counts,
            chain=chain_of(view, threshold=thresholds.auto, source=settings.source),
            captured=captured,
            betas=required_betas(captured),
            answered=written,
            settings=settings.options.compact,
            tools=build_tool_table(settings.options.tools),
            transcript=settings.transcript,
            notes=notes.text,
            notes_end_before=notes.end_before,
        )

    def _shared_settings(self, settings: ConversationSettings) -> ConversationSettings:
        """The settings whose prefix the provider's cache holds: those of the last request, even if the next
        one has a different system prompt or different tools. Another model has a cache of its own.
        """
        sent = self.cache.sent
        return sent if sent is not None and sent.model == settings.model else settings

    def _answered_messages(self) -> int:
        """The number of messages in the last answered request of this view. Records kept from before a
        boundary, or said under a compaction that was undone, were sent behind another prefix.
        """
        view = self.log.view
        for record in reversed(view.records):
            is_elsewhere = record.uuid in view.stale or record.uuid in view.shrunk
            if record.kind == "assistant" and record.reply is not None and not is_elsewhere:
                return max(0, self._tracker.flattener.place_of(record.uuid))
        return 0

    # ── the steps of a turn ──────────────────────────────────────────────────────────────────────

    def _effective_settings(self) -> tuple[ConversationSettings, tuple[str, ...]]:
        """The requested settings. But inside a tool loop the API requires the thinking of that loop
        unchanged, so a change that would invalidate it waits for the end of the loop (PC-16).
        """
        sent, wanted = self.cache.sent, self.setting
        if sent is None or not self._tracker.flattener.in_tool_loop:
            return wanted, ()
        if sent.model != wanted.model and wanted.decides == "engine":
            waits = "the model"
        elif sent.model == wanted.model and sent.preamble != wanted.preamble and wanted.model.binds_thinking:
            waits = "system prompt and tools"
        else:
            return wanted, ()
        kept = msgspec.structs.replace(wanted, model=sent.model, preamble=sent.preamble, costs=sent.costs)
        return kept, (f"a change of {waits} waits until the tool loop has ended",)

    def _size(self, settings: ConversationSettings) -> ContextSize:
        return self._tracker.size(
            settings.preamble,
            settings.costs,
            overhead=self._known_overhead(settings),
            calibration=self.calibration if settings.options.tokens.calibrate else None,
        )

    def _known_overhead(self, settings: ConversationSettings) -> int | None:
        """What system prompt and tools take, as the first usage told; None once they have changed, or if the
        log does not go back to the beginning.
        """
        sent = self.cache.sent
        is_same = sent is None or sent.preamble == settings.preamble
        starts = is_conversation_start(self.log.records)
        return self._overhead.tokens(self.calibration) if is_same and starts else None

    def _micro_context(self, settings: ConversationSettings, now: datetime) -> MicroContext:
        tracker = self._tracker
        return MicroContext(
            results=tracker.results,
            options=settings.options,
            source=settings.source,
            now=now,
            last_reply=tracker.last_reply,
            size=self._size(settings).tokens,
            capabilities=settings.capabilities,
            in_tool_loop=tracker.flattener.in_tool_loop,
            binds_thinking=settings.model.binds_thinking,
            thinking_tokens_after=tracker.thinking.tokens_after,
            cached=tracker.cached,
            records=self.log.view.records,
            counts=self._counts,
        )

    def _drop_thinking(
        self, settings: ConversationSettings, before: ConversationSettings | None, now: datetime
    ) -> ThinkingDropped | None:
        """Drop thinking that cannot be sent, and old thinking if the cache is cold: everything is written
        again then, and need not include it.

        The API could do that itself (MC-13), but only while every request asks for it; our
        own edit is made once and stays.
        """
        tracker, declarative = self._tracker, settings.options.micro.declarative
        is_cold = tracker.last_reply is not None and now - tracker.last_reply > declarative.idle
        cold = "the cache is cold" if is_cold and settings.options.declares and declarative.thinking else ""
        return tracker.thinking.drop(
            settings,
            before,
            cold=cold,
            keep_turns=declarative.thinking_turns,
            in_loop=tracker.flattener.in_tool_loop,
        )

    def _tell_unsendable(self, settings: ConversationSettings, parameters: KeyParameters) -> Edit | None:
        """A tool loop that lost its thinking to a compaction cannot be sent as it is (CP-38). What a caller
        asks for and we never changed is the caller's own."""
        tracker, mode = self._tracker, thinking_mode(settings.model, parameters)
        is_ours = settings.decides == "engine" or self.log.view.boundary is not None
        if not is_ours or not tracker.flattener.in_tool_loop:
            return None
        calls = unsendable_calls(tracker.messages(settings.preamble, settings.costs), mode)
        if not calls:
            return None
        return ToldAsText(calls, f"with thinking {mode}, the API refuses a tool loop without thinking")

    def _emit_thinking_dropped(
        self, edit: ThinkingDropped | None, settings: ConversationSettings, now: datetime
    ) -> Flow[None]:
        """Report dropped thinking that could have been sent (MC-13), not what the API would refuse."""
        if edit is not None and edit.until:
            tokens = self._tracker.thinking.tokens_dropped_by(edit)
            size = self.size.next_request
            yield from emit(thinking_dropped(edit, tokens, size, _event_context(settings, now)))

    def _ended_deletions(self, settings: ConversationSettings, now: datetime) -> Edit | None:
        """Deletions exist in the provider's cache; once that has certainly expired, or the last usage shows
        that it is gone, they are gone too (MC-12, MC-20).
        """
        tracker = self._tracker
        if tracker.is_new and tracker.flattener.deleted:
            tracker.cached = CacheEditState()
            return CacheDeletionsEnded("the messages that contained them were replaced")
        # Removing their blocks is an edit too: if it would invalidate the thinking of a tool loop, it waits.
        waits = settings.model.binds_thinking and tracker.flattener.in_tool_loop
        idle = self.cache.seconds_idle_beyond_ttl(settings, now)
        if (idle is None and not self._lost_deletions) or not tracker.cached.pinned or waits:
            return None
        why = "the last request read nothing from the cache that they were made in"
        if idle is not None:
            why = f"idle for {idle:.0f} s, longer than the cache lifetime"
        self._lost_deletions = False
        tracker.cached, edit = expire_deletions(tracker.cached, why=why)
        return edit

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

    def _appender(self, now: datetime, new_id: NewId) -> Callable[..., None]:
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
            self._counts,
            settings.preamble.tools,
        )

    # ── after a restart ──────────────────────────────────────────────────────────────────────────

    def _load(self, records: Iterable[Record], *, replays: bool) -> None:
        """Load an existing log. `replays`: what it says about the provider's cache is not known yet."""
        continues = self.cache.continues_last_call(self.setting)
        last_reply = ""
        for record in records:
            if continues and replays and record.message_id != last_reply:
                last_reply = self._replay_call(record) or last_reply
            self.add(record)
        if self.log.records:
            self._resume(continues=continues)

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
        self._resumed_at = self.log.view.records[-1].uuid if self.log.view.records else ""
        tracker.cached = rebuild_state(
            tracker.results, (each.edit for each in self.log.view.records if each.edit)
        )
        tracker.thinking.ask_replies()
        if continues:
            self.cache.sent = self.setting
            return
        tracker.thinking.prefix_changed("system prompt and tools may have been different")
        self.cache.called_at = self.cache.called_at or tracker.last_reply
        self.cache.doubts = ("resumed without a call of the same cache key: no read is predicted",)


def _thresholds(settings: ConversationSettings) -> ContextThresholds:
    model, options = settings.model, settings.options
    return compute_thresholds(model.window, model.max_output, options.effective_thresholds)


def _capture(
    settings: ConversationSettings, parameters: KeyParameters, messages: Any, breakpoints: Any
) -> CapturedRequest:
    """The complete request: what a fork of the conversation must repeat byte for byte."""
    fields = {**settings.fields, **_declared_fields(settings, parameters)}
    return CapturedRequest(settings.model.id, settings.preamble, parameters, messages, fields, breakpoints)


def _declared_fields(settings: ConversationSettings, parameters: KeyParameters) -> dict[str, Any]:
    """What the API is asked to clear itself, as fields of the request (MC-13, MC-14)."""
    if not settings.options.declares:
        return {}
    asked = build_context_management(
        (tool.tool for tool in settings.preamble.tools),
        thinking=thinking_in_replies(thinking_mode(settings.model, parameters), parameters.betas),
        settings=settings.options.micro.declarative,
        capabilities=settings.capabilities,
        table=build_tool_table(settings.options.tools),
    )
    return {"context_management": asked} if asked else {}


def _append_behind(tip: Record | None, made: Compaction) -> Compaction:
    """The boundary continues from the end of the log, not from the last record in view: an undo is only in
    the log, and a path that leaves it out would bring back what was undone.
    """
    edit = made.boundary.edit
    if tip is None or not isinstance(edit, Compacted):
        return made
    edit = msgspec.structs.replace(edit, logical_parent=tip.uuid)
    return msgspec.structs.replace(made, boundary=msgspec.structs.replace(made.boundary, edit=edit))


def _event_context(settings: ConversationSettings, now: datetime) -> EventContext:
    return EventContext(at=now, source=settings.source, model=settings.model.id)


def _write_offloaded(plan: MicroPlan) -> Flow[list[Edit]]:
    """Write the text first: a result leaves the context only after its text is stored elsewhere."""
    edits: list[Edit] = []
    for wanted in plan.offload:
        path = yield from write_file(WriteFile(wanted.name, wanted.content))
        edits.append(wanted.written_to(path))
    return edits
