"""One conversation in a terminal: the session is opened, answers are streamed, events are told.

Whatever goes wrong in the middle of a turn, the file knows what was acknowledged; so after an interrupt the
session is opened from it again (`reopen`) and nothing depends on what was half done. When to do which of
this is decided in `loop.py`.
"""

import os
import signal
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from rich.text import Text

from everturn.chat.model_connection import ModelConnection
from everturn.chat.permission import Permissions
from everturn.chat.screen.event_lines import format_compaction, format_event, format_progress
from everturn.chat.screen.status import StatusFigures
from everturn.chat.screen.terminal import Terminal
from everturn.chat.screen.welcome import ResumedConversation, format_resumed
from everturn.chat.sessions import remove_if_empty
from everturn.chat.subagent import SearchAgent
from everturn.chat.system_prompt import build_system_prompt, describe_interrupted_answer, find_memory_files
from everturn.chat.tool_display import ToolDisplay
from everturn.chat.tools.files.workspace import Workspace
from everturn.chat.tools.todo import TodoList
from everturn.chat.tools.toolbox import build_tools
from everturn.dashboard.report import context_level
from everturn.dashboard.terminal import QUIET
from everturn.decide.compact.chain import RECEIPT
from everturn.decide.events import Compacting, CompactionDone, Event, Repaired
from everturn.history.blocks import text_of
from everturn.history.records import Record, RecordKind, record_time
from everturn.measure.prefix_cache import SECONDS
from everturn.session.config.shape import Config
from everturn.session.memory_files.nested import NestedMemory
from everturn.session.opening import DEFAULT_STRATEGIES
from everturn.session.runtime import FILES_SUFFIX
from everturn.session.session import Reply, Session, UserInput
from everturn.session.tools import Tool, ToolContent
from everturn.view.fragments.recalled import TOOL as RECALL
from everturn.view.fragments.reminder import attachment_words
from everturn.view.system_prompt import SystemPromptSections

DEFAULT_MODEL: Final = "claude-opus-5"


class ChatSettings(NamedTuple):
    """What a conversation is held with; `kept` is where those of the folder are kept."""

    folder: Path
    home: Path
    kept: Path
    config: Config
    takes_notes: bool = False


class ChatAgent:
    """Made closed; `open` begins or continues a conversation."""

    def __init__(
        self, terms: ChatSettings, way: ModelConnection, terminal: Terminal, permissions: Permissions
    ) -> None:
        self.terms, self.way = terms, way
        self.terminal, self.permissions = terminal, permissions
        self.todo = TodoList()
        self._watching = ToolDisplay(terminal, self.todo, begins=self._call_begins)
        self._prompt = build_system_prompt(terms.folder, terms.home, lambda: datetime.now().date())
        self.model = terms.config.model or DEFAULT_MODEL
        self._session: Session | None = None
        self._nested = self._nested_memory()
        workspace = Workspace(terms.folder)
        self.searcher = SearchAgent(
            workspace, permissions, opens=self._search_session, new_path=self._search_path
        )
        self._tools = self._toolbox(workspace)
        self._done: list[CompactionDone] = []
        self.answered = ""
        # What is going on, for whoever stops it; what the answer that is being given has said so far.
        self._is_answering = False
        self._spoken = ""
        self._unfinished = ""
        self._is_quiet = False

    @property
    def session(self) -> Session:
        assert self._session is not None, "a conversation is opened first"
        return self._session

    # ── opening and closing ──────────────────────────────────────────────────────────────────────

    def open(self, path: str | Path) -> None:
        """Begin or continue the conversation in this file; the one before is closed once this one is open."""
        if self._session is not None and os.path.realpath(path) == self._session.path:
            return
        self._prompt.forget()
        opened = self._main(path)
        self.close()
        self._session = opened
        self._nested.forget()
        self.todo.replace(())
        self._unfinished = ""

    def reopen(self) -> None:
        """The same conversation, as its file has it. A second Ctrl-C meanwhile is not listened to."""
        with _ignore_interrupts():
            path = self.session.path
            self.session.close()
            self._is_quiet = True
            try:
                self._session = self._main(path)
            finally:
                self._is_quiet = False
            self._done.clear()

    def close(self) -> None:
        """Let others write; a conversation in which nothing was said leaves nothing behind."""
        session, self._session = self._session, None
        if session is not None:
            session.close()
            remove_if_empty(Path(session.path))

    def _main(self, path: str | Path) -> Session:
        notes = self.terms.takes_notes
        ways = DEFAULT_STRATEGIES if notes else tuple(way for way in DEFAULT_STRATEGIES if way != "notes")
        return self._opened(path, self._tools, self._prompt, listen=self._heard, notes=notes, ways=ways)

    def _opened(
        self, path: str | Path, tools: tuple[Tool, ...], system: str | SystemPromptSections, **how: Any
    ) -> Session:
        config = msgspec.structs.replace(self.terms.config, model=self.model)
        client, send = self.way.client, self.way.send
        roots = (self.terms.folder,)
        return Session.open(
            path, policy=config, tools=tools, system=system, client=client, send=send, roots=roots, **how
        )

    def format_greeting(self) -> list[Text]:
        """What a person sees of a conversation that had begun before; nothing of a new one."""
        log, screen = self.session.conversation.log, self.terminal.screen
        remarks = [Text(line, QUIET) for each in self.session.remarks for line in screen.wrapped(each)]
        sent = [record for record in log.records if record.kind in ("user", "assistant")]
        if not sent:
            return remarks
        found = ResumedConversation(
            id=self.session.id,
            messages=len(sent),
            tokens=self.session.context().size.tokens,
            asked=_last_words(sent, "user"),
            answered=_last_words(sent, "assistant"),
            is_finished=_is_finished(sent[-1]),
        )
        return [*format_resumed(found, screen), *remarks]

    # ── one turn ─────────────────────────────────────────────────────────────────────────────────

    def answer(self, words: str = "") -> Reply:
        """Say something and show what comes back; nothing said means: go on."""
        self._spoken, self._is_answering, self._watching.was_interrupted = "", True, False
        pieces = self.session.stream(self._said(words))
        self._unfinished = ""
        self._watching.wait()
        try:
            while True:
                self._show_piece(next(pieces))
        except StopIteration as done:
            self.answered, self._is_answering = done.value.text, False
            return done.value
        finally:
            pieces.close()
            self.terminal.end_text()
            self.show_compactions()

    def _said(self, words: str) -> UserInput:
        parts = (self._unfinished if words else "", words)
        return [{"type": "text", "text": part} for part in parts if part]

    def _show_piece(self, piece: str) -> None:
        self.show_compactions()
        self._spoken += piece
        self.terminal.stream(piece)

    def handle_interrupt(self) -> None:
        """After a Ctrl-C: what the model had said is told to it with the next words."""
        if self._is_answering and not self._watching.was_interrupted:
            self._unfinished = describe_interrupted_answer(self._spoken)
        self._is_answering = False
        self.reopen()

    # ── tools ────────────────────────────────────────────────────────────────────────────────────

    def _toolbox(self, workspace: Workspace) -> tuple[Tool, ...]:
        own = build_tools(
            workspace, self.permissions, search=self.searcher, todo=self.todo, memory=self._nested
        )
        return self._watching.tools((*own, Tool(RECALL, self._recall)))

    def _nested_memory(self) -> NestedMemory:
        folder, home = self.terms.folder, self.terms.home
        return NestedMemory(folder, home, known=(file.path for file in find_memory_files(folder, home).files))

    def _recall(self, given: Mapping[str, Any]) -> ToolContent:
        """The tool outlives the session that it looks into."""
        run = self.session.recall_tool.run
        return run(given) if run else ""

    def _search_path(self) -> Path:
        return Path(f"{self.session.path}{FILES_SUFFIX}") / f"search-{uuid.uuid4().hex[:8]}.jsonl"

    def _search_session(self, path: Path, *, tools: tuple[Tool, ...], system: str) -> Session:
        return self._opened(path, self._watching.tools(tools, deep=1), system)

    def _call_begins(self) -> None:
        self._spoken = ""
        self.show_compactions()
        self.terminal.end_text()

    # ── what happened ────────────────────────────────────────────────────────────────────────────

    def _heard(self, event: Event) -> None:
        match event:
            case Compacting():
                self._watching.wait(format_progress(event), already=event.seconds)
            case CompactionDone():
                self._done.append(event)
                self._nested.forget()
            case Repaired() if self._is_quiet:
                return
            case _:
                self.terminal.show(format_event(event, self.terminal.screen))

    def show_compactions(self) -> None:
        """Compactions since the last time, each with its receipt, which comes a moment after the event."""
        done, self._done = self._done, []
        if not done:
            return
        records = self.session.conversation.log.records
        receipts = [attachment_words(each.blocks[0]) for each in records if each.subtype == RECEIPT]
        for event, receipt in zip(done, receipts[-len(done) :], strict=False):
            self.terminal.show(format_compaction(event, receipt, self.session.path, self.terminal.screen))

    def figures(self, now: datetime) -> StatusFigures:
        context, spent = self.session.context(), self.session.bill.parts["conversation"]
        seen = spent.read + spent.written + spent.input
        return StatusFigures(
            full=context.size.tokens / context.window,
            level=context_level(context.levels),
            hit_rate=spent.read / seen if seen else None,
            warm=self._warm(now),
            dollars=self.session.bill.dollars + self.searcher.spent.dollars,
            model=context.model,
        )

    def _warm(self, now: datetime) -> float | None:
        """Until when the provider remembers, counted from the last answer."""
        records = self.session.conversation.log.records
        last = next((record_time(each) for each in reversed(records) if each.reply is not None), None)
        if last is None:
            return None
        lives = SECONDS[self.session.conversation.setting.parameters.lifetime.ttl]
        left = lives - (now.astimezone(UTC) - last).total_seconds()
        return left if left > 0 else None


def _last_words(records: Sequence[Record], kind: RecordKind) -> str:
    for record in reversed(records):
        words = " ".join(text_of(block) for block in record.blocks if block.kind == "text")
        if record.kind == kind and words.strip() and not (record.meta or record.compact_summary):
            return words
    return ""


def _is_finished(last: Record) -> bool:
    """A turn ends with words of the model; what programs add behind them opens none."""
    if last.kind == "user":
        return last.meta or last.compact_summary
    return not any(block.kind == "tool_use" for block in last.blocks)


@contextmanager
def _ignore_interrupts() -> Iterator[None]:
    before: Callable[..., Any] | int | None = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
