"""What a conversation has at hand, and the steps that a turn is made of. Their order: `conversation.py`."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Literal

import msgspec

from everturn.decide.betas import betas_of
from everturn.decide.cache_breaks import CacheBreakDetector
from everturn.decide.compact.chain import chain_of
from everturn.decide.compact.context import CompactionContext
from everturn.decide.compact.settings import DEFAULTS
from everturn.decide.compact.state import CompactionState, usable_notes
from everturn.decide.micro.cache_edit_state import CacheEditState, consume_pending, expire_deletions
from everturn.decide.micro.context import MicroContext, MicroPlan
from everturn.decide.micro.declarative import build_context_management
from everturn.decide.notes.document import Notes
from everturn.decide.view_tracker import TrackerInputs, ViewTracker
from everturn.engine.values import ConversationSettings, NewId
from everturn.history.edits import CacheDeletionsEnded, Edit
from everturn.history.log import Log
from everturn.history.records import Record, Usage, make_edit_record
from everturn.history.repair import Repair
from everturn.measure.meter import ContextSize
from everturn.measure.outline import Outline
from everturn.measure.prediction import Forecast, Prediction
from everturn.measure.prefix_cache import SECONDS
from everturn.measure.thresholds import ContextThresholds, compute_thresholds
from everturn.measure.tokens import TokenCounter
from everturn.view.breakpoints import Breakpoints, place_breakpoints
from everturn.view.cache_key import salts, thinking_mode
from everturn.view.forks import CapturedRequest, make_fork
from everturn.view.key_parameters import KeyParameters, latch_parameters
from everturn.view.requests import place_fork_breakpoints


class ConversationState:
    """The state of one conversation. What belongs to the current view alone is in `_tracker`."""

    def __init__(
        self, setting: ConversationSettings, forecast: Forecast | None, detector: CacheBreakDetector | None
    ) -> None:
        self.setting = setting
        self.log = Log()
        self.detector = detector or CacheBreakDetector()
        self._forecast = forecast or Forecast()
        self._latched: KeyParameters | None = None
        self._sent: ConversationSettings | None = None
        # What of a request matters for the next one: when it began, and how far its markers reached.
        self._under_way: tuple[datetime, int] | None = None
        self._called_at: datetime | None = None
        self._recalled = ""
        self._doubts: tuple[str, ...] = ()
        self._counts = TokenCounter()
        self._marks = Breakpoints()
        self._answered_breakpoints = Breakpoints()
        # The session's notes, where it keeps any: they can stand for a summary (SM-6).
        self.notes: Notes | None = None
        self.compaction_state = CompactionState(
            setting.compaction.settings if setting.compaction else DEFAULTS
        )
        self._tracker = ViewTracker(self.log.view, self._kept(), is_new=False)

    def add(self, record: Record) -> None:
        if self.log.append(record) == "replaced":
            self._tracker = ViewTracker.of_replaced(self.log.view, self._kept())
            self._marks = self._answered_breakpoints = Breakpoints()
        elif not record.is_boundary:
            self._tracker.add(record)

    def _kept(self) -> TrackerInputs:
        setting = self.setting
        return TrackerInputs(setting.policy.tools, setting.capabilities, setting.costs, self._counts)

    def _limits(self, setting: ConversationSettings) -> ContextThresholds:
        return compute_thresholds(setting.model.window, setting.model.max_output, setting.policy.thresholds)

    @property
    def size(self) -> ContextSize:
        return self._tracker.size(self.setting.head, self.setting.costs)

    @property
    def repairs(self) -> tuple[Repair, ...]:
        """What had to be changed so that the API accepts what is in view (TR-11)."""
        return self._tracker.flattener.repairs

    def _effective_settings(self) -> tuple[ConversationSettings, tuple[str, ...]]:
        """What is asked for; but inside a tool loop the API wants the thinking of that loop as it was, so a
        change that would invalidate it waits for the end of the loop (PC-16)."""
        sent, wanted = self._sent, self.setting
        if sent is None or not self._tracker.flattener.in_tool_loop:
            return wanted, ()
        if sent.model != wanted.model and wanted.decides == "engine":
            waits = "the model"
        elif sent.model == wanted.model and sent.head != wanted.head and wanted.model.binds_thinking:
            waits = "system prompt and tools"
        else:
            return wanted, ()
        kept = msgspec.structs.replace(wanted, model=sent.model, head=sent.head, costs=sent.costs)
        return kept, (f"a change of {waits} waits until the tool loop has ended",)

    def _micro_context(self, setting: ConversationSettings, now: datetime) -> MicroContext:
        return MicroContext(
            results=self._tracker.results,
            policy=setting.policy,
            source=setting.source,
            now=now,
            last_reply=self._tracker.last_reply,
            size=self._tracker.size(setting.head, setting.costs).tokens,
            capabilities=setting.capabilities,
            in_tool_loop=self._tracker.flattener.in_tool_loop,
            binds_thinking=setting.model.binds_thinking,
            thinking_tokens_after=self._tracker.thinking.tokens_after,
            cached=self._tracker.cached,
            records=self.log.view.records,
            counts=self._counts,
        )

    def _drop_thinking(
        self, setting: ConversationSettings, before: ConversationSettings | None, now: datetime
    ) -> Edit | None:
        """Also when the cache has gone cold: a rewrite is due anyway, and old thinking need not be in it.

        The API could do that by itself (MC-13), but only for as long as it is asked in every request; our
        own edit is made once and stays.
        """
        settings = setting.policy.micro.declarative
        is_cold = self._tracker.last_reply is not None and now - self._tracker.last_reply > settings.idle
        cold = "the cache is cold" if is_cold and setting.policy.declares and settings.thinking else ""
        return self._tracker.thinking.drop(
            setting, before, cold=cold, in_loop=self._tracker.flattener.in_tool_loop
        )

    def _ended_deletions(self, setting: ConversationSettings, now: datetime) -> Edit | None:
        """Deletions live in the provider's cache; once that is surely gone, so are they (MC-12)."""
        if self._tracker.is_new and self._tracker.flattener.deleted:
            self._tracker.cached = CacheEditState()
            return CacheDeletionsEnded("the messages that they were made in are others now")
        # Taking their blocks out is an edit too: where it would cost the thinking of a tool loop, it waits.
        waits = setting.model.binds_thinking and self._tracker.flattener.in_tool_loop
        if self._called_at is None or not self._tracker.cached.pinned or waits:
            return None
        idle = (now - self._called_at).total_seconds()
        if idle <= SECONDS[(self._latched or setting.parameters).lifetime.ttl]:
            return None
        self._tracker.cached, edit = expire_deletions(
            self._tracker.cached, why=f"idle for {idle:.0f} s, longer than the cache lives"
        )
        return edit

    def _consume(self, plan: MicroPlan) -> Edit | None:
        self._tracker.cached, edit = consume_pending(self._tracker.cached, why=plan.why)
        return edit

    def _tell_detector(self, source: str, plan: MicroPlan) -> None:
        # Asked in any case: an answer that is not fetched now would be taken for the next turn's.
        dropped = self._tracker.thinking.took_dropped()
        if plan.detector_notice == "deleted" or dropped:
            self.detector.deleted(source)
        if self._tracker.is_new:
            self.detector.compacted(source)
        self._tracker.is_new = False

    def _place_breakpoints_and_predict(
        self, setting: ConversationSettings, parameters: KeyParameters, now: datetime
    ) -> tuple[Breakpoints, Prediction]:
        """Markers for what is about to be sent, and what they will find."""
        outline = self._tracker.build_outline(setting.head, setting.costs)
        marks = place_breakpoints(
            outline,
            setting.head,
            ttl=parameters.lifetime.ttl,
            capabilities=setting.capabilities,
            previous=self._tracker.reached,
            writes="its own",
        )
        salt = salts(setting.model, parameters)
        prompt = outline.prompt(salt, marks.places, minimum=setting.model.min_cache)
        return marks, self._forecast.predict(prompt, now.timestamp())

    def _was_asked(
        self, safe: CapturedRequest, way: Literal["make_fork", "provider"], usage: Usage, now: datetime
    ) -> None:
        """The conversation as it is was sent for a summary: by a fork, or with the demand to compact it."""
        able, setting = self.setting.capabilities, self.setting
        outline = self._outline_of(safe)
        marks = place_fork_breakpoints(make_fork(safe, ()), able) if way == "fork" else safe.breakpoints
        salt = salts(setting.model, safe.parameters)
        prompt = outline.prompt(salt, marks.places, minimum=setting.model.min_cache)
        self._forecast.predict(prompt, now.timestamp())
        self._forecast.settle(usage, now.timestamp())

    def _outline_of(self, safe: CapturedRequest) -> Outline:
        """The outline at hand, as far as it is of those messages: a new one measures all of them again."""
        able, costs = self.setting.capabilities, self.setting.costs
        outline, sent = self._tracker.build_outline(safe.head, costs), list(safe.messages)
        if outline.messages[: len(sent)] == sent:
            return outline.up_to(len(sent))
        made = Outline(costs, lookback=able.lookback, runs_are_one=able.runs_are_one)
        made.set_preamble(safe.head)
        made.replace_from(0, safe.messages)
        return made

    def _latched_for(self, setting: ConversationSettings) -> KeyParameters | None:
        """Another model has another cache, so nothing is lost by giving it the parameters that it takes; the
        lifetime stays (PC-10)."""
        if self._latched is None or self._sent is None:
            return self._latched
        if self._sent.model == setting.model and setting.decides == "engine":
            return self._latched
        return msgspec.structs.replace(setting.parameters, lifetime=self._latched.lifetime)

    def _compaction_context(self, setting: ConversationSettings, now: datetime) -> CompactionContext | None:
        if setting.compaction is None:
            return None
        view, marks = self.log.view, self._limits(setting)
        parameters = latch_parameters(self._latched_for(setting), setting.parameters).parameters
        fields = {**setting.fields, **build_declared_fields(setting, parameters)}
        messages = self._tracker.messages(setting.head, setting.costs)
        safe = CapturedRequest(setting.model.id, setting.head, parameters, messages, fields, self._marks)
        notes = usable_notes(self.notes, view, self._counts, path=setting.compaction.transcript)
        return CompactionContext(
            view=view,
            size=self.size.tokens,
            measured=self._tracker.measured(),
            limits=marks,
            model=setting.model,
            capabilities=setting.capabilities,
            counts=self._counts,
            chain=chain_of(view, threshold=marks.auto, source=setting.source),
            captured=safe,
            betas=betas_of(safe),
            answered=self._answered_breakpoints,
            how=setting.compaction,
            notes=notes.text,
            notes_end_before=notes.end_before,
        )

    def _appender(self, now: datetime, new_id: NewId) -> Callable[..., None]:
        def append(*edits: Edit | None) -> None:
            for edit in edits:
                if edit is not None:
                    self.add(make_edit_record(edit, uuid=new_id(), after=self.log.tip, at=now))

        return append


def build_declared_fields(setting: ConversationSettings, parameters: KeyParameters) -> dict[str, Any]:
    """What the API is asked to clear by itself, composed into the request (MC-13, MC-14)."""
    if not setting.policy.declares:
        return {}
    asked = build_context_management(
        (tool.tool for tool in setting.head.tools),
        thinking="none" if thinking_mode(setting.model, parameters) == "disabled" else "present",
        kept="all",
        settings=setting.policy.micro.declarative,
        capabilities=setting.capabilities,
    )
    return {"context_management": asked} if asked else {}
