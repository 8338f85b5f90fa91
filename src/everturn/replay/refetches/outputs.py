"""The text of a block, and where in an assistant's output a use can be (RP-6, RP-14).

Uses are found in every string of a tool call's input, in text and in thinking. Text that an edit replaces,
context lines of a patch, quotations, thoughts and written content are traced line by line; files and names
are traced everywhere, ids only in the input of tools and not in what it writes.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final, cast

import msgspec

from everturn.history.blocks import Block, fields_of, text_of
from everturn.history.records import Record, is_sent
from everturn.measure.tool_table import DEFAULT_TOOL_TABLE
from everturn.replay.refetches.strings import (
    MIN_LINE_CHARS,
    NeededString,
    UseKind,
    count_visible_chars,
    files,
    ids,
    is_import,
    lines,
    names,
    plain_lines,
)
from everturn.view.fragments.reminder import attachment_words

# How tools name the text that an edit replaces: Claude Code, the text editor tool, pi, OpenHands, others.
OLD_TEXT: Final = frozenset(
    {"old_string", "old_str", "old_text", "oldText", "oldString", "old_content", "search"}
)
# How tools name the text that they write.
NEW_TEXT: Final = frozenset(
    {
        "content", "file_text", "new_string", "new_str", "new_text", "newText", "newString", "new_content",
        "new_source", "replace", "contents",
    }
)  # fmt: skip
# A shorter quoted or copied line proves little.
MIN_QUOTED_CHARS: Final = 30
_PATCH_MARKS: Final = ("*** Begin Patch", "\n@@ ", "\n--- ")
_SEARCHES: Final = ("searches", "lists")
_FENCES: Final = ("```", "~~~")


def block_text(block: Block) -> str:
    """The text of a block that the model sees; empty for thinking and images."""
    if block.is_thinking:
        return ""
    if block.kind == "attachment":
        return attachment_words(block)
    if block.is_call:
        return "\n".join(string for _, string in strings_in(_input(block)))
    return text_of(block)


def shown_blocks(record: Record) -> tuple[Block, ...]:
    return record.blocks if is_sent(record) else ()


def find_needs(block: Block) -> Iterator[NeededString]:
    """Every string of an output that may come from an earlier block, in the order of the output."""
    if block.is_call:
        yield from _needs_of_call(block)
    elif block.is_thinking:
        text = thinking_text(block)
        yield from _as("quoted", _long(lines(text)))
        yield from _mentioned(text)
    elif block.kind == "text":
        text = text_of(block)
        yield from _as("quoted", _long(quoted(text)))
        yield from _mentioned(text)


def _needs_of_call(block: Block) -> Iterator[NeededString]:
    row = DEFAULT_TOOL_TABLE.find(block.tool)
    inputs = list(strings_in(_input(block)))
    command = next((string for key, string in inputs if key == "command"), "")
    purpose = row.purpose_of(command)
    for key, string in inputs:
        if key in OLD_TEXT:
            yield from _old_text(string)
        elif any(mark in string for mark in _PATCH_MARKS):
            kept = (line[1:] for line in string.split("\n") if line[:1] in ("-", " ") and line[:3] != "---")
            yield from _as("old_text", lines("\n".join(kept)))
        elif key in NEW_TEXT and purpose in ("edits", "writes"):
            yield from _as("copied", _long(lines(string)))
            yield from _mentioned(string)
        elif key in row.path and purpose in ("reads", "edits"):
            yield from _as("argument", files(string))
        elif key in row.path or purpose in _SEARCHES:
            # Where a search looks, and for what, is not something that was found.
            yield from _as("id", ids(string) if key not in row.path else ())
        else:
            yield from _as("id", ids(string))
            yield from _mentioned(string)


def _as(kind: UseKind, strings: Iterable[str]) -> Iterator[NeededString]:
    return ((kind, string) for string in strings)


def _old_text(text: str) -> Iterator[NeededString]:
    """The lines of a replaced text. Its first and last line may begin or end inside a line."""
    found = [line for line in plain_lines(text) if line]
    for at, line in enumerate(found):
        if count_visible_chars(line) >= MIN_LINE_CHARS:
            yield ("partial" if at in (0, len(found) - 1) else "old_text"), line


def _mentioned(text: str) -> Iterator[NeededString]:
    yield from _as("file", files(text))
    yield from _as("name", names(text))


def _long(found: Iterable[str]) -> Iterator[str]:
    """Lines that prove something where nothing is replaced."""
    return (line for line in found if count_visible_chars(line) >= MIN_QUOTED_CHARS and not is_import(line))


def read_files(block: Block) -> Iterator[str]:
    """The files that a call reads."""
    row = DEFAULT_TOOL_TABLE.find(block.tool) if block.is_call else None
    if row is not None and row.may_read:
        for key, string in strings_in(_input(block)):
            if key in row.path:
                yield from files(string)


def thinking_text(block: Block) -> str:
    try:
        text = fields_of(block).get("thinking")
    except (msgspec.DecodeError, RecursionError):
        return ""
    return text if isinstance(text, str) else ""


def file_of_call(block: Block) -> str:
    """The file that a call names as its path; "" if there is none."""
    row = DEFAULT_TOOL_TABLE.find(block.tool)
    named = (string for key, string in strings_in(_input(block)) if key in row.path)
    return next((path for string in named for path in files(string)), "")


def _input(block: Block) -> Any:
    try:
        return fields_of(block).get("input")
    except (msgspec.DecodeError, RecursionError):
        return None


def strings_in(value: Any) -> Iterator[tuple[str, str]]:
    """Every string inside a value, in order, with its key."""
    waiting: list[tuple[str, Any]] = [("", value)]
    while waiting:
        key, item = waiting.pop()
        if isinstance(item, str):
            yield key, item
        elif isinstance(item, dict):
            waiting.extend(reversed(cast(dict[str, Any], item).items()))
        elif isinstance(item, list):
            waiting.extend((key, each) for each in reversed(cast(list[Any], item)))


def quoted(text: str) -> Iterator[str]:
    """Lines inside code fences and quoted lines (`>`)."""
    found: list[str] = []
    is_open = False
    for line in text.split("\n"):
        bare = line.lstrip()
        if bare.startswith(_FENCES):
            is_open = not is_open
        elif is_open:
            found.append(line)
        elif bare.startswith(">"):
            found.append(bare.lstrip("> "))
    return chain.from_iterable(map(lines, found))
