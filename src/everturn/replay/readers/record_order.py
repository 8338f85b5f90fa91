"""Makes sense of session files whose lines are not where their writer put them.

Files are joined, sorted and filtered by other programs. A reader of recordings can repair that, because
nobody appends to what it has read. Opening a session to continue it cannot: `history/threads.py` reads lines
as they are.

- Two sessions in one file are two conversations, unless a record of one continues a record of the other: a
  resumed session may have a new id.
- Records that stand before the one they continue are put behind it, by time.
- Records without any link continue each other in the order of the file.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from heapq import heapify, heappop, heappush
from typing import Final

import msgspec

from everturn.history.edits import Compacted
from everturn.history.records import Record, record_time

# One late record alone happens in good files, when two lines are written at once.
_MIN_LATE: Final = 2
_NO_TIME: Final = datetime.min.replace(tzinfo=UTC)


class OrderedRecords(msgspec.Struct, frozen=True):
    """Records in the order in which they were written, and what had to be done for it; "" if nothing."""

    records: tuple[Record, ...]
    note: str = ""


def separate_sessions(records: Sequence[Record]) -> dict[str, tuple[Record, ...]]:
    """The records of each session in a file, by session id, in the order of their first records."""
    owners = _Owners(records)
    found: dict[str, list[Record]] = {}
    for record, owner in zip(records, owners.by_record, strict=True):
        found.setdefault(owners.joined(owner), []).append(record)
    return {owner: tuple(members) for owner, members in found.items()}


class _Owners:
    """The session of each record. Sessions that continue each other are joined."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._joined: dict[str, str] = {}
        self.by_record: list[str] = []
        main = {record.session for record in records if record.session and not record.sidechain}
        by_uuid: dict[str, str] = {}
        for record in records:
            if record.session in main:
                by_uuid.setdefault(record.uuid, record.session)
        last = next(iter(by_uuid.values()), "")
        for record in records:
            # Records without a session, and sub-agents with one of their own, belong to the session of the
            # record that they continue, else to the one that was writing.
            own = record.session if record.session in main else by_uuid.get(record.parent, last)
            by_uuid.setdefault(record.uuid, own)
            self.by_record.append(own)
            last = own
        for record, owner in zip(records, self.by_record, strict=True):
            for named in _continued(record):
                self._join(owner, by_uuid.get(named, owner))

    def joined(self, owner: str) -> str:
        while owner in self._joined:
            owner = self._joined[owner]
        return owner

    def _join(self, one: str, other: str) -> None:
        first, second = self.joined(one), self.joined(other)
        if first != second:
            self._joined[second] = first


def restore_order(records: Sequence[Record]) -> OrderedRecords:
    """The records, each behind the one that it continues."""
    if not any(record.parent for record in records):
        return _chained(records)
    places: dict[str, int] = {}
    for at, record in enumerate(records):
        places.setdefault(record.uuid, at)
    parents = [_parent_place(record, places) for record in records]
    late = sum(parent > at for at, parent in enumerate(parents))
    if late < _MIN_LATE:
        return OrderedRecords(tuple(records))
    order = _sort(records, parents)
    if len(order) < len(records):
        # A circle: there is no order in which each comes behind the one it names.
        return OrderedRecords(tuple(records))
    note = f"lines that stood before the one they continue, and were put in order by links and times: {late}"
    return OrderedRecords(tuple(records[at] for at in order), note)


def _chained(records: Sequence[Record]) -> OrderedRecords:
    """A list without links as a conversation: each record continues the one before it in the file."""
    if sum(record.kind in ("user", "assistant") for record in records) < 2:
        return OrderedRecords(tuple(records))
    last: dict[str, str] = {}
    found: list[Record] = []
    for record in records:
        thread = f"agent {record.agent}" if record.sidechain else ""
        # A boundary begins a new root; what it summarized is the record before it.
        parent = "" if record.is_boundary else last.get(thread, "")
        found.append(msgspec.structs.replace(record, parent=parent))
        last[thread] = record.uuid
    return OrderedRecords(
        tuple(found), "no line names the one before it; they are read in the order of the file"
    )


def _sort(records: Sequence[Record], parents: Sequence[int]) -> list[int]:
    """The oldest record first of those whose parent was already there. Records in a circle are left out."""
    children: list[list[int]] = [[] for _ in records]
    times = [record_time(record) for record in records]
    ready: list[tuple[datetime, int]] = []
    for at, parent in enumerate(parents):
        if parent < 0 or parent == at:
            ready.append((times[at] or _NO_TIME, at))
        else:
            children[parent].append(at)
    heapify(ready)
    order: list[int] = []
    while ready:
        now, at = heappop(ready)
        order.append(at)
        for child in children[at]:
            heappush(ready, (max(now, times[child] or now), child))
    return order


def _parent_place(record: Record, places: dict[str, int]) -> int:
    return max((places[named] for named in _continued(record) if named in places), default=-1)


def _continued(record: Record) -> Iterable[str]:
    """The uuid that a record continues. A boundary has no parent, but names what it summarized."""
    logical = record.edit.logical_parent if isinstance(record.edit, Compacted) else ""
    return (named for named in (record.parent or logical,) if named)
