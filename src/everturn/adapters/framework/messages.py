"""A framework's messages as the API's, and the engine's view of them as the framework's again.

Every message of a framework becomes a piece: a role, and blocks as the API spells them. What the engine
shows is traced back to the pieces, block by block: a message of which nothing was changed is the
framework's own object again, so nothing that only the framework knows of it is lost. Calls and results are
found by their ids, all else by what it says. What a block of a framework is called: its own `messages.py`.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, Literal, NamedTuple

import msgspec

from everturn.adapters.tracking.chain import digest, without_cache_control

Role = Literal["user", "assistant"]
Fields = dict[str, Any]
BlockPosition = tuple[int, int]
# Where a block stands that came from no message of the framework's: a summary, a mended pair.
NOWHERE: Final[BlockPosition] = (-1, -1)


class FrameworkMessage(NamedTuple):
    """One message of a framework."""

    role: Role
    blocks: Sequence[Fields]


class TracedBlocks(NamedTuple):
    """Blocks that the model is to see, side by side, from one message of the framework's or from none.

    `source` is its index, -1 for none; `places` are the indices of its blocks there, -1 for one that is new.
    """

    role: Role
    source: int
    blocks: tuple[Fields, ...]
    places: tuple[int, ...]
    is_untouched: bool


def build_body(model: str, pieces: Iterable[FrameworkMessage], **fields: Any) -> Fields:
    """A request as the Messages API takes it, for `Shadows.read`. Fields that are empty are left out."""
    messages = [{"role": piece.role, "content": list(piece.blocks)} for piece in pieces]
    return {"model": model, "messages": messages} | {name: each for name, each in fields.items() if each}


def make_opaque_block(value: Any) -> Fields:
    """A block for what has no place in the API: known by its content, and sent as the object that it was."""
    text = msgspec.json.encode(value, enc_hook=repr).decode()
    return {"type": "text", "text": text}


def trace_blocks(
    messages: Sequence[Mapping[str, Any]], pieces: Sequence[FrameworkMessage]
) -> list[TracedBlocks]:
    """The engine's messages, cut where they come from another message of the framework's."""
    shown: list[TracedBlocks] = []
    for message, places in zip(messages, _places(messages, pieces), strict=True):
        blocks = zip(message["content"], places, strict=True)
        for source, group in groupby(blocks, key=lambda each: each[1][0]):
            found = tuple(group)
            shown.append(_shown(message["role"], source, found, pieces))
    return shown


def _shown(
    role: Role, source: int, found: Sequence[tuple[Fields, BlockPosition]], pieces: Sequence[FrameworkMessage]
) -> TracedBlocks:
    blocks, places = tuple(block for block, _ in found), tuple(place[1] for _, place in found)
    is_untouched = source >= 0 and [without_cache_control(block) for block in blocks] == [
        without_cache_control(block) for block in pieces[source].blocks
    ]
    return TracedBlocks(role, source, blocks, places, is_untouched)


def _places(
    messages: Sequence[Mapping[str, Any]], pieces: Sequence[FrameworkMessage]
) -> list[list[BlockPosition]]:
    """From the end: what a compaction took away said the same as what it kept, or it stood before it."""
    known: defaultdict[Any, list[BlockPosition]] = defaultdict(list)
    for source, piece in enumerate(pieces):
        for at, block in enumerate(piece.blocks):
            known[_key(piece.role, block)].append((source, at))
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
