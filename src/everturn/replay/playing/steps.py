"""A recorded thread as steps: what came before each response, and the response (RP-2).

Except under the policy `recorded`, boundaries, summaries and clearings of the recording are left out: they
are edits of the recorded policy, not history. A response is one step, however many records it has.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

import msgspec

from everturn.history.edits import Pinned
from everturn.history.records import Record, Usage, record_time, reported_usage
from everturn.history.threads import Thread

# For recordings without times: the start, and the time between two calls (shorter than any TTL).
START: Final = datetime(2026, 1, 1, tzinfo=UTC)
DEFAULT_GAP: Final = timedelta(seconds=30)

RecordedEdits = Literal["as recorded", "left out"]


class ReplayStep(msgspec.Struct, frozen=True):
    """One call. `usage` is the reported one, all zero if nothing was reported."""

    number: int
    at: datetime
    model: str
    before: tuple[Record, ...]
    reply: tuple[Record, ...]
    usage: Usage
    # Whether the recording cleared or compacted something since the previous call.
    is_edited: bool

    @property
    def context(self) -> int:
        return self.usage.context


class ReplayThread(msgspec.Struct, frozen=True):
    """A thread: its calls, and the records after the last one."""

    name: str
    calls: tuple[ReplayStep, ...]
    after: tuple[Record, ...] = ()


def build_replay_thread(thread: Thread, edits: RecordedEdits) -> ReplayThread:
    keys = _keys(thread.records)
    pieces: dict[str, list[Record]] = {}
    for record, key in zip(thread.records, keys, strict=True):
        pieces.setdefault(key, []).append(record)
    before: list[Record] = []
    found: list[ReplayStep] = []
    seen: set[str] = set()
    now: datetime | None = None
    is_edited = False
    for record, key in zip(thread.records, keys, strict=True):
        is_edited = is_edited or record.is_boundary or not isinstance(record.edit, Pinned | None)
        if not key:
            before.extend([record] if edits == "as recorded" or _is_history(record) else [])
        elif key not in seen:
            seen.add(key)
            now = _time_of(record, now)
            found.append(_make_step(len(found) + 1, now, before, pieces[key], is_edited))
            before, is_edited = [], False
    return ReplayThread(thread.agent or "main", tuple(found), tuple(before))


def _time_of(record: Record, last: datetime | None) -> datetime:
    """When a call was made; never before the previous one."""
    if last is None:
        return record_time(record) or START
    return max(last, record_time(record) or last + DEFAULT_GAP)


def _make_step(
    number: int, at: datetime, before: list[Record], reply: list[Record], is_edited: bool
) -> ReplayStep:
    usages = [usage for record in reply if (usage := reported_usage(record))]
    usage = usages[-1] if usages else Usage()
    model = next((record.reply.model for record in reply if record.reply and record.reply.model), "")
    return ReplayStep(number, at, model, tuple(before), tuple(reply), usage, is_edited)


def _keys(records: Sequence[Record]) -> list[str]:
    """A key for each record that is equal for the records of one response; "" for records without a model.

    If responses have no id, consecutive assistant records are one response.
    """
    found: list[str] = []
    running = ""
    for record in records:
        said = record.kind == "assistant" and not record.api_error
        if not said or (record.reply and record.reply.is_synthetic):
            running = running if record.kind in ("system", "progress") else ""
            found.append("")
            continue
        running = "" if record.message_id else running or record.uuid
        found.append(record.message_id or running)
    return found


def _is_history(record: Record) -> bool:
    return record.edit is None and not (record.is_boundary or record.compact_summary)


def all_records(thread: ReplayThread) -> Iterator[Record]:
    for step in thread.calls:
        yield from step.before
        yield from step.reply
    yield from thread.after


def models_of(threads: Iterable[ReplayThread]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(step.model for thread in threads for step in thread.calls))
