"""Expand compactions: the records that each summary replaced (BY-4, TR-8).

The transcript still has every record. Replaying the log from its beginning shows which of them each
compaction removed from the view.
"""

from collections.abc import Sequence

import msgspec

from everturn.errors import InputError
from everturn.history.log import Log, View
from everturn.history.records import Record


class ExpandedCompaction(msgspec.Struct, frozen=True, kw_only=True):
    """One compaction. `replaced` are the records it removed from the view. An incomplete compaction has no
    summary and replaced nothing. `is_undone`: a later record undid it."""

    number: int
    boundary: Record
    summary: Record | None
    replaced: tuple[Record, ...] = ()
    is_undone: bool = False


def expand_compactions(records: Sequence[Record]) -> tuple[ExpandedCompaction, ...]:
    """The compactions of a conversation, oldest first."""
    log = Log()
    found: dict[str, ExpandedCompaction] = {}
    before = log.view
    for record in records:
        change = log.append(record)
        now = log.view
        if record.is_boundary:
            found[record.uuid] = ExpandedCompaction(number=len(found) + 1, boundary=record, summary=None)
        if change == "replaced":
            _note(found, record, before, now)
        before = now
    return tuple(found.values())


def _note(found: dict[str, ExpandedCompaction], record: Record, before: View, now: View) -> None:
    """Handle a changed view: a summary became active, or a compaction was undone."""
    if record.compact_summary and now.boundary is not None:
        shown = {each.uuid for each in now.records}
        replaced = tuple(each for each in before.records if each.uuid not in shown)
        compaction = found[now.boundary.uuid]
        found[now.boundary.uuid] = msgspec.structs.replace(compaction, summary=record, replaced=replaced)
    elif before.boundary is not None and before.boundary != now.boundary:
        compaction = found[before.boundary.uuid]
        found[before.boundary.uuid] = msgspec.structs.replace(compaction, is_undone=True)


def select_compaction(every: Sequence[ExpandedCompaction], name: str) -> ExpandedCompaction:
    """Select a compaction by its number, or by a prefix of its boundary's uuid."""
    near = [each for each in every if str(each.number) == name]
    near = near or [each for each in every if each.boundary.uuid.startswith(name)]
    if len(near) == 1:
        return near[0]
    if near:
        raise InputError(f"{len(near)} compactions have ids that begin with {name!r}; give a longer prefix.")
    if not every:
        raise InputError("This session was never compacted: there is nothing to expand.")
    raise InputError(f"No compaction {name!r} found; this session has 1 to {len(every)}.")
