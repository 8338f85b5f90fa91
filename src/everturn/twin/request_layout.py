"""The prompt as the cache sees it: blocks in order, a key for every prefix, tokens, breakpoints (TW-2).

The order is tools, system, messages. A key chains the digests of all blocks up to its own, so any change
invalidates everything after it. Parameters that change the prompt without being a block are mixed into the
chain at the start of a section: `_tools_seed`, `_system_seed` and `_messages_seed` implement the invalidation
matrix (api-facts 1.6). The lookup is in `measure.prefix_cache`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final, Literal, NamedTuple

import msgspec

from everturn.history.messages import is_user_prompt
from everturn.measure.prefix_cache import Breakpoint, PromptLayout, Ttl, group_positions
from everturn.twin.count import make_block_counter
from everturn.twin.memo import PrefixMemo
from everturn.twin.options import TwinOptions
from everturn.twin.parse import read_ttl
from everturn.twin.tool_loading import find_loads, is_deferred
from everturn.twin.values import ParsedBlock, ParsedMessage, ParsedRequest
from everturn.wire.json_values import as_object, as_objects

# Blocks that cannot have a breakpoint, not even the automatic one (api-facts 1.1, 1.2).
NO_BREAKPOINT_KINDS: Final = frozenset(
    ("thinking", "redacted_thinking", "connector_text", "fallback", "mcp_tool_listing", "cache_edits")
)
# A guess, because it is not published: the delimiters between two turns.
TURN_TOKENS: Final = 4

_encode = msgspec.json.Encoder(order="deterministic").encode


class PlacedBlock(NamedTuple):
    """One block of the prompt, its place in the request, and its tokens there."""

    block: ParsedBlock
    section: Literal["tools", "system", "messages"]
    # The number of its message, and its own number in the message or section.
    message: int
    block_index: int
    tokens: int

    @property
    def path(self) -> str:
        if self.section == "messages":
            return f"messages.{self.message}.content.{self.block_index}"
        return f"{self.section}.{self.block_index}"


@dataclass(frozen=True, slots=True)
class RequestLayout:
    """The blocks of a request with their tokens, and the prompt for the cache lookup."""

    blocks: tuple[PlacedBlock, ...]
    prompt: PromptLayout
    # Tokens after the last block. `total` is this plus the tokens of all blocks.
    trailing: int

    @property
    def total(self) -> int:
        return self.prompt.total


def lay_out(
    request: ParsedRequest, options: TwinOptions, *, unseen: frozenset[bytes] = frozenset()
) -> RequestLayout:
    """Lay out a request. Blocks whose digest is in `unseen` stay in every key and cost nothing (TW-7)."""
    placing = _place_preamble(request, options)
    _place_messages(placing, request, options, unseen)
    prompt = PromptLayout(
        scope=(request.workspace, request.model.id, "" if options.speeds_share_tools else _speed(request)),
        keys=placing.keys,
        ends=placing.ends,
        positions=placing.positions,
        markers=_find_breakpoints(request, placing),
        total=placing.total + options.trailing_tokens,
        minimum=options.min_cache.get(request.model.id, request.model.min_cache),
        lookback=options.lookback,
        rewrites_below_hit=options.rewrites_below_hit,
        alive_at_ttl=options.alive_at_ttl,
        longer_marker_lengthens=options.longer_marker_lengthens,
        hour_survives_prefix=options.hour_survives_prefix,
    )
    return RequestLayout(tuple(placing.blocks), prompt, options.trailing_tokens)


# ── blocks, their tokens and keys ────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class _Placing:
    """The layout so far. The lists are parallel: one item for each block."""

    # The key of everything before the next block.
    chain: bytes
    # Tokens that the next block carries besides its own.
    extra: int = 0
    blocks: list[PlacedBlock] = field(default_factory=list[PlacedBlock])
    keys: list[bytes] = field(default_factory=list[bytes])
    ends: list[int] = field(default_factory=list[int])
    positions: list[int] = field(default_factory=list[int])
    # The explicit breakpoints, by the index of their block.
    ttls: dict[int, Ttl] = field(default_factory=dict[int, Ttl])

    @property
    def total(self) -> int:
        return self.ends[-1] if self.ends else 0

    def add(self, placed: PlacedBlock, frame: bytes = b"") -> None:
        self.chain = _mix(self.chain, frame, placed.block.digest)
        self.extra = 0
        if (ttl := _ttl(placed.block)) is not None:
            self.ttls[len(self.blocks)] = ttl
        self.ends.append(self.total + placed.tokens)
        self.blocks.append(placed)
        self.keys.append(self.chain)

    def number_positions(self, options: TwinOptions) -> None:
        """The lookback positions of the blocks that have none yet. Each depends on the block before it."""
        known = len(self.positions)
        start = max(0, known - 1)
        found = _positions(self.blocks[start:], options)
        shift = self.positions[start] - found[0] if known else 0
        self.positions += [position + shift for position in found[known - start :]]


class _KnownLayout(NamedTuple):
    """The layout of an earlier request, and how many blocks it has up to each of its messages."""

    placing: _Placing
    counts: list[int]
    # Part of the key by identity, so it has to stay alive.
    options: TwinOptions


# In tokens of all conversations together, because a layout holds its messages: some 40 MB of text.
_known: PrefixMemo[_KnownLayout] = PrefixMemo(12_000_000)


def _place_preamble(request: ParsedRequest, options: TwinOptions) -> _Placing:
    """Tools and system. What is left of the tokens for tools is carried by the first message."""
    count = make_block_counter(request.model, options)
    placing = _Placing(_tools_seed(request, options))
    prompt_left = request.model.tool_prompt if request.tools else 0
    tools = _tools_in_prefix(request)
    follows = max(0, sum(not _is_web(block) for _, block in tools) - 1)
    for place, (index, block) in enumerate(tools):
        hidden = prompt_left if place == follows else 0
        prompt_left -= hidden
        placing.add(PlacedBlock(block, "tools", 0, index, count(block) + hidden))
    placing.chain = _mix(placing.chain, _system_seed(request, options))
    for index, block in enumerate(request.system):
        placing.add(PlacedBlock(block, "system", 0, index, count(block) + prompt_left))
        prompt_left = 0
    placing.chain = _mix(placing.chain, _messages_seed(request, options))
    # A forced tool choice adds tokens in the messages section, so tools and system stay cached.
    placing.extra = prompt_left + _forced_tokens(request)
    if placing.blocks:
        placing.number_positions(options)
    return placing


def _place_messages(
    placing: _Placing, request: ParsedRequest, options: TwinOptions, unseen: frozenset[bytes]
) -> None:
    count = make_block_counter(request.model, options)
    loads = find_loads(request)
    messages = request.messages
    # Whether a `clear_at` message is shown depends on what follows it, and so do its tokens.
    can_reuse = bool(messages) and not (loads or unseen or any(message.extra for message in messages))
    key = (placing.chain, placing.total, placing.extra, len(placing.blocks), request.model.id, id(options))
    known, layout = _known.find(key, messages) if can_reuse else (0, None)
    counts = layout.counts[:known] if layout is not None else []
    if layout is not None and counts[-1] > len(placing.blocks):
        _take_over(placing, layout.placing, counts[-1])
    last = placing.blocks[-1] if placing.blocks and placing.blocks[-1].section == "messages" else None
    role = messages[last.message].role if last is not None else ""
    for number in range(known, len(messages)):
        message = messages[number]
        is_expired = _is_expired(messages, number)
        frame = _traits(message).frame
        for index, block in enumerate(message.blocks):
            turn_tokens = TURN_TOKENS if message.role != role and not is_expired else 0
            is_free = is_expired or block.kind == "cache_edits" or block.digest in unseen
            tokens = turn_tokens + placing.extra + (0 if is_free else count(block))
            if loads:
                tokens += sum(map(count, loads.get((number, index), ())))
            role = message.role
            placing.add(PlacedBlock(block, "messages", number, index, tokens), frame)
        counts.append(len(placing.blocks))
    if len(placing.positions) < len(placing.blocks):
        placing.number_positions(options)
    if can_reuse and known < len(messages):
        _known.add(key, messages, _KnownLayout(placing, counts, options), weight=placing.total)


def _take_over(placing: _Placing, known: _Placing, count: int) -> None:
    """Continue after the first `count` blocks of a known layout.

    Its preamble has the same keys, and maybe breakpoints elsewhere, so only the messages are taken over.
    """
    start = len(placing.blocks)
    placing.blocks += known.blocks[start:count]
    placing.keys += known.keys[start:count]
    placing.ends += known.ends[start:count]
    placing.positions += known.positions[start:count]
    placing.ttls |= {index: ttl for index, ttl in known.ttls.items() if start <= index < count}
    placing.chain = placing.keys[-1]
    placing.extra = 0


def _tools_in_prefix(request: ParsedRequest) -> list[tuple[int, ParsedBlock]]:
    """The tools except deferred ones. Web tools come last: they are rendered with the system prompt."""
    loaded = [(i, tool) for i, tool in enumerate(request.tools) if not is_deferred(tool)]
    return sorted(loaded, key=lambda item: _is_web(item[1]))


def _is_web(tool: ParsedBlock) -> bool:
    return str(tool.body.get("type", "")).startswith(("web_search_", "web_fetch_"))


def _forced_tokens(request: ParsedRequest) -> int:
    if not request.tools or request.get_object("tool_choice").get("type") not in ("any", "tool"):
        return 0
    return request.model.tool_prompt_forced - request.model.tool_prompt


def _is_expired(messages: tuple[ParsedMessage, ...], number: int) -> bool:
    """A `clear_at` message is shown only until the next user prompt (api-facts 7)."""
    if not is_turn_scoped(messages[number]):
        return False
    return any(is_user_prompt(message) for message in messages[number + 1 :])


def is_turn_scoped(message: ParsedMessage) -> bool:
    """Shown for one turn, so it cannot have a breakpoint: no later turn reads the entry (api-facts 1.1)."""
    return message.extra.get("clear_at") == "next_user_message"


# ── seeds of the keys ────────────────────────────────────────────────────────────────────────────


def _mix(*parts: bytes) -> bytes:
    return blake2b(b"\0".join(parts), digest_size=16).digest()


def _tools_seed(request: ParsedRequest, options: TwinOptions) -> bytes:
    betas = sorted(request.betas) if options.betas_invalidate else []
    return _encode(["tools", betas, *_thinking_seed(request, options, "tools")])


def _system_seed(request: ParsedRequest, options: TwinOptions) -> bytes:
    return _encode(
        ["system", _speed(request), _has_citations(request), *_thinking_seed(request, options, "system")]
    )


def _messages_seed(request: ParsedRequest, options: TwinOptions) -> bytes:
    return _encode(
        [
            "messages",
            _tool_choice(request),
            _images(request) if options.any_image_invalidates_messages else 0,
            _output_format(request) if options.output_format_invalidates else None,
            *_thinking_seed(request, options, "messages"),
        ]
    )


def _thinking_seed(request: ParsedRequest, options: TwinOptions, section: str) -> list[Any]:
    thinking = _thinking(request) if options.thinking_invalidates == section else None
    effort = _effort(request) if options.effort_invalidates == section else None
    return [thinking, effort]


def prompt_parameters(request: ParsedRequest) -> list[Any]:
    """Parameters that change the prompt without being a block. An explicit default equals a missing value."""
    return [_tool_choice(request), _thinking(request), _effort(request), _output_format(request)]


def _speed(request: ParsedRequest) -> str:
    return request.body.get("speed") or "standard"


def _thinking(request: ParsedRequest) -> list[Any]:
    """Type and budget. The model does not see how thinking is displayed or bound."""
    default = "adaptive" if request.model.thinks_by_default else "disabled"
    config = request.get_object("thinking")
    return [config.get("type", default), config.get("budget_tokens")]


def _effort(request: ParsedRequest) -> Any:
    return request.get_object("output_config").get("effort") or request.model.default_effort


def _output_format(request: ParsedRequest) -> Any:
    return request.get_object("output_config").get("format") or request.body.get("output_format")


def _tool_choice(request: ParsedRequest) -> Any:
    """An explicit `auto` equals a missing value; so does allowing parallel calls."""
    choice = request.get_object("tool_choice")
    parallel = not choice.get("disable_parallel_tool_use")
    return [choice.get("type", "auto"), choice.get("name"), parallel]


class _MessageTraits(NamedTuple):
    """What a message adds to the keys, computed once: it is sent again with every request."""

    images: int
    has_citations: bool
    frame: bytes


def _traits(message: ParsedMessage) -> _MessageTraits:
    found: _MessageTraits | None = message.computed.get("traits")
    if found is None:
        found = message.computed["traits"] = _MessageTraits(
            images=sum(map(_images_in, message.blocks)),
            has_citations=any(map(_cites, message.blocks)),
            frame=message.role.encode() + (_encode(message.extra) if message.extra else b""),
        )
    return found


def _images(request: ParsedRequest) -> int:
    if "image" not in request.kinds:
        return 0
    return sum(_traits(message).images for message in request.messages)


def _images_in(block: ParsedBlock) -> int:
    if block.kind != "tool_result":
        return int(block.kind == "image")
    return sum(part.get("type") == "image" for part in as_objects(block.body.get("content")))


def _has_citations(request: ParsedRequest) -> bool:
    return "document" in request.kinds and any(_traits(message).has_citations for message in request.messages)


def _cites(block: ParsedBlock) -> bool:
    return block.kind == "document" and bool(as_object(block.body.get("citations")).get("enabled"))


# ── positions and breakpoints ────────────────────────────────────────────────────────────────────


def _positions(blocks: Sequence[PlacedBlock], options: TwinOptions) -> tuple[int, ...]:
    kinds = [placed.block.kind for placed in blocks]
    positions = list(group_positions(kinds) if options.runs_are_one_position else range(len(kinds)))
    if not options.thinking_is_a_position:
        positions = _skip_thinking(kinds, positions)
    if not options.lookback_crosses_sections:
        positions = _separate_sections(blocks, positions, options.lookback)
    return tuple(positions)


def _skip_thinking(kinds: list[str], positions: list[int]) -> list[int]:
    skipped = 0
    counted: list[int] = []
    for kind, position in zip(kinds, positions, strict=True):
        skipped += kind in ("thinking", "redacted_thinking")
        counted.append(position - skipped)
    return counted


def _separate_sections(blocks: Sequence[PlacedBlock], positions: list[int], lookback: int) -> list[int]:
    """A gap larger than the lookback before each section, so that no lookback crosses it."""
    gaps = {"tools": 0, "system": lookback, "messages": 2 * lookback}
    return [position + gaps[placed.section] for position, placed in zip(positions, blocks, strict=True)]


def _find_breakpoints(request: ParsedRequest, placing: _Placing) -> tuple[Breakpoint, ...]:
    ttls, blocks = dict(placing.ttls), placing.blocks
    if (automatic := read_ttl(request.body.get("cache_control"))) is not None:
        last = next(
            (i for i in range(len(blocks) - 1, -1, -1) if _can_have_breakpoint(blocks[i], request)), None
        )
        if last is not None:
            ttls.setdefault(last, automatic)
    return tuple(Breakpoint(index, ttls[index]) for index in sorted(ttls))


def _can_have_breakpoint(placed: PlacedBlock, request: ParsedRequest) -> bool:
    block = placed.block
    if placed.section == "messages" and is_turn_scoped(request.messages[placed.message]):
        return False
    return block.kind not in NO_BREAKPOINT_KINDS and not (block.kind == "text" and not block.body.get("text"))


def _ttl(block: ParsedBlock) -> Ttl | None:
    """The TTL of a block's breakpoint. A breakpoint inside a result's content takes effect at its end."""
    if block.cache_ttl is not None or block.kind != "tool_result":
        return block.cache_ttl
    nested = [read_ttl(part.get("cache_control")) for part in as_objects(block.body.get("content"))]
    return "1h" if "1h" in nested else "5m" if "5m" in nested else None
