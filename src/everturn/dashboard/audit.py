"""An audit as terminal output: what was paid, why the cache broke, what filled the context.

Every number comes from `replay/audit.py`. This module formats them as lines that fit the terminal width.
"""

import sys
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Final, TextIO

from rich.console import Console
from rich.text import Text

from everturn.dashboard.layout import Column, Screen, counted, percent, tokens
from everturn.dashboard.tables import KINDS, NOT_KNOWN, TableSection
from everturn.dashboard.terminal import HEAD, QUIET
from everturn.replay.audit import Audit
from everturn.replay.cache_breaks import CacheBreak
from everturn.replay.call_ledger import CallTotals

MAX_ROWS: Final = 10
MAX_BREAKS: Final = 15
SESSION_WIDTH: Final = 16
REASONS: Final = {
    "compaction": "compaction",
    "clearing": "results cleared",
    "model": "different model",
    "idle": "cache expired (idle)",
    "messages": "messages changed",
    "provider": "implicit caching",
    "unexplained": "unexplained",
}


def draw(audit: Audit, by: Sequence[str], file: TextIO | None = None, *, color: bool = True) -> None:
    """Prints an audit; `by` names the requested tables of totals."""
    out = sys.stdout if file is None else file
    console = Console(file=out, no_color=None if color else True, highlight=False, emoji=False, markup=False)
    for line in drawn(audit, by, Screen(console.width, ascii_only=_is_ascii(out))):
        console.print(line, soft_wrap=True)


def _is_ascii(file: TextIO) -> bool:
    try:
        "…".encode(file.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return True
    return False


def drawn(audit: Audit, by: Sequence[str], screen: Screen) -> list[Text]:
    lines = [Text(line, HEAD if at == 0 else "") for at, line in enumerate(_headline(audit, screen))]
    for section in sections(audit, by, screen):
        lines += [Text(), *(Text(line, HEAD) for line in screen.wrapped(section.title))]
        lines += [
            Text(line, QUIET if at == 0 and section.has_head else "") for at, line in enumerate(section.lines)
        ]
    return lines


def sections(audit: Audit, by: Sequence[str], screen: Screen) -> Iterator[TableSection]:
    """The sections that are not empty."""
    if audit.total.calls:
        yield _kinds(audit, screen)
        for name in by:
            yield _totals(name, audit.by[name], screen)
    if audit.breaks:
        yield _reasons(audit, screen)
        yield _breaks(audit, screen)
    if any(audit.filled.values()):
        yield _filled(audit, screen)
    if audit.tools:
        yield _tools(audit, screen)
    if audit.reads_again:
        yield _reads(audit, screen)
    if damaged := [each for each in audit.sessions if each.flaws]:
        rows = [(each.path, str(len(each.flaws)), each.flaws[0].partition(":")[0]) for each in damaged]
        columns = (Column("file", "<", grows=True, cut="start"), Column("problems"), Column("first", "<"))
        yield TableSection(f"Damaged: {counted(len(rows), 'file')}", _capped(columns, rows, screen, MAX_ROWS))
    if audit.unreadable:
        rows = [(each.path, each.why) for each in audit.unreadable]
        columns = (Column("file", "<", grows=True, cut="start"), Column("why", "<"))
        yield TableSection(
            f"Not read: {counted(len(rows), 'file')}", _capped(columns, rows, screen, MAX_ROWS)
        )


def _headline(audit: Audit, screen: Screen) -> Iterator[str]:
    total = audit.total
    calls = f"{counted(len(audit.sessions), 'session')}, {counted(total.calls, 'call')}"
    yield from screen.wrapped(f"{calls}, {_money(total.dollars)}" if total.calls else calls)
    if not total.calls:
        yield from screen.wrapped("No call in these files reports its usage, so there are no totals.")
        return
    hits = f"{percent(total.hit_rate or 0)} of the input came from the cache"
    yield from screen.wrapped(f"{hits}; {counted(len(audit.breaks), 'cache break')}.")
    yield from screen.wrapped(
        "Dollars are list prices of the reported usage. Files record output tokens during streaming, "
        "so the cost of output is a lower bound."
    )
    unpriced = {model: count for model, count in total.unpriced.items() if count}
    if unpriced:
        listed = ", ".join(f"{model} ({counted(count, 'call')})" for model, count in sorted(unpriced.items()))
        yield from screen.wrapped(f"No price known, not included above: {listed}.")
    if costs := audit.recorded_costs:
        said = f"The files of {counted(len(costs), 'such session')} say what they cost"
        yield from screen.wrapped(f"{said}: {_money(sum(costs, Decimal(0)))}.")
    if audit.repeated_calls:
        said = counted(audit.repeated_calls, "repeated response")
        yield from screen.wrapped(f"{said} in other files not counted: each response counts once.")
    if audit.judged:
        share = percent(audit.near / audit.judged)
        yield from screen.wrapped(
            f"Cache reads predicted within 5% of the context on {share} of {counted(audit.judged, 'call')}."
        )


def _kinds(audit: Audit, screen: Screen) -> TableSection:
    columns = (Column("kind", "<", grows=True), Column("tokens"), Column("dollars"), Column("share"))
    total = audit.total
    paid = total.dollars_by_kind
    rows = [
        (
            label,
            tokens(total.tokens[kind]) if kind in total.tokens else NOT_KNOWN,
            _money(paid.get(kind, Decimal(0))),
            percent(float(paid.get(kind, Decimal(0)) / total.dollars)) if total.dollars else NOT_KNOWN,
        )
        for kind, label in KINDS.items()
        if total.tokens[kind] or paid.get(kind)
    ]
    return TableSection("What was paid", screen.table(columns, rows))


def _totals(name: str, rows: dict[str, CallTotals], screen: Screen) -> TableSection:
    columns = (
        Column(name, "<", grows=True, cut="start"),
        Column("calls"),
        Column("input", optional=2),
        Column("from cache", optional=1),
        Column("dollars"),
    )
    # Days in order; everything else by cost.
    order = rows.items() if name == "day" else sorted(rows.items(), key=lambda row: (-row[1].dollars, row[0]))
    drawn = [
        (key, f"{row.calls:,}", tokens(row.context), percent(row.hit_rate or 0), _paid(row))
        for key, row in order
    ]
    return TableSection(f"By {name}", screen.table(columns, drawn))


def _paid(row: CallTotals) -> str:
    return NOT_KNOWN if row.calls and sum(row.unpriced.values()) == row.calls else _money(row.dollars)


def _reasons(audit: Audit, screen: Screen) -> TableSection:
    columns = (Column("reason", "<", grows=True), Column("breaks"), Column("tokens"), Column("extra cost"))
    rows = [
        (REASONS[reason], f"{count:,}", tokens(lost), _money(dollars))
        for reason, (count, lost, dollars) in audit.break_reasons().items()
    ]
    return TableSection("Why the cache broke", screen.table(columns, rows))


def _breaks(audit: Audit, screen: Screen) -> TableSection:
    """Without the session column if there is only one session, to leave space for the reason."""
    named = screen._replace(width=SESSION_WIDTH)
    names = {_place(each) for each in audit.breaks}
    columns = (
        Column("session", "<"),
        Column("call"),
        Column("lost"),
        Column("cost", optional=1),
        Column("why", "<", grows=True),
    )[len(names) == 1 :]
    largest = sorted(audit.breaks, key=lambda each: (-each.lost, each.session, each.number))
    rows = [
        (
            named.fitted(_place(each), cut="middle"),
            str(each.number),
            tokens(each.lost),
            _money(each.dollars) if each.dollars is not None else NOT_KNOWN,
            each.why,
        )[-len(columns) :]
        for each in largest
    ]
    title = "The largest breaks" if len(rows) > MAX_BREAKS else "The breaks"
    return TableSection(title, _capped(columns, rows, screen, MAX_BREAKS))


def _place(found: CacheBreak) -> str:
    return f"{found.session} ({found.agent})" if found.agent else found.session


def _filled(audit: Audit, screen: Screen) -> TableSection:
    whole = sum(audit.filled.values())
    rows = [(name, tokens(count), percent(count / whole)) for name, count in audit.filled.items() if count]
    columns = (Column("what", "<", grows=True), Column("tokens"), Column("share"))
    return TableSection("What filled the context (estimated)", screen.table(columns, rows))


def _tools(audit: Audit, screen: Screen) -> TableSection:
    whole = sum(audit.filled.values())
    rows = [(name, tokens(count), percent(count / whole)) for name, count in audit.tools.items() if count]
    columns = (Column("tool", "<", grows=True), Column("results"), Column("of all"))
    return TableSection("Tools", _capped(columns, rows, screen, MAX_ROWS))


def _reads(audit: Audit, screen: Screen) -> TableSection:
    columns = (Column("file", "<", grows=True, cut="start"), Column("times"), Column("wasted"))
    rows = [(each.path, str(each.count), tokens(each.wasted)) for each in audit.reads_again]
    title = f"Read again while still in the context: {tokens(audit.wasted)} tokens wasted"
    return TableSection(title, _capped(columns, rows, screen, MAX_ROWS))


def _capped(columns: Sequence[Column], rows: Sequence[Sequence[str]], screen: Screen, most: int) -> list[str]:
    lines = screen.table(columns, rows[:most])
    more = len(rows) - most
    return [*lines, screen.fitted(f"and {more:,} more (--json has all)")] if more > 0 else lines


def _money(dollars: Decimal) -> str:
    """Two decimals; four below one dollar."""
    return f"${dollars:,.2f}" if dollars >= 1 or not dollars else f"${dollars:.4f}"
