"""One conversation: its log, and the turn from top to bottom."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from everturn.decide.cache_breaks import Detector, Diagnosis
from everturn.decide.compact.chain import chain_of
from everturn.decide.compact.finish import said_by_hooks
from everturn.decide.compact.flow import compaction, plan_of
from everturn.decide.compact.values import (
    Asked,
    Compaction,
    CompactionFailed,
    CompactionPlan,
    NotCompacting,
)
from everturn.decide.effects import Answer, AskModel, WriteFile
from everturn.decide.events import Moment
from everturn.decide.micro.cached_state import planned, resumed
from everturn.decide.micro.declarative import Applied
from everturn.decide.micro.order import micro
from everturn.decide.micro.situation import MicroPlan
from everturn.decide.snapshot import changes, snapshot
from everturn.engine.steps import Steps, declared
from everturn.engine.values import NEVER, Flow, NewId, Outcome, Setting, Settled, Turn
from everturn.history.edits import Compacted, Edit
from everturn.history.records import Record, Usage, reported_usage, when
from everturn.measure.accounting import accounts_of
from everturn.measure.prediction import Check, Forecast
from everturn.view.forks import CacheSafe
from everturn.view.lifetime import held
from everturn.view.markers import Marks


class Conversation(Steps):
    """One conversation: its log, and what is kept up to date with it record by record.

    `records` are a log that exists already. Where the last call in it had the same key, as the detector
    knows (CB-7), its replies tell what the provider's cache holds; else the first turn says that it guesses.
    """

    def __init__(
        self,
        setting: Setting,
        records: Iterable[Record] = (),
        *,
        forecast: Forecast | None = None,
        detector: Detector | None = None,
    ) -> None:
        super().__init__(setting, forecast, detector)
        goes_on = self._goes_on()
        for record in records:
            if goes_on and forecast is None:
                self._recall(record)
            self.add(record)
        if self.log.records:
            self._resume(goes_on=goes_on)

    def turn(self, now: datetime, new_id: NewId) -> Flow[Turn]:
        """The next request. Asked again before it was answered, it comes out the same."""
        start = len(self.log.records)
        setting, notes = self._setting_in_force()
        append = self._appender(now, new_id)
        append(self._ended_deletions(setting, now))
        append(self._drop_thinking(setting, self._sent, now))
        plan = micro(self._situation(setting, now))
        self._follows.cached = planned(self._follows.cached, self._follows.results, plan)
        append(*plan.edits, *(yield from _offloaded(plan)), self._consume(plan))
        outcome = yield from self._compact_if_due(setting, now, new_id)
        if isinstance(outcome, Compaction):
            # The prompt may have been computed anew (CP-19); now is when another one costs least.
            setting, notes = self._setting_in_force()
        append(self._ended_deletions(setting, now))
        append(self._drop_thinking(setting, setting, now))
        self._tell_detector(setting.source, plan)
        parameters = held(self._latched_for(setting), setting.parameters)
        self._latched, self._sent = parameters.parameters, setting
        marks, prediction = self._look_ahead(setting, parameters.parameters, now)
        self._under_way, self._marks = (now, marks.reached), marks
        sent = snapshot(setting.model.id, setting.head, parameters.parameters, marks)
        found = self.detector.before_call(setting.source, sent, setting.head, now.timestamp())
        messages = tuple(self._follows.outline.messages)
        fields = {**setting.fields, **declared(setting, parameters.parameters)}
        safe = CacheSafe(setting.model.id, setting.head, parameters.parameters, messages, fields, marks)
        said = (*self._doubts, *notes, *parameters.refused, *marks.why)
        appended = tuple(self.log.records[start:])
        return Turn(appended, plan, marks, prediction, found, self.size, said, safe, outcome)

    def compact(self, asked: Asked, now: datetime, new_id: NewId) -> Flow[Outcome]:
        """Replace the view by a summary of it, by whichever way leads there; or say why not."""
        ground = self._ground(self.setting, now)
        if ground is None:
            return NEVER
        ground = self.keeper.granted(asked, ground)
        if isinstance(ground, NotCompacting):
            return ground
        flow = compaction(asked, ground, now=now, new_id=new_id)
        outcome = yield from self._watched(flow, now)
        moment = _moment(self.setting, now)
        match outcome:
            case Compaction():
                outcome = _behind(self.log.tip, outcome)
                for record in outcome.records:
                    self.add(record)
                said = yield from self.keeper.succeeded(outcome, moment)
                for record in said_by_hooks(said, after=self.log.records[-1], now=now, new_id=new_id):
                    self.add(record)
            case CompactionFailed():
                yield from self.keeper.failed(outcome, moment)
            case NotCompacting():
                pass
        return outcome

    def _watched(self, flow: Flow[Outcome], now: datetime) -> Flow[Outcome]:
        """A summary call that shares our prefix renews what it reads and may write what was gone: our picture
        of the cache must know."""
        answer: Any = None
        while True:
            try:
                effect = flow.send(answer)
            except StopIteration as done:
                return done.value
            if isinstance(effect, AskModel):
                self.keeper.asked()
            answer = yield effect
            match effect, answer:
                case AskModel(way="fork" | "provider" as way, parent=CacheSafe() as parent), Answer():
                    self._was_asked(parent, way, answer.usage, now)
                case _:
                    pass

    def overflowed(self, now: datetime, new_id: NewId) -> Flow[Outcome]:
        """The request was too long, whatever we thought of its size: compact, once, to try again (CP-26)."""
        return (yield from self.compact(Asked(trigger="auto", is_reactive=True), now, new_id))

    def dry_run(self, asked: Asked, now: datetime) -> CompactionPlan | NotCompacting:
        """What a compaction would do (CP-29)."""
        ground = self._ground(self.setting, now)
        return plan_of(asked, ground, now) if ground else NEVER

    def replied(
        self,
        records: Sequence[Record],
        usage: Usage,
        now: datetime,
        *,
        diagnosis: Diagnosis | None = None,
        applied: Sequence[Applied] = (),
    ) -> Settled:
        """The answer is part of the log now, and its usage the judge of what was predicted."""
        source = (self._sent or self.setting).source
        if any(edit.tells_detector == "deleted" for edit in applied):
            self.detector.deleted(source)
        if self._under_way is not None:
            (self._called_at, self._follows.reached), self._under_way = self._under_way, None
        self._doubts, self._answered_marks = (), self._marks
        check = self._forecast.settle(usage, now.timestamp())
        verdict = self.detector.after_call(source, usage, diagnosis)
        self._follows.results.settle()
        for record in records:
            self.add(record)
        return Settled(check, verdict)

    def distrust_thinking(self, why: str) -> None:
        """What the log holds of it may be bound to another prefix than the one that is sent (PC-16): on a
        model that checks, it is not sent again."""
        self._follows.thinking.prefix_changed(why)

    def _compact_if_due(self, setting: Setting, now: datetime, new_id: NewId) -> Flow[Outcome]:
        """Over the mark, and nothing speaks against it: the breakers, a recursion, a switch (CP-20)."""
        if setting.compaction is None:
            return NEVER
        limits = self._limits(setting)
        due = yield from self.keeper.due(
            self.size.tokens,
            limits,
            setting.policy.thresholds,
            moment=_moment(setting, now),
            chain=lambda: chain_of(self.log.view, threshold=limits.auto, source=setting.source),
            metrics=lambda: accounts_of(self.log.view, self._counts).metrics(),
        )
        if isinstance(due, NotCompacting):
            return due
        return (yield from self.compact(due, now, new_id))

    # ── going on after a restart ─────────────────────────────────────────────────────────────────

    def _goes_on(self) -> bool:
        """Whether the last call before a restart had in its key what would be sent now (CB-7)."""
        setting, known = self.setting, self.detector.baselines.get(self.setting.source)
        if known is None or known.answered is None:
            return False
        now = snapshot(setting.model.id, setting.head, setting.parameters, Marks())
        return all(change.part == "markers" for change in changes(known.answered.snapshot, now))

    def _recall(self, record: Record) -> None:
        """A reply of an earlier process: what was asked for is what stands in the log before it."""
        model, reply, usage = self.setting.model, record.reply, reported_usage(record)
        # The request began no earlier than what is recorded last before its reply.
        asked_at = when(self.log.records[-1]) if self.log.records else None
        if reply is None or usage is None or asked_at is None or reply.message_id == self._recalled:
            return
        self._recalled = reply.message_id
        if reply.model in (model.id, *model.aliases):
            check = self._ask_again(usage, asked_at)
            if check is None or check.verdict == "other total":
                # Before it the key was another one, or nobody can say: only this call is known.
                self._forecast = Forecast()
                self._ask_again(usage, asked_at)

    def _ask_again(self, usage: Usage, asked_at: datetime) -> Check | None:
        marks, _ = self._look_ahead(self.setting, self.setting.parameters, asked_at)
        self._called_at, self._follows.reached = asked_at, marks.reached
        return self._forecast.settle(usage, asked_at.timestamp())

    def _resume(self, *, goes_on: bool) -> None:
        self._follows.cached = resumed(
            self._follows.results, (each.edit for each in self.log.view.records if each.edit)
        )
        self._follows.thinking.ask_replies()
        if goes_on:
            self._sent = self.setting
            return
        self._follows.thinking.prefix_changed("system prompt and tools may have been others")
        self._called_at = self._called_at or self._follows.last_reply
        self._doubts = ("resumed without a last call of the same key: nothing is predicted to be read",)


def _behind(tip: Record | None, made: Compaction) -> Compaction:
    """Its boundary goes on from the end of the log. The last record in sight will not do: an undo is in the
    log only, and a path that leaves it out would bring back what was undone."""
    edit = made.boundary.edit
    if tip is None or not isinstance(edit, Compacted):
        return made
    edit = msgspec.structs.replace(edit, logical_parent=tip.uuid)
    return msgspec.structs.replace(made, boundary=msgspec.structs.replace(made.boundary, edit=edit))


def _moment(setting: Setting, now: datetime) -> Moment:
    return Moment(at=now, source=setting.source, model=setting.model.id)


def _offloaded(plan: MicroPlan) -> Flow[list[Edit]]:
    """A result leaves the context only after its text is safe elsewhere."""
    edits: list[Edit] = []
    for wanted in plan.offload:
        path = yield WriteFile(wanted.name, wanted.content)
        edits.append(wanted.written_to(path))
    return edits
