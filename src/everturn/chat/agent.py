"""One conversation in a terminal: opens the session, streams answers, shows events.

The transcript holds everything that was acknowledged. After an interrupt the session is therefore reopened
from its file (`reopen`), and no state of the interrupted turn is reused. `loop.py` decides when to do what.
"""

import os
import signal
import uuid
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rich.text import Text

from everturn.chat.instructions_hooks import InstructionsHooks
from everturn.chat.model_connection import ModelConnection
from everturn.chat.permission import HookDecision, PermissionRequest, Permissions
from everturn.chat.screen.event_lines import format_compaction, format_event, format_progress
from everturn.chat.screen.status import StatusFigures
from everturn.chat.screen.terminal import Terminal
from everturn.chat.screen.welcome import format_resumed
from everturn.chat.session_figures import describe_resumed, measure_status
from everturn.chat.sessions import ChatState, read_chat_state, remove_if_empty, write_chat_state
from everturn.chat.subagent import SearchAgent
from everturn.chat.system_prompt import build_system_prompt, describe_interrupted_answer
from everturn.chat.tool_display import ToolDisplay
from everturn.chat.tools.files.workspace import ResolvedPath, Workspace
from everturn.chat.tools.inputs import ToolError
from everturn.chat.tools.todo import TodoList
from everturn.chat.tools.toolbox import build_tools
from everturn.chat.visible_reads import sees_read
from everturn.dashboard.terminal import QUIET
from everturn.decide.compact.chain import RECEIPT
from everturn.decide.effects import HookEvent, HookOutcome
from everturn.decide.events import (
    CacheHeld,
    Compacting,
    CompactionDone,
    Event,
    MicroCompacted,
    Repaired,
)
from everturn.decide.options import DEFAULT_MODEL, Options
from everturn.session.bill import UsageTotals
from everturn.session.hooks.run import Hooks
from everturn.session.session import Reply, Session, SessionStart, UserInput
from everturn.session.store.jsonl_store import FILES_SUFFIX
from everturn.session.tools import Tool, ToolContent
from everturn.view.fragments.recalled import TOOL as RECALL
from everturn.view.fragments.reminder import attachment_words
from everturn.view.system_prompt import SystemPromptSections

# Why a conversation ended, as SessionEnd hooks are told; the values are Claude Code's.
EndReason = Literal["clear", "resume", "prompt_input_exit", "other"]


class ChatSettings(NamedTuple):
    """What a conversation needs; `sessions_folder` holds the conversations of this project."""

    folder: Path
    home: Path
    sessions_folder: Path
    options: Options
    # Of Claude Code's settings files; those of `hooks.files` are added by the session.
    hooks: Hooks = Hooks()
    # As named for this run, which counts more than what a resumed conversation used.
    model: str = ""


class ChatAgent:
    """Runs conversations. Created without one; `open` starts or resumes a conversation."""

    def __init__(
        self,
        settings: ChatSettings,
        connection: ModelConnection,
        terminal: Terminal,
        permissions: Permissions,
    ) -> None:
        self.settings, self.connection = settings, connection
        self.terminal, self.permissions = terminal, permissions
        self.todo = TodoList()
        self._instructions = InstructionsHooks(self._run_hooks)
        self._watching = ToolDisplay(terminal, self.todo, begins=self._call_begins)
        self._prompt = build_system_prompt(
            settings.folder, settings.home, lambda: datetime.now().date(), self._instructions.note_loaded
        )
        self.model = self._default_model
        self._state = ChatState()
        self._session: Session | None = None
        self._nested = self._instructions.watch_nested(settings.folder, settings.home)
        self._workspace = Workspace(settings.folder)
        self.searcher = SearchAgent(
            self._workspace,
            permissions,
            opens=self._search_session,
            new_path=self._search_path,
            run_hooks=self._run_hooks,
        )
        permissions.run_hooks = self._permission_hooks
        self.end_reason: EndReason = "other"
        self._tools = self._toolbox()
        self._done: list[CompactionDone] = []
        # Told by another thread while the user may be typing.
        self._held: list[CacheHeld] = []
        self.answered = ""
        # State of the current turn, needed when it is interrupted: the text streamed so far.
        self._is_answering = False
        self._spoken = ""
        self._unfinished = ""
        self._is_quiet = False

    @property
    def session(self) -> Session:
        assert self._session is not None, "open a conversation first"
        return self._session

    # ── opening and closing ──────────────────────────────────────────────────────────────────────

    def open(self, path: str | Path, cause: Literal["", "clear", "resume"] = "") -> None:
        """Start or resume the conversation in this file, then close the previous one. `cause` is the command
        that asked for it, which SessionStart and SessionEnd hooks are told."""
        if self._session is not None and os.path.realpath(path) == self._session.path:
            return
        self._prompt.forget()
        before, state = self.model, self.choose_model(path, cause)
        try:
            opened = self._main(path, "clear" if cause == "clear" else "auto")
        except BaseException:
            self.model = before
            raise
        self.close(cause or "other")
        self._session, self._state, self.searcher.spent = opened, state, state.searches
        self._nested.forget()
        self._workspace.forget()
        self.todo.replace(())
        self._unfinished = ""
        self._instructions.tell_loaded("session_start")

    def choose_model(self, path: str | Path, cause: str = "") -> ChatState:
        """Set the model for a conversation: as named for this run, else as it used last. After /clear, the
        model of the one before."""
        state = read_chat_state(path)
        if self._session is None and self.settings.model:
            self.model = self.settings.model
        else:
            self.model = state.model or (self.model if cause == "clear" else self._default_model)
        return state

    @property
    def _default_model(self) -> str:
        return self.settings.options.model or DEFAULT_MODEL

    def change_model(self, name: str) -> None:
        self.model = name
        self.reopen()
        self._write_state()

    def _write_state(self) -> None:
        model = "" if self.model == self._default_model else self.model
        has_practice = self._state.has_practice or self.connection.is_practice
        state = ChatState(model, self.searcher.spent, has_practice)
        if state != self._state and self.session.conversation.log.records:
            self._state = state
            write_chat_state(self.session.path, state)

    def reopen(self) -> None:
        """Open the same conversation again from its file. Ctrl-C is ignored until that is done."""
        with _ignore_interrupts():
            path = self.session.path
            # The conversation neither ends nor starts: no hooks.
            self.session.close(reason="")
            self._is_quiet = True
            try:
                self._session = self._main(path, "none")
            finally:
                self._is_quiet = False
            self._done.clear()

    def close(self, reason: "EndReason | None" = None) -> None:
        """Release the transcript. An empty conversation leaves no file."""
        session, self._session = self._session, None
        if session is not None:
            session.close(reason or self.end_reason)
            remove_if_empty(Path(session.path))

    def _main(self, path: str | Path, session_start: SessionStart) -> Session:
        return self._opened(path, self._tools, self._prompt, listen=self._heard, session_start=session_start)

    def _opened(
        self, path: str | Path, tools: tuple[Tool, ...], system: str | SystemPromptSections, **how: Any
    ) -> Session:
        client, send = self.connection.client, self.connection.send
        roots = (self.settings.folder,)
        return Session.open(
            path,
            self.settings.options,
            config=None,
            model=self.model,
            tools=tools,
            system=system,
            client=client,
            send=send,
            roots=roots,
            hooks=self.settings.hooks,
            # A chat is a file of its project, wherever other conversations are kept.
            store={"url": ""},
            **how,
        )

    def format_greeting(self) -> list[Text]:
        """The first lines shown for a resumed conversation; only remarks for a new one."""
        screen, resumed = self.terminal.screen, describe_resumed(self.session)
        told = list(self.session.remarks)
        if self._state.has_practice and not self.connection.is_practice:
            told.append("The twin has answered in this conversation: the cost includes prices nobody paid.")
        remarks = [Text(line, QUIET) for each in told for line in screen.wrapped(each)]
        return [*format_resumed(resumed, screen), *remarks] if resumed else remarks

    # ── one turn ─────────────────────────────────────────────────────────────────────────────────

    def answer(self, words: str = "") -> Reply:
        """Send a message and show the answer. Without a message, the last turn continues."""
        self._spoken, self._is_answering, self._watching.was_interrupted = "", True, False
        held, self._held = self._held, []
        self.terminal.show(line for each in held for line in format_event(each, self.terminal.screen))
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
            self._write_state()
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
        """After Ctrl-C: the next message tells the model where its answer was cut off."""
        if self._is_answering and not self._watching.was_interrupted:
            self._unfinished = describe_interrupted_answer(self._spoken)
        self._is_answering = False
        self.reopen()

    # ── tools ────────────────────────────────────────────────────────────────────────────────────

    def _toolbox(self) -> tuple[Tool, ...]:
        own = build_tools(
            self._workspace,
            self.permissions,
            search=self.searcher,
            todo=self.todo,
            memory=self._nested,
            is_visible=self._is_visible,
        )
        return self._watching.tools((*own, Tool(RECALL, self._recall)))

    def _is_visible(self, target: ResolvedPath, content: str) -> bool:
        def is_same_file(path: str) -> bool:
            try:
                return bool(path) and self._workspace.resolve(path).real == target.real
            except ToolError:
                return False

        return sees_read(self.session.conversation.log.view, is_same_file, content)

    def _recall(self, given: Mapping[str, Any]) -> ToolContent:
        """Calls the tool of the session that is open now: this tool exists longer than one session."""
        run = self.session.recall_tool.run
        return run(given) if run else ""

    def _search_path(self) -> Path:
        return Path(f"{self.session.path}{FILES_SUFFIX}") / f"search-{uuid.uuid4().hex[:8]}.jsonl"

    def _search_session(self, path: Path, *, tools: tuple[Tool, ...], system: str) -> Session:
        return self._opened(
            path, self._watching.tools(tools, deep=1), system, notes=False, session_start="none"
        )

    def _call_begins(self) -> None:
        self._spoken = ""
        self.show_compactions()
        self.terminal.end_text()

    # ── hooks ────────────────────────────────────────────────────────────────────────────────────

    def _run_hooks(self, event: HookEvent, **payload: Any) -> HookOutcome:
        return self.session.run_hooks(event, **payload)

    def _permission_hooks(self, request: PermissionRequest) -> HookDecision:
        """PermissionRequest hooks can decide before the user is asked; denying counts more than allowing."""
        given = dict(self._watching.current_input)
        found = self._run_hooks(
            "PermissionRequest", tool_name=request.tool, tool_input=given, description=request.what
        )
        if found.blocked:
            return HookDecision("deny", found.blocked)
        return HookDecision("allow" if found.permission == "allow" else "")

    # ── what happened ────────────────────────────────────────────────────────────────────────────

    def _heard(self, event: Event) -> None:
        match event:
            case Compacting():
                self._watching.wait(format_progress(event), already=event.seconds)
            case CompactionDone():
                self._done.append(event)
                self._nested.forget()
                self._workspace.forget()
                self._instructions.tell_loaded("compact")
            case CacheHeld():
                self._held.append(event)
            case MicroCompacted():
                self._workspace.forget_shown()
                self.terminal.show(format_event(event, self.terminal.screen))
            case Repaired() if self._is_quiet:
                return
            case _:
                self.terminal.show(format_event(event, self.terminal.screen))

    def show_compactions(self) -> None:
        """Show the compactions since the last call. Each receipt is written shortly after its event."""
        done, self._done = self._done, []
        if not done:
            return
        records = self.session.conversation.log.records
        receipts = [attachment_words(each.blocks[0]) for each in records if each.subtype == RECEIPT]
        for event, receipt in zip(done, receipts[-len(done) :], strict=False):
            self.terminal.show(format_compaction(event, receipt, self.session.path, self.terminal.screen))

    def figures(self, now: datetime) -> StatusFigures:
        return measure_status(self.session, now, self.spent.dollars, is_practice=self.connection.is_practice)

    @property
    def spent(self) -> UsageTotals:
        """What the conversation has cost so far, with summaries, notes and searches."""
        return self.session.bill.total + self.searcher.spent


@contextmanager
def _ignore_interrupts() -> Generator[None]:
    before: Callable[..., Any] | int | None = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
