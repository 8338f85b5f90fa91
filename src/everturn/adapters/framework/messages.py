"""Converts a framework's messages to the API's format, and the engine's messages back.

Every framework message becomes a role and blocks in the API's format. The blocks that the engine returns are
traced back to those messages. A message whose blocks did not change is replaced by the framework's own
object, so nothing that only the framework stores in it is lost. Tool calls and results are found by their
ids, other blocks by their content. The `messages.py` of each framework converts single messages.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

import msgspec

from everturn.adapters.tracking.chain import digest
from everturn.history.messages import Role
from everturn.wire.anthropic import without_cache_control

Fields = dict[str, Any]
BlockPosition = tuple[int, int]
# Position of a block that is not from a framework message: a summary, a repaired tool call or result.
NOWHERE: Final[BlockPosition] = (-1, -1)


class FrameworkMessage(NamedTuple):
    """One message of a framework, as blocks in the API's format."""

    role: Role
    blocks: Sequence[Fields]


class TracedBlocks(NamedTuple):
    """Consecutive blocks for the model that come from one framework message, or from none.

    `source` is the index of that message, -1 for none. `positions` are the indices of the blocks in it, -1
    for a new block.
    """

    role: Role
    source: int
    blocks: tuple[Fields, ...]
    positions: tuple[int, ...]
    is_untouched: bool


def build_body(model: str, sources: Iterable[FrameworkMessage], **fields: Any) -> Fields:
    """A request body for `ConversationTracker.read`. Empty fields are left out."""
    messages = [{"role": each.role, "content": list(each.blocks)} for each in sources]
    return {"model": model, "messages": messages} | {name: each for name, each in fields.items() if each}


def make_opaque_block(value: Any) -> Fields:
    """A text block for a value that the API has no block for. Only the engine sees it: the framework's
    model gets the original object."""
    text = msgspec.json.encode(value, enc_hook=repr).decode()
    return {"type": "text", "text": text}


def trace_blocks(
    messages: Sequence[Mapping[str, Any]], sources: Sequence[FrameworkMessage]
) -> list[TracedBlocks]:
    """The engine's messages, split wherever the framework message that they come from changes."""
    traced: list[TracedBlocks] = []
    for message, positions in zip(messages, _positions(messages, sources), strict=True):
        blocks = zip(message["content"], positions, strict=True)
        for source, group in groupby(blocks, key=lambda each: each[1][0]):
            found = tuple(group)
            traced.append(_trace_group(message["role"], source, found, sources))
    return traced


def _trace_group(
    role: Role,
    source: int,
    found: Sequence[tuple[Fields, BlockPosition]],
    sources: Sequence[FrameworkMessage],
) -> TracedBlocks:
    blocks, positions = tuple(block for block, _ in found), tuple(place[1] for _, place in found)
    is_untouched = source >= 0 and [without_cache_control(block) for block in blocks] == [
        without_cache_control(block) for block in sources[source].blocks
    ]
    return TracedBlocks(role, source, blocks, positions, is_untouched)


def _positions(
    messages: Sequence[Mapping[str, Any]], sources: Sequence[FrameworkMessage]
) -> list[list[BlockPosition]]:
    """Matched from the end: if two blocks are equal, a compaction removed the earlier one."""
    known: defaultdict[Any, list[BlockPosition]] = defaultdict(list)
    for source, each in enumerate(sources):
        for at, block in enumerate(each.blocks):
            known[_key(each.role, block)].append((source, at))
    found: list[list[BlockPosition]] = []
    for message in reversed(messages):
        keys = [_key(message["role"], block) for block in reversed(message["content"])]
        found.append([known[key].pop() if known[key] else NOWHERE for key in keys][::-1])
    return found[::-1]


def _key(role: str, block: Fields) -> Any:
    match block.get("type"):
        case "tool_use":
            return "tool_use", block.get("id")
        case "tool_result":
            return "tool_result", block.get("tool_use_id")
        case _:
            return role, digest(without_cache_control(block))
