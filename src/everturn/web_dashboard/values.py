"""What is kept of a session: a summary for lists, and the numbers of its page.

Both are made once for each version of a file (`summarize.py`) and stored in the index, so that no page has to
read a transcript. Money is in nanodollars: whole numbers that SQLite can add up exactly.
"""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

import msgspec

NANO: Final = 1_000_000_000


class CallRow(msgspec.Struct, frozen=True, gc=False):
    """One response, counted once over all files. `key` identifies it; `nanos` is None without a price. What
    is neither for cache reads, nor for cache writes, nor for uncached input, is for the output."""

    key: int
    at: int | None
    model: str
    read: int
    write_5m: int
    write_1h: int
    plain: int
    output: int
    nanos: int | None
    read_nanos: int = 0
    write_nanos: int = 0
    plain_nanos: int = 0


class BreakRow(msgspec.Struct, frozen=True, gc=False):
    """A cache break, as `replay/cache_breaks.py` explains it. `nanos` is what it cost beyond a cache read."""

    key: int
    agent: str
    number: int
    at: int | None
    model: str
    reason: str
    why: str
    lost: int
    idle: float
    nanos: int | None


class CallDetail(msgspec.Struct, frozen=True, gc=False):
    """One call of a thread: what it paid, and what filled its context. `kinds` are estimates that add up to
    `context`, in the order of `summarize.KINDS`. Without reported usage, `context` is an estimate too."""

    number: int
    at: int | None
    model: str
    context: int
    read: int
    written: int
    plain: int
    output: int
    nanos: int | None
    kinds: tuple[int, ...]
    is_reported: bool


class EditDetail(msgspec.Struct, frozen=True, gc=False):
    """Something that changed the view. `call` is the number of the next call; `uuid` names the record."""

    uuid: str
    kind: str
    at: int | None
    call: int
    said: str
    why: str
    saved: int = 0


class ThreadDetail(msgspec.Struct, frozen=True, gc=False):
    """One conversation: the main one (`agent` is empty), or that of a sub-agent."""

    agent: str
    calls: tuple[CallDetail, ...]
    edits: tuple[EditDetail, ...]
    # What a sub-agent was asked to do.
    title: str = ""


class SessionDetail(msgspec.Struct, frozen=True, gc=False):
    """Everything that the page of a session shows without reading the transcript."""

    threads: tuple[ThreadDetail, ...]
    breaks: tuple[BreakRow, ...]
    # 0 if it is not known; `window_why` says why it is this one, or why it is not known.
    window: int
    window_why: str
    auto: int
    notes: tuple[str, ...]


class SearchText(msgspec.Struct, frozen=True, gc=False):
    """A passage for the search over all sessions."""

    uuid: str
    at: int | None
    source: str
    tool: str
    text: str


class SessionSummary(msgspec.Struct, frozen=True, gc=False):
    """One session of a file."""

    path: str
    name: str
    format: str
    title: str
    project: str
    model: str
    started: int | None
    ended: int | None
    # How long the cache entry of the last call lives, in seconds; 0 if nothing was cached.
    ttl: int
    compactions: int
    peak: int
    context: int
    window: int
    # Contexts of the main conversation over time, thinned out for a small chart.
    spark: tuple[int, ...]
    agents: tuple[str, ...]
    calls: tuple[CallRow, ...]
    detail: SessionDetail
    texts: tuple[SearchText, ...]
    # Calls that the twin answered in a chat. They are not in `calls`: nobody paid for them.
    practice: int = 0


class FileSummary(msgspec.Struct, frozen=True, gc=False):
    """The sessions of a file, or why it has none."""

    path: str
    sessions: tuple[SessionSummary, ...] = ()
    unreadable: tuple[tuple[str, str], ...] = ()


# Times outside of this cannot be shown in every zone, and no session is from there.
_FIRST: Final = int(datetime(1971, 1, 1, tzinfo=UTC).timestamp())
_LAST: Final = int(datetime(9990, 1, 1, tzinfo=UTC).timestamp())


def to_epoch(moment: datetime | None) -> int | None:
    """Seconds since 1970; None for no time, and for one that cannot be true."""
    at = None if moment is None else int(moment.timestamp())
    return at if at is not None and _FIRST <= at < _LAST else None


def to_nanos(dollars: Decimal) -> int:
    return int((dollars * NANO).to_integral_value())


def to_dollars(nanos: int) -> Decimal:
    return Decimal(nanos) / NANO
