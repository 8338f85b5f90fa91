"""From options to a conversation: configuration, way to the model, file, terminal; then `loop.py` has it."""

import os
import sys
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import click
import msgspec

from everturn.chat.agent import DEFAULT_MODEL, ChatAgent, ChatSettings
from everturn.chat.loop import ask_permission, converse, run_input
from everturn.chat.model_connection import ModelChoice, connect_to_model
from everturn.chat.permission import PermissionMode, Permissions
from everturn.chat.screen.input import EmptyInput, PromptInput, SlashCommand, parse_input
from everturn.chat.screen.terminal import Terminal
from everturn.chat.screen.welcome import format_banner
from everturn.chat.sessions import list_sessions, new_session_path, project_folder, select_session
from everturn.dashboard.terminal import QUIET
from everturn.errors import UsageError
from everturn.measure.model_table import find_model
from everturn.measure.thresholds import DEFAULTS
from everturn.session.config.load import config_files, load
from everturn.session.config.shape import Config

# The window that the reserves were made for (TOK-12).
RESERVES_WINDOW: Final = 200_000


class ChatOptions(NamedTuple):
    """What was asked for on the command line. `settings` are keys of the configuration."""

    settings: Mapping[str, Any]
    words: str | None
    resume: str | None
    session: Path | None
    wanted: ModelChoice
    mode: str
    takes_notes: bool


def start_chat(options: ChatOptions) -> int:
    """Hold a conversation in the current folder; the exit code."""
    folder, home = Path.cwd(), Path.home()
    loaded = load(config_files(os.environ, home=home, cwd=folder), os.environ, options.settings)
    terminal = _terminal_for(options.words)
    permissions = Permissions(lambda wish: ask_permission(terminal, wish), cast(PermissionMode, options.mode))
    way = connect_to_model(loaded.config.provider, options.wanted)
    kept = project_folder(folder, os.environ, home)
    path = options.session or _path(kept, options.resume)
    config = scale_reserves(loaded.config)
    agent = ChatAgent(
        ChatSettings(folder, home, kept, config, options.takes_notes), way, terminal, permissions
    )
    _introduce(agent, loaded.notes)
    agent.open(path)
    try:
        if options.words is not None:
            return _run_once(agent, options.words)
        _greet(agent)
        terminal.load_line_history(str(kept / "history"))
        converse(agent)
        return 0
    finally:
        agent.close()


def scale_reserves(config: Config) -> Config:
    """A small window on a model with a larger one: its reserves take the share of it that they take of 200K.

    In whole they would leave a quarter of it to work in, and the answers have room beyond it. Where the
    model itself is small, or unknown, or somebody chose the reserves, they stay.
    """
    model, window = find_model(config.model or DEFAULT_MODEL), config.window
    if (
        not (model and window and window < min(model.window, RESERVES_WINDOW))
        or config.thresholds != DEFAULTS
    ):
        return config
    names = ("output_reserve", "auto_margin", "warning_margin", "error_margin", "blocking_margin")
    scaled = {name: getattr(DEFAULTS, name) * window // RESERVES_WINDOW for name in names}
    return msgspec.structs.replace(config, thresholds=msgspec.structs.replace(DEFAULTS, **scaled))


def _terminal_for(words: str | None) -> Terminal:
    """Words that were given with -p are answered on standard output; so is a command."""
    if words is None:
        return Terminal()
    return Terminal(kind="pipe") if isinstance(parse_input(words), SlashCommand) else HeadlessTerminal()


class HeadlessTerminal(Terminal):
    """Nobody is there: tool calls are told on stderr, and only the last answer goes to standard output."""

    def __init__(self) -> None:
        super().__init__(say_to=sys.stderr, kind="pipe")

    def stream(self, piece: str) -> None:
        """Said at the end, once it is known to be the last."""


def _run_once(agent: ChatAgent, words: str) -> int:
    meant = parse_input(words)
    if isinstance(meant, EmptyInput):
        raise UsageError("There is nothing to say: -p needs words.")
    if not run_input(agent, meant):
        # What helps is often a command, and there is no prompt to type it at.
        agent.terminal.say(f"It is kept: `everturn chat --resume {agent.session.id}` takes commands.")
        return 1
    if isinstance(meant, PromptInput):
        click.echo(agent.answered.encode("utf-8", "replace"))
    return 0


def _path(folder: Path, resume: str | None) -> Path:
    if resume is not None:
        return select_session(list_sessions(folder), resume).path
    return new_session_path(folder, datetime.now(UTC), uuid.uuid4().hex)


def _introduce(agent: ChatAgent, notes: tuple[str, ...]) -> None:
    """Who one talks to, before anything is opened. In a pipe standard output is for answers alone."""
    terminal = agent.terminal
    if terminal.kind == "pipe":
        for said in filter(None, (agent.way.says, *notes)):
            click.echo(said, err=True)
        return
    where = _abbreviate_home(agent.terms.folder, agent.terms.home)
    terminal.show(format_banner(agent.model, where, agent.way.says, terminal.screen))
    for note in notes:
        terminal.say(note, QUIET)


def _abbreviate_home(folder: Path, home: Path) -> str:
    return str("~" / folder.relative_to(home)) if folder.is_relative_to(home) else str(folder)


def _greet(agent: ChatAgent) -> None:
    """What is continued, and how to go on."""
    terminal = agent.terminal
    if terminal.kind != "pipe":
        terminal.show(agent.format_greeting())
        terminal.say("/help lists the commands.", QUIET)
        terminal.blank()
