"""The log and its view: the log only grows, and what the model sees is computed from it (TR-5, TR-9).

Appending costs time in proportion to the record, not to the length of the log. Only a compaction, an undo or
a trim replaces the view, and those are rare. A boundary takes effect when its summary arrives, not before: a
compaction interrupted by a crash leaves the old view in place (TR-10).
"""

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Literal, overload

import msgspec

from everturn.history.edits import Cleared, Compacted, Offloaded, Pinned, Rewound, Trimmed, Undone
from everturn.history.records import Record
from everturn.history.threads import ThreadIssue

# The effect of an append on the view: one record was added to it, or it was replaced as a whole.
ViewChange = Literal["extended", "replaced"]


class RecordPrefix(Sequence[Record]):
    """The first records of a growing list. It does not change when the list grows, and copies nothing."""

    __slots__ = ("_items", "_stop")

    def __init__(self, items: list[Record], stop: int) -> None:
        self._items = items
        self._stop = stop

    def __len__(self) -> int:
        return self._stop

    @overload
    def __getitem__(self, at: int) -> Record: ...
    @overload
    def __getitem__(self, at: slice) -> list[Record]: ...
    def __getitem__(self, at: int | slice) -> Record | list[Record]:
        if isinstance(at, slice):
            return [self._items[i] for i in range(*at.indices(self._stop))]
        if not -self._stop <= at < self._stop:
            raise IndexError(f"record index {at} is out of range: the view has {self._stop} records")
        return self._items[at % self._stop]

    def __iter__(self) -> Iterator[Record]:
        return islice(self._items, self._stop)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list[object](other)  # type: ignore[arg-type]

    __hash__ = None  # type: ignore[assignment]


class View(msgspec.Struct, frozen=True):
    """What the model can still see: the records since the last boundary, and which results are hidden.

    `stale` holds the uuids of records kept from before the boundary: their usage refers to an older, larger
    context. `shrunk` holds the uuids of replies made under a compaction that was undone since: their usage
    refers to a smaller one. `cleared` and `offloaded` map a call id to the edit that hid its result.
    """

    records: Sequence[Record]
    cleared: Mapping[str, Cleared]
    offloaded: Mapping[str, Offloaded] = {}
    stale: frozenset[str] = frozenset()
    pins: tuple[Pinned, ...] = ()
    shrunk: frozenset[str] = frozenset()

    @property
    def boundary(self) -> Record | None:
        first = self.records[0] if self.records else None
        return first if first is not None and first.is_boundary else None


class _Past(msgspec.Struct):
    """A view that a compaction replaced, kept so that an undo can restore it."""

    boundary: str
    shown: list[Record]
    stale: frozenset[str]
    shrunk: frozenset[str]
    hidden: set[str]


class Log:
    """All records of one conversation, and the current view of them."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.records: list[Record] = []
        self.notes: list[ThreadIssue] = []
        # The record that the next one continues: the newest message, or a record attached to it. The last
        # line of a file may continue an older record; continuing from that line would leave out everything
        # recorded since. A rewind is meant to: what comes next continues the rewind, not something else that
        # is attached to the same message and may be the end of a segment that a later compaction kept.
        self.tip: Record | None = None
        self._shown: list[Record] = []
        self._stale: frozenset[str] = frozenset()
        self._shrunk: frozenset[str] = frozenset()
        self._cleared: dict[str, Cleared] = {}
        self._offloaded: dict[str, Offloaded] = {}
        self._pins: tuple[Pinned, ...] = ()
        self._pending: Record | None = None
        self._pending_at = 0
        self._past: list[_Past] = []
        for record in records:
            self.append(record)

    @property
    def view(self) -> View:
        shown = RecordPrefix(self._shown, len(self._shown))
        return View(shown, self._cleared, self._offloaded, self._stale, self._pins, self._shrunk)

    @property
    def is_compacting(self) -> bool:
        """Whether a boundary waits for its summary."""
        return self._pending is not None

    @property
    def views_before(self) -> tuple[View, ...]:
        """The views that compactions replaced, oldest first."""
        return tuple(View(past.shown, self._cleared, self._offloaded, past.stale) for past in self._past)

    def copy(self) -> "Log":
        """A log that has the same records and goes on by itself."""
        made = copy.copy(self)
        made.records, made.notes = list(self.records), list(self.notes)
        made._shown, made._past = list(self._shown), list(self._past)
        return made

    def append(self, record: Record) -> ViewChange:
        self.records.append(record)
        is_message = record.kind in ("user", "assistant") or isinstance(record.edit, Rewound)
        if self.tip is None or is_message or record.parent == self.tip.uuid:
            self.tip = record
        if self._pending is not None and record.kind in ("user", "assistant"):
            return self._finish_compaction(self._pending, record)
        match record.edit:
            case Compacted():
                self._give_up_pending()
                self._pending, self._pending_at = record, len(self._shown)
                return "extended"
            case Undone(boundary=boundary):
                return self._undo(boundary)
            case Trimmed(before=before):
                return self._trim(before, record)
            case Cleared(calls=calls):
                # A new mapping: views handed out earlier must not change.
                self._cleared = self._cleared | dict.fromkeys(calls, record.edit)
            case Offloaded(call=call):
                self._offloaded = self._offloaded | {call: record.edit}
            case Pinned():
                self._pins = (*self._pins, record.edit)
            case _:
                pass
        self._shown.append(record)
        return "extended"

    def _trim(self, before: str, record: Record) -> ViewChange:
        self._give_up_pending()
        at = next((at for at, shown in enumerate(self._shown) if shown.uuid == before), 0)
        kept = self._shown[at:]
        names = frozenset(each.uuid for each in kept)
        self._leave(record.uuid, {record.uuid, *names})
        self._stale = names
        self._shown = [record, *kept]
        return "replaced"

    def _finish_compaction(self, boundary: Record, record: Record) -> ViewChange:
        if not record.compact_summary:
            self._give_up_pending()
            self._shown.append(record)
            return "extended"
        self._pending = None
        kept = self._kept(boundary)
        # There may be records between a boundary and its summary; the view is everything after the boundary.
        summary = [*self._shown[self._pending_at :], record]
        hidden = {boundary.uuid} | {each.uuid for each in (*summary, *kept)}
        self._leave(boundary.uuid, hidden)
        self._stale = frozenset(each.uuid for each in kept)
        anchored_on_boundary = _anchor(boundary) == boundary.uuid
        self._shown = [boundary, *kept, *summary] if anchored_on_boundary else [boundary, *summary, *kept]
        return "replaced"

    def _leave(self, boundary: str, hidden: set[str]) -> None:
        self._past.append(_Past(boundary, self._shown, self._stale, self._shrunk, hidden))
        self._shrunk = frozenset()

    def _give_up_pending(self) -> None:
        if self._pending is not None:
            what = f"boundary {self._pending.uuid} has no summary; the view before it stays in force"
            self.notes.append(ThreadIssue("half_compaction", what))
            self._pending = None

    def _kept(self, boundary: Record) -> list[Record]:
        """The kept segment, from head to tail, as it was in the view being replaced."""
        segment = boundary.edit.kept if isinstance(boundary.edit, Compacted) else None
        if segment is None:
            return []
        places = {record.uuid: at for at, record in enumerate(self._shown[: self._pending_at])}
        head, tail = places.get(segment.head, -1), places.get(segment.tail, -1)
        if not 0 <= head <= tail:
            what = f"boundary {boundary.uuid} keeps {segment.head}..{segment.tail}, which is not in the view"
            self.notes.append(ThreadIssue("lost_segment", what))
            return []
        return self._shown[head : tail + 1]

    def _undo(self, boundary: str) -> ViewChange:
        """Undo the last compaction. What was said since stays, after the records that are restored."""
        self._give_up_pending()
        if not self._past or self._past[-1].boundary != boundary:
            what = f"{boundary} is not the boundary in force; nothing was undone"
            self.notes.append(ThreadIssue("idle_undo", what))
            return "extended"
        past = self._past.pop()
        since = [record for record in self._shown if record.uuid not in past.hidden]
        said = next((at for at, record in enumerate(since) if record.kind != "attachment"), len(since))
        self._shown = [*past.shown, *since[said:]]
        self._stale = past.stale
        self._shrunk = past.shrunk | {record.uuid for record in since if record.kind == "assistant"}
        return "replaced"


def _anchor(boundary: Record) -> str:
    edit = boundary.edit
    return edit.kept.anchor if isinstance(edit, Compacted) and edit.kept else ""
