"""The text of a block, and where in an assistant's output a use can be (RP-6).

Uses are found in every string of a tool call's input, and in text. Text that an edit replaces, context lines
of a patch and quotations are traced line by line; paths and identifiers are traced everywhere. Thinking is
ignored: model and provider decide whether it is still shown, and it cannot be fetched again.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final, cast

import msgspec

from everturn.history.blocks import Block, fields_of, text_of
from everturn.history.records import Record, is_sent
from everturn.replay.refetches.strings import NeededString, identifiers, lines, paths
from everturn.view.fragments.reminder import attachment_words

# How tools name the text that an edit replaces: Claude Code, the text editor tool, pi, OpenHands, others.
OLD_TEXT: Final = frozenset(
    {"old_string", "old_str", "old_text", "oldText", "oldString", "old_content", "search"}
)
_PATCH_MARKS: Final = ("*** Begin Patch", "\n@@ ", "\n--- ")
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
        for key, string in strings_in(_input(block)):
            yield from _needs(_taken_for_granted(key, string), string)
    elif block.kind == "text":
        text = text_of(block)
        yield from _needs(quoted(text), text)


def _needs(traced_lines: Iterable[str], text: str) -> Iterator[NeededString]:
    for line in traced_lines:
        yield "line", line
    for path in paths(text):
        yield "path", path
    for name in identifiers(text):
        yield "identifier", name


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


def _taken_for_granted(key: str, string: str) -> Iterator[str]:
    if key in OLD_TEXT:
        return lines(string)
    if any(mark in string for mark in _PATCH_MARKS):
        kept = (line[1:] for line in string.split("\n") if line[:1] in ("-", " ") and line[:3] != "---")
        return lines("\n".join(kept))
    return iter(())


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
