"""What the pages ask the index: totals by period and group, lists of sessions, cache breaks, text.

All figures come from sums that the index keeps, so an answer takes milliseconds with ten thousand sessions.
"""

import zlib
from collections.abc import Sequence
from datetime import datetime, tzinfo
from functools import partial
from itertools import pairwise
from typing import Any, Final, Literal, get_args

import msgspec

from everturn.catalog.names import ID_SHOWN
from everturn.session.recall.query import parse_query
from everturn.web_dashboard.index import NO_QUARTER, QUARTER, SessionIndex
from everturn.web_dashboard.periods import (
    MAX_PERIODS,
    Period,
    is_drawable,
    list_starts,
    next_start,
    start_of,
    to_epoch,
)

Grouping = Literal["project", "model", "agent"]
Sort = Literal["date", "cost", "calls", "context", "breaks", "compactions", "title", "project"]
GROUPINGS: Final[tuple[Grouping, ...]] = get_args(Grouping)
SORTS: Final[tuple[Sort, ...]] = get_args(Sort)
PAGE_SIZE: Final = 50

_ORDER: Final[dict[Sort, str]] = {
    "date": "ended DESC",
    "cost": "nanos DESC",
    "calls": "calls DESC",
    "context": "peak DESC",
    "breaks": "break_nanos DESC",
    "compactions": "compactions DESC",
    "title": "title COLLATE NOCASE",
    "project": "project COLLATE NOCASE",
}
_FIELDS: Final = (
    "number, id, path, file, name, format, agent, title, project, model, started, ended, ttl, compactions, "
    "practice, peak, context, window, spark, calls, read, written, plain, output, nanos, unpriced, breaks, "
    "break_nanos"
)
_USAGE_SUMS: Final = (
    "sum(usage.calls), sum(usage.read), sum(usage.written), sum(usage.plain), sum(usage.output), "
    "sum(usage.nanos), sum(usage.unpriced), sum(usage.read_nanos), sum(usage.write_nanos), "
    "sum(usage.plain_nanos)"
)
_GROUPED_BY: Final[dict[Grouping, str]] = {
    "project": "sessions.project",
    "model": "usage.model",
    "agent": "sessions.agent",
}


class Scope(msgspec.Struct, frozen=True):
    """Which part of the index is shown. Times are seconds since 1970; `until` is excluded."""

    text: str = ""
    project: str = ""
    model: str = ""
    agent: str = ""
    since: int | None = None
    until: int | None = None


class Sums(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over calls; money in nanodollars. Calls without a known price are `unpriced`."""

    calls: int = 0
    read: int = 0
    written: int = 0
    plain: int = 0
    output: int = 0
    nanos: int = 0
    unpriced: int = 0
    read_nanos: int = 0
    write_nanos: int = 0
    plain_nanos: int = 0

    @property
    def prompt(self) -> int:
        return self.read + self.written + self.plain

    @property
    def output_nanos(self) -> int:
        return self.nanos - self.read_nanos - self.write_nanos - self.plain_nanos


class PeriodRow(msgspec.Struct, frozen=True):
    """`start` is local midnight of its first day."""

    start: datetime
    sums: Sums


class GroupRow(msgspec.Struct, frozen=True):
    name: str
    sessions: int
    sums: Sums


class IndexedSession(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the table `sessions`."""

    number: int
    id: str
    path: str
    file: str
    name: str
    format: str
    agent: str
    title: str
    project: str
    model: str
    started: int | None
    ended: int | None
    ttl: int
    compactions: int
    # Calls that the twin answered: nobody paid for them, and no sum includes them.
    practice: int
    peak: int
    context: int
    window: int
    spark: tuple[int, ...]
    calls: int
    read: int
    written: int
    plain: int
    output: int
    nanos: int
    unpriced: int
    breaks: int
    break_nanos: int

    @property
    def prompt(self) -> int:
        return self.read + self.written + self.plain


class BreakSums(msgspec.Struct, frozen=True):
    """Cache breaks of one reason and one length of the pause before them, in minutes."""

    reason: str
    minutes: int
    count: int
    lost: int
    nanos: int


class TextHit(msgspec.Struct, frozen=True):
    """A passage that was found, with its session."""

    session: IndexedSession
    uuid: str
    at: int | None
    source: str
    tool: str
    text: str


# ── totals ───────────────────────────────────────────────────────────────────────────────────────────


def total(index: SessionIndex, scope: Scope) -> Sums:
    where, values = _where(scope, with_time=True)
    query = f"SELECT {_USAGE_SUMS} FROM {_usage_of(scope)} {where}"
    return _sums(index.read(query, values)[0])


def by_period(index: SessionIndex, scope: Scope, period: Period, zone: tzinfo | None) -> list[PeriodRow]:
    """Every period from the first to the last with a call, oldest first; the empty ones included, unless
    there are far too many of them, as when a file holds a wrong date."""
    span = span_of(index, scope)
    if span is None:
        return []
    list_periods = list_starts if is_drawable(span, period) else partial(_starts_with_calls, index)
    starts = list_periods(span, period, zone)
    low, high = span[0] // QUARTER, span[1] // QUARTER + 1
    edges = [to_epoch(each, zone) // QUARTER for each in (*starts, next_start(starts[-1], period))]
    bounds = [
        f"({number}, {max(low, first)}, {min(high, following)})"
        for number, (first, following) in enumerate(pairwise(edges))
    ]
    # The bounds limit the time already; SQLite would otherwise search with the wrong limit.
    scope = msgspec.structs.replace(scope, since=None, until=None)
    where, values = _where(scope, with_time=True)
    # Added up by SQLite: with years of sessions there are tens of thousands of quarters.
    query = (
        f"WITH periods (place, first, following) AS (VALUES {', '.join(bounds)}) "
        f"SELECT place, {_USAGE_SUMS} FROM periods CROSS JOIN {_usage_of(scope)} "
        f"{where} {'AND' if where else 'WHERE'} usage.quarter >= first AND usage.quarter < following "
        "GROUP BY place"
    )
    found = {place: _sums(row) for place, *row in index.read(query, values)}
    return [PeriodRow(start, found.get(number, Sums())) for number, start in enumerate(starts)]


def _starts_with_calls(
    index: SessionIndex, span: tuple[int, int], period: Period, zone: tzinfo | None
) -> list[datetime]:
    quarters = span[0] // QUARTER, span[1] // QUARTER
    rows = index.read("SELECT DISTINCT quarter FROM usage WHERE quarter BETWEEN ? AND ?", quarters)
    moments = (datetime.fromtimestamp(row[0] * QUARTER, zone) for row in rows)
    return sorted({start_of(moment, period) for moment in moments})[-MAX_PERIODS:]


def span_of(index: SessionIndex, scope: Scope) -> tuple[int, int] | None:
    """The times of the first and the last call, rounded to quarters of an hour; None without calls."""
    where, values = _where(scope, with_time=True)
    dated = f"{where} {'AND' if where else 'WHERE'} usage.quarter <> {NO_QUARTER}"
    query = f"SELECT min(usage.quarter), max(usage.quarter) FROM {_usage_of(scope)} {dated}"
    first, last = index.read(query, values)[0]
    return None if first is None else (first * QUARTER, last * QUARTER)


def by_group(index: SessionIndex, scope: Scope, grouping: Grouping, most: int = 12) -> list[GroupRow]:
    """The most expensive first; of equal ones, the one with more calls."""
    if grouping != "model" and scope.since is None and scope.until is None and not scope.model:
        return _by_group_of_sessions(index, scope, grouping, most)
    where, values = _where(scope, with_time=True)
    name = _GROUPED_BY[grouping]
    source = "usage JOIN sessions ON number = usage.session" if grouping != "model" else _usage_of(scope)
    query = (
        f"SELECT {name}, count(DISTINCT usage.session), {_USAGE_SUMS} FROM {source} {where} "
        f"GROUP BY {name} ORDER BY sum(usage.nanos) DESC, sum(usage.calls) DESC LIMIT ?"
    )
    rows = index.read(query, (*values, most))
    return [GroupRow(name, sessions, _sums(sums)) for name, sessions, *sums in rows]


def _by_group_of_sessions(index: SessionIndex, scope: Scope, grouping: Grouping, most: int) -> list[GroupRow]:
    """For all times the sums of whole sessions are enough, and there are fewer of them."""
    where, values = _where(scope, column="sessions.ended")
    query = (
        f"SELECT {grouping}, sum(calls > 0), sum(calls), sum(read), sum(written), sum(plain), sum(output), "
        f"sum(nanos), sum(unpriced), 0, 0, 0 FROM sessions {where} GROUP BY {grouping} "
        "HAVING sum(calls) ORDER BY sum(nanos) DESC, sum(calls) DESC LIMIT ?"
    )
    rows = index.read(query, (*values, most))
    return [GroupRow(name, sessions, _sums(sums)) for name, sessions, *sums in rows]


def breaks_by_reason(index: SessionIndex, scope: Scope) -> list[BreakSums]:
    """Summed by reason and by the pause before the break, in whole minutes up to 61 (longer)."""
    where, values = _where(scope, column="breaks.at")
    query = (
        "SELECT breaks.reason, min(61, cast(breaks.idle / 60 AS INTEGER)), count(*), sum(breaks.lost), "
        f"coalesce(sum(breaks.nanos), 0) FROM breaks JOIN sessions ON number = breaks.session {where} "
        "GROUP BY 1, 2"
    )
    return [BreakSums(*row) for row in index.read(query, values)]


# ── sessions ─────────────────────────────────────────────────────────────────────────────────────────


def list_sessions(
    index: SessionIndex, scope: Scope, sort: Sort = "date", *, start: int = 0, most: int = PAGE_SIZE
) -> list[IndexedSession]:
    where, values = _where(scope, column="sessions.ended")
    query = f"SELECT {_FIELDS} FROM sessions {where} ORDER BY {_ORDER[sort]}, id LIMIT ? OFFSET ?"
    return [_session(row) for row in index.read(query, (*values, most, start))]


def count_practice(index: SessionIndex, scope: Scope) -> int:
    """Calls of these sessions that the sums leave out, because the twin answered them."""
    where, values = _where(scope, column="sessions.ended")
    return index.read(f"SELECT coalesce(sum(practice), 0) FROM sessions {where}", values)[0][0]


def count_sessions(index: SessionIndex, scope: Scope) -> int:
    where, values = _where(scope, column="sessions.ended")
    return index.read(f"SELECT count(*) FROM sessions {where}", values)[0][0]


def find_session(index: SessionIndex, id: str) -> IndexedSession | None:
    """By its id, or by the beginning of it that commands show, if that is the only one."""
    rows = index.read(f"SELECT {_FIELDS} FROM sessions WHERE id = ?", (id,))
    if not rows and len(id) >= ID_SHOWN and id.isalnum():
        rows = index.read(f"SELECT {_FIELDS} FROM sessions WHERE id GLOB ? LIMIT 2", (f"{id}*",))
    return _session(rows[0]) if len(rows) == 1 else None


def list_names(index: SessionIndex, grouping: Grouping) -> list[str]:
    """What a filter can choose from."""
    rows = index.read(f"SELECT DISTINCT {grouping} FROM sessions WHERE {grouping} <> '' ORDER BY 1")
    return [row[0] for row in rows]


def list_unreadable(index: SessionIndex, most: int = 200) -> list[tuple[str, str]]:
    return [(path, why) for path, why in index.read(
        "SELECT path, why FROM files WHERE why <> '' ORDER BY path LIMIT ?", (most,)
    )]  # fmt: skip


# ── text ─────────────────────────────────────────────────────────────────────────────────────────────


def search_texts(index: SessionIndex, words: str, most: int = 40) -> tuple[list[TextHit], str]:
    """The best passages over all sessions; and a remark if they have only some of the words."""
    query = parse_query(words)
    found = _matches(index, query.all_of(), most)
    remark = ""
    if not found and len(query.terms) > 1:
        found = _matches(index, query.any_of(), most)
        remark = "No passage has all of these words; these have some of them." if found else ""
    return [hit for number in found if (hit := _hit(index, number)) is not None], remark


def _matches(index: SessionIndex, expression: str, most: int) -> list[int]:
    # Passages of sessions that are gone stay in the full-text table; the join leaves them out.
    rows = index.read(
        "SELECT words.rowid FROM words JOIN passages ON passages.number = words.rowid "
        "WHERE words MATCH ? ORDER BY bm25(words), words.rowid DESC LIMIT ?",
        (expression, most),
    )
    return [row[0] for row in rows]


def _hit(index: SessionIndex, number: int) -> TextHit | None:
    rows = index.read(
        "SELECT session, uuid, at, source, tool, text FROM passages WHERE number = ?", (number,)
    )
    if not rows:
        return None
    session, uuid, at, source, tool, packed = rows[0]
    found = index.read(f"SELECT {_FIELDS} FROM sessions WHERE number = ?", (session,))
    text = zlib.decompress(packed).decode(errors="replace")
    return TextHit(_session(found[0]), uuid, at, source, tool, text) if found else None


# ── inside ───────────────────────────────────────────────────────────────────────────────────────────


def _usage_of(scope: Scope) -> str:
    """The join costs time, so it is made only where a filter needs it."""
    needs = scope.text or scope.project or scope.agent
    return "usage JOIN sessions ON number = usage.session" if needs else "usage"


def _where(scope: Scope, *, column: str = "", with_time: bool = False) -> tuple[str, tuple[Any, ...]]:
    parts: list[str] = []
    values: list[Any] = []
    if scope.text:
        like = "%" + "".join(f"\\{each}" if each in "%_\\" else each for each in scope.text) + "%"
        fields = ("title", "project", "name", "model", "id")
        parts.append("(" + " OR ".join(f"sessions.{name} LIKE ? ESCAPE '\\'" for name in fields) + ")")
        values += [like] * len(fields)
    for name in ("project", "agent"):
        if value := getattr(scope, name):
            parts.append(f"sessions.{name} = ?")
            values.append(value)
    if scope.model:
        parts.append("usage.model = ?" if with_time else "sessions.model = ?")
        values.append(scope.model)
    factor = QUARTER if with_time else 1
    place = "usage.quarter" if with_time else column
    for bound, comparison in ((scope.since, ">="), (scope.until, "<")):
        if bound is not None:
            parts.append(f"{place} {comparison} ?")
            values.append(-(-bound // factor))
    return ("WHERE " + " AND ".join(parts) if parts else ""), tuple(values)


def _sums(row: Sequence[Any]) -> Sums:
    return Sums(**dict(zip(Sums.__struct_fields__, (value or 0 for value in row), strict=True)))


def _session(row: Sequence[Any]) -> IndexedSession:
    fields = dict(zip(IndexedSession.__struct_fields__, row, strict=True))
    fields["spark"] = msgspec.msgpack.decode(fields["spark"], type=tuple[int, ...])
    return IndexedSession(**fields)
