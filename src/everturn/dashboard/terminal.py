"""A context report as terminal output.

The first screen shows how full the context is and with what; the tables below it show details. Every part is
a list of lines that fit the terminal width. Colours depend on the terminal (NO_COLOR, pipes). If the encoding
lacks the shapes, letters are used.
"""

import sys
from collections.abc import Iterator
from typing import Final, TextIO

from rich.text import Text

from everturn.dashboard.console import can_print, open_console
from everturn.dashboard.grid import BUFFER, COLUMNS, FREE, ROWS, SYMBOLS, Grid, grid
from everturn.dashboard.layout import GAP, Screen, counted, fit, percent, tokens
from everturn.dashboard.report import ContextReport
from everturn.dashboard.tables import TableSection, sections

# Symbol, label, tokens and share; the longest label has 20 columns.
LEGEND_WIDTH: Final = 38
NARROW_COLUMNS: Final = 10
LEVEL_STYLES: Final = {"ok": "green", "warning": "yellow", "compaction": "bold red", "blocked": "bold red"}
HEAD: Final = "bold"
QUIET: Final = "bright_black"


def draw(report: ContextReport, file: TextIO | None = None, *, color: bool = True) -> None:
    """Prints a report to a terminal or a file, in its width."""
    out = sys.stdout if file is None else file
    console = open_console(out, color=color)
    for line in drawn(report, Screen(console.width, not can_print("■▒…", out))):
        console.print(line, soft_wrap=True)


def drawn(report: ContextReport, screen: Screen) -> list[Text]:
    lines = [*_headline(report, screen)]
    if report.is_empty:
        return [*lines, Text(screen.fitted("The session is empty."))]
    lines += [Text(), *_picture(report, screen), Text(), *_basis(report, screen)]
    for section in sections(report, screen):
        lines += [Text(), *_section(section, screen)]
    return lines


def _headline(report: ContextReport, screen: Screen) -> Iterator[Text]:
    if report.title:
        yield Text(screen.fitted(report.title), HEAD)
    yield Text(_place(report, screen), QUIET if report.title else HEAD)
    if report.is_empty:
        return
    used = report.size.tokens / report.window.tokens
    about = "about " if report.size.basis == "estimate" else ""
    size = f"{about}{report.size.tokens:,} of {report.window.tokens:,} tokens ({used:.0%})"
    for line in screen.wrapped(f"{report.model.name}: {size}"):
        yield Text(line)
    for line in screen.wrapped(_outlook(report)):
        yield Text(line, LEVEL_STYLES[report.level])


def _place(report: ContextReport, screen: Screen) -> str:
    """The id, which is never cut, and the file."""
    name = report.source if report.source != "-" else "standard input"
    who = f"{name}, sub-agent {report.agent}" if report.agent else name
    id = f"{report.id}  " if report.id else ""
    return id + screen._replace(width=max(1, screen.width - len(id))).fitted(who, cut="start")


def _outlook(report: ContextReport) -> str:
    left = f"{report.levels.percent_left}% left "
    if report.compacts_automatically:
        left += f"until automatic compaction at {tokens(report.limits.auto)}"
    else:
        left += f"of {tokens(report.limits.shown)}; automatic compaction is off"
    return {
        "ok": left,
        "warning": f"Warning: {left}",
        "compaction": f"Due for compaction: the threshold is {report.limits.auto:,} tokens",
        "blocked": f"Full: the blocking limit is {report.limits.blocking:,} tokens",
    }[report.level]


def _picture(report: ContextReport, screen: Screen) -> list[Text]:
    legend = _legend(report, screen)
    columns = COLUMNS if screen.width >= _beside(COLUMNS) else NARROW_COLUMNS
    if screen.width >= _beside(columns):
        rows = _rows(_grid(report, columns), screen)
        blank = Text(" " * (2 * columns - 1))
        height = max(len(rows), len(legend))
        rows += [blank] * (height - len(rows))
        legend += [Text()] * (height - len(legend))
        pairs = zip(rows, legend, strict=True)
        return [Text.assemble(row, " " * (GAP + 1), entry) if entry else row for row, entry in pairs]
    fitting = min(COLUMNS, max(1, (screen.width + 1) // 2))
    return [*_rows(_grid(report, fitting), screen), Text(), *legend]


def _beside(columns: int) -> int:
    """The screen width needed for a grid with the legend beside it."""
    return 2 * columns - 1 + GAP + 1 + LEGEND_WIDTH


def _grid(report: ContextReport, columns: int) -> Grid:
    filled = [(category.key, category.tokens) for category in report.categories]
    parts = [*filled, (FREE, report.free), (BUFFER, report.buffer)]
    return grid(parts, report.window.tokens, rows=ROWS, columns=columns)


def _rows(cells: Grid, screen: Screen) -> list[Text]:
    lines: list[Text] = []
    for row in cells:
        line = Text()
        for at, cell in enumerate(row):
            symbol = SYMBOLS[cell.key]
            line.append(" " if at else "")
            line.append(symbol.drawn(full=cell.full, ascii_only=screen.ascii_only), symbol.style)
        lines.append(line)
    return lines


def _legend(report: ContextReport, screen: Screen) -> list[Text]:
    entries = [(c.key, c.label, c.tokens) for c in report.categories if c.tokens]
    entries += [(FREE, "Free", report.free), (BUFFER, "Compaction buffer", report.buffer)]
    return [_entry(key, label, count, report.window.tokens, screen) for key, label, count in entries]


def _entry(key: str, label: str, count: int, window: int, screen: Screen) -> Text:
    symbol = SYMBOLS[key]
    figures = f"{tokens(count):>7} {percent(count / window):>6}"
    room = max(0, min(LEGEND_WIDTH, screen.width) - len("# ") - len(figures))
    name = fit(label, max(0, room - 1), ellipsis=screen.ellipsis)
    mark = symbol.drawn(full=True, ascii_only=screen.ascii_only)
    entry = Text.assemble((mark, symbol.style), f" {name:<{room}}{figures}")
    entry.truncate(screen.width)
    return entry


def _basis(report: ContextReport, screen: Screen) -> list[Text]:
    """Where the figures come from, so that estimates are not taken for counts."""
    said = [_certainty(report)]
    if report.window.basis not in ("model", "given"):
        said.append(
            f"Window of {tokens(report.window.tokens)} assumed: {report.window.why} (--window N to set it)."
        )
    if report.model.guess and report.window.basis != "guess":
        said.append(f"{report.model.guess}.")
    return [Text(line, QUIET) for sentence in said for line in screen.wrapped(sentence)]


def _certainty(report: ContextReport) -> str:
    if report.size.basis == "estimate":
        if report.categories[0].tokens:
            return "All numbers are estimates: the file reports no usage for the current context."
        if report.cache.calls:
            # A file that begins in the middle, right after a compaction.
            return (
                "All numbers are estimates, without system prompt and tools: the file reports no usage for "
                "the current context, and does not show how large these are."
            )
        return "All numbers are estimates, without system prompt and tools: the file reports no usage."
    tail = (
        f", plus an estimated {tokens(report.size.estimated_tail)} since"
        if report.size.estimated_tail
        else ""
    )
    learned = report.calibration
    how = ""
    if learned.error_after is not None:
        how = f", calibrated on {counted(learned.samples, 'step')} (typical error {learned.error_after:.0%})"
    return f"The total is what the API reported{tail}; the split is estimated{how}."


def _section(section: TableSection, screen: Screen) -> list[Text]:
    lines = [Text(line, HEAD) for line in screen.wrapped(section.title)]
    for at, line in enumerate(section.lines):
        lines.append(Text(line, QUIET if at == 0 and section.has_head else ""))
    return lines
