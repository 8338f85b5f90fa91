"""A request as the provider's cache will see it, kept up to date message by message.

`prefix_cache.py` asks for keys, token ends and positions of every block. Making those anew for each
request would cost the whole conversation each time; an outline keeps them per message and replaces only
what changed. The head (tools, system) and the salts (what is no block and still shapes the prompt, api-facts
1.6) are joined to the keys when they are looked at, so a change there costs nothing here either.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple, Protocol, TypeVar, overload

import msgspec

from everturn.history.blocks import Block
from everturn.history.messages import Message
from everturn.measure.prefix_cache import LOOKBACK, Marker, Prompt

_T = TypeVar("_T")


class Costs(Protocol):
    """What blocks cost, as whoever bills them counts."""

    @property
    def turn(self) -> int:
        """Added where the speaker changes."""
        ...

    @property
    def tool_prompt(self) -> int:
        """Hidden words that come with the first tool."""
        ...

    @property
    def trailing(self) -> int:
        """Hidden tokens after the last block."""
        ...

    def block(self, block: Block, /) -> int: ...


class Salts(msgspec.Struct, frozen=True):
    """What is part of the key without being a block, by the section from which on it counts."""

    scope: Hashable = ()
    tools: Hashable = ()
    system: Hashable = ()
    messages: Hashable = ()


class Spot(NamedTuple):
    """A place for a marker: a block of a message, or of the head where `message` is -1."""

    message: int
    block: int


class Head(msgspec.Struct, frozen=True):
    """Tools and system: the part of a request that hardly ever changes.

    `marked` are the system blocks that end a cacheable part; `view/sections.py` decides which.
    """

    tools: tuple[Block, ...] = ()
    system: tuple[Block, ...] = ()
    marked: tuple[int, ...] = ()


class _Part(NamedTuple):
    """One message's blocks: chained digests, token ends and positions, all cumulative over the messages."""

    chains: tuple[bytes, ...]
    ends: tuple[int, ...]
    positions: tuple[int, ...]
    images: int
    last_kind: str


_NOTHING: Final = _Part((b"",), (0,), (-1,), 0, "")
_RUNS: Final = ("tool_use", "tool_result")
_IMAGE: Final = b'"type":"image"'


class Outline:
    """The blocks of one conversation's requests, in prefix order."""

    def __init__(self, costs: Costs, *, lookback: int = LOOKBACK, runs_are_one: bool = True) -> None:
        self.costs = costs
        self._lookback = lookback
        self._runs_are_one = runs_are_one
        # Results that the provider was told to forget: they keep their place in every key and cost nothing.
        self.deleted: set[str] = set()
        self._head = Head()
        self._head_part = _NOTHING
        self._messages: list[Message] = []
        self._parts: list[_Part] = []
        self._starts: list[int] = []

    def set_head(self, head: Head) -> None:
        if head is self._head:
            return
        self._head = head
        self._head_part = self._measure_head(head)

    def replace_from(self, first: int, messages: Iterable[Message]) -> None:
        """Messages from `first` on are these now; those before it are what they were."""
        del self._messages[first:], self._parts[first:], self._starts[first:]
        for message in messages:
            before = self._parts[-1] if self._parts else _NOTHING
            start = self._starts[-1] + len(self._messages[-1].blocks) if self._messages else 0
            speaker = self._messages[-1].role if self._messages else ""
            self._starts.append(start)
            self._messages.append(message)
            self._parts.append(self._measure(message, before, opens_turn=message.role != speaker))

    @property
    def messages(self) -> Sequence[Message]:
        return self._messages

    @property
    def head_tokens(self) -> int:
        return self._head_part.ends[-1]

    def position_of(self, spot: Spot) -> int:
        """The lookback position of a block: how far apart two markers are, as the provider counts."""
        if spot.message < 0:
            return self._head_part.positions[spot.block + 1]
        offset = self._head_part.positions[-1] + 1
        return offset + self._parts[spot.message].positions[spot.block]

    def prompt(self, salts: Salts, marks: Sequence[tuple[Spot, Marker]], *, minimum: int) -> Prompt:
        """What `PrefixCache.look` takes. Nothing is computed for blocks that nobody looks at."""
        head = self._head_part
        count = len(head.ends) - 1
        last = self._parts[-1] if self._parts else _NOTHING
        total = self.head_tokens + last.ends[-1]
        opening = (salts.tools, salts.system)
        closing = (*opening, salts.messages, last.images, head.chains[-1])
        tools = len(self._head.tools)

        def key(at: int) -> Hashable:
            if at < count:
                return (salts.tools if at < tools else opening, head.chains[at + 1])
            part, index = self._find(at - count)
            return (closing, part.chains[index])

        def end(at: int) -> int:
            if at < count:
                return head.ends[at + 1]
            part, index = self._find(at - count)
            return self.head_tokens + part.ends[index]

        def position(at: int) -> int:
            if at < count:
                return head.positions[at + 1]
            part, index = self._find(at - count)
            return head.positions[-1] + 1 + part.positions[index]

        size = count + (self._starts[-1] + len(self._messages[-1].blocks) if self._messages else 0)
        return Prompt(
            scope=salts.scope,
            keys=_Lazy(size, key),
            ends=_Lazy(size, end),
            positions=_Lazy(size, position),
            markers=[Marker(self._index(spot), marker.ttl) for spot, marker in marks],
            total=total + self.costs.trailing,
            minimum=minimum,
            lookback=self._lookback,
        )

    def _index(self, spot: Spot) -> int:
        if spot.message < 0:
            return spot.block
        return len(self._head_part.ends) - 1 + self._starts[spot.message] + spot.block

    def _find(self, at: int) -> tuple[_Part, int]:
        # Looked at are a few blocks near the end: walking back beats a binary search there.
        message = len(self._starts) - 1
        while self._starts[message] > at:
            message -= 1
        return self._parts[message], at - self._starts[message]

    def _measure_head(self, head: Head) -> _Part:
        hidden = self.costs.tool_prompt if head.tools else 0
        chains, ends = [b""], [0]
        for at, block in enumerate((*head.tools, *head.system)):
            # The hidden words stand behind the last tool.
            extra = hidden if at == len(head.tools) - 1 else 0
            chains.append(_chained(chains[-1], b"", block))
            ends.append(ends[-1] + self.costs.block(block) + extra)
        positions = tuple(range(-1, len(ends) - 1))
        return _Part(tuple(chains), tuple(ends), positions, 0, "")

    def _measure(self, message: Message, before: _Part, *, opens_turn: bool) -> _Part:
        chain, end, position = before.chains[-1], before.ends[-1], before.positions[-1]
        end += self.costs.turn if opens_turn else 0
        images, kind = before.images, before.last_kind
        chains: list[bytes] = []
        ends: list[int] = []
        positions: list[int] = []
        for block in message.blocks:
            chain = _chained(chain, message.role.encode(), block)
            end += 0 if block.is_result and block.call in self.deleted else self.costs.block(block)
            joins = self._runs_are_one and block.kind == kind and kind in _RUNS
            position += 0 if joins else 1
            images += block.raw.count(_IMAGE) if block.kind in ("image", "tool_result") else 0
            kind = block.kind
            chains.append(chain)
            ends.append(end)
            positions.append(position)
        return _Part(tuple(chains), tuple(ends), tuple(positions), images, kind)


def _chained(chain: bytes, frame: bytes, block: Block) -> bytes:
    return blake2b(b"\0".join((chain, frame, block.raw)), digest_size=16).digest()


class _Lazy(Sequence[_T]):
    """A sequence whose items are made when they are looked at."""

    __slots__ = ("_item", "_size")

    def __init__(self, size: int, item: Callable[[int], _T]) -> None:
        self._size = size
        self._item = item

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, at: int) -> _T: ...
    @overload
    def __getitem__(self, at: slice) -> list[_T]: ...
    def __getitem__(self, at: int | slice) -> _T | list[_T]:
        if isinstance(at, slice):
            return [self._item(i) for i in range(*at.indices(self._size))]
        if not -self._size <= at < self._size:
            raise IndexError(at)
        return self._item(at % self._size)
