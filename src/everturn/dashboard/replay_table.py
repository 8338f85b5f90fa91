"""A comparison of policies as tables for a terminal, and as Markdown (RP-7, BY-10)."""

import sys
from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo
from typing import Final, NamedTuple, TextIO

from everturn.dashboard.console import can_print, open_console
from everturn.dashboard.layout import Column, Screen, counted, percent, tokens
from everturn.dashboard.session_list import render_sessions
from everturn.measure.money import format_dollars
from everturn.replay.compare import (
    ComparisonRow,
    ComparisonTable,
    Saving,
    describe_guesses,
    make_headline,
    short_saving,
)
from everturn.replay.marked_page import insert_between
from everturn.replay.policies import RECORDED
from everturn.replay.reported import RecordedErrors, describe_errors, describe_paid, short_errors
from everturn.replay.runs import ReplayCost, RetainedCount

UNKNOWN: Final = "-"
KINDS: Final = {
    "plain": "uncached",
    "write_5m": "write 5m",
    "write_1h": "write 1h",
    "read": "read",
    "output": "output",
    "summaries": "summaries",
    "refetches": "refetches",
    "refresh": "refresh",
}
LEFT: Final = {
    "user_instructions": "user's words",
    "paths": "paths",
    "identifiers": "names",
    "errors": "errors",
}
# The number of reasons for cache breaks that are listed.
_MAX_REASONS: Final = 6
_MAX_SESSIONS: Final = 5


class Drawn(NamedTuple):
    """One table: title, columns, rows."""

    title: str
    columns: tuple[Column, ...]
    rows: list[tuple[str, ...]]


def draw(
    compared: ComparisonTable,
    file: TextIO | None = None,
    *,
    sessions: Sequence[tuple[str, datetime | None, str]] = (),
    color: bool = True,
    zone: tzinfo | None = None,
) -> None:
    """Prints the tables, after which sessions they are about: id, time and title of each."""
    out = sys.stdout if file is None else file
    console = open_console(out, color=color)
    screen = Screen(console.width, not can_print("…", out))
    for line in render_sessions(sessions[:_MAX_SESSIONS], screen, zone):
        console.print(line, soft_wrap=True)
    if more := max(0, len(sessions) - _MAX_SESSIONS):
        console.print(f"and {counted(more, 'more session')}", soft_wrap=True)
    if sessions:
        console.print()
    for drawn in tables(compared):
        for part in screen.wrapped(drawn.title):
            console.print(part, style="bold", soft_wrap=True)
        for line in screen.table(drawn.columns, drawn.rows):
            console.print(line, soft_wrap=True)
        console.print()
    for line in footnotes(compared):
        for part in screen.wrapped(line):
            console.print(part, soft_wrap=True)


def markdown(compared: ComparisonTable) -> list[str]:
    lines: list[str] = []
    for drawn in tables(compared):
        rules = ["---" if column.align == "<" else "--:" for column in drawn.columns]
        lines += [f"### {drawn.title}", "", _cells([column.head for column in drawn.columns]), _cells(rules)]
        lines += [*map(_cells, drawn.rows), ""]
    return [*lines, *(f"- {note}" for note in footnotes(compared))]


def insert_tables(page: str, name: str, compared: ComparisonTable) -> str:
    """The page with these tables between the markers of that name."""
    drawn = "\n".join(markdown(compared))
    return insert_between(page, f"<!-- replay: {name} -->", f"<!-- end of replay: {name} -->", drawn)


def _cells(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def tables(compared: ComparisonTable) -> Iterator[Drawn]:
    yield _summary(compared)
    yield _by_kind(compared)
    yield _forgotten(compared)
    if any(row.breaks for row in compared.rows):
        yield _breaks(compared)


def footnotes(compared: ComparisonTable) -> Iterator[str]:
    if any(row.against_recorded is not None and row.policy != RECORDED for row in compared.rows):
        yield make_headline(compared)
    if any(row.against_recorded and row.against_recorded.interval for row in compared.rows):
        yield (
            "Saved: positive is cheaper. The interval is that of the saving against recorded (95%, bootstrap "
            "over sessions); ~ marks a difference within the interval, which counts as no difference."
        )
    if compared.begun_in_middle:
        begun = counted(compared.begun_in_middle, "session")
        yield f"The file of {begun} begins in the middle; savings leave them out."
    floors = {row.floor for row in compared.rows if not row.unfinished}
    if floors:
        yield (
            f"No policy can cost less than {format_dollars(max(floors))} (every token paid once, system "
            "prompt and tools read on every call)."
        )
    plans = [row.clairvoyant for row in compared.rows if row.clairvoyant is not None and not row.unfinished]
    if plans:
        yield (
            f"With the future known, the same calls cost {format_dollars(min(plans))}: resets that keep only "
            "what is used later, and the cache held whenever that pays."
        )
    for row in compared.rows:
        if row.unfinished:
            ended = counted(row.unfinished, "session")
            yield (
                f"{row.policy} did not finish {ended}: the window was full. "
                "Savings are computed over the calls that both policies made."
            )
    for row in compared.rows:
        if row.policy == RECORDED:
            yield describe_errors(row.policy, row.error)
        if row.policy == RECORDED and row.paid is not None:
            yield describe_paid(row.paid, compared.sessions)
    if guesses := describe_guesses(compared):
        yield guesses
    yield from compared.notes


def _summary(compared: ComparisonTable) -> Drawn:
    columns = (
        Column("policy", "<", grows=True),
        Column("calls", optional=7),
        Column("dollars"),
        Column("error", optional=2),
        Column("saved vs none", optional=4),
        Column("saved vs recorded"),
        Column("95% interval", optional=4),
        Column("words kept", optional=3),
        Column("hit rate", optional=5),
        Column("mean", optional=6),
        Column("peak", optional=6),
        Column("breaks", optional=8),
        Column("compactions", optional=9),
        Column("refetches/100", optional=1),
    )
    rows = [
        (
            row.policy + ("*" if row.unfinished else ""),
            f"{row.calls:,}",
            format_dollars(row.dollars),
            _error(row.error),
            _saving(row.against_none),
            _saving(row.against_recorded),
            _interval(row.against_recorded),
            _left(row.left.get("user_instructions")),
            percent(row.hit_rate),
            tokens(round(row.mean)),
            tokens(row.peak),
            f"{sum(row.breaks.values()):,}",
            f"{row.compactions:,}",
            f"{row.refetches_per_100:.1f}",
        )
        for row in compared.rows
    ]
    title = f"{counted(compared.sessions, 'session')}: total cost, including summaries and refetches"
    return Drawn(title, columns, rows)


def _by_kind(compared: ComparisonTable) -> Drawn:
    used = [
        kind
        for kind in ReplayCost.__struct_fields__
        if any(getattr(row.spent, kind) for row in compared.rows)
    ]
    columns = (
        Column("policy", "<", grows=True),
        *(Column(KINDS[kind]) for kind in used),
        Column("cache saves", optional=1),
    )
    rows = [
        (row.policy, *(format_dollars(getattr(row.spent, kind)) for kind in used), _saving(row.by_cache))
        for row in compared.rows
    ]
    return Drawn("Dollars by kind, and what the provider's cache saves", columns, rows)


def _forgotten(compared: ComparisonTable) -> Drawn:
    columns = (
        Column("policy", "<", grows=True),
        *map(Column, LEFT.values()),
        Column("refetches"),
        Column("probable"),
    )
    rows = [
        (
            row.policy,
            *(_left(row.left.get(name)) for name in LEFT),
            f"{row.refetches:,}",
            f"{row.probable_refetches:,}",
        )
        for row in compared.rows
    ]
    return Drawn("Still in the context at the end; refetches at least, certain and probable", columns, rows)


def _breaks(compared: ComparisonTable) -> Drawn:
    columns = (Column("policy", "<"), Column("breaks"), Column("why", "<", grows=True))
    rows = [
        (row.policy if first else "", f"{number:,}", why)
        for row in compared.rows
        for first, (why, number) in _numbered(row)
    ]
    return Drawn("Why the cache broke", columns, rows)


def _numbered(row: ComparisonRow) -> Iterator[tuple[bool, tuple[str, int]]]:
    reasons = sorted(row.breaks.items(), key=lambda item: (-item[1], item[0]))
    for at, reason in enumerate(reasons[:_MAX_REASONS]):
        yield at == 0, reason
    if rest := sum(number for _, number in reasons[_MAX_REASONS:]):
        yield False, ("other reasons", rest)


def _saving(saved: Saving | None) -> str:
    """Positive if it is cheaper, negative if it costs more; `~` if the difference is within the interval."""
    if saved is None or not saved.of:
        return UNKNOWN
    return short_saving(saved)


def _interval(saved: Saving | None) -> str:
    if saved is None or saved.interval is None:
        return UNKNOWN
    return f"{saved.interval.low:+.1%} to {saved.interval.high:+.1%}"


def _error(errors: RecordedErrors | None) -> str:
    """Of the input dollars, against reported usage: only `recorded` has them."""
    return UNKNOWN if errors is None else short_errors(errors)


def _left(left: RetainedCount | None) -> str:
    return UNKNOWN if left is None or not left.total else percent(left.kept / left.total)
