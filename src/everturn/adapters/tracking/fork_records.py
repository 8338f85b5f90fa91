"""The records that a fork starts with: its parent's up to a position, and a compaction made behind it.

A compaction is decided when a new message has arrived, so its boundary comes behind that message in the log,
though it summarizes only what came before. If the caller then edits that message, the fork begins in front of
it. It keeps the compaction if all that was summarized is still in the caller's list, if the summary repeats
nothing of what is not, and if nothing was summarized that the fork has yet to answer: a caller that asks for
another reply cuts its list behind a question that the parent had answered when it was compacted.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

import msgspec

from everturn.adapters.tracking.chain import is_caller_message
from everturn.history.blocks import text_of
from everturn.history.edits import Compacted, ThinkingDropped
from everturn.history.log import Log
from everturn.history.records import Record, is_unfinished
from everturn.view.fragments.reminder import attachment_words

# So many words in a row that occur in a summary are a quotation. Our choice.
QUOTED_WORDS: Final = 5
Phrase = tuple[str, ...]


def take_shared_records(records: Sequence[Record], cut: int) -> list[Record]:
    """The parent's records before `cut`, and the last compaction behind it that summarizes only those."""
    shared = list(records[:cut])
    for at in range(cut, len(records)):
        if isinstance(records[at].edit, Compacted):
            shared += _take_compaction(records, at, shared, cut)
    return shared


def find_distrusted_reply(shared: Sequence[Record]) -> str:
    """The first reply that came with a caller's list and whose thinking these records still send; "" if there
    is none. The parent may have dropped that thinking behind the position at which the fork begins."""
    found = ""
    for record in shared:
        if isinstance(record.edit, ThinkingDropped) and not record.edit.until:
            found = ""
        elif record.kind == "assistant" and not record.message_id:
            found = found or record.uuid
    return found


def _take_compaction(
    records: Sequence[Record], at: int, shared: Sequence[Record], cut: int
) -> Sequence[Record]:
    boundary, edit = records[at], records[at].edit
    made = _compaction_records(records, at)
    if not made or not isinstance(edit, Compacted):
        return ()
    view = tuple(Log(records[:at]).view.records)
    names = [record.uuid for record in view]
    first = names.index(edit.kept.head) if edit.kept and edit.kept.head in names else len(view)
    is_in_front = edit.kept is not None and edit.kept.anchor == boundary.uuid
    known = {record.uuid for record in shared}
    dropped = [record for record in records[cut:at] if is_caller_message(record)]
    if is_in_front or not _is_covered(view[:first], known) or _is_quoted(dropped, made, shared):
        return ()
    if not _unanswered(shared, records[cut:at]).isdisjoint(names[:first]):
        return ()
    kept = [record for record in view[first:] if record.uuid in known]
    segment = (
        msgspec.structs.replace(edit.kept, head=kept[0].uuid, tail=kept[-1].uuid)
        if edit.kept and kept
        else None
    )
    counted = edit.tokens_kept if segment == edit.kept else 0
    moved = msgspec.structs.replace(edit, kept=segment, logical_parent=shared[-1].uuid, tokens_kept=counted)
    return [msgspec.structs.replace(boundary, edit=moved, raw=b""), *made]


def _compaction_records(records: Sequence[Record], at: int) -> list[Record]:
    """The summary behind a boundary and what was restored with it; empty if it has no summary."""
    found: list[Record] = []
    for record in records[at + 1 :]:
        if record.kind == "attachment" if found else record.compact_summary:
            found.append(record)
        elif record.kind in ("user", "assistant") or found:
            break
    return found


def _is_covered(summarized: Sequence[Record], known: Collection[str]) -> bool:
    said = [record for record in summarized if record.kind in ("user", "assistant")]
    return bool(said) and all(record.uuid in known for record in said)


def _unanswered(shared: Sequence[Record], behind: Sequence[Record]) -> set[str]:
    """The messages behind the last reply, or a last reply that calls tools: its results come next. A reply
    that the model went on with in the parent, whose messages are `behind`, is none yet."""
    goes_on = next((record.kind == "assistant" for record in behind if is_caller_message(record)), False)
    found: set[str] = set()
    for record in filter(is_caller_message, reversed(shared)):
        if record.kind == "assistant" and not (goes_on and is_unfinished(record)):
            has_calls = any(block.is_call for block in record.blocks)
            return {record.uuid} if has_calls and not found else found
        goes_on = goes_on and record.kind == "assistant"
        found.add(record.uuid)
    return found


def _is_quoted(dropped: Sequence[Record], made: Sequence[Record], shared: Sequence[Record]) -> bool:
    """Whether the new records repeat words of messages that are no longer in the caller's list."""
    quoted = phrases_of(dropped) & phrases_of(made)
    return bool(quoted) and not quoted <= phrases_of(shared)


def phrases_of(records: Iterable[Record]) -> set[Phrase]:
    """Every so many words in a row that their texts have; of a shorter text, all of its words."""
    found: set[Phrase] = set()
    for record in records:
        for block in record.blocks:
            words = (attachment_words if record.kind == "attachment" else text_of)(block).split()
            found.update(zip(*(words[start:] for start in range(QUOTED_WORDS)), strict=False))
            if 0 < len(words) < QUOTED_WORDS:
                found.add(tuple(words))
    return found
