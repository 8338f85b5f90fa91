"""The first lines of a conversation: where one is, what is continued, and which others there are."""

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
    Column("first words", "<", grows=True),
)


class ResumedConversation(NamedTuple):
    """A conversation that had begun before: how long it is, and what was said last on both sides."""

    id: str
    messages: int
    tokens: int
    asked: str
    answered: str
    # Whether the last turn came to its end.
    is_finished: bool = True


def format_banner(model: str, folder: str, says: str, screen: Screen) -> list[Text]:
    head = Text.assemble(("everturn chat", HEAD), (f"  {screen.plain(model)}", QUIET))
    head.truncate(screen.width)
    where = Text(screen.fitted(folder, cut="start"), QUIET)
    return [head, where, *(Text(line, "yellow") for line in screen.wrapped(says))]


def format_resumed(found: ResumedConversation, screen: Screen) -> list[Text]:
    """Enough to know where one was."""
    size = f"{counted(found.messages, 'message')}, about {tokens(found.tokens)} tokens"
    lines = [Text(line, QUIET) for line in screen.wrapped(f"Continuing {found.id}: {size}.")]
    for who, words in (("you", found.asked), ("it", found.answered)):
        if words:
            lines.append(Text(screen.fitted(f"  {who:<4}{' '.join(words.split())}"), QUIET))
    hint = "" if found.is_finished else "The last turn was not finished: /retry goes on with it."
    return [*lines, *(Text(line) for line in screen.wrapped(hint))]


def format_session_list(kept: Sequence[SavedSession], current: str, now: float, screen: Screen) -> list[Text]:
    """Conversations of one project, numbered as `/resume` takes them."""
    if not kept:
        return [Text(line) for line in screen.wrapped("There is no earlier conversation in this folder.")]
    rows = [
        [str(number), format_age(now - each.changed), _size(each.size), _first(each, current)]
        for number, each in enumerate(kept[:MAX_LISTED], start=1)
    ]
    head, *body = screen.table(_LISTING, rows)
    older = len(kept) - MAX_LISTED
    more = f"{counted(older, 'older one')} can be had by id. " if older > 0 else ""
    hint = f"{more}Continue one with /resume NUMBER."
    return [Text(head, QUIET), *map(Text, body), *(Text(line, QUIET) for line in screen.wrapped(hint))]


def _first(kept: SavedSession, current: str) -> str:
    here = "(this one) " if str(kept.path) == current else ""
    return here + (kept.words or "(no words)")


def format_age(seconds: float) -> str:
    """Short, for a table: "now", "5 min", "3 h", "2 days"."""
    for size, unit in ((86_400, "day"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {unit}s" if unit == "day" and count > 1 else f"{count} {unit}"
    return "now"


def _size(count: int) -> str:
    kilobytes = count / 1024
    return f"{kilobytes:,.0f} KB" if kilobytes < 1024 else f"{kilobytes / 1024:,.1f} MB"
