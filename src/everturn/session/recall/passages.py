"""What of a record can be found: its words, cut into passages short enough to be shown.

A tool result may have a hundred thousand characters; ranking it as one piece would bury the line that
matters. Passages end at line breaks where there are any. Bookkeeping has no words and is not found.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, cast

import msgspec

from everturn.history.blocks import Block, fields_of, text_of
from everturn.history.records import Record
from everturn.view.fragments.recalled import NAME
from everturn.view.fragments.reminder import attachment_words

PassageSource = Literal["user", "assistant", "thinking", "call", "result", "summary", "attachment"]

# About forty lines of code: enough around a hit to understand it, few enough to show several.
MAX_PASSAGE_CHARACTERS: Final = 1_600


class Passage(msgspec.Struct, frozen=True):
    """A stretch of one block's words: `start` counts the characters before it in that block."""

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
    """The words of one block. A result does not name its tool: whoever knows the call does."""

    block: Block
    source: PassageSource
    tool: str
    words: str


def iter_passages(record: Record, tool_of: Callable[[str], str]) -> Iterator[Passage]:
    """`tool_of` names the tool of a call that came before; a result does not say it itself."""
    for number, said in enumerate(iter_searchable_texts(record)):
        block = said.block
        tool = said.tool or (tool_of(block.call) if block.is_result else "")
        # What was recalled is in the transcript once already; its echo would be found first.
        if tool == NAME:
            continue
        place = (said.source, tool, block.call, record.agent, record.timestamp)
        for start, text in _cut(said.words):
            yield Passage(record.uuid, number, start, *place, text)


def iter_searchable_texts(record: Record) -> Iterator[SearchableText]:
    """What a record says, block by block; bookkeeping says nothing."""
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
    """What a tool was called with: names and values, one a line, without the noise of JSON."""
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
    """Behind the last line break, or blank, in the second half; a line without either is cut where it is."""
    end = start + MAX_PASSAGE_CHARACTERS
    if end >= len(words):
        return len(words)
    for mark in ("\n", " "):
        found = words.rfind(mark, start + MAX_PASSAGE_CHARACTERS // 2, end)
        if found >= 0:
            return found + 1
    return end
