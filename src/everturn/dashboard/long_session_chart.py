"""A long session as a chart: a bar for every ten calls, and a line for each compaction."""

from collections.abc import Iterable
from typing import Final, TextIO

from rich.text import Text

from everturn.dashboard.console import can_print, open_console
from everturn.dashboard.layout import Screen, counted, tokens
from everturn.replay.long_session import LongSessionCall, LongSessionCompaction, LongSessionEnd

# One bar for this many calls, so that three compactions fit on one or two screens.
CALLS_A_LINE: Final = 10
# Columns around the bar: number and size.
AROUND: Final = 13
INDENT: Final = 6
FULL, EMPTY = "█", "·"
PURPOSES: Final = {
    "conversation": "the conversation", "compact": "summaries", "session_memory": "notes", "hold": "holds",
}  # fmt: skip


def draw(
    steps: Iterable[LongSessionCall | LongSessionCompaction | LongSessionEnd],
    window: int,
    file: TextIO,
    *,
    color: bool,
) -> None:
    console = open_console(file, color=color)
    screen = Screen(console.width, not can_print(f"{FULL}{EMPTY}", file))
    calls = compactions = 0
    for step in steps:
        match step:
            case LongSessionCall():
                calls += 1
                if calls % CALLS_A_LINE == 0:
                    console.print(_bar(step, window, screen), soft_wrap=True)
            case LongSessionCompaction():
                compactions += 1
                for line in _compaction(step, compactions, screen):
                    console.print(line, soft_wrap=True)
            case LongSessionEnd():
                for line in _totals(step, calls, compactions, screen):
                    console.print(line, soft_wrap=True)


def _bar(call: LongSessionCall, window: int, screen: Screen) -> Text:
    full, empty = ("#", ".") if screen.ascii_only else (FULL, EMPTY)
    width = max(10, screen.width - AROUND)
    cells = min(width, max(1, round(call.context / window * width)))
    line = Text(f"{call.number:5} ")
    line.append(full * cells, "green").append(empty * (width - cells), "bright_black")
    return line.append(f" {tokens(call.context):>6}")


def _compaction(step: LongSessionCompaction, number: int, screen: Screen) -> list[Text]:
    sizes = f"{tokens(step.tokens_before)} to {tokens(step.tokens_after)} tokens"
    how = f"{step.share_read:.0%} of its call read from the cache" if step.share_read else "no cached call"
    said = f"compaction {number} by {step.way}: {sizes}, {how}"
    lines = [Text(line, "bold cyan") for line in screen.wrapped(said)]
    beside = screen._replace(width=screen.width - INDENT)
    parts = (line for receipt in step.receipt for line in beside.wrapped(receipt))
    return [*lines, *(Text(" " * INDENT + line, "cyan") for line in parts)]


def _totals(step: LongSessionEnd, calls: int, compactions: int, screen: Screen) -> list[Text]:
    asked, made = counted(step.prompts, "question"), counted(compactions, "compaction")
    kept = f"{counted(step.records, 'record')} in the transcript, nothing deleted"
    said = [f"{asked}, {counted(calls, 'call')}, {made}; {kept}."]
    if step.carried:
        said.append(f'Pinned in the first message and still in the context, word for word: "{step.carried}"')
    lines = [Text(), *(Text(line) for each in said for line in screen.wrapped(each)), Text()]
    for purpose, spent in step.bill.parts.items():
        if spent.calls:
            about = f"{counted(spent.calls, 'call')}, {tokens(spent.read)} read from the cache"
            lines.append(Text(screen.fitted(f"{PURPOSES[purpose]:<17} ${spent.dollars:6.2f}  {about}")))
    return [*lines, Text(f"{'total':<17} ${step.bill.dollars:6.2f}", "bold")]
