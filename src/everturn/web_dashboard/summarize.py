"""Reads a file once and makes what the dashboard keeps of it (DB-1, DB-11).

This is the only expensive step. It runs in a process of its own, one file at a time, so that memory is
bounded by the largest session and pages stay quick meanwhile.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Final

from everturn.catalog.names import find_thread_title
from everturn.catalog.practice import describe_practice
from everturn.history.records import Record, record_time, reported_usage
from everturn.measure.model_table import find_model, model_or_default
from everturn.measure.prefix_cache import SECONDS
from everturn.measure.thresholds import compute_thresholds
from everturn.replay.audit import project_of
from everturn.replay.cache_breaks import CacheBreak, find_cache_breaks
from everturn.replay.call_ledger import (
    BilledCall,
    CallTotals,
    find_practice,
    iter_billed_calls,
    with_response_keys,
)
from everturn.replay.sessions import ReplaySession, Unreadable, read_sessions
from everturn.session.recall.passages import iter_passages
from everturn.session.recorded import LONG_SUFFIX, ContextWindow, infer_window
from everturn.web_dashboard.threads import describe_thread
from everturn.web_dashboard.values import (
    BreakRow,
    CallRow,
    FileSummary,
    SearchText,
    SessionDetail,
    SessionSummary,
    ThreadDetail,
    to_epoch,
    to_nanos,
)

# A small chart has about this many pixels.
SPARK_POINTS: Final = 64
# Beyond this offset, the text of a block is found by `everturn recall` only: one log of a build must not make
# the index larger than all conversations together.
MAX_SEARCHED_CHARACTERS: Final = 16_000
# A call with more tokens is a mistake of the file. SQLite adds up numbers of 64 bits, and one such call would
# make the sum of all sessions impossible.
MAX_CALL_TOKENS: Final = 100_000_000


def summarize_file(path: str) -> FileSummary:
    """The sessions of a file with the sub-agents they started. Never raises for what a file holds."""
    done: list[SessionSummary] = []
    failed: list[tuple[str, str]] = []
    for found in read_sessions([Path(path)]):
        if isinstance(found, Unreadable):
            failed.append((found.path, found.why))
            continue
        try:
            summary = summarize(found)
            if wrong := _find_impossible(summary.calls):
                failed.append((found.path, wrong))
            else:
                done.append(summary)
        except Exception as problem:
            # Files come from anywhere. An unexpected error in one must not stop the others.
            failed.append((found.path, f"it cannot be measured ({type(problem).__name__}: {problem})"))
    return FileSummary(path, tuple(done), tuple(failed))


def _find_impossible(calls: Iterable[CallRow]) -> str:
    """Why these calls cannot be added up with others; "" if they can."""
    for call in calls:
        for tokens in (call.read, call.write_5m, call.write_1h, call.plain, call.output):
            if not 0 <= tokens <= MAX_CALL_TOKENS:
                return f"it reports {tokens:,} tokens in one call"
    return ""


def summarize(session: ReplaySession) -> SessionSummary:
    calls, prices = _calls(session)
    threads = tuple(describe_thread(thread, prices) for thread in session.threads)
    records = session.threads[0].records
    window, auto = _window(session)
    main = threads[0].calls
    practice = find_practice(session)
    breaks = tuple(
        _break_row(each) for each in find_cache_breaks(session).breaks if each.message not in practice
    )
    notes = (*session.notes, *((f"{describe_practice(len(practice))}.",) if practice else ()))
    times = [at for each in (session.threads[0].records, session.threads[-1].records) for at in _ends(each)]
    return SessionSummary(
        path=session.path,
        name=session.name,
        format=session.format,
        title=find_thread_title(session.threads[0]) or session.name,
        project=project_of(session),
        model=session.model,
        started=min(times, default=None),
        ended=max(times, default=None),
        ttl=_ttl(records),
        compactions=sum(edit.kind == "compaction" for each in threads for edit in each.edits),
        peak=max((call.context for each in threads for call in each.calls), default=0),
        context=main[-1].context if main else 0,
        window=window.tokens,
        spark=thin([call.context for call in main]),
        agents=tuple(thread.agent for thread in session.threads if thread.agent),
        calls=calls,
        detail=SessionDetail(_numbered(threads), breaks, window.tokens, window.why, auto, notes),
        texts=tuple(_texts(session)),
        practice=len(practice),
    )


def thin(values: Sequence[int], most: int = SPARK_POINTS) -> tuple[int, ...]:
    """At most that many values; of each group the largest stays, so that peaks are seen."""
    if len(values) <= most:
        return tuple(values)
    edges = [round(at * len(values) / most) for at in range(most + 1)]
    return tuple(max(values[start:end]) for start, end in pairwise(edges))


def _numbered(threads: tuple[ThreadDetail, ...]) -> tuple[ThreadDetail, ...]:
    """The main conversation first, then sub-agents in the order in which they began."""
    sides = sorted(threads[1:], key=lambda each: each.calls[0].at or 0 if each.calls else 0)
    return (*threads[:1], *sides)


def _calls(session: ReplaySession) -> tuple[tuple[CallRow, ...], dict[str, int | None]]:
    """All responses, and their prices by message id."""
    times = dict(_times(session))
    rows: list[CallRow] = []
    prices: dict[str, int | None] = {}
    for paid in iter_billed_calls(session, ""):
        row = _call_row(paid, times.get(paid.key))
        rows.append(row)
        prices.setdefault(paid.key.partition(" ")[0], row.nanos)
    return tuple(rows), prices


def _call_row(paid: BilledCall, at: int | None) -> CallRow:
    sums = CallTotals()
    sums.add(paid)
    tokens, dollars = sums.tokens, sums.dollars_by_kind
    writes = (dollars.get(kind, Decimal(0)) for kind in ("cache_write_5m", "cache_write_1h"))
    return CallRow(
        key=make_key(paid.key),
        at=at,
        model=paid.model,
        read=tokens["cache_read"],
        write_5m=tokens["cache_write_5m"],
        write_1h=tokens["cache_write_1h"],
        plain=tokens["input"],
        output=tokens["output"],
        nanos=None if sums.unpriced else to_nanos(sums.dollars),
        read_nanos=to_nanos(dollars.get("cache_read", Decimal(0))),
        write_nanos=to_nanos(sum(writes, Decimal(0))),
        plain_nanos=to_nanos(dollars.get("input", Decimal(0))),
    )


def make_key(text: str) -> int:
    """A key of SQLite's own kind: a signed number of 64 bits."""
    digest = blake2b(text.encode(errors="surrogateescape"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def _times(session: ReplaySession) -> Iterator[tuple[str, int]]:
    """When each response began, by the keys of `iter_billed_calls`; the first record of a response counts."""
    seen: set[str] = set()
    for record, key in with_response_keys(session):
        at = epoch_of(record)
        if key and key not in seen and at is not None:
            seen.add(key)
            yield key, at


def epoch_of(record: Record) -> int | None:
    return to_epoch(record_time(record))


def _ends(records: Sequence[Record]) -> list[int]:
    """The first and the last time in these records."""
    first = next((at for record in records if (at := epoch_of(record)) is not None), None)
    last = next((at for record in reversed(records) if (at := epoch_of(record)) is not None), None)
    return [at for at in (first, last) if at is not None]


def _ttl(records: Sequence[Record]) -> int:
    """The TTL of the entry that the last call left; 0 if it left none."""
    for record in reversed(records):
        if usage := reported_usage(record):
            if not usage.cache_creation_input_tokens + usage.cache_read_input_tokens:
                return 0
            hour = usage.cache_creation and usage.cache_creation.ephemeral_1h_input_tokens
            return round(SECONDS["1h" if hour else "5m"])
    return 0


def _window(session: ReplaySession) -> tuple[ContextWindow, int]:
    """The window, and the size at which a compaction begins; both 0 if they are not known."""
    if session.window:
        return ContextWindow(session.window, "given", "as the file says"), session.window
    plain = session.model.replace(LONG_SUFFIX, "")
    known = find_model(plain)
    if known is None and "claude" not in plain:
        # The table has Claude models only. Windows of others differ by a factor of ten.
        name = f"{session.model} is not in the table of models" if plain else "no reply names a model"
        return ContextWindow(0, "guess", name), 0
    model = known or model_or_default(plain).model
    guess = "" if known else f"{session.model} is not in the table of models"
    window = infer_window(session.threads[0].records, session.model, model, guess, None)
    return window, compute_thresholds(window.tokens, model.max_output).auto


def _break_row(each: CacheBreak) -> BreakRow:
    return BreakRow(
        key=make_key(f"{each.message} {each.at}"),
        agent=each.agent,
        number=each.number,
        at=_epoch(each.at),
        model=each.model,
        reason=each.reason,
        why=each.why,
        lost=each.lost,
        idle=each.idle,
        nanos=None if each.dollars is None else to_nanos(each.dollars),
    )


def _epoch(text: str) -> int | None:
    try:
        return to_epoch(datetime.fromisoformat(text))
    except ValueError:
        return None


def _texts(session: ReplaySession) -> Iterator[SearchText]:
    tools: dict[str, str] = {}
    for thread in session.threads:
        for record in (*thread.records, *thread.abandoned):
            tools.update((block.call, block.tool) for block in record.blocks if block.is_call)
            for passage in iter_passages(record, lambda call: tools.get(call, "")):
                if passage.start < MAX_SEARCHED_CHARACTERS:
                    yield SearchText(
                        record.uuid, epoch_of(record), passage.source, passage.tool, passage.text
                    )
