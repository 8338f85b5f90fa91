"""Terminal output of recall: search hits, the list of compactions, and one compaction expanded."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Literal, TextIO

from rich.console import Console
from rich.text import Text

from everturn.dashboard.layout import Column, Screen, counted, tokens
from everturn.dashboard.session_list import format_moment
from everturn.dashboard.terminal import HEAD, QUIET
from everturn.history.edits import Compacted
from everturn.history.records import Record, parse_time
from everturn.session.recall.expand import ExpandedCompaction
from everturn.session.recall.passages import SearchableText, iter_searchable_texts
from everturn.session.recall.search import Hit, RecallResult

DetailLevel = Literal["short", "full"]

# Enough lines of a message to recognise it.
SHORT_LINES: Final = 4
ID_SHOWN: Final = 8
COLUMNS: Final = (
    Column("no."),
    Column("boundary", "<"),
    Column("time", "<", optional=2),
    Column("trigger", "<", optional=3),
    Column("tokens"),
    Column("replaced"),
    Column("state", "<", grows=True, optional=1),
)


def print_lines(drawn: Callable[[Screen], Sequence[Text]], file: TextIO | None = None) -> None:
    """Prints lines in the width of the terminal, wrapping longer ones. No colours in a pipe."""
    console = Console(file=file or sys.stdout, highlight=False, emoji=False, markup=False)
    is_ascii = not console.encoding.lower().startswith("utf")
    for line in drawn(Screen(console.width, is_ascii)):
        console.print(line, overflow="fold")


def render_hits(found: RecallResult, notes: Sequence[str], screen: Screen, command: str = "") -> list[Text]:
    """`command` opens a hit with `--open ID`."""
    lines = [Text(line, QUIET) for note in (*notes, found.remark) for line in screen.wrapped(note)]
    if not found.hits:
        return [*lines, Text("Nothing found.")]
    for hit in found.hits:
        lines.append(Text(screen.fitted(_head(hit)), HEAD))
        lines += [Text(f"  {line}") for line in screen._replace(width=screen.width - 2).wrapped(hit.snippet)]
    if command:
        lines.append(Text(screen.plain(f"Whole: {command} --open {_id(found.hits[0])}"), QUIET))
    return lines


def render_record(record: Record, tools: Mapping[str, str], screen: Screen) -> list[Text]:
    """One record whole; `tools` are the names of tools by the ids of their calls."""
    lines = [*_message(record, tools, "full", screen)]
    return lines[1:] or [Text("This record has no text.")]


def _head(hit: Hit) -> str:
    what = f"{hit.source} of {hit.tool}" if hit.tool else hit.source
    return "  ".join(filter(None, (_id(hit), what, hit.state, _time(hit.at))))


def _id(hit: Hit) -> str:
    return hit.record[:ID_SHOWN]


def render_compactions(every: Sequence[ExpandedCompaction], screen: Screen) -> list[Text]:
    if not every:
        return [Text(line) for line in screen.wrapped("This session was never compacted.")]
    head, *rows = screen.table(COLUMNS, [_row(fold) for fold in every])
    return [Text(head, QUIET), *(Text(row) for row in rows)]


def _row(fold: ExpandedCompaction) -> list[str]:
    edit = fold.boundary.edit if isinstance(fold.boundary.edit, Compacted) else Compacted()
    state = "undone" if fold.is_undone else "no summary" if fold.summary is None else ""
    size = tokens(edit.tokens_before) if edit.tokens_before else ""
    name, when = fold.boundary.uuid[:8], _time(fold.boundary.timestamp)
    return [str(fold.number), name, when, edit.trigger, size, str(len(fold.replaced)), state]


def render_expanded(fold: ExpandedCompaction, length: DetailLevel, screen: Screen) -> list[Text]:
    """The replaced messages in order, then the summary that replaced them."""
    what = counted(len(fold.replaced), "record")
    lines = [Text(screen.fitted(f"Compaction {fold.number} ({fold.boundary.uuid}) replaced {what}:"), HEAD)]
    calls = (block for record in fold.replaced for block in record.blocks if block.is_call)
    tools = {block.call: block.tool for block in calls}
    for record in fold.replaced:
        lines += _message(record, tools, length, screen)
    if fold.summary is None:
        return [*lines, Text(), *(Text(line) for line in screen.wrapped("It has no summary and no effect."))]
    return [*lines, *_message(fold.summary, tools, length, screen)]


def _message(record: Record, tools: Mapping[str, str], length: DetailLevel, screen: Screen) -> Iterator[Text]:
    for said in iter_searchable_texts(record):
        tool = said.tool or tools.get(said.block.call, "")
        what = f"{said.source} of {tool}" if tool else said.source
        yield Text()
        yield Text(screen.fitted(f"{what}  {_time(record.timestamp)}".rstrip()), HEAD)
        yield from _lines(said, length, screen)


def _lines(said: SearchableText, length: DetailLevel, screen: Screen) -> Iterator[Text]:
    if not said.words.strip():
        # Thinking is often recorded as a signature only, and images have no text.
        yield Text("(The file has no text of it.)", QUIET)
        return
    lines = [screen.plain(line.expandtabs(4)).rstrip() for line in said.words.split("\n")]
    if length == "full":
        yield from map(Text, lines)
        return
    filled = [line for line in lines if line]
    yield from (Text(screen.fitted(line)) for line in filled[:SHORT_LINES])
    if len(filled) > SHORT_LINES:
        yield Text(f"({counted(len(filled) - SHORT_LINES, 'line')} more)", QUIET)


def _time(stamp: str) -> str:
    """Where the reader is; a time that cannot be read stays as it is."""
    return format_moment(parse_time(stamp), None) or stamp[:16].replace("T", " ")
