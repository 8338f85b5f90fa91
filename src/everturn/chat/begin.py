"""From options to a conversation: configuration, way to the model, file, terminal; then `loop.py` has it."""

import os
import sys
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, cast

import click

from everturn.chat.agent import Agent, Terms
from everturn.chat.loop import asked, attempt, converse
from everturn.chat.permission import Mode, Permissions
from everturn.chat.provider import Wanted, Way, way_to_model
from everturn.chat.screen.lines import Nothing, Say, meaning
from everturn.chat.screen.opening import banner
from everturn.chat.screen.terminal import Terminal
from everturn.chat.sessions import chosen, folder_of, kept_in, new_path
from everturn.dashboard.terminal import QUIET
from everturn.errors import UsageError
from everturn.session.config.load import config_files, load


class Options(NamedTuple):
    """What was asked for on the command line. `settings` are keys of the configuration."""

    settings: Mapping[str, Any]
    words: str | None
    resume: str | None
    session: Path | None
    wanted: Wanted
    mode: str
    takes_notes: bool


def begin(options: Options, way: Way | None = None) -> int:
    """Hold a conversation in the current folder; the exit code. `way` is another one than there would be."""
    folder, home = Path.cwd(), Path.home()
    loaded = load(config_files(os.environ, home=home, cwd=folder), os.environ, options.settings)
    terminal = Terminal() if options.words is None else Unattended()
    permissions = Permissions(lambda wish: asked(terminal, wish), cast(Mode, options.mode))
    way = way or way_to_model(loaded.config.provider, options.wanted)
    kept = folder_of(folder, os.environ, home)
    terms = Terms(folder, home, kept, loaded.config, options.takes_notes)
    agent = Agent(terms, way, terminal, permissions)
    agent.open(options.session or _path(kept, options.resume))
    try:
        if options.words is not None:
            return _once(agent, options.words)
        _greet(agent, loaded.notes)
        terminal.remember_lines_in(str(kept / "history"))
        converse(agent)
        return 0
    finally:
        agent.close()


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
    _tell_aside(agent.way.says)
    if not attempt(agent, meant):
        return 1
    if isinstance(meant, Say):
        click.echo(agent.answered.encode("utf-8", "replace"))
    return 0


def _path(folder: Path, resume: str | None) -> Path:
    if resume is not None:
        return chosen(kept_in(folder), resume).path
    return new_path(folder, datetime.now(UTC), uuid.uuid4().hex)


def _tell_aside(*said: str) -> None:
    """Standard output is for answers alone."""
    for each in filter(None, said):
        click.echo(each, err=True)


def _greet(agent: Agent, notes: tuple[str, ...]) -> None:
    terminal = agent.terminal
    if terminal.kind == "pipe":
        _tell_aside(agent.way.says, *notes)
        return
    where = str(agent.terms.folder).replace(str(agent.terms.home), "~", 1)
    terminal.show(banner(agent.model, where, agent.way.says, terminal.screen))
    for note in notes:
        terminal.say(note, QUIET)
    terminal.show(agent.greeting())
    terminal.say("/help lists the commands.", QUIET)
    terminal.blank()
