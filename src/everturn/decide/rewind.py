"""Where a conversation goes on after a rewind, and what is left behind (CP-36)."""

from collections.abc import Sequence

import msgspec

from everturn.history.blocks import text_of
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
    found = [record for record in records if record.uuid == uuid]
    if not found and len(uuid) >= _SHORTEST:
        found = [record for record in records if record.uuid.startswith(uuid)]
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
    return RewindPlan(before, "\n\n".join(filter(None, map(text_of, record.blocks))))


def _end_of_round(records: Sequence[Record], reply: Record) -> Record:
    """The last piece of the reply, or the last result of its calls."""
    pieces = [
        each
        for each in records
        if each is reply or (reply.message_id and each.message_id == reply.message_id)
    ]
    calls = {block.call for piece in pieces for block in piece.blocks if block.is_call}
    answers = [
        each for each in records if any(block.is_result and block.call in calls for block in each.blocks)
    ]
    return (answers or pieces)[-1]
