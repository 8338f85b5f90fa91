"""The runtime of a session: connects the store, conversation, effects, notes, bill and events.

The public methods of a session are in `session.py`.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args

import msgspec

from everturn.decide.authorship import label_agent_pin
from everturn.decide.cache_breaks import DetectedBreak
from everturn.decide.compact.build_records import said_by_hooks
from everturn.decide.economy.head import HeadTool, decide_deferral
from everturn.decide.effects import AskModel, HookEvent, HookOutcome, ModelAnswer, RunHooks
from everturn.decide.events import CacheHeld, CompactionDone, Event, EventContext, HoldChecked, ToolsDeferred
from everturn.decide.options import Options
from everturn.engine import Conversation
from everturn.errors import InputError, StoreError, UsageError
from everturn.history.edits import Edit, Pinned, Rewound
from everturn.history.records import Record, Usage, make_edit_record
from everturn.measure.model_table import has_known_price
from everturn.session.bill import Ledger
from everturn.session.cache_break_reports import ReportNotWritten, write_cache_break_report
from everturn.session.cache_holder import CacheHolder
from everturn.session.conversation_runner import ConversationRunner, Exchange, StepKind
from everturn.session.deferred_tools import can_defer, can_search, defer_tools
from everturn.session.events.build import build_sinks, with_session
from everturn.session.events.fan_out import FanOut, SinkProblem
from everturn.session.events.serialize import serialize_event
from everturn.session.events.sinks import event_record
from everturn.session.files import resolve_roots
from everturn.session.hold_memory import HoldMemory
from everturn.session.hold_records import RecordedHold
from everturn.session.hold_timers import THREADS, HoldTimer
from everturn.session.hooks.run import Hooks
from everturn.session.loop_hooks import PermissionCallback
from everturn.session.memory_files.attach import SessionMemory
from everturn.session.note_taker import NoteTaker
from everturn.session.opening import ProviderClient, build_preamble
from everturn.session.pin_file import read_pin_file
from everturn.session.session_effects import SessionCallbacks, SessionEffectHandler
from everturn.session.state_file import SessionState, read_state, write_state
from everturn.session.store import Store
from everturn.session.tool_calls import ToolCalls
from everturn.session.tools import Tool, index_tools
from everturn.session.valid_text import replace_lone_surrogates
from everturn.view.fragments.recalled import NAME as RECALL
from everturn.view.system_prompt import SystemPromptSections

if TYPE_CHECKING:
    from everturn.session.recall.index import RecallIndex

NOTES_SUFFIX: Final = ".notes.md"
log = logging.getLogger("everturn")


class SessionParts(NamedTuple):
    """What a program passes to a session: its options, and the objects and callbacks that are not options."""

    provider: ProviderClient
    options: Options
    system: str | SystemPromptSections
    tools: tuple[Tool, ...]
    memory: SessionMemory | None
    hooks: Hooks
    permit: PermissionCallback
    listen: Callable[[Event], None]
    roots: tuple[str, ...]
    cwd: str
    clock: Callable[[], datetime]
    new_id: Callable[[], str]
    # Waits until a hold is due.
    hold_timer: HoldTimer = THREADS
    # Ends the connection to the place where the session is kept.
    end_stores: Callable[[], None] = lambda: None


class SessionRuntime:
    def __init__(
        self,
        conversation: Conversation,
        store: Store,
        parts: SessionParts,
        appending: AbstractContextManager[Any],
    ) -> None:
        self.conversation = conversation
        self.store = store
        # By the program. A store can also be closed because it could not be read again yet.
        self.is_closed = False
        self.parts = parts
        self.folder = Path(store.blob_folder)
        # Problems to show to the user: damage found in the file, and files that could not be written.
        self.remarks: list[str] = list(store.notes)
        # Those of them that are about the records that were read.
        self.flaws: list[str] = list(store.notes)
        self.ledger = Ledger(conversation.log.records, read_state(store).asides)
        self.tools = index_tools(parts.tools)
        self._tool_calls = ToolCalls(conversation)
        # Which tools are deferred (EC-10): decided once. None while it was not worth it.
        self._deferred = read_state(store).deferred_tools
        self._index: RecallIndex | None = None
        self._sinks = build_sinks(
            parts.options.events,
            append=lambda record: store.append([record]),
            new_id=parts.new_id,
            last=lambda: conversation.log.tip,
            report=lambda problem: self.remark(f"the event sink {problem.sink} {problem.what}"),
        )
        # As a sink: a program's own window on the events must not end the turn that it watches.
        self._listeners = FanOut([("listen", parts.listen)], self._report_listener)
        self.handler = self._make_handler()
        self.notes = self._note_taker() if parts.options.keeps_notes else None
        self._holder = self._cache_holder() if parts.options.holds_cache else None
        self.runner = ConversationRunner(
            conversation,
            parts.provider.send,
            clock=parts.clock,
            new_id=parts.new_id,
            handler=self.handler,
            keep=self._keep,
            stream=parts.provider.stream,
            tell=self._handle_event,
            before=self._prepare_step,
            session=self.id,
            appending=appending,
        )

    @property
    def id(self) -> str:
        """The session's id from its records, or the name of its file."""
        named = (record.session for record in reversed(self.conversation.log.records))
        return next(filter(None, named), "") or replace_lone_surrogates(Path(self.store.path).stem)

    @property
    def head(self) -> tuple[HeadTool, ...]:
        """What the definition of each tool costs, and how often it was called (EC-10)."""
        return self._tool_calls.head

    def _make_handler(self) -> SessionEffectHandler:
        send, stream = self.parts.provider.send, self.parts.provider.stream
        common = {"session_id": self.id, "transcript_path": self.store.path, "cwd": self.parts.cwd}
        hooks = msgspec.structs.replace(self.parts.hooks, told={**common, **self.parts.hooks.told})
        return SessionEffectHandler(
            send,
            self.folder,
            SessionCallbacks(
                self._handle_event,
                self._paid_for,
                self.event_context,
                asks=self.write_state,
                remark=self.remark,
                cancels=self.conversation.compaction_state.cancelled,
            ),
            stream=stream,
            readable=resolve_roots((*self.parts.roots, self.folder)),
            hooks=hooks,
            write=self.store.write_blob,
            wire=self.conversation.setting.provider_wire,
        )

    def _note_taker(self) -> NoteTaker:
        return NoteTaker(
            self.store.path + NOTES_SUFFIX,
            self.parts.provider.send,
            session=self.id,
            records=self.conversation.log.records,
            capabilities=self.conversation.setting.capabilities,
            settings=self.parts.options.notes,
            compact=self.parts.options.compact,
            tell=self._handle_event,
            remark=self.remark,
            paid=lambda usage: self._paid("session_memory", usage),
        )

    def _cache_holder(self) -> CacheHolder:
        return CacheHolder(
            self.conversation,
            clock=self.parts.clock,
            tell=self._handle_event,
            paid=lambda spent: self.ledger.add("hold", spent),
            moment=self.event_context,
        )

    # ── storing ──────────────────────────────────────────────────────────────────────────────────

    def _keep(self, records: Sequence[Record]) -> None:
        """Store the records before anything depends on them."""
        if not records:
            return
        self.store.append(records)
        for record in records:
            self.ledger.heard(record)
            if self.notes is not None:
                self.notes.heard(record)

    def check_writable(self) -> None:
        """Raise `StoreError` before a summary is paid for that could not be kept."""
        if self.store.read_only_reason:
            raise StoreError(f"Nothing can be appended to {self.store.path}: {self.store.read_only_reason}.")

    def take_holds(self, recorded: Sequence[RecordedHold]) -> None:
        """Count the holds that an earlier process has recorded and could not count any more."""
        counted = self.ledger.bill.parts["hold"].calls
        for hold in recorded[counted:]:
            model, at = hold.model or self.conversation.setting.model.id, hold.at or self.parts.clock()
            self.ledger.paid("hold", hold.usage, model, at.date())
            economy = self.conversation.economy
            economy.state = economy.state.after_late_hold(hold.dollars)

    def collect_holds(self) -> None:
        """Take over what the holds of a pause have cost so far."""
        if self._holder is not None and self._holder.collect():
            self.write_state()

    def append_edit(self, edit: Edit) -> None:
        with self.runner.appending:
            after = self.conversation.log.tip
            made = make_edit_record(edit, uuid=self.parts.new_id(), after=after, at=self.parts.clock())
            self.runner.add(made if made.session else msgspec.structs.replace(made, session=self.id))

    def append_rewind(self, edit: Rewound, last: Record | None) -> None:
        """Record a rewind in the file: it continues an earlier record, not the newest one."""
        made = make_edit_record(edit, uuid=self.parts.new_id(), after=last, at=self.parts.clock())
        if last is None and self.conversation.log.records:
            # In the file of a sub-agent the beginning is one of its thread, not of a main one.
            # An older one has no agent id: its first record names it (`history/threads.py`).
            first = self.conversation.log.records[0]
            agent = first.agent or (first.uuid if first.sidechain else "")
            made = msgspec.structs.replace(made, agent=agent, sidechain=first.sidechain)
        self.store.append([made if made.session else msgspec.structs.replace(made, session=self.id)])

    def reopen_store(self) -> None:
        """Read the same store again from the start, for the runtime that follows this one."""
        if self._holder is not None:
            self._holder.end()
        if self.notes is not None:
            self.notes.pay()
        self.write_state()
        if self._index is not None:
            self._index.close()
        self.store = self.store.reopen()

    def write_state(self) -> None:
        if self.store.read_only_reason:
            return
        compaction, baselines = self.conversation.compaction_state, dict(self.conversation.detector.baselines)
        economy = self.conversation.economy
        state = SessionState(
            baselines,
            self.ledger.asides,
            compaction.breaker,
            compaction.refill,
            economy=economy.state,
            decisions=economy.decisions,
            lost_holds=economy.lost_holds,
            head=self.head,
            deferred_tools=self._deferred,
        )
        # Also one that knows nothing says where the transcript ended, so that lost lines are noticed.
        if state != SessionState() or self.conversation.log.records:
            self.remark(write_state(self.store, state))

    def remark(self, *texts: str) -> None:
        for text in texts:
            if text and text not in self.remarks:
                self.remarks.append(text)

    # ── before, during and after a call ──────────────────────────────────────────────────────────

    def _prepare_step(self, step: StepKind) -> None:
        """Before a turn or compaction: compute the dynamic sections of the system prompt and collect the
        notes. If a compaction is due, also wait for notes in progress (SM-3) and read the pin file."""
        if self._holder is not None:
            self._holder.end()
        if step == "turn" and self.parts.options.defers_tools and not self._deferred:
            self._decide_deferral()
        self._refresh_preamble()
        is_due = step == "compaction" or self.conversation.size.tokens >= self.conversation.thresholds.auto
        if is_due:
            self._take_pins()
        if self.notes is not None:
            self.conversation.notes = self.notes.settle("a while" if is_due else "none")

    def _decide_deferral(self) -> None:
        """Once per session, when the cache is cold and a changed head costs nothing extra (EC-10). Where it
        is not worth it yet, it is weighed again at the next such moment: the more calls, the more it saves.
        """
        conversation, now = self.conversation, self.parts.clock()
        settings, tip = conversation.setting, conversation.log.tip
        in_loop = tip is not None and any(block.is_result for block in tip.blocks)
        last = conversation.last_reply
        is_cold = conversation.cache.seconds_idle_beyond_ttl(settings, now, last) is not None
        if in_loop or not is_cold or not has_known_price(settings.model.id) or not can_search(settings.model):
            return
        size = conversation.size.tokens
        decision = decide_deferral(
            self.head,
            replies=self.ledger.bill.parts["conversation"].calls,
            size=size,
            prices=conversation.economy.prices(settings, now, size),
            kept={name for name, tool in self.tools.items() if name == RECALL or not can_defer(tool)},
        )
        if decision is None:
            return
        self._deferred, done = decision.tools or None, bool(decision.tools)
        cost, expected = decision.cost, decision.expected
        conversation.economy.note("tools", decision.why, now, done=done, cost=cost, expected=expected)
        if done:
            tools, tokens = len(decision.tools), decision.tokens
            moment = self.event_context()
            self._handle_event(ToolsDeferred(moment=moment, tools=tools, tokens=tokens, why=decision.why))

    def _take_pins(self) -> None:
        known = {pin.text for pin in self.conversation.log.view.pins}
        try:
            found = read_pin_file(self.store.path)
        except InputError as problem:
            self.remark(str(problem))
            return
        self.remark(found.damage)
        for text in map(label_agent_pin, found.pins):
            if text not in known:
                self.append_edit(Pinned(text, "pinned by the agent"))

    def _refresh_preamble(self) -> None:
        setting = self.conversation.setting
        tools = defer_tools(tuple(self.tools.values()), self._deferred or ())
        preamble = build_preamble(self.parts.system, tools, setting.capabilities)
        if preamble != setting.preamble:
            self.conversation.setting = msgspec.structs.replace(setting, preamble=preamble)

    def _handle_event(self, event: Any) -> None:
        if isinstance(event, CompactionDone):
            self._reset_after_compaction(event)
        event = with_session(event, self.id)
        if isinstance(event, HoldChecked) and not event.kept:
            self._remember_lost_hold(event)
        if isinstance(event, ToolsDeferred) or (isinstance(event, CacheHeld) and event.usage is not None):
            self._keep_event(event)
        self._sinks(event)
        self._listeners(event)

    def _report_listener(self, problem: SinkProblem) -> None:
        end = "it gets no more events" if problem.is_disabled else "the turn goes on without it"
        text = f"the callable given as `listen` {problem.what}; {end}"
        log.warning("everturn: %s", text)
        self.remark(text)

    def _remember_lost_hold(self, event: HoldChecked) -> None:
        memory, now = HoldMemory(self.parts.options.provider), self.parts.clock()
        self.remark(memory.remember(event.moment.model, event.why, now))

    def _keep_event(self, event: Event) -> None:
        """A hold was paid: keep that at once, in the thread that has sent it, because the process may be
        ended before somebody speaks. And whoever reads why a prompt has changed finds it in the transcript.
        A transcript with all events has both anyway."""
        if self.parts.options.events.transcript or self.store.read_only_reason:
            return
        tip = self.conversation.log.tip
        try:
            made = event_record(serialize_event(event), event, uuid=self.parts.new_id(), after=tip)
            self.store.append([made])
        except StoreError as problem:
            self.remark(str(problem))

    def _reset_after_compaction(self, done: CompactionDone) -> None:
        """Discard what was computed for the old view (CP-19). Sub-agents may share the system prompt, so only
        a compaction of the main thread resets it."""
        main = self.parts.options.micro.main
        if isinstance(self.parts.system, SystemPromptSections) and done.moment.source.startswith(main):
            self.parts.system.forget()
        if self.parts.memory is not None:
            self.parts.memory.forget()
        self._refresh_preamble()
        if self.notes is not None:
            self.notes.shrunk(done.tokens_after)

    def after_exchange(self, exchange: Exchange) -> None:
        verdict, source = exchange.settled.verdict, self.conversation.setting.source
        preambles = self.conversation.detector.preambles(source)
        if isinstance(verdict, DetectedBreak) and preambles is not None:
            system = self.parts.system
            written = write_cache_break_report(
                verdict,
                preambles,
                self.folder,
                at=self.parts.clock(),
                dangers=system.dangers if isinstance(system, SystemPromptSections) else None,
            )
            self.remark(written.why if isinstance(written, ReportNotWritten) else "")
        if (repeated := self.runner.repeated_changes) is not None:
            self.ledger.note(repeated.text, about="cache key")
        if self.notes is not None:
            self._consider_notes(self.notes, exchange)
        if self._holder is not None:
            send, timer = self.parts.provider.send_once, self.parts.hold_timer
            self._holder.begin(exchange.turn.betas, send, timer, lambda: None)
        self.write_state()

    def _consider_notes(self, notes: NoteTaker, exchange: Exchange) -> None:
        records = self.conversation.log.records
        reply = exchange.response.reply.message_id
        sent = next((each for each in reversed(records) if _was_sent_before(each, reply)), None)
        if sent is not None:
            notes.consider(
                exchange.turn,
                sent.uuid,
                tokens=self.conversation.size.tokens,
                calls=sum(block.is_call for block in exchange.response.blocks),
                moment=self.event_context(),
            )

    def _paid_for(self, effect: AskModel, answer: ModelAnswer) -> None:
        self._paid(effect.purpose, answer.usage, model=answer.model or effect.request.model)

    def _paid(self, purpose: Any, usage: Usage, *, model: str = "") -> None:
        name = model or self.conversation.setting.model.id
        self.ledger.paid(purpose, usage, name, self.parts.clock().date())

    def event_context(self) -> EventContext:
        setting = self.conversation.setting
        return EventContext(
            at=self.parts.clock(), session=self.id, source=setting.source, model=setting.model.id
        )

    # ── hooks ────────────────────────────────────────────────────────────────────────────────────

    def run_hooks(self, event: HookEvent, **payload: Any) -> HookOutcome:
        if event not in get_args(HookEvent):
            raise UsageError(
                f"There is no hook event {event!r}. There are: {', '.join(get_args(HookEvent))}."
            )
        return self.handler.run_hooks(RunHooks(event, payload))

    def append_hook_context(self, texts: Sequence[str]) -> None:
        """Append texts from hooks to the end of the view."""
        with self.runner.appending:
            after = self.conversation.log.tip or Record(kind="system", uuid="", session=self.id)
            now = self.parts.clock()
            for record in said_by_hooks(texts, after=after, now=now, new_id=self.parts.new_id):
                self.runner.add(record)

    # ── recall and close ─────────────────────────────────────────────────────────────────────────

    def open_index(self) -> "RecallIndex":
        from everturn.session.recall.index import RecallIndex

        path = self.store.write_copy()
        self._index = self._index or RecallIndex(path)
        return self._index

    def close(self, reason: str) -> None:
        try:
            if not self.store.is_closed:
                self._end(reason)
        finally:
            self.store.close()
            if not self.is_closed:
                self.is_closed = True
                self.parts.end_stores()
                self.parts.provider.close()
                if self.parts.memory is not None:
                    self.parts.memory.close()

    def _end(self, reason: str) -> None:
        if self._holder is not None:
            self._holder.end()
        if self.notes is not None:
            # What has come since the last turn is paid for. The rest is not waited for.
            self.notes.settle()
        if reason and not self.store.read_only_reason:
            self.run_hooks("SessionEnd", reason=reason)
        self.write_state()
        if self._index is not None:
            self._index.close()


def _was_sent_before(record: Record, reply: str) -> bool:
    return record.kind in ("user", "assistant", "attachment") and record.message_id != reply
