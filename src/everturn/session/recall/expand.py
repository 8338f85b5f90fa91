"""What a compaction replaced: each summary, expanded into the records that it stands for (BY-4, TR-8).

Nothing has to be restored for that: the transcript still has every record, and the log, followed from its
beginning, tells which of them each boundary put out of sight.
"""

from collections.abc import Sequence

import msgspec

from everturn.errors import InputError
from everturn.history.log import Log, View
from everturn.history.records import Record


class ExpandedCompaction(msgspec.Struct, frozen=True, kw_only=True):
    """One compaction. `replaced` is what it put out of sight; a half one has no summary, and replaced
    nothing. `is_undone`: a later record took it back."""

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
    """The view is another one: a summary came into force, or a boundary was taken back."""
    if record.compact_summary and now.boundary is not None:
        shown = {each.uuid for each in now.records}
        replaced = tuple(each for each in before.records if each.uuid not in shown)
        fold = found[now.boundary.uuid]
        found[fold.boundary.uuid] = msgspec.structs.replace(fold, summary=record, replaced=replaced)
    elif before.boundary is not None and before.boundary != now.boundary:
        fold = found[before.boundary.uuid]
        found[fold.boundary.uuid] = msgspec.structs.replace(fold, is_undone=True)


def select_compaction(every: Sequence[ExpandedCompaction], name: str) -> ExpandedCompaction:
    """By its number, or by the beginning of its boundary's uuid."""
    near = [fold for fold in every if str(fold.number) == name]
    near = near or [fold for fold in every if fold.boundary.uuid.startswith(name)]
    if len(near) == 1:
        return near[0]
    if near:
        raise InputError(f"{len(near)} boundaries begin with {name!r}; give more of the one you mean.")
    if not every:
        raise InputError("This session was never compacted: there is nothing to expand.")
    raise InputError(f"There is no boundary {name!r}; this session has 1 to {len(every)}.")
