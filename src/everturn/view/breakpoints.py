"""Where `cache_control` goes (PC-5, PC-6, PC-7, PC-11).

    tools ... T│ static S│ dynamic D│ messages ........ i│ ........ M│
               └ the tool list by itself                 └ only when M is out of reach of the last entry

One breakpoint ends the messages, one the tools, one or two the system prompt. The provider searches for an
earlier entry only a limited number of positions before a breakpoint; if a turn adds more than that, an
intermediate breakpoint is placed where the earlier entry is still in reach. If the provider allows too few
breakpoints for all, the least useful one is dropped first: tools, then the static part of system.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import msgspec

from everturn.history.blocks import Block
from everturn.history.messages import Message, is_blank
from everturn.measure.capabilities import Capabilities, Scope
from everturn.measure.outline import BlockLocation, Outline, Preamble
from everturn.measure.prefix_cache import Breakpoint, Ttl

# A request that must not write has its breakpoint on the second to last message, where an earlier one had it.
Writes = Literal["its own", "nothing new"]

# Blocks without a field for a breakpoint (api-facts 1.1).
_UNMARKABLE = frozenset({"thinking", "redacted_thinking", "connector_text", "fallback", "cache_edits"})

_FIELD = b'"cache_control"'
_encode = msgspec.json.Encoder().encode
_read_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Breakpoints(msgspec.Struct, frozen=True):
    """Breakpoints in prefix order, with the reason for each that is not obvious."""

    places: tuple[tuple[BlockLocation, Breakpoint], ...] = ()
    why: tuple[str, ...] = ()
    # The lookback position of the message-level breakpoint: where the next request will find our entry.
    reached: int = -1


def keep_existing(breakpoints: Breakpoints, preamble: Preamble, messages: Sequence[Message]) -> Breakpoints:
    """Breakpoints of an earlier request, without those whose block is no longer there: what was before it has
    changed, and the cache has no entry for it."""

    def exists(spot: BlockLocation) -> bool:
        if spot.message < 0:
            return spot.block < len(preamble.tools) + len(preamble.system)
        return spot.message < len(messages) and spot.block < len(messages[spot.message].blocks)

    places = tuple(place for place in breakpoints.places if exists(place[0]))
    return msgspec.structs.replace(breakpoints, places=places)


def place_breakpoints(
    outline: Outline,
    preamble: Preamble,
    *,
    ttl: Ttl,
    capabilities: Capabilities,
    previous: int,
    writes: Writes,
) -> Breakpoints:
    """`previous` is the position up to which the last request of this conversation wrote; -1 for none."""
    if not capabilities.caching:
        return Breakpoints(why=("the provider has no prompt cache",))
    why: list[str] = []
    last = _message_spot(outline.messages, writes)
    reached = outline.position_of(last) if last else -1
    wanted = [(last, "messages")] if last else []
    if last and previous >= 0 and (between := _intermediate(outline, last, previous, capabilities.lookback)):
        wanted.append((between, "the last entry"))
        why.append(
            f"this turn adds {reached - previous} positions, more than the {capabilities.lookback} that are "
            "searched: an intermediate breakpoint keeps the last entry in reach"
        )
    wanted += _preamble_spots(outline, preamble)
    spots = sorted(spot for spot, _ in wanted[: capabilities.max_breakpoints])
    why += [f"no breakpoint left for {name}" for _, name in wanted[capabilities.max_breakpoints :]]
    return Breakpoints(tuple((spot, Breakpoint(-1, ttl)) for spot in spots), tuple(why), reached)


def _message_spot(messages: Sequence[Message], writes: Writes) -> BlockLocation | None:
    """The last block that can carry a breakpoint, in the last message or the one before it."""
    start = len(messages) - (1 if writes == "its own" else 2)
    for at in range(start, -1, -1):
        blocks = messages[at].blocks
        for index in range(len(blocks) - 1, -1, -1):
            if can_carry_breakpoint(blocks[index]):
                return BlockLocation(at, index)
    return None


def can_carry_breakpoint(block: Block) -> bool:
    return block.kind not in _UNMARKABLE and not is_blank(block)


def _intermediate(
    outline: Outline, last: BlockLocation, previous: int, lookback: int
) -> BlockLocation | None:
    """The farthest usable block from which the previous entry is still found."""
    if outline.position_of(last) - previous < lookback:
        return None
    for at in range(last.message, -1, -1):
        blocks = outline.messages[at].blocks
        for index in range(len(blocks) - 1, -1, -1):
            distance = outline.position_of(BlockLocation(at, index)) - previous
            if distance < 0:
                return None
            if distance < lookback and can_carry_breakpoint(blocks[index]):
                return BlockLocation(at, index)
    return None


def _preamble_spots(outline: Outline, preamble: Preamble) -> list[tuple[BlockLocation, str]]:
    """Most useful first: the end of system covers everything before it; the tool list comes last."""
    count, tool = len(preamble.tools), outline.last_tool
    markable = _find_markable(preamble.system, preamble.marked)
    spots = [(BlockLocation(-1, count + at), f"system.{at}") for at in reversed(markable)]
    return [*spots, (tool, "tools")] if tool else spots


# To see whether a text is blank, it is decoded; the system prompt is the same for most requests.
@lru_cache(maxsize=64)
def _find_markable(system: tuple[Block, ...], marked: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(at for at in marked if can_carry_breakpoint(system[at]))


def scope_at(preamble: Preamble, spot: BlockLocation) -> Scope:
    """Who may share the entry that a breakpoint at this place writes."""
    part = spot.block - len(preamble.tools)
    if spot.message >= 0 or part not in preamble.marked or not preamble.scopes:
        return "org"
    return preamble.scopes[preamble.marked.index(part)]


def with_cache_control(block: Block, ttl: Ttl, scope: Scope = "org") -> Block:
    """The block with a breakpoint. The API's defaults, five minutes and no scope, are left out."""
    control = {"type": "ephemeral"} | ({"ttl": ttl} if ttl != "5m" else {})
    if scope != "org":
        control["scope"] = scope
    start = without_cache_control(block).raw.rstrip()[:-1].rstrip()
    return msgspec.structs.replace(block, raw=start + b',"cache_control":' + _encode(control) + b"}")


def without_cache_control(block: Block) -> Block:
    """The block without the breakpoint that it came with; the bytes of all other fields stay as they are."""
    if _FIELD not in block.raw or "cache_control" not in (fields := _read_fields(block.raw)):
        return block
    del fields["cache_control"]
    return msgspec.structs.replace(block, raw=_encode(fields))
