"""Where `cache_control` goes (PC-5, PC-6, PC-7, PC-11).

    tools ... T│ static S│ dynamic D│ messages ........ i│ ........ M│
               └ the tool list by itself                 └ only when M is out of reach of the last entry

One marker ends the messages, one the tools, one or two the system prompt. The provider looks for an
earlier entry only a bounded number of positions before a marker; when a turn adds more than that, an
intermediate marker stands where the earlier entry is still in reach. When there are not enough markers for
all, the one that the others make least useful goes first: tools, then the static part of system.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from everturn.history.blocks import Block
from everturn.history.messages import Message, is_blank
from everturn.measure.capabilities import Capabilities, Scope
from everturn.measure.outline import Outline, Preamble, Spot
from everturn.measure.prefix_cache import Breakpoint, Ttl

# What must not write has its marker on the second to last message, where an earlier request had one.
Writes = Literal["its own", "nothing new"]

# Blocks without a field for a marker (api-facts 1.1).
_UNMARKABLE = frozenset({"thinking", "redacted_thinking", "connector_text", "fallback", "cache_edits"})

_FIELD = b'"cache_control"'
_encode = msgspec.json.Encoder().encode
_read_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Breakpoints(msgspec.Struct, frozen=True):
    """Markers in prefix order, with the reason of each that is not self-evident."""

    places: tuple[tuple[Spot, Breakpoint], ...] = ()
    why: tuple[str, ...] = ()
    # The lookback position of the message-level marker: where the next request will find our entry.
    reached: int = -1


def place_breakpoints(
    outline: Outline, head: Preamble, *, ttl: Ttl, capabilities: Capabilities, previous: int, writes: Writes
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
            "searched: an intermediate marker keeps the last entry in reach"
        )
    wanted += _head_spots(outline, head)
    spots = sorted(spot for spot, _ in wanted[: capabilities.max_breakpoints])
    why += [f"no marker left for {name}" for _, name in wanted[capabilities.max_breakpoints :]]
    return Breakpoints(tuple((spot, Breakpoint(-1, ttl)) for spot in spots), tuple(why), reached)


def _message_spot(messages: Sequence[Message], writes: Writes) -> Spot | None:
    """The last block that may carry a marker, in the last message or the one before it."""
    start = len(messages) - (1 if writes == "its own" else 2)
    for at in range(start, -1, -1):
        blocks = messages[at].blocks
        for index in range(len(blocks) - 1, -1, -1):
            if can_carry_breakpoint(blocks[index]):
                return Spot(at, index)
    return None


def can_carry_breakpoint(block: Block) -> bool:
    return block.kind not in _UNMARKABLE and not is_blank(block)


def _intermediate(outline: Outline, last: Spot, previous: int, lookback: int) -> Spot | None:
    """The farthest markable block from which the previous entry is still found."""
    if outline.position_of(last) - previous < lookback:
        return None
    for at in range(last.message, -1, -1):
        blocks = outline.messages[at].blocks
        for index in range(len(blocks) - 1, -1, -1):
            distance = outline.position_of(Spot(at, index)) - previous
            if distance < 0:
                return None
            if distance < lookback and can_carry_breakpoint(blocks[index]):
                return Spot(at, index)
    return None


def _head_spots(outline: Outline, head: Preamble) -> list[tuple[Spot, str]]:
    """Most useful first: the last part of system holds all before it; the tool list comes last."""
    count = len(head.tools)
    markable = [at for at in head.marked if can_carry_breakpoint(head.system[at])]
    spots = [(Spot(-1, count + at), f"system.{at}") for at in reversed(markable)]
    return [*spots, (outline.last_tool, "tools")] if outline.last_tool else spots


def scope_at(head: Preamble, spot: Spot) -> Scope:
    """Who may share the entry that a marker there writes."""
    part = spot.block - len(head.tools)
    if spot.message >= 0 or part not in head.marked or not head.scopes:
        return "org"
    return head.scopes[head.marked.index(part)]


def with_cache_control(block: Block, ttl: Ttl, scope: Scope = "org") -> Block:
    """The block with its marker; what is the API's default, five minutes and no scope, is not spelled."""
    control = {"type": "ephemeral"} | ({"ttl": ttl} if ttl != "5m" else {})
    if scope != "org":
        control["scope"] = scope
    start = without_cache_control(block).raw.rstrip()[:-1].rstrip()
    return msgspec.structs.replace(block, raw=start + b',"cache_control":' + _encode(control) + b"}")


def without_cache_control(block: Block) -> Block:
    """The block without a marker that it came with; the bytes of all other fields stay as they are."""
    if _FIELD not in block.raw or "cache_control" not in (fields := _read_fields(block.raw)):
        return block
    del fields["cache_control"]
    return msgspec.structs.replace(block, raw=_encode(fields))
