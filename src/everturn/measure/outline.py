"""A request as the provider's cache will see it, kept up to date message by message.

`prefix_cache.py` asks for keys, token ends and positions of every block. Making those anew for each
request would cost the whole conversation each time; an outline keeps them per message and replaces only
what changed. The head (tools, system) and the salts (what is no block and still shapes the prompt, api-facts
1.6) are joined to the keys when they are looked at, so a change there costs nothing here either.

Not modelled, because the engine never sends it: system messages between the others, `clear_at`, markers in
the content of a result. Blocks are compared by their bytes; a block that is spelled anew is another block.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple, Protocol, TypeVar, overload

import msgspec

from everturn.history.blocks import Block
from everturn.history.messages import Message
from everturn.measure.capabilities import Scope
from everturn.measure.prefix_cache import LOOKBACK, Breakpoint, PromptLayout
from everturn.measure.rendering import cites, images_in, tools_in_prefix

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
    # Hidden tokens before the first message, where there are tools: what a forced choice adds (api-facts 4).
    forced_tokens: int = 0


class Spot(NamedTuple):
    """A place for a marker: a block of a message, or of the head where `message` is -1."""

    message: int
    block: int


class Preamble(msgspec.Struct, frozen=True):
    """Tools and system: the part of a request that hardly ever changes.

    `marked` are the system blocks that end a cacheable part, `scopes` who may share each of them;
    `view/system_prompt.py` decides which.
    """

    tools: tuple[Block, ...] = ()
    system: tuple[Block, ...] = ()
    marked: tuple[int, ...] = ()
    scopes: tuple[Scope, ...] = ()


class _Part(NamedTuple):
    """One message's blocks: chained digests, token ends and positions, all cumulative over the messages."""

    chains: tuple[bytes, ...]
    ends: tuple[int, ...]
    positions: tuple[int, ...]
    images: int
    cites: bool
    last_kind: str


class _HeadPart(NamedTuple):
    """Tools and system in prefix order, each sequence with its start in front of the blocks."""

    chains: tuple[bytes, ...]
    ends: tuple[int, ...]
    # Places in the request (tools, then system) in the order of the prefix.
    order: tuple[int, ...]
    tools: int
    # Hidden words of the tools that found no block to stand behind.
    left: int

    @property
    def tokens(self) -> int:
        return self.ends[-1] + self.left


_NOTHING: Final = _Part((b"",), (0,), (-1,), 0, False, "")
_NO_HEAD: Final = _HeadPart((b"",), (0,), (), 0, 0)
_RUNS: Final = ("tool_use", "tool_result")


class Outline:
    """The blocks of one conversation's requests, in prefix order."""

    def __init__(self, costs: Costs, *, lookback: int = LOOKBACK, runs_are_one: bool = True) -> None:
        self._costs = costs
        self._lookback = lookback
        self._runs_are_one = runs_are_one
        # Results that the provider was told to forget: they keep their place in every key and cost nothing.
        self.deleted: set[str] = set()
        self._head = Preamble()
        self._head_part = _NO_HEAD
        self._messages: list[Message] = []
        self._parts: list[_Part] = []
        self._starts: list[int] = []

    @property
    def costs(self) -> Costs:
        return self._costs

    @costs.setter
    def costs(self, costs: Costs) -> None:
        """Another model counts everything otherwise. Its cache is another one too: all is written anew."""
        if costs is self._costs:
            return
        self._costs = costs
        self._head_part = self._measure_head(self._head)
        self.replace_from(0, tuple(self._messages))

    def set_preamble(self, head: Preamble) -> None:
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

    def up_to(self, count: int) -> "Outline":
        """The same request with its first messages alone. Nothing is measured again."""
        made = Outline(self._costs, lookback=self._lookback, runs_are_one=self._runs_are_one)
        made.deleted = set(self.deleted)
        made._head, made._head_part = self._head, self._head_part
        made._messages, made._parts = self._messages[:count], self._parts[:count]
        made._starts = self._starts[:count]
        return made

    @property
    def messages(self) -> Sequence[Message]:
        return self._messages

    @property
    def head_tokens(self) -> int:
        return self._head_part.tokens

    @property
    def last_tool(self) -> Spot | None:
        """The tool that ends the tool list of the prefix, wherever it stands in the request."""
        head = self._head_part
        return Spot(-1, head.order[head.tools - 1]) if head.tools else None

    def path_of(self, at: int) -> str:
        """Where a block of the prefix stands in the request, in the words of the API's own errors."""
        head = self._head_part
        if at >= len(head.order):
            message = self._message_at(at - len(head.order))
            return f"messages.{message}.content.{at - len(head.order) - self._starts[message]}"
        place, tools = head.order[at], len(self._head.tools)
        return f"tools.{place}" if place < tools else f"system.{place - tools}"

    def position_of(self, spot: Spot) -> int:
        """The lookback position of a block: how far apart two markers are, as the provider counts."""
        if spot.message < 0:
            return self._index(spot)
        return len(self._head_part.order) + self._parts[spot.message].positions[spot.block]

    def prompt(self, salts: Salts, marks: Sequence[tuple[Spot, Breakpoint]], *, minimum: int) -> PromptLayout:
        """What `PrefixCache.look` takes. Nothing is computed for blocks that nobody looks at."""
        head, count, tools = self._head_part, len(self._head_part.order), self._head_part.tools
        last = self._parts[-1] if self._parts else _NOTHING
        start = head.tokens + (salts.forced_tokens if self._head.tools else 0)
        opening = (salts.tools, salts.system, last.cites)
        closing = (*opening, salts.messages, last.images, head.chains[-1])

        def key(at: int) -> Hashable:
            if at < count:
                return (salts.tools if at < tools else opening, head.chains[at + 1])
            part, index = self._find(at - count)
            return (closing, part.chains[index])

        def end(at: int) -> int:
            if at < count:
                return head.ends[at + 1]
            part, index = self._find(at - count)
            return start + part.ends[index]

        def position(at: int) -> int:
            if at < count:
                return at
            part, index = self._find(at - count)
            return count + part.positions[index]

        size = count + (self._starts[-1] + len(self._messages[-1].blocks) if self._messages else 0)
        return PromptLayout(
            scope=salts.scope,
            keys=_Lazy(size, key),
            ends=_Lazy(size, end),
            positions=_Lazy(size, position),
            # In the order of the prefix: a tool may stand elsewhere in the request.
            markers=sorted(
                (Breakpoint(self._index(spot), marker.ttl) for spot, marker in marks), key=lambda m: m.index
            ),
            total=start + last.ends[-1] + self.costs.trailing,
            minimum=minimum,
            lookback=self._lookback,
        )

    def _index(self, spot: Spot) -> int:
        if spot.message < 0:
            return self._head_part.order.index(spot.block)
        return len(self._head_part.order) + self._starts[spot.message] + spot.block

    def _find(self, at: int) -> tuple[_Part, int]:
        message = self._message_at(at)
        return self._parts[message], at - self._starts[message]

    def _message_at(self, at: int) -> int:
        # Looked at are a few blocks near the end: walking back beats a binary search there.
        message = len(self._starts) - 1
        while self._starts[message] > at:
            message -= 1
        return message

    def _measure_head(self, head: Preamble) -> _HeadPart:
        blocks = (*head.tools, *head.system)
        plain, web = tools_in_prefix(head.tools)
        order = (*plain, *web, *range(len(head.tools), len(blocks)))
        left = self.costs.tool_prompt if head.tools else 0
        chains, ends = [b""], [0]
        for at, place in enumerate(order):
            # The hidden words stand behind the last tool that is no web tool; those belong to system.
            hidden = left if at >= len(plain) - 1 else 0
            left -= hidden
            chains.append(_chained(chains[-1], b"", blocks[place]))
            ends.append(ends[-1] + self.costs.block(blocks[place]) + hidden)
        return _HeadPart(tuple(chains), tuple(ends), order, len(plain) + len(web), left)

    def _measure(self, message: Message, before: _Part, *, opens_turn: bool) -> _Part:
        chain, end, position = before.chains[-1], before.ends[-1], before.positions[-1]
        end += self.costs.turn if opens_turn else 0
        images, citing, kind = before.images, before.cites, before.last_kind
        chains: list[bytes] = []
        ends: list[int] = []
        positions: list[int] = []
        for block in message.blocks:
            chain = _chained(chain, message.role.encode(), block)
            end += 0 if block.is_result and block.call in self.deleted else self.costs.block(block)
            joins = self._runs_are_one and block.kind == kind and kind in _RUNS
            position += 0 if joins else 1
            images += images_in(block)
            citing = citing or cites(block)
            kind = block.kind
            chains.append(chain)
            ends.append(end)
            positions.append(position)
        return _Part(tuple(chains), tuple(ends), tuple(positions), images, citing, kind)


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
