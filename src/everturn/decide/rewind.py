"""Where a conversation goes on after a rewind (CP-36)."""

from collections.abc import Sequence

import msgspec

from everturn.history.blocks import text_of
from everturn.history.edits import Compacted, Undone
from everturn.history.log import Log
from everturn.history.records import Record

# A beginning of an id that is long enough to be meant.
_SHORTEST = 6


class RewindPlan(msgspec.Struct, frozen=True):
    """`last` is the record that the conversation continues; None for the beginning. `text` is the message of
    the user that was taken back, to be said differently; "" after a reply."""

    last: Record | None
    text: str = ""


def plan_rewind(records: Sequence[Record], uuid: str) -> RewindPlan | str:
    """Go back to this message. One of the user is itself taken back; a reply stays, with the results of its
    calls. Returns the reason if that is not possible."""
    # A file may hold a message twice, as copies of one another; the last one is that of the live thread.
    found = [record for record in records if record.uuid == uuid][-1:]
    if not found and len(uuid) >= _SHORTEST:
        found = list({each.uuid: each for each in records if each.uuid.startswith(uuid)}.values())
    if len(found) != 1:
        many = "more than one record" if found else "no record"
        return f"The session has {many} {uuid!r}. Name a message by its uuid."
    (record,) = found
    if record.compact_summary:
        return "That is a summary. To see what it replaced, undo the compaction, or name a message before it."
    if record.kind == "assistant":
        return RewindPlan(_end_of_round(records, record))
    if record.kind != "user" or any(block.is_result for block in record.blocks):
        return f"{record.uuid} is not a message of the user or the model. Name one that is."
    before = next((each for each in records if each.uuid == record.parent), None)
    return RewindPlan(before, text_of_record(record))


def find_end_of_kept(log: Log, last: Record | None, abandoned: Sequence[Record] = ()) -> Record | None:
    """Where to go on from this record. The last message that a compaction has kept in front of what is said
    next stands under that compaction, also if attachments or bookkeeping were kept behind it, and although a
    later compaction has replaced its summary. Undone compactions do not count.

    The summary is named, and not the end of what was kept: a branch that was left behind may have undone the
    compaction, and then what names that end continues it without the compaction (`history/threads.py`).
    """
    if _is_there(log, last):
        return log.tip
    if last is None:
        return None
    # Of a branch that was left behind, only what happened on it counts.
    is_live = any(each.uuid == last.uuid for each in log.records)
    records = log.records if is_live else abandoned
    undone = {each.edit.boundary for each in records if isinstance(each.edit, Undone)}
    summaries = {each.uuid: each for each in records if each.compact_summary}
    end, behind = last, {last.uuid}
    for record in records:
        if isinstance(record.edit, Compacted) and record.uuid not in undone:
            kept = record.edit.kept
            if kept and kept.tail in behind and kept.anchor in summaries:
                end = summaries[kept.anchor]
                behind.add(end.uuid)
        elif continued_by(record) in behind and not is_message(record):
            behind.add(record.uuid)
    return end if is_live else _find_last_done(records, last, end)


def _find_last_done(records: Sequence[Record], last: Record, end: Record) -> Record:
    """What was done last behind this message, if its branch was left there: a compaction, an undo or a pin
    holds again when the session returns. A branch that was left further on goes on at `end`."""
    found = end
    here, further = {last.uuid, end.uuid}, set[str]()
    # A boundary, and what follows it, counts once its summary is there.
    begun: set[str] = set()
    for record in records:
        at = continued_by(record)
        if at in further or (at in here and is_message(record)):
            further.add(record.uuid)
            found = end
        elif at in here:
            here.add(record.uuid)
            if isinstance(record.edit, Compacted) or (at in begun and not record.compact_summary):
                begun.add(record.uuid)
            else:
                found = record
    return found


def _is_there(log: Log, last: Record | None) -> bool:
    """Whether the session stands at this record already: nothing was said or compacted since. What was done
    there, such as an undo, stays."""
    at = 0
    if last is not None:
        at = next((n + 1 for n, each in enumerate(log.records) if each.uuid == last.uuid), -1)
    since = log.records[at:] if at >= 0 else []
    undone = {each.edit.boundary for each in since if isinstance(each.edit, Undone)}
    is_compacted = any(isinstance(each.edit, Compacted) and each.uuid not in undone for each in since)
    return at >= 0 and bool(since) and not is_compacted and not any(map(is_message, since))


def continued_by(record: Record) -> str:
    """The uuid of the record that this one continues. A boundary is a root, and names it in its edit."""
    return record.parent or (record.edit.logical_parent if isinstance(record.edit, Compacted) else "")


def is_message(record: Record) -> bool:
    return record.kind in ("user", "assistant") and not record.compact_summary


def text_of_record(record: Record) -> str:
    return "\n\n".join(filter(None, map(text_of, record.blocks)))


def _end_of_round(records: Sequence[Record], reply: Record) -> Record:
    """The last piece of the reply, or the last result of its calls. Only what is linked to the reply counts:
    not every provider gives an id once."""
    known = {each.uuid: each for each in records}
    first, seen = reply, {reply.uuid}
    while (before := known.get(first.parent)) and _is_piece(before, reply) and before.uuid not in seen:
        first = before
        seen.add(first.uuid)
    linked = {first.uuid}
    pieces, answers = [first], list[Record]()
    calls = {block.call for block in first.blocks if block.is_call}
    for record in records:
        if record.parent not in linked:
            continue
        if _is_piece(record, reply):
            pieces.append(record)
            calls.update(block.call for block in record.blocks if block.is_call)
        elif any(block.is_result and block.call in calls for block in record.blocks):
            answers.append(record)
        elif is_message(record):
            continue
        linked.add(record.uuid)
    return (answers or pieces)[-1]


def _is_piece(record: Record, reply: Record) -> bool:
    return record is reply or bool(reply.message_id and record.message_id == reply.message_id)
