"""One conversation: its log, and the turn from top to bottom."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from everturn.decide.cache_breaks import CacheBreakDetector, Diagnosis
from everturn.decide.cache_key_snapshot import diff_key_snapshots, take_key_snapshot
from everturn.decide.compact.build_records import said_by_hooks
from everturn.decide.compact.chain import chain_of
from everturn.decide.compact.flow import preview_compaction, run_compaction
from everturn.decide.compact.values import (
    Compaction,
    CompactionFailed,
    CompactionPlan,
    CompactionRequest,
    CompactionSkipped,
)
from everturn.decide.effects import AskModel, ModelAnswer, WriteFile
from everturn.decide.events import EventContext
from everturn.decide.micro.cache_edit_state import apply_plan, rebuild_state
from everturn.decide.micro.context import MicroPlan
from everturn.decide.micro.declarative import AppliedContextEdit
from everturn.decide.micro.order import plan_micro_compaction
from everturn.engine.conversation_state import ConversationState, build_declared_fields
from everturn.engine.values import (
    COMPACTION_DISABLED,
    CompactionOutcome,
    ConversationSettings,
    Flow,
    NewId,
    ReplyAssessment,
    Turn,
)
from everturn.history.edits import Compacted, Edit
from everturn.history.records import Record, Usage, record_time, reported_usage
from everturn.measure.accounting import accounts_of
from everturn.measure.prediction import Forecast, PredictionCheck
from everturn.view.breakpoints import Breakpoints
from everturn.view.forks import CapturedRequest
from everturn.view.key_parameters import latch_parameters


class Conversation(ConversationState):
    """One conversation: its log, and what is kept up to date with it record by record.

    `records` are a log that exists already. Where the last call in it had the same key, as the detector
    knows (CB-7), its replies tell what the provider's cache holds; else the first turn says that it guesses.
    """

    def __init__(
        self,
        setting: ConversationSettings,
        records: Iterable[Record] = (),
        *,
        forecast: Forecast | None = None,
        detector: CacheBreakDetector | None = None,
    ) -> None:
        super().__init__(setting, forecast, detector)
        goes_on = self._continues_last_call()
        for record in records:
            if goes_on and forecast is None:
                self._recall(record)
            self.add(record)
        if self.log.records:
            self._resume(goes_on=goes_on)

    def turn(self, now: datetime, new_id: NewId) -> Flow[Turn]:
        """The next request. Asked again before it was answered, it comes out the same."""
        start = len(self.log.records)
        setting, notes = self._effective_settings()
        append = self._appender(now, new_id)
        append(self._ended_deletions(setting, now))
        append(self._drop_thinking(setting, self._sent, now))
        plan = plan_micro_compaction(self._micro_context(setting, now))
        self._tracker.cached = apply_plan(self._tracker.cached, self._tracker.results, plan)
        append(*plan.edits, *(yield from _offloaded(plan)), self._consume(plan))
        outcome = yield from self._compact_if_due(setting, now, new_id)
        if isinstance(outcome, Compaction):
            # The prompt may have been computed anew (CP-19); now is when another one costs least.
            setting, notes = self._effective_settings()
        append(self._ended_deletions(setting, now))
        append(self._drop_thinking(setting, setting, now))
        self._tell_detector(setting.source, plan)
        parameters = latch_parameters(self._latched_for(setting), setting.parameters)
        self._latched, self._sent = parameters.parameters, setting
        marks, prediction = self._place_breakpoints_and_predict(setting, parameters.parameters, now)
        self._under_way, self._marks = (now, marks.reached), marks
        sent = take_key_snapshot(setting.model.id, setting.head, parameters.parameters, marks)
        found = self.detector.before_call(setting.source, sent, setting.head, now.timestamp())
        messages = tuple(self._tracker.outline.messages)
        fields = {**setting.fields, **build_declared_fields(setting, parameters.parameters)}
        safe = CapturedRequest(setting.model.id, setting.head, parameters.parameters, messages, fields, marks)
        said = (*self._doubts, *notes, *parameters.refused, *marks.why)
        appended = tuple(self.log.records[start:])
        return Turn(appended, plan, marks, prediction, found, self.size, said, safe, outcome)

    def compact(self, asked: CompactionRequest, now: datetime, new_id: NewId) -> Flow[CompactionOutcome]:
        """Replace the view by a summary of it, by whichever way leads there; or say why not."""
        ground = self._compaction_context(self.setting, now)
        if ground is None:
            return COMPACTION_DISABLED
        ground = self.compaction_state.grant_calls(asked, ground)
        if isinstance(ground, CompactionSkipped):
            return ground
        flow = run_compaction(asked, ground, now=now, new_id=new_id)
        outcome = yield from self._watched(flow, now)
        moment = _moment(self.setting, now)
        match outcome:
            case Compaction():
                outcome = _behind(self.log.tip, outcome)
                for record in outcome.records:
                    self.add(record)
                said = yield from self.compaction_state.succeeded(outcome, moment)
                for record in said_by_hooks(said, after=self.log.records[-1], now=now, new_id=new_id):
                    self.add(record)
            case CompactionFailed():
                yield from self.compaction_state.failed(outcome, moment)
            case CompactionSkipped():
                pass
        return outcome

    def _watched(self, flow: Flow[CompactionOutcome], now: datetime) -> Flow[CompactionOutcome]:
        """A summary call that shares our prefix renews what it reads and may write what was gone: our picture
        of the cache must know."""
        answer: Any = None
        while True:
            try:
                effect = flow.send(answer)
            except StopIteration as done:
                return done.value
            if isinstance(effect, AskModel):
                self.compaction_state.asked()
            answer = yield effect
            match effect, answer:
                case AskModel(
                    way="fork" | "provider" as way, parent=CapturedRequest() as parent
                ), ModelAnswer():
                    self._was_asked(parent, way, answer.usage, now)
                case _:
                    pass

    def overflowed(self, now: datetime, new_id: NewId) -> Flow[CompactionOutcome]:
        """The request was too long, whatever we thought of its size: compact, once, to try again (CP-26)."""
        return (yield from self.compact(CompactionRequest(trigger="auto", is_reactive=True), now, new_id))

    def dry_run(self, asked: CompactionRequest, now: datetime) -> CompactionPlan | CompactionSkipped:
        """What a compaction would do (CP-29)."""
        ground = self._compaction_context(self.setting, now)
        return preview_compaction(asked, ground, now) if ground else COMPACTION_DISABLED

    def record_reply(
        self,
        records: Sequence[Record],
        usage: Usage,
        now: datetime,
        *,
        diagnosis: Diagnosis | None = None,
        applied: Sequence[AppliedContextEdit] = (),
    ) -> ReplyAssessment:
        """The answer is part of the log now, and its usage the judge of what was predicted."""
        source = (self._sent or self.setting).source
        if any(edit.detector_notice == "deleted" for edit in applied):
            self.detector.deleted(source)
        if self._under_way is not None:
            (self._called_at, self._tracker.reached), self._under_way = self._under_way, None
        self._doubts, self._answered_breakpoints = (), self._marks
        check = self._forecast.settle(usage, now.timestamp())
        verdict = self.detector.after_call(source, usage, diagnosis)
        self._tracker.results.settle()
        for record in records:
            self.add(record)
        return ReplyAssessment(check, verdict)

    def distrust_thinking(self, why: str) -> None:
        """What the log holds of it may be bound to another prefix than the one that is sent (PC-16): on a
        model that checks, it is not sent again."""
        self._tracker.thinking.prefix_changed(why)

    def _compact_if_due(
        self, setting: ConversationSettings, now: datetime, new_id: NewId
    ) -> Flow[CompactionOutcome]:
        """Over the mark, and nothing speaks against it: the breakers, a recursion, a switch (CP-20)."""
        if setting.compaction is None:
            return COMPACTION_DISABLED
        limits = self._limits(setting)
        due = yield from self.compaction_state.due(
            self.size.tokens,
            limits,
            setting.policy.thresholds,
            moment=_moment(setting, now),
            chain=lambda: chain_of(self.log.view, threshold=limits.auto, source=setting.source),
            metrics=lambda: accounts_of(self.log.view, self._counts).metrics(),
        )
        if isinstance(due, CompactionSkipped):
            return due
        return (yield from self.compact(due, now, new_id))

    # ── going on after a restart ─────────────────────────────────────────────────────────────────

    def _continues_last_call(self) -> bool:
        """Whether the last call before a restart had in its key what would be sent now (CB-7)."""
        setting, known = self.setting, self.detector.baselines.get(self.setting.source)
        if known is None or known.answered is None:
            return False
        now = take_key_snapshot(setting.model.id, setting.head, setting.parameters, Breakpoints())
        return all(change.part == "markers" for change in diff_key_snapshots(known.answered.snapshot, now))

    def _recall(self, record: Record) -> None:
        """A reply of an earlier process: what was asked for is what stands in the log before it."""
        model, reply, usage = self.setting.model, record.reply, reported_usage(record)
        # The request began no earlier than what is recorded last before its reply.
        asked_at = record_time(self.log.records[-1]) if self.log.records else None
        if reply is None or usage is None or asked_at is None or reply.message_id == self._recalled:
            return
        self._recalled = reply.message_id
        if reply.model in (model.id, *model.aliases):
            check = self._ask_again(usage, asked_at)
            if check is None or check.verdict == "other total":
                # Before it the key was another one, or nobody can say: only this call is known.
                self._forecast = Forecast()
                self._ask_again(usage, asked_at)

    def _ask_again(self, usage: Usage, asked_at: datetime) -> PredictionCheck | None:
        marks, _ = self._place_breakpoints_and_predict(self.setting, self.setting.parameters, asked_at)
        self._called_at, self._tracker.reached = asked_at, marks.reached
        return self._forecast.settle(usage, asked_at.timestamp())

    def _resume(self, *, goes_on: bool) -> None:
        self._tracker.cached = rebuild_state(
            self._tracker.results, (each.edit for each in self.log.view.records if each.edit)
        )
        self._tracker.thinking.ask_replies()
        if goes_on:
            self._sent = self.setting
            return
        self._tracker.thinking.prefix_changed("system prompt and tools may have been others")
        self._called_at = self._called_at or self._tracker.last_reply
        self._doubts = ("resumed without a last call of the same key: nothing is predicted to be read",)


def _behind(tip: Record | None, made: Compaction) -> Compaction:
    """Its boundary goes on from the end of the log. The last record in sight will not do: an undo is in the
    log only, and a path that leaves it out would bring back what was undone."""
    edit = made.boundary.edit
    if tip is None or not isinstance(edit, Compacted):
        return made
    edit = msgspec.structs.replace(edit, logical_parent=tip.uuid)
    return msgspec.structs.replace(made, boundary=msgspec.structs.replace(made.boundary, edit=edit))


def _moment(setting: ConversationSettings, now: datetime) -> EventContext:
    return EventContext(at=now, source=setting.source, model=setting.model.id)


def _offloaded(plan: MicroPlan) -> Flow[list[Edit]]:
    """A result leaves the context only after its text is safe elsewhere."""
    edits: list[Edit] = []
    for wanted in plan.offload:
        path = yield WriteFile(wanted.name, wanted.content)
        edits.append(wanted.written_to(path))
    return edits
