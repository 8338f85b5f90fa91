"""One turn from top to bottom (OV-1). Nothing here reads a clock, a file or a network.

    add         what happened goes into the log, and everything that follows the log follows it
    turn        1 micro-compaction   what is stale leaves, in one rewrite          decide/micro
                2 (compaction)       joins here
                3 flatten            the view as messages                          view/flatten
                4 markers            where the provider may cut                    view/markers
                5 prediction         what will be read, written, paid in full      measure/prediction
                6 snapshot           what is in the key, against the last call     decide/cache_breaks
    replied     the answer's usage settles the prediction and judges the cache

A turn costs what is new in it. It is a generator because some edits need the world: it yields effects
(`WriteFile`) and is sent their results; whoever drives it performs them. What was sent counts once it was
answered: a turn that is asked for again, after an error, comes out as the first one did.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from everturn.decide.cache_breaks import Break, Detector, Diagnosis, NoBreak
from everturn.decide.micro.cached_state import CachedState, consumed, expired, planned, resumed
from everturn.decide.micro.declarative import BETA, Applied, declarative
from everturn.decide.micro.order import micro
from everturn.decide.micro.situation import MicroPlan, Situation
from everturn.decide.policy import Policy
from everturn.decide.results import Results
from everturn.decide.snapshot import Change, changes, snapshot
from everturn.decide.thinking import ThinkingLedger
from everturn.history.edits import CacheDeletionsEnded, Edit
from everturn.history.log import Log
from everturn.history.records import Record, Usage, record_of_edit, reported_usage, when
from everturn.measure.capabilities import Capabilities
from everturn.measure.meter import Meter, Size, meter_of
from everturn.measure.models import Model
from everturn.measure.outline import Costs, Head, Outline
from everturn.measure.prediction import Check, Forecast, Prediction
from everturn.measure.prefix_cache import SECONDS
from everturn.measure.tokens import Counts
from everturn.view.cache_key import salts, thinking_mode
from everturn.view.flatten import Flattener
from everturn.view.forks import CacheSafe
from everturn.view.lifetime import KeyParameters, held
from everturn.view.markers import Marks, place_marks
from everturn.view.requests import marked_request
from everturn.wire.anthropic import Request


class WriteFile(msgspec.Struct, frozen=True):
    """An effect: keep this text where the model can read it. Answered with the path it is at."""

    name: str
    text: str


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What a conversation is held with. Another model or policy is another setting."""

    model: Model
    capabilities: Capabilities
    policy: Policy
    costs: Costs
    head: Head = Head()
    parameters: KeyParameters
    source: str = "main"
    # Top-level fields of the request that are not part of the key: max_tokens, metadata, ...
    fields: Mapping[str, Any] = {}


class Turn(msgspec.Struct, frozen=True):
    """A request that is ready to be sent, and everything that was decided on the way to it."""

    appended: tuple[Record, ...]
    plan: MicroPlan
    marks: Marks
    prediction: Prediction
    changes: tuple[Change, ...]
    size: Size
    notes: tuple[str, ...]
    safe: CacheSafe

    @property
    def betas(self) -> tuple[str, ...]:
        """What the `anthropic-beta` header must name."""
        needed = (BETA,) if "context_management" in self.safe.settings else ()
        return (*self.safe.parameters.betas, *needed)

    def request(self) -> Request:
        """The body. The only step whose cost is the whole conversation: its bytes."""
        return marked_request(self.safe, self.marks)


class Settled(msgspec.Struct, frozen=True):
    """What the answer said about our picture of the cache."""

    check: Check | None
    verdict: Break | NoBreak


class Conversation:
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
        self.setting = setting
        self.log = Log()
        self.detector = detector or Detector()
        self._forecast = forecast or Forecast()
        self._latched: KeyParameters | None = None
        self._sent: Setting | None = None
        # What of a request matters for the next one: when it began, and how far its markers reached.
        self._under_way: tuple[datetime, int] | None = None
        self._called_at: datetime | None = None
        self._recalled = ""
        self._doubts: tuple[str, ...] = ()
        self._counts = Counts()
        self._start_view()
        goes_on = self._goes_on()
        for record in records:
            if goes_on and forecast is None:
                self._recall(record)
            self.add(record)
        if self.log.records:
            self._resume(goes_on=goes_on)

    @property
    def size(self) -> Size:
        return self._meter.size()

    def add(self, record: Record) -> None:
        change = self.log.append(record)
        if change == "replaced":
            self._start_view()
            for shown in self.log.view.records:
                self._follow(shown)
            self._meter = meter_of(self.log.view, self._counts)
            self._thinking.prefix_changed("the messages before it are others now")
            self._thinking.ask_replies()
        elif not record.is_boundary:
            self._follow(record)
            # What was answered was sent: a log that is read again knows no other sign of that.
            self._view_is_new = self._view_is_new and reported_usage(record) is None

    def turn(self, now: datetime, new_id: Callable[[], str]) -> Generator[WriteFile, str, Turn]:
        """The next request. Asked again before it was answered, it comes out the same."""
        start = len(self.log.records)
        setting, notes = self._setting_in_force()
        append = self._appender(now, new_id)
        append(self._ended_deletions(setting, now))
        append(self._drop_thinking(setting, self._sent, now))
        plan = micro(self._situation(setting, now))
        self._cached = planned(self._cached, self._results, plan)
        append(*plan.edits, *(yield from _offloaded(plan)), self._consume(plan))
        append(self._ended_deletions(setting, now))
        append(self._drop_thinking(setting, setting, now))
        self._tell_detector(setting.source, plan)
        parameters = held(self._latched_for(setting), setting.parameters)
        self._latched, self._sent = parameters.parameters, setting
        marks, prediction = self._look_ahead(setting, parameters.parameters, now)
        self._under_way = now, marks.reached
        sent = snapshot(setting.model.id, setting.head, parameters.parameters, marks)
        found = self.detector.before_call(setting.source, sent, setting.head, now.timestamp())
        messages = tuple(self._outline.messages)
        fields = {**setting.fields, **_declared(setting, parameters.parameters)}
        safe = CacheSafe(setting.model.id, setting.head, parameters.parameters, messages, fields, marks)
        said = (*self._doubts, *notes, *parameters.refused, *marks.why)
        appended = tuple(self.log.records[start:])
        return Turn(appended, plan, marks, prediction, found, self._meter.size(), said, safe)

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
            (self._called_at, self._reached), self._under_way = self._under_way, None
        self._doubts = ()
        check = self._forecast.settle(usage, now.timestamp())
        verdict = self.detector.after_call(source, usage, diagnosis)
        self._results.settle()
        for record in records:
            self.add(record)
        return Settled(check, verdict)

    # ── the steps of a turn ──────────────────────────────────────────────────────────────────────

    def _setting_in_force(self) -> tuple[Setting, tuple[str, ...]]:
        """What is asked for; but inside a tool loop the API wants the thinking of that loop as it was, so a
        change that would invalidate it waits for the end of the loop (PC-16)."""
        sent, wanted = self._sent, self.setting
        if sent is None or not self._flattener.in_tool_loop:
            return wanted, ()
        if sent.model != wanted.model:
            waits = "the model"
        elif sent.head != wanted.head and wanted.model.binds_thinking:
            waits = "system prompt and tools"
        else:
            return wanted, ()
        kept = msgspec.structs.replace(wanted, model=sent.model, head=sent.head, costs=sent.costs)
        return kept, (f"a change of {waits} waits until the tool loop has ended",)

    def _situation(self, setting: Setting, now: datetime) -> Situation:
        return Situation(
            results=self._results,
            policy=setting.policy,
            source=setting.source,
            now=now,
            last_reply=self._last_reply,
            size=self._meter.size().tokens,
            capabilities=setting.capabilities,
            in_tool_loop=self._flattener.in_tool_loop,
            binds_thinking=setting.model.binds_thinking,
            thinking_tokens_after=self._thinking.tokens_after,
            cached=self._cached,
            records=self.log.view.records,
            counts=self._counts,
        )

    def _drop_thinking(self, setting: Setting, before: Setting | None, now: datetime) -> Edit | None:
        """Also when the cache has gone cold: a rewrite is due anyway, and old thinking need not be in it.

        The API could do that by itself (MC-13), but only for as long as it is asked in every request; our
        own edit is made once and stays.
        """
        settings = setting.policy.micro.declarative
        is_cold = self._last_reply is not None and now - self._last_reply > settings.idle
        cold = "the cache is cold" if is_cold and setting.policy.declares and settings.thinking else ""
        return self._thinking.drop(setting, before, cold=cold, in_loop=self._flattener.in_tool_loop)

    def _ended_deletions(self, setting: Setting, now: datetime) -> Edit | None:
        """Deletions live in the provider's cache; once that is surely gone, so are they (MC-12)."""
        if self._view_is_new and self._flattener.deleted:
            self._cached = CachedState()
            return CacheDeletionsEnded("the messages that they were made in are others now")
        # Taking their blocks out is an edit too: where it would cost the thinking of a tool loop, it waits.
        waits = setting.model.binds_thinking and self._flattener.in_tool_loop
        if self._called_at is None or not self._cached.pinned or waits:
            return None
        idle = (now - self._called_at).total_seconds()
        if idle <= SECONDS[(self._latched or setting.parameters).lifetime.ttl]:
            return None
        self._cached, edit = expired(self._cached, why=f"idle for {idle:.0f} s, longer than the cache lives")
        return edit

    def _consume(self, plan: MicroPlan) -> Edit | None:
        self._cached, edit = consumed(self._cached, why=plan.why)
        return edit

    def _tell_detector(self, source: str, plan: MicroPlan) -> None:
        if plan.tells_detector == "deleted" or self._thinking.took_dropped():
            self.detector.deleted(source)
        if self._view_is_new:
            self.detector.compacted(source)
        self._view_is_new = False

    def _look_ahead(
        self, setting: Setting, parameters: KeyParameters, now: datetime
    ) -> tuple[Marks, Prediction]:
        """Markers for what is about to be sent, and what they will find."""
        self._outline.costs = setting.costs
        self._outline.set_head(setting.head)
        self._outline.deleted = self._flattener.deleted
        first = self._flattener.take_changes()
        self._outline.replace_from(first, self._flattener.since(first))
        marks = place_marks(
            self._outline,
            setting.head,
            ttl=parameters.lifetime.ttl,
            capabilities=setting.capabilities,
            previous=self._reached,
            writes="its own",
        )
        salt = salts(setting.model, parameters)
        prompt = self._outline.prompt(salt, marks.places, minimum=setting.model.min_cache)
        return marks, self._forecast.predict(prompt, now.timestamp())

    def _latched_for(self, setting: Setting) -> KeyParameters | None:
        """Another model has another cache, so nothing is lost by giving it the parameters that it takes; the
        lifetime stays (PC-10)."""
        if self._latched is None or self._sent is None or self._sent.model == setting.model:
            return self._latched
        return msgspec.structs.replace(setting.parameters, lifetime=self._latched.lifetime)

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
        self._called_at, self._reached = asked_at, marks.reached
        return self._forecast.settle(usage, asked_at.timestamp())

    def _resume(self, *, goes_on: bool) -> None:
        self._cached = resumed(self._results, (each.edit for each in self.log.view.records if each.edit))
        self._thinking.ask_replies()
        if goes_on:
            self._sent = self.setting
            return
        self._thinking.prefix_changed("system prompt and tools may have been others")
        self._called_at = self._called_at or self._last_reply
        self._doubts = ("resumed without a last call of the same key: nothing is predicted to be read",)

    # ── following the log ────────────────────────────────────────────────────────────────────────

    def _start_view(self) -> None:
        view, setting = self.log.view, self.setting
        self._meter = Meter(self._counts)
        self._results = Results(setting.policy.tools, cleared=view.cleared, offloaded=view.offloaded)
        references = "all" if setting.capabilities.cache_edits else "none"
        self._flattener = Flattener(hidden=view.cleared, offloaded=view.offloaded, references=references)
        able = setting.capabilities
        self._outline = Outline(setting.costs, lookback=able.lookback, runs_are_one=able.runs_are_one)
        self._thinking = ThinkingLedger(self._counts)
        self._cached = CachedState()
        self._reached = -1
        self._last_reply: datetime | None = None
        self._view_is_new = bool(self.log.records)

    def _follow(self, record: Record) -> None:
        if isinstance(record.edit, CacheDeletionsEnded):
            self._thinking.prefix_changed("the deletions in it have ended")
        self._meter.add(record)
        self._results.add(record, self._counts)
        self._flattener.add(record)
        self._thinking.add(record)
        if record.kind == "assistant":
            self._last_reply = when(record) or self._last_reply

    def _appender(self, now: datetime, new_id: Callable[[], str]) -> Callable[..., None]:
        def append(*edits: Edit | None) -> None:
            for edit in edits:
                if edit is not None:
                    last = self.log.records[-1] if self.log.records else None
                    self.add(record_of_edit(edit, uuid=new_id(), after=last, at=now))

        return append


def _declared(setting: Setting, parameters: KeyParameters) -> dict[str, Any]:
    """What the API is asked to clear by itself, composed into the request (MC-13, MC-14)."""
    if not setting.policy.declares:
        return {}
    asked = declarative(
        (tool.tool for tool in setting.head.tools),
        thinking="none" if thinking_mode(setting.model, parameters) == "disabled" else "present",
        kept="all",
        settings=setting.policy.micro.declarative,
        capabilities=setting.capabilities,
    )
    return {"context_management": asked} if asked else {}


def _offloaded(plan: MicroPlan) -> Generator[WriteFile, str, list[Edit]]:
    """A result leaves the context only after its text is safe elsewhere."""
    edits: list[Edit] = []
    for wanted in plan.offload:
        path = yield WriteFile(wanted.name, wanted.content)
        edits.append(wanted.written_to(path))
    return edits
