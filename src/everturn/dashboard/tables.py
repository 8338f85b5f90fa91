"""The tables below the grid, as plain lines: what fills the context, compactions, cost."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from everturn.dashboard.figures.views import ViewRow
from everturn.dashboard.layout import Column, Screen, counted, percent, tokens
from everturn.dashboard.report import ContextReport
from everturn.dashboard.session_list import format_moment
from everturn.history.records import parse_time
from everturn.measure.money import format_dollars

MAX_ROWS: Final = 8
MAX_FILES: Final = 5
NOT_KNOWN: Final = "-"
ONCE: Final = {1: "once", 2: "twice"}

KINDS: Final = {
    "input": "uncached input",
    "cache_read": "cache read",
    "cache_write_5m": "cache write (5m)",
    "cache_write_1h": "cache write (1h)",
    "output": "output",
    "web_search": "web search",
}


class TableSection(NamedTuple):
    title: str
    lines: list[str]
    # The first line names the columns.
    has_head: bool = True


def sections(report: ContextReport, screen: Screen) -> Iterator[TableSection]:
    """The sections that are not empty."""
    if report.tools:
        yield _tools(report, screen)
    if report.head:
        yield _head(report, screen)
    if report.duplicate_reads:
        yield _duplicates(report, screen)
    if report.largest_results:
        yield _largest(report, screen)
    if len(report.views) > 1:
        yield _views(report, screen)
    if report.micro_compactions:
        yield _micro(report, screen)
    if report.sidechains:
        yield _sidechains(report, screen)
    if report.cache.calls:
        yield _cache_and_cost(report, screen)
    if report.decisions:
        yield _decisions(report, screen)
    if _oddity_lines(report):
        yield _oddities(report, screen)


def _tools(report: ContextReport, screen: Screen) -> TableSection:
    columns = (
        Column("tool", "<", grows=True),
        Column("calls"),
        Column("requests", optional=2),
        Column("results", optional=1),
        Column("of context"),
    )
    rows = [
        (use.tool, str(use.calls), tokens(use.request_tokens), tokens(use.result_tokens), percent(use.share))
        for use in report.tools
    ]
    return TableSection("Tools", _capped(columns, rows, screen, MAX_ROWS))


def _head(report: ContextReport, screen: Screen) -> TableSection:
    unused = [tool for tool in report.head if tool.is_unused]
    columns = (Column("definition of", "<", grows=True), Column("tokens"), Column("calls"))
    rows = [
        (f"{tool.name} (deferred)" if tool.is_deferred else tool.name, tokens(tool.tokens), f"{tool.calls:,}")
        for tool in sorted(report.head, key=lambda tool: (not tool.is_unused, -tool.tokens))
    ]
    cost = tokens(sum(tool.tokens for tool in unused))
    title = f"Never called: {counted(len(unused), 'tool')}, {cost} tokens in every prompt"
    if (dollars := report.unused_dollars) is not None:
        title += f", {format_dollars(dollars)} to read them {counted(report.cache.calls, 'time')}"
    return TableSection(title if unused else "Definitions of tools", _capped(columns, rows, screen, MAX_ROWS))


def _decisions(report: ContextReport, screen: Screen) -> TableSection:
    lines = [line for each in report.decisions for line in screen.wrapped(each.sentence)]
    return TableSection("Decided by price", lines, has_head=False)


def _duplicates(report: ContextReport, screen: Screen) -> TableSection:
    wasted = sum(read.wasted for read in report.duplicate_reads)
    files = counted(len(report.duplicate_reads), "file")
    columns = (
        Column("file", "<", grows=True, cut="start"),
        Column("times"),
        Column("tokens", optional=1),
        Column("wasted"),
    )
    rows = [
        (read.path, str(read.count), tokens(read.tokens), tokens(read.wasted))
        for read in report.duplicate_reads
    ]
    title = f"Read more than once: {files}, {tokens(wasted)} tokens wasted"
    return TableSection(title, _capped(columns, rows, screen, MAX_FILES))


def _largest(report: ContextReport, screen: Screen) -> TableSection:
    columns = (Column("tokens"), Column("tool", "<"), Column("about", "<", grows=True, cut="middle"))
    rows = [(tokens(each.tokens), each.tool, each.about) for each in report.largest_results]
    return TableSection("Largest results", screen.table(columns, rows))


def _views(report: ContextReport, screen: Screen) -> TableSection:
    columns = (
        Column("view"),
        Column("records", optional=2),
        Column("calls", optional=1),
        Column("peak"),
        Column("compacted", "<", grows=True),
        Column("then"),
        Column("summary", optional=3),
    )
    rows = [_view_row(number, view) for number, view in enumerate(report.views, start=1)]
    times = len(report.views) - 1
    title = f"Compacted {ONCE.get(times, f'{times} times')}"
    return TableSection(title, screen.table(columns, rows))


def _view_row(number: int, view: ViewRow) -> Sequence[str]:
    end = view.compaction
    ended = f"{end.trigger} at {tokens(end.tokens_before)}" if end else "now"
    return (
        str(number),
        f"{view.records:,}",
        f"{view.calls:,}",
        _or_unknown(view.peak_context),
        ended,
        _or_unknown(end.context_after) if end else "",
        tokens(end.summary_tokens) if end else "",
    )


def _micro(report: ContextReport, screen: Screen) -> TableSection:
    columns = (Column("when", "<", grows=True), Column("results"), Column("before"), Column("saved"))
    rows = [
        (_moment(each.when), str(each.results), tokens(each.tokens_before), tokens(each.tokens_saved))
        for each in report.micro_compactions
    ]
    return TableSection("Old results cleared", _capped(columns, rows, screen, MAX_ROWS))


def _sidechains(report: ContextReport, screen: Screen) -> TableSection:
    columns = (
        Column("agent", "<", grows=True),
        Column("records", optional=1),
        Column("calls"),
        Column("peak"),
    )
    rows = [
        (side.agent, f"{side.records:,}", f"{side.calls:,}", _or_unknown(side.peak_context))
        for side in report.sidechains
    ]
    title = f"Sub-agents: {len(rows)} (--agent ID shows one)"
    return TableSection(title, _capped(columns, rows, screen, MAX_ROWS))


def _cache_and_cost(report: ContextReport, screen: Screen) -> TableSection:
    cache, cost = report.cache, report.cost
    columns = (Column("", "<", grows=True), Column("tokens"), Column("list price"))
    rows = [
        (KINDS.get(line.kind, line.kind), tokens(line.tokens), format_dollars(line.dollars))
        for line in cost.lines
    ]
    hits = "" if cache.hit_rate is None else f", {cache.hit_rate:.1%} of the input read from cache"
    title = f"{counted(cache.calls, 'call')} in this file{hits}"
    if not cost.lines:
        return TableSection(title, _below_cost(report, screen), has_head=False)
    total = ("all", "", format_dollars(cost.dollars))
    return TableSection(title, [*screen.table(columns, [*rows, total]), *_below_cost(report, screen)])


def _below_cost(report: ContextReport, screen: Screen) -> list[str]:
    return [*_unpriced(report, screen), *_in_agent_files(report, screen)]


def _in_agent_files(report: ContextReport, screen: Screen) -> list[str]:
    """The difference to the figure of `audit`."""
    other = report.cost.agent_files
    if other is None:
        return []
    total = format_dollars(report.cost.dollars + other.dollars)
    return screen.wrapped(
        f"Not in this file: {counted(other.calls, 'call')} of sub-agents, {format_dollars(other.dollars)}, "
        f"in {counted(other.files, 'file')} of their own. With them it is {total}, as in audit."
    )


def _unpriced(report: ContextReport, screen: Screen) -> list[str]:
    models = ", ".join(f"{name} ({calls:,})" for name, calls in report.cost.unpriced.items())
    return screen.wrapped(f"No price known (calls): {models}") if models else []


def _oddities(report: ContextReport, screen: Screen) -> TableSection:
    lines = [line for said in _oddity_lines(report) for line in screen.wrapped(said)]
    return TableSection("Problems found, and how they were handled", lines, has_head=False)


def _oddity_lines(report: ContextReport) -> list[str]:
    odd = report.oddities
    lines = list(odd.remarks)
    if odd.flaws:
        first = odd.flaws[0]
        flaws = counted(len(odd.flaws), "line")
        lines.append(f"{flaws} of the file with problems, the first is line {first.line}: {first.what}")
    for kind in dict.fromkeys(note.kind for note in odd.notes):
        said = [note.what for note in odd.notes if note.kind == kind]
        lines.append(said[0] + (f" (and {len(said) - 1:,} more like this)" if len(said) > 1 else ""))
    kinds = Counter(repair.what for repair in odd.repairs).most_common(MAX_FILES)
    lines += [f"{what} ({times:,} times)" if times > 1 else what for what, times in kinds]
    return lines


def _capped(columns: Sequence[Column], rows: Sequence[Sequence[str]], screen: Screen, most: int) -> list[str]:
    lines = screen.table(columns, rows[:most])
    rest = len(rows) - most
    return [*lines, screen.fitted(f"and {rest} more (--json has all)")] if rest > 0 else lines


def _or_unknown(count: int | None) -> str:
    return NOT_KNOWN if count is None else tokens(count)


def _moment(timestamp: str) -> str:
    return format_moment(parse_time(timestamp), None) or timestamp[:16].replace("T", " ") or NOT_KNOWN
