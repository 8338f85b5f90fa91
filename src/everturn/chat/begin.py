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

from everturn.chat.agent import DEFAULT_MODEL, Agent, Terms
from everturn.chat.loop import asked, attempt, converse
from everturn.chat.permission import Mode, Permissions
from everturn.chat.provider import Wanted, way_to_model
from everturn.chat.screen.lines import Command, Nothing, Say, meaning
from everturn.chat.screen.opening import banner
from everturn.chat.screen.terminal import Terminal
from everturn.chat.sessions import chosen, folder_of, kept_in, new_path
from everturn.dashboard.terminal import QUIET
from everturn.errors import UsageError
from everturn.measure.models import find
from everturn.measure.thresholds import DEFAULTS
from everturn.session.config.load import config_files, load
from everturn.session.config.shape import Config

# The window that the reserves were made for (TOK-12).
RESERVES_FOR: Final = 200_000


class Options(NamedTuple):
    """What was asked for on the command line. `settings` are keys of the configuration."""

    settings: Mapping[str, Any]
    words: str | None
    resume: str | None
    session: Path | None
    wanted: Wanted
    mode: str
    takes_notes: bool


def begin(options: Options) -> int:
    """Hold a conversation in the current folder; the exit code."""
    folder, home = Path.cwd(), Path.home()
    loaded = load(config_files(os.environ, home=home, cwd=folder), os.environ, options.settings)
    terminal = _terminal_for(options.words)
    permissions = Permissions(lambda wish: asked(terminal, wish), cast(Mode, options.mode))
    way = way_to_model(loaded.config.provider, options.wanted)
    kept = folder_of(folder, os.environ, home)
    path = options.session or _path(kept, options.resume)
    config = in_proportion(loaded.config)
    agent = Agent(Terms(folder, home, kept, config, options.takes_notes), way, terminal, permissions)
    _introduce(agent, loaded.notes)
    agent.open(path)
    try:
        if options.words is not None:
            return _once(agent, options.words)
        _greet(agent)
        terminal.remember_lines_in(str(kept / "history"))
        converse(agent)
        return 0
    finally:
        agent.close()


def in_proportion(config: Config) -> Config:
    """A small window on a model with a larger one: its reserves take the share of it that they take of 200K.

    In whole they would leave a quarter of it to work in, and the answers have room beyond it. Where the
    model itself is small, or unknown, or somebody chose the reserves, they stay.
    """
    model, window = find(config.model or DEFAULT_MODEL), config.window
    if not (model and window and window < min(model.window, RESERVES_FOR)) or config.thresholds != DEFAULTS:
        return config
    names = ("output_reserve", "auto_margin", "warning_margin", "error_margin", "blocking_margin")
    scaled = {name: getattr(DEFAULTS, name) * window // RESERVES_FOR for name in names}
    return msgspec.structs.replace(config, thresholds=msgspec.structs.replace(DEFAULTS, **scaled))


def _terminal_for(words: str | None) -> Terminal:
    """Words that were given with -p are answered on standard output; so is a command."""
    if words is None:
        return Terminal()
    return Terminal(kind="pipe") if isinstance(meaning(words), Command) else Unattended()


class Unattended(Terminal):
    """Nobody is there: tool calls are told on stderr, and only the last answer goes to standard output."""

    def __init__(self) -> None:
        super().__init__(say_to=sys.stderr, kind="pipe")

    def stream(self, piece: str) -> None:
        """Said at the end, once it is known to be the last."""


def _once(agent: Agent, words: str) -> int:
    meant = meaning(words)
    if isinstance(meant, Nothing):
        raise UsageError("There is nothing to say: -p needs words.")
    if not attempt(agent, meant):
        # What helps is often a command, and there is no prompt to type it at.
        agent.terminal.say(f"It is kept: `everturn chat --resume {agent.session.id}` takes commands.")
        return 1
    if isinstance(meant, Say):
        click.echo(agent.answered.encode("utf-8", "replace"))
    return 0


def _path(folder: Path, resume: str | None) -> Path:
    if resume is not None:
        return chosen(kept_in(folder), resume).path
    return new_path(folder, datetime.now(UTC), uuid.uuid4().hex)


def _introduce(agent: Agent, notes: tuple[str, ...]) -> None:
    """Who one talks to, before anything is opened. In a pipe standard output is for answers alone."""
    terminal = agent.terminal
    if terminal.kind == "pipe":
        for said in filter(None, (agent.way.says, *notes)):
            click.echo(said, err=True)
        return
    where = _shown(agent.terms.folder, agent.terms.home)
    terminal.show(banner(agent.model, where, agent.way.says, terminal.screen))
    for note in notes:
        terminal.say(note, QUIET)


def _shown(folder: Path, home: Path) -> str:
    return str("~" / folder.relative_to(home)) if folder.is_relative_to(home) else str(folder)


def _greet(agent: Agent) -> None:
    """What is continued, and how to go on."""
    terminal = agent.terminal
    if terminal.kind != "pipe":
        terminal.show(agent.greeting())
        terminal.say("/help lists the commands.", QUIET)
        terminal.blank()
