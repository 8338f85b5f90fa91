"""The searchable text of records, cut into passages short enough to show.

A tool result may have a hundred thousand characters; ranked as a whole, a matching line would count for
little. Passages end at line breaks if possible. Records without content for the model are not searchable.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, cast

import msgspec

from everturn.history.blocks import Block, fields_of, text_of
from everturn.history.records import Record
from everturn.view.fragments.recalled import NAME
from everturn.view.fragments.reminder import attachment_words
from everturn.wire.queued_messages import QueuedMessage

PassageSource = Literal["user", "assistant", "thinking", "call", "result", "summary", "attachment"]

# About forty lines of code: enough context for a hit, and short enough to show several hits.
MAX_PASSAGE_CHARACTERS: Final = 1_600


class Passage(msgspec.Struct, frozen=True):
    """A part of one block's text: `start` is its offset in characters."""

    uuid: str
    block: int
    start: int
    source: PassageSource
    tool: str
    call: str
    agent: str
    at: str
    text: str


class SearchableText(msgspec.Struct, frozen=True):
    """The text of one block. `tool` is empty for a result, which does not name its tool."""

    block: Block
    source: PassageSource
    tool: str
    words: str


def iter_passages(record: Record, tool_of: Callable[[str], str]) -> Iterator[Passage]:
    """The passages of a record. `tool_of` gives the tool's name for the id of an earlier call, because a
    result does not name its tool."""
    for number, found in enumerate(iter_searchable_texts(record)):
        block = found.block
        tool = found.tool or (tool_of(block.call) if block.is_result else "")
        # Results of the recall tool repeat older text, and would rank above the original.
        if tool == NAME:
            continue
        place = (found.source, tool, block.call, record.agent, record.timestamp)
        for start, text in _cut(found.words):
            yield Passage(record.uuid, number, start, *place, text)


def queued_passages(message: QueuedMessage) -> Iterator[Passage]:
    """What the user typed while the model worked, if it stands in no record. Its name is made of its time."""
    for start, text in _cut(message.text):
        yield Passage(f"queued-{message.timestamp}", 0, start, "user", "", "", "", message.timestamp, text)


def iter_searchable_texts(record: Record) -> Iterator[SearchableText]:
    """The texts of a record, block by block; none for records without content for the model."""
    if record.kind not in ("user", "assistant", "attachment") or record.display_only:
        return
    for block in record.blocks:
        source, words = _words(record, block)
        yield SearchableText(block, source, block.tool, words)


def _words(record: Record, block: Block) -> tuple[PassageSource, str]:
    if record.kind == "attachment":
        return "attachment", attachment_words(block)
    if block.is_call:
        return "call", _given(block)
    if block.is_result:
        return "result", text_of(block)
    if block.is_thinking:
        return "thinking", text_of(block)
    if record.compact_summary:
        return "summary", text_of(block)
    return "user" if record.kind == "user" else "assistant", text_of(block)


def _given(block: Block) -> str:
    """The input of a tool call: names and values, one per line, without JSON syntax."""
    try:
        given = fields_of(block).get("input")
    except (msgspec.DecodeError, RecursionError):
        return block.raw.decode(errors="replace")
    if not isinstance(given, dict):
        return ""
    return "\n".join(f"{name}: {_value(value)}" for name, value in cast(dict[str, Any], given).items())


def _value(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _cut(words: str) -> Iterator[tuple[int, str]]:
    start = 0
    while start < len(words):
        end = _end(words, start)
        if words[start:end].strip():
            yield start, words[start:end]
        start = end


def _end(words: str, start: int) -> int:
    """The end of a passage: after the last line break or space in its second half, or else at the limit."""
    end = start + MAX_PASSAGE_CHARACTERS
    if end >= len(words):
        return len(words)
    for separator in ("\n", " "):
        found = words.rfind(separator, start + MAX_PASSAGE_CHARACTERS // 2, end)
        if found >= 0:
            return found + 1
    return end
