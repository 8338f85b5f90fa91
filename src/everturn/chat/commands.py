"""The slash commands: one table, one small function each.

A command returns lines for the screen. Its output never enters the context, so commands cost no tokens.
"""

import time
import uuid
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path
from typing import Final, NamedTuple, cast

import msgspec
from rich.text import Text

from everturn.chat.agent import ChatAgent
from everturn.chat.permission import MODES, PermissionMode
from everturn.chat.rewind import format_outcome, format_sentence, run_rewind
from everturn.chat.screen.event_lines import format_labelled
from everturn.chat.screen.input import SlashCommand
from everturn.chat.screen.status import format_dollars
from everturn.chat.screen.welcome import format_session_list
from everturn.chat.sessions import list_sessions, new_session_path, select_session
from everturn.dashboard import compactions, recall_output, terminal
from everturn.dashboard.figures.calls import Cost
from everturn.dashboard.layout import Column, Screen, counted, tokens
from everturn.dashboard.report import context_report
from everturn.dashboard.terminal import HEAD, QUIET
from everturn.decide.compact.values import CompactionSkipped
from everturn.errors import UsageError
from everturn.measure.model_table import find_model
from everturn.session.recall.search import RecallResult
from everturn.session.recorded import open_session

Lines = Iterable[Text]
_DRY: Final = "--dry-run"
_PURPOSES: Final = {
    "conversation": "conversation", "compact": "summaries", "session_memory": "notes", "hold": "holds",
}  # fmt: skip
_PRACTICE: Final = "Practice with the twin: nothing was billed. These are list prices of the model's tokens."


class CommandSpec(NamedTuple):
    arguments: str
    about: str
    run: Callable[[ChatAgent, str], Lines]


def run_slash_command(agent: ChatAgent, command: SlashCommand) -> Lines:
    row = COMMANDS.get(command.name)
    if row is None:
        near = get_close_matches(command.name, COMMANDS, n=1)
        hint = f"Did you mean /{near[0]}?" if near else "/help lists all commands."
        raise UsageError(f"Unknown command /{command.name}. {hint}")
    return row.run(agent, command.rest)


def help_(agent: ChatAgent, _: str) -> Lines:
    screen = agent.terminal.screen
    rows = [(f"/{name} {row.arguments}".rstrip(), row.about) for name, row in COMMANDS.items()]
    room = max(len(name) for name, _ in rows) + 2
    if screen.width < room + 30:
        return [line for row in rows for line in _stacked(row, screen)]
    beside = screen._replace(width=screen.width - room)
    return [Text.assemble((f"{name:<{room}}", HEAD), beside.fitted(about)) for name, about in rows]


def _stacked(row: tuple[str, str], screen: Screen) -> Lines:
    yield Text(screen.fitted(row[0]), HEAD)
    yield from (Text(f"  {line}") for line in screen._replace(width=screen.width - 2).wrapped(row[1]))


def context(agent: ChatAgent, _: str) -> Lines:
    """The same chart as `everturn context` draws for the file, with the size of the status line and the price
    of /cost: the session knows its preamble, its thresholds and its summary calls, the file does not."""
    held = agent.session.context()
    recorded = open_session(agent.session.path, window=held.window, options=agent.settings.options)
    row = agent.session.conversation.setting.model
    recorded = msgspec.structs.replace(
        recorded,
        model_id=held.model,
        model=row,
        guess="" if find_model(held.model) else recorded.guess or "not in the table of models",
        size=held.size,
        limits=held.limits,
        levels=held.levels,
    )
    report = msgspec.structs.replace(context_report(recorded), cost=Cost(Decimal(), (), {}))
    yield from terminal.drawn(report, agent.terminal.screen)
    if agent.spent.calls:
        yield Text()
        yield from cost(agent, "")


def cost(agent: ChatAgent, _: str) -> Lines:
    bill, searches = agent.session.bill, agent.searcher.spent
    parts = [(_PURPOSES[purpose], spent) for purpose, spent in bill.parts.items()]
    rows = [(name, spent) for name, spent in (*parts, ("searches", searches)) if spent.calls]
    if not rows:
        return [Text("No calls yet.")]
    total, is_practice = agent.spent, agent.connection.is_practice
    columns = (
        Column("for", "<"),
        Column("calls"),
        Column("read", optional=2),
        Column("written", optional=3),
        Column("plain", optional=4),
        Column("output", optional=1),
        Column("would cost" if is_practice else "dollars"),
    )
    cells = [
        [
            name,
            str(each.calls),
            *map(tokens, (each.read, each.written, each.input, each.output)),
            format_dollars(each.dollars),
        ]
        for name, each in (*rows, ("all", total))
    ]
    head, *body = agent.terminal.screen.table(columns, cells)
    lines = [Text(head, QUIET), *map(Text, body)]
    if total.unpriced:
        unpriced = f"{counted(total.unpriced, 'call')} of models without a known price count as $0."
        lines += format_sentence(agent, unpriced, QUIET)
    saved = agent.session.context().saved
    if saved is not None and saved.has_acted:
        without = saved.unmanaged - saved.spent
        more = "less" if without >= 0 else "more"
        said = (
            f"Input so far ${saved.spent:.4f}, holds and resets included: ${abs(without):.4f} {more} than "
            "without them."
        )
        lines += format_sentence(agent, said, QUIET)
    return [*lines, *(format_sentence(agent, _PRACTICE, "yellow") if is_practice else ())]


def compact(agent: ChatAgent, rest: str) -> Lines:
    words = rest.split()
    if _DRY in words:
        return _dry_run(agent, " ".join(word for word in words if word != _DRY))
    outcome = agent.session.compact(rest)
    agent.show_compactions()
    return format_outcome(agent, outcome)


def _dry_run(agent: ChatAgent, focus: str) -> Lines:
    plan = agent.session.dry_run(focus)
    if isinstance(plan, CompactionSkipped):
        return format_sentence(agent, f"Would not compact: {plan.why.rstrip('.')}.")
    return compactions.render_plan(plan, "/compact", agent.terminal.screen)


def undo(agent: ChatAgent, _: str) -> Lines:
    before = agent.session.context()
    undone = agent.session.undo()
    if isinstance(undone, CompactionSkipped):
        return format_sentence(agent, f"Nothing to undo: {undone.why.rstrip('.')}.")
    after = agent.session.context()
    return compactions.render_undo(undone.boundary[:8], before, after, agent.terminal.screen)


def pin(agent: ChatAgent, rest: str) -> Lines:
    agent.session.pin(rest)
    return format_sentence(agent, "Pinned: every later compaction keeps this text verbatim.")


def recall(agent: ChatAgent, rest: str) -> Lines:
    return recall_output.render_hits(RecallResult(agent.session.recall(rest)), (), agent.terminal.screen)


def retry(agent: ChatAgent, _: str) -> Lines:
    agent.answer()
    return ()


def resume(agent: ChatAgent, rest: str) -> Lines:
    kept = list_sessions(agent.settings.sessions_folder)
    if not rest:
        return format_session_list(kept, agent.session.path, time.time(), agent.terminal.screen)
    agent.open(select_session(kept, rest).path, "resume")
    return agent.format_greeting()


def clear(agent: ChatAgent, _: str) -> Lines:
    """Start a new conversation; the old one stays in its file."""
    before = Path(agent.session.path)
    agent.open(new_session_path(agent.settings.sessions_folder, datetime.now(UTC), uuid.uuid4().hex), "clear")
    kept = " Resume the old one with /resume." if before.exists() else ""
    return format_sentence(agent, f"New conversation.{kept}")


def model(agent: ChatAgent, rest: str) -> Lines:
    if not rest:
        return format_sentence(agent, f"The model is {agent.model}. Change it with /model NAME.")
    agent.change_model(rest)
    guess = "" if find_model(rest) else " Unknown model: its window and prices are estimates."
    return format_sentence(agent, f"Model set to {rest}. Its cache starts empty.{guess}")


def permissions(agent: ChatAgent, rest: str) -> Lines:
    if rest:
        agent.permissions.mode = cast(PermissionMode, rest.replace("-", " "))
    always = agent.permissions.always_allowed
    rows = [
        ("mode", agent.permissions.mode),
        ("modes", ", ".join(MODES)),
        ("always", ", ".join(always) or "(none)"),
    ]
    return format_labelled(rows, agent.terminal.screen)


def quit_(agent: ChatAgent, _: str) -> Lines:
    agent.end_reason = "prompt_input_exit"
    raise EOFError


COMMANDS: Final[dict[str, CommandSpec]] = {
    "help": CommandSpec("", "list the commands", help_),
    "context": CommandSpec("", "show what fills the context", context),
    "cost": CommandSpec("", "show the cost so far", cost),
    "compact": CommandSpec("[FOCUS]", "summarize now, with a focus; --dry-run shows only the plan", compact),
    "undo": CommandSpec("", "undo the last compaction", undo),
    "rewind": CommandSpec("[NUMBER]", "list your messages, or go back to before one (Esc twice)", run_rewind),
    "pin": CommandSpec("TEXT", "text that every later summary keeps verbatim", pin),
    "recall": CommandSpec("WORDS", "search the full history, including summarized parts", recall),
    "retry": CommandSpec("", "retry after an error", retry),
    "resume": CommandSpec("[NUMBER]", "list earlier conversations, or resume one", resume),
    "clear": CommandSpec("", "start a new conversation", clear),
    "model": CommandSpec("[NAME]", "show or change the model", model),
    "permissions": CommandSpec("[MODE]", "show or change what is allowed without asking", permissions),
    "quit": CommandSpec("", "exit (or Ctrl-D)", quit_),
    "exit": CommandSpec("", "the same as /quit", quit_),
}
