"""The slash commands: one table, one small function each.

A command gives lines for the screen. Nothing of what it says enters the context: to look costs no token.
"""

import time
import uuid
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Final, NamedTuple, cast

from rich.text import Text

from everturn.chat.agent import ChatAgent
from everturn.chat.permission import MODES, PermissionMode
from everturn.chat.screen.event_lines import format_labelled
from everturn.chat.screen.input import SlashCommand
from everturn.chat.screen.welcome import format_session_list
from everturn.chat.sessions import list_sessions, new_session_path, select_session
from everturn.dashboard import compactions, recall_output, terminal
from everturn.dashboard.layout import Column, Screen, counted, tokens
from everturn.dashboard.report import context_report
from everturn.dashboard.terminal import HEAD, QUIET
from everturn.decide.compact.values import Compaction, CompactionSkipped
from everturn.errors import UsageError
from everturn.measure.model_table import find_model
from everturn.session.recall.search import RecallResult
from everturn.session.recorded import open_session

Lines = Iterable[Text]
_DRY: Final = "--dry-run"
_PURPOSES: Final = {"conversation": "conversation", "compact": "summaries", "session_memory": "notes"}


class CommandSpec(NamedTuple):
    takes: str
    about: str
    run: Callable[[ChatAgent, str], Lines]


def run_slash_command(agent: ChatAgent, command: SlashCommand) -> Lines:
    row = COMMANDS.get(command.name)
    if row is None:
        near = get_close_matches(command.name, COMMANDS, n=1)
        hint = f"Did you mean /{near[0]}?" if near else "/help lists all of them."
        raise UsageError(f"There is no command /{command.name}. {hint}")
    return row.run(agent, command.rest)


def help_(agent: ChatAgent, _: str) -> Lines:
    screen = agent.terminal.screen
    rows = [(f"/{name} {row.takes}".rstrip(), row.about) for name, row in COMMANDS.items()]
    room = max(len(name) for name, _ in rows) + 2
    if screen.width < room + 30:
        return [line for row in rows for line in _stacked(row, screen)]
    beside = screen._replace(width=screen.width - room)
    return [Text.assemble((f"{name:<{room}}", HEAD), beside.fitted(about)) for name, about in rows]


def _stacked(row: tuple[str, str], screen: Screen) -> Lines:
    yield Text(screen.fitted(row[0]), HEAD)
    yield from (Text(f"  {line}") for line in screen._replace(width=screen.width - 2).wrapped(row[1]))


def context(agent: ChatAgent, _: str) -> Lines:
    """The same picture as `everturn context` draws of the file."""
    session = agent.session
    report = context_report(open_session(session.path, window=session.context().window))
    return terminal.drawn(report, agent.terminal.screen)


def cost(agent: ChatAgent, _: str) -> Lines:
    bill, searches = agent.session.bill, agent.searcher.spent
    parts = [(_PURPOSES[purpose], spent) for purpose, spent in bill.parts.items()]
    rows = [(name, spent) for name, spent in (*parts, ("searches", searches)) if spent.calls]
    if not rows:
        return [Text("Nothing yet: no call was made.")]
    total = bill.total + searches
    columns = (
        Column("for", "<"),
        Column("calls"),
        Column("read", optional=2),
        Column("written", optional=3),
        Column("plain", optional=4),
        Column("output", optional=1),
        Column("dollars"),
    )
    cells = [
        [
            name,
            str(each.calls),
            *map(tokens, (each.read, each.written, each.input, each.output)),
            f"${each.dollars:.4f}",
        ]
        for name, each in (*rows, ("all", total))
    ]
    head, *body = agent.terminal.screen.table(columns, cells)
    lines = [Text(head, QUIET), *map(Text, body)]
    if total.unpriced:
        lines.append(
            Text(f"{counted(total.unpriced, 'call')} of models without a known price cost 0 here.", QUIET)
        )
    return lines


def compact(agent: ChatAgent, rest: str) -> Lines:
    words = rest.split()
    if _DRY in words:
        return _dry_run(agent, " ".join(word for word in words if word != _DRY))
    outcome = agent.session.compact(rest)
    agent.show_compactions()
    if isinstance(outcome, Compaction):
        return [Text("Take it back with /undo.", QUIET)]
    # What was tried and failed was told when it happened.
    return (
        _sentence(agent, f"Not compacted: {outcome.why}.") if isinstance(outcome, CompactionSkipped) else ()
    )


def _dry_run(agent: ChatAgent, focus: str) -> Lines:
    plan = agent.session.dry_run(focus)
    if isinstance(plan, CompactionSkipped):
        return _sentence(agent, f"It would not be compacted: {plan.why}.")
    return compactions.render_plan(plan, "/compact", agent.terminal.screen)


def undo(agent: ChatAgent, _: str) -> Lines:
    before = agent.session.context()
    undone = agent.session.undo()
    if isinstance(undone, CompactionSkipped):
        return _sentence(agent, f"Nothing to take back: {undone.why}.")
    after = agent.session.context()
    return compactions.render_undo(undone.boundary[:8], before, after, agent.terminal.screen)


def pin(agent: ChatAgent, rest: str) -> Lines:
    agent.session.pin(rest)
    return _sentence(agent, "Pinned: every later summary carries these words as they are.")


def recall(agent: ChatAgent, rest: str) -> Lines:
    return recall_output.render_hits(RecallResult(agent.session.recall(rest)), (), agent.terminal.screen)


def retry(agent: ChatAgent, _: str) -> Lines:
    agent.answer()
    return ()


def resume(agent: ChatAgent, rest: str) -> Lines:
    kept = list_sessions(agent.terms.kept)
    if not rest:
        return format_session_list(kept, agent.session.path, time.time(), agent.terminal.screen)
    agent.open(select_session(kept, rest).path)
    return agent.format_greeting()


def clear(agent: ChatAgent, _: str) -> Lines:
    """A new conversation; the old one stays in its file."""
    before = Path(agent.session.path)
    agent.open(new_session_path(agent.terms.kept, datetime.now(UTC), uuid.uuid4().hex))
    kept = " The old one can be had again with /resume." if before.exists() else ""
    return _sentence(agent, f"This is a new conversation.{kept}")


def model(agent: ChatAgent, rest: str) -> Lines:
    if not rest:
        return _sentence(agent, f"The model is {agent.model}. Choose another with /model NAME.")
    agent.model = rest
    agent.reopen()
    guess = "" if find_model(rest) else " It is not in the table of models: window and prices are guessed."
    return _sentence(agent, f"From now on: {rest}. Its cache begins empty.{guess}")


def permissions(agent: ChatAgent, rest: str) -> Lines:
    if rest:
        agent.permissions.mode = cast(PermissionMode, rest.replace("-", " "))
    always = agent.permissions.always_allowed
    rows = [
        ("mode", agent.permissions.mode),
        ("modes", ", ".join(MODES)),
        ("always", ", ".join(always) or "nothing was allowed for good"),
    ]
    return format_labelled(rows, agent.terminal.screen)


def quit_(agent: ChatAgent, _: str) -> Lines:
    raise EOFError


def _sentence(agent: ChatAgent, words: str, style: str = "") -> list[Text]:
    return [Text(line, style) for line in agent.terminal.screen.wrapped(words)]


COMMANDS: Final[dict[str, CommandSpec]] = {
    "help": CommandSpec("", "this list", help_),
    "context": CommandSpec("", "what fills the context", context),
    "cost": CommandSpec("", "what it cost so far", cost),
    "compact": CommandSpec(
        "[FOCUS]", "summarize now, with FOCUS on what matters; --dry-run only tells", compact
    ),
    "undo": CommandSpec("", "take the last compaction back", undo),
    "pin": CommandSpec("TEXT", "words that every summary carries", pin),
    "recall": CommandSpec("WORDS", "find what was said, also what was summarized", recall),
    "retry": CommandSpec("", "ask again after an error", retry),
    "resume": CommandSpec("[NUMBER]", "earlier conversations; continue one", resume),
    "clear": CommandSpec("", "begin a new conversation", clear),
    "model": CommandSpec("[NAME]", "which model; choose another", model),
    "permissions": CommandSpec("[MODE]", "what may be done unasked", permissions),
    "quit": CommandSpec("", "leave; so does Ctrl-D", quit_),
}
