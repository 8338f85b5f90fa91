"""The first lines of a conversation: banner, summary of a resumed conversation, list of earlier ones."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from rich.text import Text

from everturn.chat.sessions import SavedSession
from everturn.dashboard.layout import Column, Screen, counted, tokens
from everturn.dashboard.terminal import HEAD, QUIET

MAX_LISTED: Final = 20
_LISTING: Final = (
    Column("no."),
    Column("when", "<"),
    Column("size", optional=1),
    Column("first prompt", "<", grows=True),
)


class ResumedConversation(NamedTuple):
    """A resumed conversation: its length and the last message of each side."""

    id: str
    messages: int
    tokens: int
    asked: str
    answered: str
    # Whether the last turn is complete.
    is_finished: bool = True


def format_banner(model: str, folder: str, says: str, screen: Screen) -> list[Text]:
    head = Text.assemble(("everturn chat", HEAD), (f"  {screen.plain(model)}", QUIET))
    head.truncate(screen.width)
    where = Text(screen.fitted(folder, cut="start"), QUIET)
    return [head, where, *(Text(line, "yellow") for line in screen.wrapped(says))]


def format_farewell(command: str, spent: str, screen: Screen) -> list[Text]:
    """The last lines: what was spent, and the command that goes on with the conversation."""
    lines = [*screen.wrapped(f"{spent} To go on with this conversation:"), f"  {command}"]
    return [Text(line, QUIET) for line in lines]


def format_resumed(found: ResumedConversation, screen: Screen) -> list[Text]:
    """Length and last messages of a resumed conversation."""
    size = f"{counted(found.messages, 'message')}, about {tokens(found.tokens)} tokens"
    lines = [Text(line, QUIET) for line in screen.wrapped(f"Resuming {found.id}: {size}.")]
    for who, words in (("you", found.asked), ("it", found.answered)):
        if words:
            lines.append(Text(screen.fitted(f"  {who:<4}{' '.join(words.split())}"), QUIET))
    hint = "" if found.is_finished else "The last turn is not complete: /retry continues it."
    return [*lines, *(Text(line) for line in screen.wrapped(hint))]


def format_session_list(kept: Sequence[SavedSession], current: str, now: float, screen: Screen) -> list[Text]:
    """The conversations of one project, numbered for `/resume`."""
    if not kept:
        return [Text(line) for line in screen.wrapped("No earlier conversation found in this folder.")]
    rows = [
        [str(number), format_age(now - each.changed), _size(each.size), _first(each, current)]
        for number, each in enumerate(kept[:MAX_LISTED], start=1)
    ]
    head, *body = screen.table(_LISTING, rows)
    older = len(kept) - MAX_LISTED
    more = f"{counted(older, 'older conversation')} not shown; resume by id. " if older > 0 else ""
    hint = f"{more}Resume one with /resume NUMBER."
    return [Text(head, QUIET), *map(Text, body), *(Text(line, QUIET) for line in screen.wrapped(hint))]


def _first(kept: SavedSession, current: str) -> str:
    here = "(this one) " if str(kept.path) == current else ""
    return here + (kept.words or "(no prompt)")


def format_age(seconds: float) -> str:
    """A short age for a table: "now", "5 min", "3 h", "2 days"."""
    for size, unit in ((86_400, "day"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {unit}s" if unit == "day" and count > 1 else f"{count} {unit}"
    return "now"


def _size(count: int) -> str:
    kilobytes = count / 1024
    return f"{kilobytes:,.0f} KB" if kilobytes < 1024 else f"{kilobytes / 1024:,.1f} MB"
