"""The calls of a session as a bar chart: tokens read from the cache, written to it and uncached, with notes.

The cells of a bar are computed once (`bar`). The terminal shows them in colour if it can, and with distinct
shapes in any case.
"""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from textwrap import wrap
from typing import Final, NamedTuple, TextIO

from rich.text import Text

from everturn.dashboard.console import can_print, open_console
from everturn.dashboard.layout import tokens
from everturn.replay.twin_replay import TwinReplayCall

READ, WRITTEN, PLAIN = "read", "written", "plain"
STYLES: Final = {READ: "green", WRITTEN: "yellow", PLAIN: "red"}
SHAPES: Final = {READ: "█", WRITTEN: "▒", PLAIN: "░"}
LETTERS: Final = {READ: "=", WRITTEN: "+", PLAIN: "!"}
# Columns around the bar: number and context. A note has its own line.
_AROUND_THE_BAR: Final = 14


class NamedCost(NamedTuple):
    name: str
    dollars: Decimal


def bar(step: TwinReplayCall, largest: int, width: int) -> list[tuple[str, int]]:
    """Kinds and the number of cells of each. Any kind with tokens gets at least one cell."""
    parts = [(READ, step.read), (WRITTEN, step.written), (PLAIN, step.plain if step.plain > 100 else 0)]
    return [(kind, max(1, round(amount / largest * width))) for kind, amount in parts if amount]


def draw_steps(steps: Sequence[TwinReplayCall], file: TextIO, *, color: bool) -> None:
    console = open_console(file, color=color)
    shapes = SHAPES if can_print("█▒░·", file) else LETTERS
    largest = max((step.context for step in steps), default=1)
    width = max(10, console.width - _AROUND_THE_BAR)
    legend = Text("     ")
    for kind in (READ, WRITTEN, PLAIN):
        legend.append(f"{shapes[kind] * 2} {kind}   ", STYLES[kind])
    console.print(legend)
    for step in steps:
        for note in _notes(step):
            for part in _wrapped(note, console.width, mark="·" if shapes is SHAPES else "-"):
                console.print(Text(part, "cyan"))
        line = Text(f"{step.number:4} ")
        for kind, cells in bar(step, largest, width):
            line.append(shapes[kind] * cells, STYLES[kind])
        line.append(f" {tokens(step.context)}")
        console.print(line, soft_wrap=True)


def draw_bills(bills: Iterable[NamedCost], file: TextIO, *, color: bool) -> None:
    console = open_console(file, color=color)
    listed = list(bills)
    widest = max(len(bill.name) for bill in listed)
    dearest = max(bill.dollars for bill in listed)
    room = max(5, console.width - widest - 22)
    for bill in listed:
        cells = max(1, round(bill.dollars / dearest * room))
        times = bill.dollars / listed[0].dollars
        mark = ("█" if can_print("█▒░·", file) else "#") * cells
        console.print(f"{bill.name:<{widest}}  ${bill.dollars:>7.2f}  {times:>4.1f}x  {mark}", soft_wrap=True)


def _notes(step: TwinReplayCall) -> Iterable[str]:
    minutes = step.idle.total_seconds() / 60
    if minutes >= 5:
        yield f"idle for {minutes:.0f} minutes"
    if step.why:
        yield step.why
    if step.broke:
        yield f"the cache broke: {step.broke}"
    if not step.as_predicted:
        yield "cache reads or writes differ from the prediction"


def _wrapped(note: str, width: int, *, mark: str) -> list[str]:
    """Notes explain why something changed, so they are wrapped and never cut."""
    return wrap(note, max(20, width), initial_indent=f"     {mark} ", subsequent_indent=" " * 7)
