"""An audit as terminal output: what was paid, why the cache broke, what filled the context.

Every number comes from `replay/audit.py`. This module formats them as lines that fit the terminal width.
"""

import csv
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from decimal import Decimal
from io import StringIO
from typing import Final, TextIO

from rich.text import Text

from everturn.catalog.practice import describe_practice
from everturn.dashboard.console import can_print, open_console
from everturn.dashboard.layout import Column, Screen, counted, percent, tokens
from everturn.dashboard.session_list import format_moment
from everturn.dashboard.tables import KINDS, NOT_KNOWN, TableSection
from everturn.dashboard.terminal import HEAD, QUIET
from everturn.measure.money import format_dollars
from everturn.replay.audit import CUT_OFF, Audit, SessionRow
from everturn.replay.cache_breaks import CacheBreak
from everturn.replay.call_ledger import CallTotals

MAX_ROWS: Final = 10
MAX_BREAKS: Final = 15
AGENT_SHOWN: Final = 8
# Groupings in the order of time; the others are listed by cost.
PERIODS: Final = ("day", "week", "month")
CSV_KINDS: Final = ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output")
# One call of each purpose.
PURPOSES: Final[dict[str, str]] = {
    "conversation": "call",
    "compact": "summary call",
    "session_memory": "notes call",
    "hold": "hold",
    CUT_OFF: "cut-off call",
}
REASONS: Final = {
    "compaction": "compaction",
    "clearing": "results cleared",
    "model": "different model",
    "idle": "cache expired (idle)",
    "messages": "messages changed",
    "provider": "implicit caching",
    "unexplained": "unexplained",
}


def draw(
    audit: Audit,
    by: Sequence[str],
    file: TextIO | None = None,
    *,
    color: bool = True,
    zone: tzinfo | None = None,
) -> None:
    """Prints an audit; `by` names the requested tables of totals. Times are those of `zone`."""
    out = sys.stdout if file is None else file
    console = open_console(out, color=color)
    for line in drawn(audit, by, Screen(console.width, ascii_only=not can_print("…", out)), zone):
        console.print(line, soft_wrap=True)


def drawn(audit: Audit, by: Sequence[str], screen: Screen, zone: tzinfo | None = None) -> list[Text]:
    lines = [Text(line, HEAD if at == 0 else "") for at, line in enumerate(_headline(audit, screen))]
    for section in sections(audit, by, screen, zone):
        lines += [Text(), *(Text(line, HEAD) for line in screen.wrapped(section.title))]
        lines += [
            Text(line, QUIET if at == 0 and section.has_head else "") for at, line in enumerate(section.lines)
        ]
    return lines


def sections(
    audit: Audit, by: Sequence[str], screen: Screen, zone: tzinfo | None = None
) -> Iterator[TableSection]:
    """The sections that are not empty."""
    if audit.total.calls:
        yield _kinds(audit, screen)
        for name in by:
            yield (
                _sessions(audit, screen, zone) if name == "session" else _totals(name, audit.by[name], screen)
            )
    if audit.breaks:
        yield _reasons(audit, screen)
        yield _breaks(audit, screen)
    if any(audit.filled.values()):
        yield _filled(audit, screen)
    if audit.tools:
        yield _tools(audit, screen)
    if audit.unused_tools:
        yield _unused(audit, screen)
    if audit.reads_again:
        yield _reads(audit, screen)
    if damaged := [each for each in audit.sessions if each.flaws]:
        rows = [(each.path, str(len(each.flaws)), each.flaws[0].partition(":")[0]) for each in damaged]
        columns = (Column("file", "<", grows=True, cut="start"), Column("problems"), Column("first", "<"))
        yield TableSection(f"Damaged: {counted(len(rows), 'file')}", _capped(columns, rows, screen, MAX_ROWS))
    if audit.unreadable:
        # A long reason must leave room for the name of the file.
        half = Screen(screen.width // 2, ascii_only=screen.ascii_only)
        rows = [
            (each.path, half.fitted(each.why.replace(f"{each.path} is ", "it is ", 1)))
            for each in audit.unreadable
        ]
        columns = (Column("file", "<", grows=True, cut="start"), Column("why", "<"))
        yield TableSection(
            f"Not read: {counted(len(rows), 'file')}", _capped(columns, rows, screen, MAX_ROWS)
        )


def _headline(audit: Audit, screen: Screen) -> Iterator[str]:
    total = audit.total
    calls = f"{counted(len(audit.sessions), 'session')}, {counted(total.calls, 'call')}"
    # Without a single known price, a sum of 0 would look like a bill.
    paid = "no price is known" if _is_unpriced(total) else format_dollars(total.dollars)
    yield from screen.wrapped(f"{calls}, {paid}" if total.calls else calls)
    if audit.practice:
        yield from screen.wrapped(f"{describe_practice(audit.practice)}.")
    if not total.calls:
        if not audit.practice:
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
        yield from screen.wrapped(f"{said}: {format_dollars(sum(costs, Decimal(0)))}.")
    if asides := audit.asides:
        listed = ", ".join(
            f"{counted(spent.calls, PURPOSES[purpose])} for {format_dollars(spent.dollars)}"
            for purpose, spent in asides.items()
        )
        yield from screen.wrapped(f"Beside these calls, and not included above: {listed}.")
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
            NOT_KNOWN if _is_unpriced(total) else format_dollars(paid.get(kind, Decimal(0))),
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
    drawn = [
        (key, f"{row.calls:,}", tokens(row.context), percent(row.hit_rate or 0), _paid(row))
        for key, row in _ordered(name, rows)
    ]
    title = "By week, from Monday" if name == "week" else f"By {name}"
    return TableSection(title, screen.table(columns, drawn))


def _ordered(name: str, rows: Mapping[str, CallTotals]) -> list[tuple[str, CallTotals]]:
    """Periods in order; everything else by cost. A row can be empty: its calls were counted elsewhere."""
    filled = [(key, row) for key, row in rows.items() if row.calls]
    if name in PERIODS:
        return sorted(filled)
    return sorted(filled, key=lambda item: (-item[1].dollars, -item[1].calls, item[0]))


def _sessions(audit: Audit, screen: Screen, zone: tzinfo | None) -> TableSection:
    """By cost, each with what it is called by people and by commands."""
    columns = (
        Column("session", "<", grows=True),
        Column("id", "<"),
        Column("began", "<", optional=2),
        Column("calls", optional=1),
        Column("from cache", optional=3),
        Column("dollars"),
    )
    known = {row.path: row for row in audit.sessions}
    rows = [
        (*_named(known.get(path), path, zone), f"{row.calls:,}", percent(row.hit_rate or 0), _paid(row))
        for path, row in _ordered("session", audit.by["session"])
    ]
    title = "The most expensive sessions" if len(rows) > MAX_ROWS else "By session"
    return TableSection(title, _capped(columns, rows, screen, MAX_ROWS))


def _named(row: SessionRow | None, path: str, zone: tzinfo | None) -> tuple[str, str, str]:
    """Title, id and date."""
    return (row.title, row.id, format_moment(row.began, zone)) if row else (path, "", "")


def render_changes(before: Audit | None, now: Audit, at: datetime, screen: Screen) -> list[str]:
    """One line for each session that made calls since, or for all of them at the beginning."""
    total = f"{counted(now.total.calls, 'call')}, {format_dollars(now.total.dollars)}"
    if before is None:
        return [screen.fitted(f"{at:%H:%M:%S}  {counted(len(now.sessions), 'session')}, {total}")]
    earlier = {row.path: row for row in before.sessions}
    gone = earlier.keys() - {row.path for row in now.sessions}
    lines = [
        screen.fitted(f"{at:%H:%M:%S}  {earlier[path].id}  is gone; all {total}") for path in sorted(gone)
    ]
    for row in now.sessions:
        known = earlier.get(row.path)
        calls = row.calls - (known.calls if known else 0)
        if calls:
            more = format_dollars(row.dollars - (known.dollars if known else 0))
            narrow = screen._replace(width=max(10, screen.width // 2))
            name = f"{row.id}  {narrow.fitted(row.title)}"
            lines.append(f"{at:%H:%M:%S}  {name}  +{counted(calls, 'call')}, +{more}; all {total}")
    return lines


def render_csv(audit: Audit, by: str, zone: tzinfo | None = None) -> str:
    """One table of totals for other programs: plain numbers, one line for each row."""
    known = {row.path: row for row in audit.sessions}
    more = ("title", "id", "began", "path") if by == "session" else (by,)
    out = StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow((*more, "calls", *CSV_KINDS, "dollars", "unpriced_calls"))
    for key, row in _ordered(by, audit.by[by]):
        names = (*_named(known.get(key), key, zone), key) if by == "session" else (key,)
        counts = (row.tokens[kind] for kind in CSV_KINDS)
        lines.writerow((*map(_cell, names), row.calls, *counts, row.dollars, sum(row.unpriced.values())))
    return out.getvalue()


def _cell(text: str) -> str:
    """A title comes from anywhere: a spreadsheet would run it as a formula if it began like one."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def _paid(row: CallTotals) -> str:
    return NOT_KNOWN if _is_unpriced(row) else format_dollars(row.dollars)


def _is_unpriced(row: CallTotals) -> bool:
    """Whether there are calls, and no price is known for any of them."""
    return bool(row.calls) and sum(row.unpriced.values()) == row.calls


def _reasons(audit: Audit, screen: Screen) -> TableSection:
    columns = (Column("reason", "<", grows=True), Column("breaks"), Column("tokens"), Column("extra cost"))
    rows = [
        (REASONS[reason], f"{count:,}", tokens(lost), format_dollars(dollars))
        for reason, (count, lost, dollars) in audit.break_reasons().items()
    ]
    return TableSection("Why the cache broke", screen.table(columns, rows))


def _breaks(audit: Audit, screen: Screen) -> TableSection:
    """Without the session column if there is only one session, to leave space for the reason."""
    names = {each.path for each in audit.breaks}
    columns = (
        Column("session", "<"),
        Column("call"),
        Column("lost", optional=1),
        Column("cost"),
        Column("why", "<", grows=True),
    )[len(names) == 1 :]
    ids = {row.path: row.id for row in audit.sessions}
    largest = sort_breaks(audit.breaks)
    rows = [
        (
            ids.get(each.path, each.session),
            _place(each),
            tokens(each.lost),
            format_dollars(each.dollars) if each.dollars is not None else NOT_KNOWN,
            each.why,
        )[-len(columns) :]
        for each in largest
    ]
    title = "The most expensive breaks" if len(rows) > MAX_BREAKS else "The breaks"
    first = largest[0]
    command = f"everturn audit {ids.get(first.path, first.path)} --break {_place(first)}"
    lines = [*_capped(columns, rows, screen, MAX_BREAKS), *screen.wrapped(f"What changed: {command}")]
    return TableSection(title, lines)


def sort_breaks(breaks: Sequence[CacheBreak]) -> list[CacheBreak]:
    """By dollars; those without a known price last, by tokens."""
    return sorted(breaks, key=lambda each: (-(each.dollars or 0), -each.lost, each.session, each.number))


def _place(found: CacheBreak) -> str:
    """As `--break` takes it."""
    return f"{found.agent[:AGENT_SHOWN]}:{found.number}" if found.agent else str(found.number)


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


def _unused(audit: Audit, screen: Screen) -> TableSection:
    unused = audit.unused_tools
    columns = (Column("tool", "<", grows=True), Column("tokens"), Column("prompts"), Column("read for"))
    rows = [
        (
            each.tool,
            tokens(each.tokens),
            f"{each.prompts:,}",
            "no price" if each.dollars is None else format_dollars(each.dollars),
        )
        for each in unused
    ]
    cost = tokens(sum(each.tokens for each in unused))
    title = f"Never called: {counted(len(unused), 'tool')}, {cost} tokens in every prompt"
    if priced := [each.dollars for each in unused if each.dollars is not None]:
        title += f", {format_dollars(sum(priced, Decimal(0)))} to read them"
    return TableSection(title, _capped(columns, rows, screen, MAX_ROWS))


def _reads(audit: Audit, screen: Screen) -> TableSection:
    columns = (Column("file", "<", grows=True, cut="start"), Column("times"), Column("wasted"))
    rows = [(each.path, str(each.count), tokens(each.wasted)) for each in audit.reads_again]
    title = f"Read again while still in the context: {tokens(audit.wasted)} tokens wasted"
    return TableSection(title, _capped(columns, rows, screen, MAX_ROWS))


def _capped(columns: Sequence[Column], rows: Sequence[Sequence[str]], screen: Screen, most: int) -> list[str]:
    lines = screen.table(columns, rows[:most])
    more = len(rows) - most
    return [*lines, screen.fitted(f"and {more:,} more (--json has all)")] if more > 0 else lines
