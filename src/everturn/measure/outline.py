"""A request as the provider's cache sees it, kept up to date message by message.

`prefix_cache.py` needs keys, token ends and positions of every block. Computing them for each request would
cost the whole conversation each time; an outline keeps them per message and replaces only what changed. The
preamble (tools, system) and the salts (what is not a block but still shapes the prompt, api-facts 1.6) are
added to the keys when they are read, so a change there costs nothing here either.

Not modelled, because the engine never sends it: system messages between the others, `clear_at`, breakpoints
in the content of a result. Blocks are compared by their bytes; a block that is serialised differently is a
different block.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from hashlib import blake2b
from itertools import takewhile
from typing import Final, NamedTuple, Protocol, TypeVar, overload

import msgspec

from everturn.history.blocks import Block
from everturn.history.messages import Message, find_last_prompt
from everturn.measure.capabilities import Scope
from everturn.measure.prefix_cache import LOOKBACK, Breakpoint, PromptLayout
from everturn.measure.rendering import cites, images_in, tools_in_prefix

_T = TypeVar("_T")


class TokenCosts(Protocol):
    """Token counts of blocks, as the biller counts them."""

    @property
    def turn(self) -> int:
        """Tokens added at each change of role."""
        ...

    @property
    def tool_prompt(self) -> int:
        """Tokens of the hidden prompt that comes with the first tool."""
        ...

    @property
    def trailing(self) -> int:
        """Hidden tokens after the last block."""
        ...

    @property
    def keeps_thinking(self) -> bool:
        """Whether the model is shown the thinking of all turns, and not only of the last one."""
        ...

    def block(self, block: Block, /) -> int: ...


class CacheKeySalts(msgspec.Struct, frozen=True):
    """What is part of the cache key without being a block, by the section from which it applies."""

    scope: Hashable = ()
    tools: Hashable = ()
    system: Hashable = ()
    messages: Hashable = ()
    # Hidden tokens before the first message if there are tools: what a forced tool choice adds (api-facts 4).
    forced_tokens: int = 0


class BlockLocation(NamedTuple):
    """A place for a breakpoint: a block of a message, or of the preamble if `message` is -1."""

    message: int
    block: int


class Preamble(msgspec.Struct, frozen=True):
    """Tools and system prompt: the part of a request that rarely changes.

    `marked` are the indexes of system blocks that end a cacheable part, `scopes` says who may share each of
    them; `view/system_prompt.py` decides which.
    """

    tools: tuple[Block, ...] = ()
    system: tuple[Block, ...] = ()
    marked: tuple[int, ...] = ()
    scopes: tuple[Scope, ...] = ()


class _Summed(NamedTuple):
    """What is known of all blocks up to the end of a message."""

    images: int = 0
    cites: bool = False
    last_kind: str = ""


class _PreamblePart(NamedTuple):
    """Tools and system in prefix order; each sequence has its start value before the first block."""

    chains: tuple[bytes, ...]
    ends: tuple[int, ...]
    # Indexes in the request (tools, then system) in the order of the prefix.
    order: tuple[int, ...]
    tools: int
    # Tokens of the hidden tool prompt if no block precedes them.
    left: int

    @property
    def tokens(self) -> int:
        return self.ends[-1] + self.left


_NOTHING: Final = _Summed()
_NO_PREAMBLE: Final = _PreamblePart((b"",), (0,), (), 0, 0)
_RUNS: Final = ("tool_use", "tool_result")


class Outline:
    """The blocks of one conversation's requests, in prefix order."""

    def __init__(self, costs: TokenCosts, *, lookback: int = LOOKBACK, runs_are_one: bool = True) -> None:
        self._costs = costs
        self._lookback = lookback
        self._runs_are_one = runs_are_one
        # Results that the provider was told to delete: they stay in every key and cost nothing.
        self.deleted: set[str] = set()
        # Whether some messages were measured without what was deleted, or with counts that have changed.
        self._measured_deleted = False
        self._is_outdated = False
        self._preamble = Preamble()
        self._preamble_part = _NO_PREAMBLE
        self._messages: list[Message] = []
        # Of all blocks of the messages: chained digests, token ends and positions. They grow in place.
        self._chains: list[bytes] = []
        self._ends: list[int] = []
        self._positions: list[int] = []
        # For each message, its first block among them, and what is known up to its end.
        self._starts: list[int] = []
        self._summed: list[_Summed] = []
        # Thinking in the messages before this one is not shown to the model.
        self._thinking_from = 0

    @property
    def costs(self) -> TokenCosts:
        return self._costs

    @costs.setter
    def costs(self, costs: TokenCosts) -> None:
        """Set the counts of another model. Its cache is separate too, so everything is measured again."""
        if costs is self._costs:
            return
        self._costs = costs
        self._preamble_part = self._measure_preamble(self._preamble)
        messages, self._messages = self._messages, []
        self.replace_from(0, messages)

    def set_preamble(self, preamble: Preamble) -> None:
        if preamble is self._preamble:
            return
        self._preamble = preamble
        self._preamble_part = self._measure_preamble(preamble)

    def replace_from(self, first: int, messages: Iterable[Message]) -> None:
        """Replace the messages from `first` on; those before it are unchanged. Of the new ones, those that
        were there before are not measured again."""
        new = list(messages)
        same = self._count_same(first, new)
        first += same
        self._measured_deleted, self._is_outdated = bool(self.deleted), False
        self._messages[first:] = new[same:]
        self._measure_from(min(first, self._place_thinking(first)))

    def _place_thinking(self, first: int) -> int:
        """Find from where on thinking is shown, if the messages from `first` on are new; returns the first
        message that this changes.
        """
        count, before = len(self._messages), self._thinking_from
        if self.costs.keeps_thinking:
            now = 0
        else:
            # A whole loop of tools has no prompt: what is known is not looked for again.
            known = before if before < first else find_last_prompt(self._messages)
            now = find_last_prompt(self._messages, first, known)
        self._thinking_from = now
        between = range(min(now, before), min(max(now, before), count))
        return next((at for at in between if _has_thinking(self._messages[at])), count)

    def _measure_from(self, first: int) -> None:
        if first < len(self._starts):
            start = self._starts[first]
            del self._chains[start:], self._ends[start:], self._positions[start:]
            del self._starts[first:], self._summed[first:]
        for at in range(first, len(self._messages)):
            message = self._messages[at]
            before = self._summed[-1] if self._summed else _NOTHING
            opens_turn = not at or message.role != self._messages[at - 1].role
            is_shown = at >= self._thinking_from
            self._starts.append(len(self._chains))
            self._summed.append(self._measure(message, before, opens_turn=opens_turn, is_shown=is_shown))

    def recount(self) -> None:
        """The costs now count blocks of the last messages differently: they are measured again."""
        self._is_outdated = True

    def _count_same(self, first: int, messages: Sequence[Message]) -> int:
        """How many of the messages are at their place already, with the same tokens."""
        if self.deleted or self._measured_deleted or self._is_outdated:
            return 0
        pairs = zip(messages, self._messages[first:], strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))

    def up_to(self, count: int) -> "Outline":
        """The same request with only its first messages. Nothing is measured again, except thinking that is
        shown in the shorter one only.
        """
        made = Outline(self._costs, lookback=self._lookback, runs_are_one=self._runs_are_one)
        made.deleted, made._measured_deleted = set(self.deleted), self._measured_deleted
        made._preamble, made._preamble_part = self._preamble, self._preamble_part
        made._messages, made._summed = self._messages[:count], self._summed[:count]
        made._starts = self._starts[:count]
        end = self._starts[count] if count < len(self._starts) else len(self._chains)
        made._chains, made._ends = self._chains[:end], self._ends[:end]
        made._positions = self._positions[:end]
        made._thinking_from = self._thinking_from
        made._measure_from(made._place_thinking(count))
        return made

    @property
    def messages(self) -> Sequence[Message]:
        return self._messages

    @property
    def preamble_tokens(self) -> int:
        return self._preamble_part.tokens

    @property
    def pictures(self) -> int:
        """Adding or removing one anywhere changes the key of all messages (api-facts 2)."""
        return self._summed[-1].images if self._summed else 0

    @property
    def cites(self) -> bool:
        """Whether a document asks for citations, which changes the key of system prompt and messages."""
        return bool(self._summed) and self._summed[-1].cites

    @property
    def last_tool(self) -> BlockLocation | None:
        """The last tool in prefix order, wherever it is in the request."""
        preamble = self._preamble_part
        return BlockLocation(-1, preamble.order[preamble.tools - 1]) if preamble.tools else None

    def position_of(self, spot: BlockLocation) -> int:
        """The lookback position of a block, as the provider counts the distance between breakpoints."""
        if spot.message < 0:
            return self._index(spot)
        return len(self._preamble_part.order) + self._positions[self._starts[spot.message] + spot.block]

    def prompt(
        self, salts: CacheKeySalts, breakpoints: Sequence[tuple[BlockLocation, Breakpoint]], *, minimum: int
    ) -> PromptLayout:
        """The input of `PrefixCache.look`. Values are computed only for the blocks that are read."""
        preamble = self._preamble_part
        count, tools = len(preamble.order), preamble.tools
        chains, ends, positions = self._chains, self._ends, self._positions
        last = self._summed[-1] if self._summed else _NOTHING
        start = preamble.tokens + (salts.forced_tokens if self._preamble.tools else 0)
        opening = (salts.tools, salts.system, last.cites)
        closing = (*opening, salts.messages, last.images, preamble.chains[-1])

        def key(at: int) -> Hashable:
            if at < count:
                return (salts.tools if at < tools else opening, preamble.chains[at + 1])
            return (closing, chains[at - count])

        def end(at: int) -> int:
            return preamble.ends[at + 1] if at < count else start + ends[at - count]

        def position(at: int) -> int:
            return at if at < count else count + positions[at - count]

        size = count + len(chains)
        return PromptLayout(
            scope=salts.scope,
            keys=_Lazy(size, key),
            ends=_Lazy(size, end),
            positions=_Lazy(size, position),
            # In prefix order: a tool may be elsewhere in the request.
            markers=sorted(
                (Breakpoint(self._index(spot), breakpoint.ttl) for spot, breakpoint in breakpoints),
                key=lambda m: m.index,
            ),
            total=start + (ends[-1] if ends else 0) + self.costs.trailing,
            minimum=minimum,
            lookback=self._lookback,
        )

    def _index(self, spot: BlockLocation) -> int:
        if spot.message < 0:
            return self._preamble_part.order.index(spot.block)
        return len(self._preamble_part.order) + self._starts[spot.message] + spot.block

    def _measure_preamble(self, preamble: Preamble) -> _PreamblePart:
        blocks = (*preamble.tools, *preamble.system)
        plain, web = tools_in_prefix(preamble.tools)
        order = (*plain, *web, *range(len(preamble.tools), len(blocks)))
        left = self.costs.tool_prompt if preamble.tools else 0
        chains, ends = [b""], [0]
        for at, place in enumerate(order):
            # The hidden prompt comes after the last tool that is not a web tool; web tools belong to system.
            hidden = left if at >= len(plain) - 1 else 0
            left -= hidden
            chains.append(_chained(chains[-1], b"", blocks[place]))
            ends.append(ends[-1] + self.costs.block(blocks[place]) + hidden)
        return _PreamblePart(tuple(chains), tuple(ends), order, len(plain) + len(web), left)

    def _measure(self, message: Message, before: _Summed, *, opens_turn: bool, is_shown: bool) -> _Summed:
        """`is_shown` is whether the model is shown the thinking in this message."""
        chains, ends, positions = self._chains, self._ends, self._positions
        chain, end, position = (chains[-1], ends[-1], positions[-1]) if chains else (b"", 0, -1)
        end += self.costs.turn if opens_turn else 0
        images, citing, kind = before.images, before.cites, before.last_kind
        role = message.role.encode()
        for block in message.blocks:
            # Thinking that is not shown is left out by the API: it is in no key and costs nothing.
            if is_shown or not block.is_thinking:
                chain = _chained(chain, role, block)
                end += 0 if block.is_result and block.call in self.deleted else self.costs.block(block)
                joins = self._runs_are_one and block.kind == kind and kind in _RUNS
                position += 0 if joins else 1
                images += images_in(block)
                citing = citing or cites(block)
                kind = block.kind
            chains.append(chain)
            ends.append(end)
            positions.append(position)
        return _Summed(images, citing, kind)


def _has_thinking(message: Message) -> bool:
    return any(block.is_thinking for block in message.blocks)


def _chained(chain: bytes, frame: bytes, block: Block) -> bytes:
    return blake2b(b"\0".join((chain, frame, block.raw)), digest_size=16).digest()


class _Lazy(Sequence[_T]):
    """A sequence whose items are computed when they are read."""

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
        # Nearly always.
        if isinstance(at, int) and 0 <= at < self._size:
            return self._item(at)
        if isinstance(at, slice):
            return [self._item(i) for i in range(*at.indices(self._size))]
        if not -self._size <= at < self._size:
            raise IndexError(at)
        return self._item(at % self._size)
