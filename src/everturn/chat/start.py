"""Starts the chat: configuration, model connection, transcript, terminal; then runs `loop.py`."""

import os
import shlex
import sys
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import click
import msgspec

from everturn.chat.agent import ChatAgent, ChatSettings
from everturn.chat.claude_settings import read_claude_settings
from everturn.chat.loop import ask_permission, converse, run_input
from everturn.chat.model_connection import ModelChoice, connect_to_model
from everturn.chat.permission import PermissionMode, Permissions
from everturn.chat.screen.input import EmptyInput, PromptInput, SlashCommand, parse_input
from everturn.chat.screen.status import PRACTICE, format_dollars
from everturn.chat.screen.terminal import Terminal
from everturn.chat.screen.welcome import format_banner, format_farewell
from everturn.chat.sessions import list_sessions, new_session_path, project_folder, select_session
from everturn.dashboard.terminal import QUIET
from everturn.decide.options import DEFAULT_MODEL, Options
from everturn.errors import UsageError
from everturn.measure.model_table import find_model
from everturn.measure.thresholds import DEFAULTS
from everturn.session.config.load import resolve_options
from everturn.session.hooks.run import Hooks
from everturn.terminal_text import printable

RESERVES: Final = ("output_reserve", "auto_margin", "warning_margin", "error_margin", "blocking_margin")
# The window size that the default reserves are meant for (TOK-12).
RESERVES_WINDOW: Final = 200_000


class ChatOptions(NamedTuple):
    """The command line options. `settings` are configuration keys; `config_path` is the file that is read
    instead of the user's and the project's."""

    settings: Mapping[str, Any]
    config_path: Path | None
    words: str | None
    resume: str | None
    session: Path | None
    wanted: ModelChoice
    mode: str
    # The folder as it was named on the command line, to be named again by whoever goes on.
    location: tuple[str, ...] = ()


def start_chat(options: ChatOptions) -> int:
    """Run a conversation in the current folder and return the exit code."""
    folder, home = Path.cwd(), Path.home()
    config = options.config_path or "auto"
    given = resolve_options(None, options.settings, config=config, project=folder).options
    claude = read_claude_settings(os.environ, folder, given.hooks.trusted)
    loaded = resolve_options(None, options.settings, config=config, project=folder, defaults=claude.defaults)
    hooks = claude.load_hooks(loaded.options.hooks)
    terminal = _terminal_for(options.words)
    permissions = Permissions(
        lambda request: ask_permission(terminal, request), cast(PermissionMode, options.mode)
    )
    connection = connect_to_model(loaded.options.provider, options.wanted)
    kept = project_folder(folder, os.environ, home)
    path = options.session or _path(kept, options.resume)
    chosen = scale_reserves(loaded.options)
    agent = ChatAgent(
        ChatSettings(folder, home, kept, chosen, Hooks(hooks.hooks), str(options.settings.get("model", ""))),
        connection,
        terminal,
        permissions,
    )
    agent.choose_model(path)
    _introduce(agent, (*loaded.notes, *claude.notes, *hooks.notes))
    agent.open(path)
    try:
        if options.words is not None:
            return _run_once(agent, options.words)
        # First, because it takes a moment, and keys that are typed meanwhile are shown twice.
        terminal.start_editor(str(kept / "history"))
        _greet(agent)
        converse(agent)
        _say_farewell(agent, options)
        return 0
    finally:
        agent.close()


def scale_reserves(options: Options) -> Options:
    """Scale the default reserves down if the window was set smaller than the model's own.

    The defaults are meant for 200K tokens and would leave little of a small window to work in; answers can
    still exceed the window, because the model's own is larger. Reserves stay as they are for a small or
    unknown model, and if the user set them.
    """
    model, window = find_model(options.model or DEFAULT_MODEL), options.window
    given = {name: getattr(options.thresholds, name) for name in RESERVES}
    if not (model and window and window < min(model.window, RESERVES_WINDOW)) or given != {
        name: getattr(DEFAULTS, name) for name in RESERVES
    }:
        return options
    scaled = {name: value * window // RESERVES_WINDOW for name, value in given.items()}
    return msgspec.structs.replace(options, thresholds=msgspec.structs.replace(options.thresholds, **scaled))


def _terminal_for(words: str | None) -> Terminal:
    """With -p, only the answer goes to standard output; commands print there too."""
    if words is None:
        return Terminal()
    return Terminal(kind="pipe") if isinstance(parse_input(words), SlashCommand) else HeadlessTerminal()


class HeadlessTerminal(Terminal):
    """For -p: tool calls are shown on stderr, and only the last answer goes to standard output."""

    def __init__(self) -> None:
        super().__init__(say_to=sys.stderr, kind="pipe")

    def stream(self, piece: str) -> None:
        """Does nothing: only the last answer is printed, at the end."""


def _run_once(agent: ChatAgent, words: str) -> int:
    meant = parse_input(words)
    if isinstance(meant, EmptyInput):
        raise UsageError("-p needs a prompt; it was empty.")
    if not run_input(agent, meant):
        # The remedy is often a slash command, and -p has no prompt to type it at.
        agent.terminal.say(
            f"The conversation is saved: `everturn chat --resume {agent.session.id}` continues it."
        )
        return 1
    if isinstance(meant, PromptInput):
        # A program gets the answer as it is; a terminal gets what it can show.
        answer = printable(agent.answered, keeps_lines=True) if sys.stdout.isatty() else agent.answered
        click.echo(answer.encode("utf-8", "replace"))
    return 0


def _path(folder: Path, resume: str | None) -> Path:
    if resume is not None:
        return select_session(list_sessions(folder), resume).path
    return new_session_path(folder, datetime.now(UTC), uuid.uuid4().hex)


def _introduce(agent: ChatAgent, notes: tuple[str, ...]) -> None:
    """Show model, folder and notices. In a pipe they go to stderr: standard output is for answers."""
    terminal = agent.terminal
    if terminal.kind == "pipe":
        for said in filter(None, (agent.connection.notice, *notes)):
            click.echo(printable(said), err=True)
        return
    where = _abbreviate_home(agent.settings.folder, agent.settings.home)
    model = f"{PRACTICE} as {agent.model}" if agent.connection.is_practice else agent.model
    terminal.show(format_banner(model, where, agent.connection.notice, terminal.screen))
    for note in notes:
        terminal.say(note, QUIET)


def _say_farewell(agent: ChatAgent, options: ChatOptions) -> None:
    """How to go on with a conversation that is not empty, and what it has cost."""
    terminal, session = agent.terminal, agent.session
    if terminal.kind == "pipe" or not session.conversation.log.records:
        return
    is_practice = agent.connection.is_practice
    spent = (
        "Practice: nothing was billed." if is_practice else f"{format_dollars(agent.spent.dollars)} so far."
    )
    command = ["everturn", "chat", *options.location]
    command += ["--twin"] if options.wanted == "twin" else []
    is_listed = Path(session.path).parent == agent.settings.sessions_folder
    command += ["--resume", session.id] if is_listed else ["--session", session.path]
    terminal.show(format_farewell(shlex.join(command), spent, terminal.screen))


def _abbreviate_home(folder: Path, home: Path) -> str:
    return str("~" / folder.relative_to(home)) if folder.is_relative_to(home) else str(folder)


def _greet(agent: ChatAgent) -> None:
    """Show what is resumed, and how to get help."""
    terminal = agent.terminal
    if terminal.kind != "pipe":
        terminal.show(agent.format_greeting())
        terminal.say("/help lists the commands.", QUIET)
        terminal.blank()
