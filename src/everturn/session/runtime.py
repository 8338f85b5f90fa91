"""How the parts of a session are tied together: transcript, conversation, world, notes, bill, events.

What a person can do with a session is `session.py`; nothing there knows how a record reaches the disk.
"""

import os
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from everturn.decide.cache_breaks import DetectedBreak
from everturn.decide.compact.build_records import said_by_hooks
from everturn.decide.effects import AskModel, HookEvent, HookOutcome, RunHooks
from everturn.decide.events import CompactionDone, Event, EventContext
from everturn.engine import Conversation
from everturn.errors import InputError
from everturn.history.edits import Edit, Pinned
from everturn.history.records import Record, Usage, make_edit_record
from everturn.measure.thresholds import ContextThresholds, compute_thresholds
from everturn.session.bill import Ledger
from everturn.session.cache_break_reports import ReportNotWritten, write_cache_break_report
from everturn.session.config.shape import Config
from everturn.session.conversation_runner import ConversationRunner, Exchange, StepKind
from everturn.session.files import resolve_roots as allowed
from everturn.session.hooks.run import Hooks
from everturn.session.loop_hooks import PermissionCallback
from everturn.session.note_taker import NoteTaker
from everturn.session.opening import ProviderClient, build_preamble
from everturn.session.pin_file import read_pins
from everturn.session.session_effects import SessionEffectHandler, WorldCallbacks
from everturn.session.state_file import SessionState, read_state, write_state
from everturn.session.store import Store
from everturn.session.tools import Tool, index_tools
from everturn.view.system_prompt import SystemPromptSections

if TYPE_CHECKING:
    from everturn.session.recall.index import RecallIndex

NOTES_SUFFIX: Final = ".notes.md"
FILES_SUFFIX: Final = ".files"


class Parts(NamedTuple):
    """What a session was opened with, beside its setting."""

    provider: ProviderClient
    config: Config
    system: str | SystemPromptSections
    tools: tuple[Tool, ...]
    takes_notes: bool
    hooks: Hooks
    permit: PermissionCallback
    listen: Callable[[Event], None]
    roots: tuple[str, ...]
    clock: Callable[[], datetime]
    new_id: Callable[[], str]


class SessionRuntime:
    """A session without its surface."""

    def __init__(self, conversation: Conversation, store: Store, parts: Parts) -> None:
        self.conversation = conversation
        self.path = store.path
        # What a person may want to know: of how the file was found, of what could not be written beside it.
        self.remarks: list[str] = list(store.notes)
        self._store = store
        self._parts = parts
        self._folder = Path(store.path + FILES_SUFFIX)
        self._index: RecallIndex | None = None
        self._ledger = Ledger(conversation.log.records, read_state(store.path).asides)
        self._tools = index_tools(parts.tools)
        self._world = self._make_world()
        self._notes = self._note_taker() if parts.takes_notes else None
        self._live = ConversationRunner(
            conversation,
            parts.provider.send,
            clock=parts.clock,
            new_id=parts.new_id,
            world=self._world,
            keep=self._keep,
            stream=parts.provider.stream,
            tell=self._heard,
            before=self._prepare_step,
            session=self.id,
        )

    @property
    def id(self) -> str:
        """The session's id: what its records say, or the name of its file."""
        named = (record.session for record in reversed(self.conversation.log.records))
        return next(filter(None, named), "") or Path(self.path).stem

    def _make_world(self) -> SessionEffectHandler:
        send, stream, _ = self._parts.provider
        told = {"session_id": self.id, "transcript_path": self.path, "cwd": os.getcwd()}
        hooks = msgspec.structs.replace(self._parts.hooks, told={**told, **self._parts.hooks.told})
        return SessionEffectHandler(
            send,
            self._folder,
            WorldCallbacks(
                self._heard,
                self._paid_for,
                self._moment,
                asks=self._write_state,
                remark=self._remark,
                cancels=self.conversation.compaction_state.cancelled,
            ),
            stream=stream,
            readable=allowed((*self._parts.roots, self._folder)),
            hooks=hooks,
        )

    def _note_taker(self) -> NoteTaker:
        setting = self.conversation.setting
        return NoteTaker(
            self.path + NOTES_SUFFIX,
            self._parts.provider.send,
            capabilities=setting.capabilities,
            settings=self._parts.config.notes,
            tell=self._heard,
            paid=lambda usage: self._paid("session_memory", usage),
        )

    # ── what is kept ─────────────────────────────────────────────────────────────────────────────

    def _keep(self, records: Sequence[Record]) -> None:
        """On disk before anybody relies on it."""
        if not records:
            return
        self._store.append(records)
        for record in records:
            self._ledger.heard(record)
            if self._notes is not None:
                self._notes.heard(record)

    def _append(self, edit: Edit) -> None:
        after = self.conversation.log.tip
        made = make_edit_record(edit, uuid=self._parts.new_id(), after=after, at=self._parts.clock())
        self._live.add(made if made.session else msgspec.structs.replace(made, session=self.id))

    def _write_state(self) -> None:
        if self._store.read_only_reason:
            return
        keeper, baselines = self.conversation.compaction_state, dict(self.conversation.detector.baselines)
        state = SessionState(baselines, self._ledger.asides, keeper.breaker, keeper.refill)
        if state != SessionState():
            self._remark(write_state(self.path, state))

    def _remark(self, what: str) -> None:
        if what and what not in self.remarks:
            self.remarks.append(what)

    # ── before, during and after a call ──────────────────────────────────────────────────────────

    def _prepare_step(self, step: StepKind) -> None:
        """Sections that are computed for every request are computed; notes are taken over. Where the notes
        are about to be needed, those that are being taken are waited for (SM-3), and words that others pinned
        are taken in."""
        self._refresh_preamble()
        is_due = step == "compaction" or self.conversation.size.tokens >= self._limits().auto
        if is_due:
            self._take_pins()
        if self._notes is not None:
            self.conversation.notes = self._notes.settle("a while" if is_due else "none")

    def _take_pins(self) -> None:
        known = {pin.text for pin in self.conversation.log.view.pins}
        try:
            found = read_pins(self.path)
        except InputError as problem:
            self._remark(str(problem))
            return
        for words in found:
            if words not in known:
                self._append(Pinned(words, "pinned from outside"))

    def _refresh_preamble(self) -> None:
        setting = self.conversation.setting
        head = build_preamble(self._parts.system, tuple(self._tools.values()), setting.capabilities)
        if head != setting.head:
            self.conversation.setting = msgspec.structs.replace(setting, head=head)

    def _heard(self, event: Any) -> None:
        if isinstance(event, CompactionDone):
            self._reset(event)
        self._parts.listen(event)

    def _reset(self, done: CompactionDone) -> None:
        """What was computed for the old view is computed anew (CP-19). A prompt may be shared with others:
        only a compaction of the main thread resets it."""
        main = self.conversation.setting.policy.micro.main
        if isinstance(self._parts.system, SystemPromptSections) and done.moment.source.startswith(main):
            self._parts.system.forget()
        self._refresh_preamble()
        if self._notes is not None:
            self._notes.shrunk(done.tokens_after)

    def _after(self, exchange: Exchange) -> None:
        verdict, source = exchange.settled.verdict, self.conversation.setting.source
        heads = self.conversation.detector.preambles(source)
        if isinstance(verdict, DetectedBreak) and heads is not None:
            written = write_cache_break_report(verdict, heads, self._folder, at=self._parts.clock())
            self._remark(written.why if isinstance(written, ReportNotWritten) else "")
        if self._notes is not None:
            self._consider_notes(self._notes, exchange)
        self._write_state()

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
                moment=self._moment(),
            )

    def _paid_for(self, effect: AskModel, usage: Usage) -> None:
        self._paid(effect.purpose, usage, model=effect.request.model)

    def _paid(self, purpose: Any, usage: Usage, *, model: str = "") -> None:
        name = model or self.conversation.setting.model.id
        self._ledger.paid(purpose, usage, name, self._parts.clock().date())

    def _moment(self) -> EventContext:
        setting = self.conversation.setting
        return EventContext(
            at=self._parts.clock(), session=self.id, source=setting.source, model=setting.model.id
        )

    def _limits(self) -> ContextThresholds:
        setting = self.conversation.setting
        return compute_thresholds(setting.model.window, setting.model.max_output, setting.policy.thresholds)

    # ── hooks ────────────────────────────────────────────────────────────────────────────────────

    def _run_hooks(self, event: HookEvent, **payload: Any) -> HookOutcome:
        return self._world.run_hooks(RunHooks(event, payload))

    def _append_hook_context(self, words: Sequence[str]) -> None:
        """What hooks say joins the view, behind what is there."""
        after = self.conversation.log.tip or Record(kind="system", uuid="", session=self.id)
        now = self._parts.clock()
        for record in said_by_hooks(words, after=after, now=now, new_id=self._parts.new_id):
            self._live.add(record)

    def _open_index(self) -> "RecallIndex":
        from everturn.session.recall.index import RecallIndex

        self._index = self._index or RecallIndex(self.path)
        return self._index


def _was_sent_before(record: Record, reply: str) -> bool:
    return record.kind in ("user", "assistant", "attachment") and record.message_id != reply
