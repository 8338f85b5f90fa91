"""Calls of a session one under the other: what each read, wrote and paid in full, and what came before it.

Cells are computed once (`bar`); the terminal draws them with colour where it has it, and with shapes that can
be told apart where it has not.
"""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from textwrap import wrap
from typing import Final, NamedTuple, TextIO

from rich.console import Console
from rich.text import Text

from everturn.dashboard.layout import tokens
from everturn.replay.twin_replay import TwinReplayCall

READ, WRITTEN, PLAIN = "read", "written", "plain"
STYLES: Final = {READ: "green", WRITTEN: "yellow", PLAIN: "red"}
SHAPES: Final = {READ: "█", WRITTEN: "▒", PLAIN: "░"}
LETTERS: Final = {READ: "=", WRITTEN: "+", PLAIN: "!"}
# Number, bar, context; a note stands on a line of its own.
_AROUND_THE_BAR: Final = 14


class NamedCost(NamedTuple):
    name: str
    dollars: Decimal


def bar(step: TwinReplayCall, largest: int, width: int) -> list[tuple[str, int]]:
    """Kinds and how many cells of each: a kind that is there at all gets at least one."""
    parts = [(READ, step.read), (WRITTEN, step.written), (PLAIN, step.plain if step.plain > 100 else 0)]
    return [(kind, max(1, round(amount / largest * width))) for kind, amount in parts if amount]


def draw_steps(steps: Sequence[TwinReplayCall], file: TextIO, *, color: bool) -> None:
    console = _console(file, color=color)
    shapes = SHAPES if _has_shapes(file) else LETTERS
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
    console = _console(file, color=color)
    listed = list(bills)
    widest = max(len(bill.name) for bill in listed)
    dearest = max(bill.dollars for bill in listed)
    room = max(5, console.width - widest - 22)
    for bill in listed:
        cells = max(1, round(bill.dollars / dearest * room))
        times = bill.dollars / listed[0].dollars
        mark = ("█" if _has_shapes(file) else "#") * cells
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
        yield "not what was predicted"


def _wrapped(note: str, width: int, *, mark: str) -> list[str]:
    """Why something changed is what people came to see: it is never cut off."""
    return wrap(note, max(20, width), initial_indent=f"     {mark} ", subsequent_indent=" " * 7)


def _console(file: TextIO, *, color: bool) -> Console:
    return Console(file=file, no_color=None if color else True, highlight=False, emoji=False, markup=False)


def _has_shapes(file: TextIO) -> bool:
    try:
        "█▒░·".encode(file.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
