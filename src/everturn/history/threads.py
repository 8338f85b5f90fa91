"""Which records belong together: the live thread of a session, and its sidechains (TR-9).

A session file is a tree, not a list: rewinds leave abandoned branches, results of parallel calls are siblings
of the path to the newest record, a resumed session may repeat its history under a new root, and sub-agents
write to the same file. The live thread is the path from the newest message, or from a rewind after it, back
to its root, plus the records attached to that path that are not alternatives to it, in file order.

Links can be broken. A missing parent or a circular link is replaced by the record before it in the file, and
reported: a damaged link never hides what came before it (F62). The same holds for a line without the key of
its parent, in a file that says of other lines that they have none.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from everturn.history.edits import Compacted, Pinned, Rewound, Undone
from everturn.history.records import Record

ThreadIssueKind = Literal[
    "missing_parent",
    "late_parent",
    "cycle",
    "duplicate_uuid",
    "abandoned",
    "half_compaction",
    "lost_segment",
    "idle_undo",
]


class ThreadIssue(msgspec.Struct, frozen=True):
    """A problem with the links of a session, reported to the user."""

    kind: ThreadIssueKind
    what: str


class Thread(msgspec.Struct, frozen=True):
    """The records of one conversation, oldest first. `agent` is empty for the main one."""

    agent: str
    records: tuple[Record, ...]
    abandoned: tuple[Record, ...] = ()
    notes: tuple[ThreadIssue, ...] = ()


class Threads(msgspec.Struct, frozen=True):
    """A session: its main conversation and those of its sub-agents."""

    main: Thread
    sidechains: tuple[Thread, ...] = ()


def split_threads(records: Iterable[Record]) -> Threads:
    """Split the records of a session file into threads. A file with only sidechain records is the session of
    one agent.
    """
    records = list(records)
    names_roots = any(not record.parent and not record.unlinked for record in records)
    main: list[Record] = []
    sides: dict[str, list[Record]] = {}
    owner: dict[str, str] = {}
    newest = ""
    for record in records:
        if not record.sidechain:
            main.append(record)
            continue
        # Files written before agent ids existed: a sidechain is identified by its first record.
        named = record.parent or _logical_parent(record)
        name = record.agent or owner.get(named) or record.uuid
        # A record whose parent was lost begins no other one in the file of an agent.
        is_lost = record.unlinked and names_roots
        if (named or is_lost) and not main and name == record.uuid:
            name = newest or name
        newest = name
        owner[record.uuid] = name
        sides.setdefault(name, []).append(record)

    def thread(members: Sequence[Record], agent: str) -> Thread:
        notes: list[ThreadIssue] = []
        linked = _with_lost_links(members, notes) if names_roots else members
        return _live_thread(linked, agent, notes)

    found = tuple(thread(members, name) for name, members in sides.items())
    if not main and len(found) == 1:
        return Threads(found[0])
    return Threads(thread(main, ""), found)


def _with_lost_links(records: Sequence[Record], notes: list[ThreadIssue]) -> Sequence[Record]:
    """Each line whose link was lost, such as by a damaged key, continues the one before it. The first one and
    a boundary are roots. Only where roots are written as such: a program that leaves the key out for them
    would get the branch back that it has left."""
    found = list(records)
    lost: dict[str, str] = {}
    for at, record in enumerate(records):
        if not record.unlinked or record.parent or not at or record.is_boundary:
            continue
        if record.uuid not in lost:
            before = lost[record.uuid] = records[at - 1].uuid
            what = f"{record.uuid} does not say what it continues; it is read behind {before}"
            notes.append(ThreadIssue("missing_parent", what))
        # One that is in the file twice continues the same record both times.
        found[at] = msgspec.structs.replace(record, parent=lost[record.uuid])
    return found


def _live_thread(records: Sequence[Record], agent: str, notes: list[ThreadIssue]) -> Thread:
    links = _Links(records, notes)
    path = links.path_back_from(_newest_message(records, links.repeats | links.strays))
    # One alone happens in good files, when two lines are written at once. In a circle one is always late.
    if (late := links.count_late()) > 1 and not any(note.kind == "cycle" for note in notes):
        what = f"records that stand before the one they continue, so their order may be wrong: {late}"
        notes.append(ThreadIssue("late_parent", what))
    live = _with_what_hangs_on_it(records, path, links)
    abandoned = tuple(record for at, record in enumerate(records) if at not in live)
    left = (record for at, record in enumerate(records) if at not in live and at not in links.repeats)
    if lost := sum(record.kind in ("user", "assistant") for record in left):
        notes.append(
            ThreadIssue("abandoned", f"messages on abandoned branches (rewind, resume, fork): {lost}")
        )
    notes.extend(_half_compactions(records, abandoned))
    kept = tuple(record for at, record in enumerate(records) if at in live)
    return Thread(agent, kept, abandoned, tuple(notes))


def _half_compactions(records: Sequence[Record], abandoned: Sequence[Record]) -> Iterable[ThreadIssue]:
    """Boundaries without a summary: the compaction was interrupted (TR-10)."""
    summarized = {record.parent for record in records if record.compact_summary}
    for record in abandoned:
        if record.is_boundary and record.uuid not in summarized:
            what = f"boundary {record.uuid} has no summary; the view before it stays in force"
            yield ThreadIssue("half_compaction", what)


def _newest_message(records: Sequence[Record], passed_over: set[int]) -> int:
    for at in range(len(records) - 1, -1, -1):
        is_message = records[at].kind in ("user", "assistant")
        if (is_message or isinstance(records[at].edit, Rewound)) and at not in passed_over:
            return at
    return len(records) - 1


class _KeptSegments:
    """Which records continue a compaction instead of the record they name: those that name the end of a
    segment that the compaction kept (TR-9).

    Both mappings are from that end to the anchor of the segment and the position of its boundary. A boundary
    takes effect with its summary (TR-10). Without one, records that name the end of its segment continue the
    record itself: the boundary may be on a branch that leaves out everything before it.
    """

    def __init__(self) -> None:
        self.waiting: dict[str, tuple[str, int]] = {}
        self.in_force: dict[str, tuple[str, int]] = {}

    def find(self, record: Record) -> tuple[str, int]:
        """The uuid that this record continues, and the position to use if that uuid is not in the file."""
        found = self.in_force.get(record.parent)
        if record.compact_summary:
            found = self.waiting.get(record.parent, found)
        return found or (record.parent, -1)

    def summarized(self, boundary: int, name: str) -> None:
        """The summary of this boundary has come. If the segment stands before the summary (its anchor is the
        boundary), the compaction is continued behind its summary. What names the end of that segment, such as
        a rewind, continues that record.
        """
        for tail, kept in tuple(self.waiting.items()):
            if kept[1] == boundary:
                del self.waiting[tail]
                if kept[0] != name:
                    self.in_force[tail] = kept

    def drop(self, boundary: int | None) -> None:
        """The compaction was undone: the records it kept have their own place in the tree again."""
        for segments in (self.waiting, self.in_force):
            for tail, kept in tuple(segments.items()):
                if kept[1] == boundary:
                    del segments[tail]


class _Links:
    """The parent of each record by position, with broken links repaired."""

    def __init__(self, records: Sequence[Record], notes: list[ThreadIssue]) -> None:
        self.records = records
        self.notes = notes
        self.places: dict[str, int] = {}
        # Exact repetitions of an earlier record with the same uuid. They add nothing, wherever they are.
        self.repeats: set[int] = set()
        # Summaries whose boundary was lost in a crash: everything they summarize is still visible.
        self.strays: set[int] = set()
        repeated = 0
        self.parents: list[int] = []
        # For boundaries that summarize a kept segment at the end of their view: the compaction that kept it.
        self.logical: dict[int, int] = {}
        segments = _KeptSegments()
        for at, record in enumerate(records):
            # A parent is looked up among the earlier records. With equal uuids the newest wins, unless it
            # only repeats an older one. A record that continues a kept segment continues the compaction
            # (TR-9).
            anchor, boundary = segments.find(record)
            self.parents.append(self.places.get(anchor, boundary))
            if record.compact_summary and record.parent and at and self.parents[at] < 0:
                self.strays.add(at)
            if (kept := segments.in_force.get(_logical_parent(record))) is not None:
                self.logical[at] = self.places.get(*kept)
            if isinstance(record.edit, Compacted) and record.edit.kept:
                segments.waiting[record.edit.kept.tail] = (record.edit.kept.anchor, at)
            elif isinstance(record.edit, Undone):
                segments.drop(self.places.get(record.edit.boundary))
            elif record.compact_summary and (boundary := self._boundary_of(at)) >= 0:
                segments.summarized(boundary, records[boundary].uuid)
            if (earlier := self.places.get(record.uuid)) is not None:
                repeated += 1
                if (records[earlier].parent, records[earlier].blocks) == (record.parent, record.blocks):
                    self.repeats.add(at)
                    continue
                # A different record with the uuid of a kept one: records that continue that uuid continue
                # this one.
                segments.in_force.pop(record.uuid, None)
                segments.waiting.pop(record.uuid, None)
            self.places[record.uuid] = at
        if repeated:
            notes.append(
                ThreadIssue("duplicate_uuid", f"records with the uuid of an earlier one: {repeated}")
            )

    def _boundary_of(self, summary: int) -> int:
        """The boundary that a summary completes; -1 if it has none."""
        at = self.parents[summary]
        while at >= 0 and not self.records[at].is_boundary:
            at = -1 if self.records[at].kind in ("user", "assistant") else self.parents[at]
        return at

    def count_late(self) -> int:
        """Records whose parent comes after them in the file."""
        return sum(self.places.get(record.parent, -1) > at for at, record in enumerate(self.records))

    def path_back_from(self, tip: int) -> set[int]:
        path: set[int] = set()
        at = tip
        while at >= 0:
            path.add(at)
            at = self._before(at, path)
        return path

    def _before(self, at: int, path: set[int]) -> int:
        """The record that this one continues: its parent, or the replacement for a broken link."""
        record = self.records[at]
        named = record.parent or _logical_parent(record)
        if not named:
            # The root of a boundary is not an end: what it summarized came directly before it.
            return at - 1 if record.is_boundary else -1
        parent = self.parents[at] if record.parent else self.logical.get(at, -1)
        if parent < 0:
            parent = self.places.get(named, -1)
        if parent < 0:
            if not record.is_boundary:
                what = f"{record.uuid} continues {named}, which is not in the file"
                self.notes.append(ThreadIssue("missing_parent", what))
            return at - 1
        if parent in path:
            self.notes.append(ThreadIssue("cycle", f"{record.uuid} is linked in a circle"))
            return self._newest_outside(at, path)
        return parent

    def _newest_outside(self, at: int, path: set[int]) -> int:
        while at >= 0 and at in path:
            at -= 1
        return at


def _logical_parent(record: Record) -> str:
    return record.edit.logical_parent if isinstance(record.edit, Compacted) else ""


def _with_what_hangs_on_it(records: Sequence[Record], path: set[int], links: _Links) -> set[int]:
    """Add records that belong to the path although no link leads back to them: parts of a split reply,
    results of parallel calls, attachments and bookkeeping.
    """
    live = set(path)
    messages = {records[at].message_id for at in path} - {""}
    calls = {block.call for at in path for block in records[at].blocks if block.is_call}
    answered = {block.call for at in path for block in records[at].blocks if block.is_result}
    # What hangs on a rewind was done on a branch that nothing was said on, and was left. Its pins hold.
    left: set[int] = set()
    for at, record in enumerate(records):
        if at in live or at in links.repeats:
            continue
        parent = links.parents[at]
        if parent in left or (parent in live and isinstance(record.edit, Rewound)):
            if isinstance(record.edit, Pinned):
                live.add(at)
            if record.kind in ("attachment", "system", "progress"):
                left.add(at)
            continue
        if parent not in live:
            continue
        if record.kind == "assistant" and record.message_id in messages:
            calls.update(block.call for block in record.blocks if block.is_call)
            live.add(at)
        elif record.kind == "user":
            results = {block.call for block in record.blocks if block.is_result}
            if results & calls - answered:
                answered |= results
                live.add(at)
        elif record.kind in ("attachment", "system", "progress"):
            live.add(at)
    return live - _on_the_way_to_what_was_left(records, path, live, links)


def _on_the_way_to_what_was_left(
    records: Sequence[Record], path: set[int], live: set[int], links: _Links
) -> set[int]:
    """Attachments and bookkeeping that lead only to abandoned messages: they belong to that branch."""
    ways: set[int] = set()
    needed: set[int] = set()
    for at in range(len(records) - 1, -1, -1):
        is_message = records[at].kind in ("user", "assistant")
        # A result that only messages left behind continue is left with them, and so is what leads to it.
        stays = is_message and at in live and at not in ways
        if at in path or stays or at in needed:
            needed.add(links.parents[at])
        elif is_message or at in ways:
            ways.add(links.parents[at])
    return ways - needed - path
