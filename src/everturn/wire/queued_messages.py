"""What a user typed while the model worked: the `queue-operation` lines of Claude Code.

They are not records. What was taken from the queue comes again as a user message; what was given to the model
in the middle of its turn often stands in no other line. The view stays what the API saw; readers of a session
are told of the words, the summary without a model lists them, and recall finds them.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Literal

import msgspec

from everturn.history.blocks import Block, text_of
from everturn.history.records import Record
from everturn.wire.claude_code_reader import TranscriptLine, blocks_from_content

# A message of its own; given to the model within its turn; taken back into the input line; not taken yet.
QueueOutcome = Literal["sent", "given", "taken back", "waiting"]
QUEUE_OPERATION: Final = "queue-operation"
# Our choice: longer words are not in another text by chance.
MIN_CHARACTERS_WITHIN: Final = 20


class QueuedMessage(msgspec.Struct, frozen=True):
    text: str
    outcome: QueueOutcome
    timestamp: str = ""


class _Operation(msgspec.Struct):
    operation: str = ""
    content: msgspec.Raw = msgspec.Raw(b'""')
    timestamp: str = ""


def read_queue(lines: Iterable[TranscriptLine]) -> tuple[QueuedMessage, ...]:
    """The messages that were queued, in the order in which they were typed."""
    found: list[QueuedMessage] = []
    waiting: list[int] = []
    for line in lines:
        if line.type != QUEUE_OPERATION:
            continue
        try:
            seen = msgspec.json.decode(line.raw, type=_Operation)
            text = "\n".join(filter(None, map(text_of, blocks_from_content(seen.content)))).strip()
        except (msgspec.MsgspecError, RecursionError):
            # Reported with the other problems of the file.
            continue
        if seen.operation == "enqueue":
            waiting.append(len(found))
            found.append(QueuedMessage(text, "waiting", seen.timestamp))
        else:
            _take(found, waiting, seen.operation)
    return tuple(found)


def _take(found: list[QueuedMessage], waiting: list[int], operation: str) -> None:
    outcomes: dict[str, QueueOutcome] = {"dequeue": "sent", "remove": "given", "popAll": "taken back"}
    outcome = outcomes.get(operation)
    taken = list(waiting) if operation == "popAll" else waiting[:1]
    if outcome is None:
        return
    del waiting[: len(taken)]
    for at in taken:
        found[at] = msgspec.structs.replace(found[at], outcome=outcome)


def unrecorded(queued: Iterable[QueuedMessage], said: Sequence[str]) -> tuple[QueuedMessage, ...]:
    """Those that the model may have seen and that stand in none of the recorded texts."""
    return tuple(
        each
        for each in queued
        if each.outcome in ("given", "waiting") and each.text and not _is_in(each.text, said)
    )


def find_unrecorded(lines: Iterable[TranscriptLine], records: Iterable[Record]) -> tuple[QueuedMessage, ...]:
    """The messages in these lines that the model may have seen and that stand in none of the records. A
    summary that repeats one came later: whoever reads what it replaced does not have it."""
    queued = read_queue(lines)
    if not queued:
        return ()
    users = (each for each in records if each.kind in ("user", "attachment") and not each.compact_summary)
    texts = (_words(block) for record in users for block in record.blocks)
    return unrecorded(queued, tuple(filter(None, texts)))


class _Attached(msgspec.Struct):
    prompt: str = ""


def _words(block: Block) -> str:
    """The text of a block; of an attachment, the message that it brought."""
    if block.kind != "attachment":
        return text_of(block)
    try:
        return msgspec.json.decode(block.raw, type=_Attached).prompt
    except (msgspec.MsgspecError, RecursionError):
        return ""


def _is_in(words: str, said: Sequence[str]) -> bool:
    """A short word such as "stop" is part of many texts, and is only found alone."""
    if len(words) < MIN_CHARACTERS_WITHIN:
        return any(words == text.strip() for text in said)
    return any(words in text for text in said)
