"""The prompt as the cache sees it: blocks in order, a key for every prefix, tokens, breakpoints (TW-2).

The order is tools, system, messages. A key chains the digests of all blocks up to its own, so any change
invalidates everything after it. Parameters that change the prompt without being a block are mixed into the
chain at the start of a section: `_tools_seed`, `_system_seed` and `_messages_seed` implement the invalidation
matrix (api-facts 1.6). The lookup is in `measure.prefix_cache`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, Literal, NamedTuple

import msgspec

from everturn.measure.prefix_cache import Breakpoint, PromptLayout, Ttl, group_positions
from everturn.twin.count import BlockCounter, make_block_counter
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
    count = make_block_counter(request.model, options)
    blocks = tuple(_place_blocks(request, count, unseen))
    ends: list[int] = []
    total = 0
    for placed in blocks:
        total += placed.tokens
        ends.append(total)
    prompt = PromptLayout(
        scope=(request.workspace, request.model.id, "" if options.speeds_share_tools else _speed(request)),
        keys=_keys(request, blocks, options),
        ends=ends,
        positions=_positions(blocks, options),
        markers=_find_breakpoints(request, blocks),
        total=total + options.trailing_tokens,
        minimum=options.min_cache.get(request.model.id, request.model.min_cache),
        lookback=options.lookback,
        rewrites_below_hit=options.rewrites_below_hit,
        alive_at_ttl=options.alive_at_ttl,
        longer_marker_lengthens=options.longer_marker_lengthens,
    )
    return RequestLayout(blocks, prompt, options.trailing_tokens)


# ── blocks and their tokens ──────────────────────────────────────────────────────────────────────


def _place_blocks(
    request: ParsedRequest, count: BlockCounter, unseen: frozenset[bytes]
) -> Iterator[PlacedBlock]:
    prompt_left = request.model.tool_prompt if request.tools else 0
    tools = _tools_in_prefix(request)
    follows = max(0, sum(not _is_web(block) for _, block in tools) - 1)
    for place, (index, block) in enumerate(tools):
        hidden = prompt_left if place == follows else 0
        prompt_left -= hidden
        yield PlacedBlock(block, "tools", 0, index, count(block) + hidden)
    for index, block in enumerate(request.system):
        yield PlacedBlock(block, "system", 0, index, count(block) + prompt_left)
        prompt_left = 0
    # A forced tool choice adds tokens in the messages section, so tools and system stay cached.
    extra = prompt_left + _forced_tokens(request)
    role = ""
    loads = find_loads(request)
    for number, message in enumerate(request.messages):
        is_expired = _is_expired(request.messages, number)
        for index, block in enumerate(message.blocks):
            turn_tokens = TURN_TOKENS if message.role != role and not is_expired else 0
            is_free = is_expired or block.kind == "cache_edits" or block.digest in unseen
            tokens = turn_tokens + extra + (0 if is_free else count(block))
            tokens += sum(map(count, loads.get((number, index), ())))
            extra, role = 0, message.role
            yield PlacedBlock(block, "messages", number, index, tokens)


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


def is_user_prompt(message: ParsedMessage) -> bool:
    """A user message with content other than tool results."""
    return message.role == "user" and any(block.kind != "tool_result" for block in message.blocks)


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────


def _keys(request: ParsedRequest, blocks: tuple[PlacedBlock, ...], options: TwinOptions) -> tuple[bytes, ...]:
    seeds = {"system": _system_seed, "messages": _messages_seed}
    chain = _tools_seed(request, options)
    section = "tools"
    keys: list[bytes] = []
    for placed in blocks:
        while section != placed.section:
            section = "system" if section == "tools" else "messages"
            chain = _mix(chain, seeds[section](request, options))
        frame = _traits(request.messages[placed.message]).frame if section == "messages" else b""
        chain = _mix(chain, frame, placed.block.digest)
        keys.append(chain)
    return tuple(keys)


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
    return sum(_traits(message).images for message in request.messages)


def _images_in(block: ParsedBlock) -> int:
    if block.kind != "tool_result":
        return int(block.kind == "image")
    return sum(part.get("type") == "image" for part in as_objects(block.body.get("content")))


def _has_citations(request: ParsedRequest) -> bool:
    return any(_traits(message).has_citations for message in request.messages)


def _cites(block: ParsedBlock) -> bool:
    return block.kind == "document" and bool(as_object(block.body.get("citations")).get("enabled"))


# ── positions and breakpoints ────────────────────────────────────────────────────────────────────


def _positions(blocks: tuple[PlacedBlock, ...], options: TwinOptions) -> tuple[int, ...]:
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


def _separate_sections(blocks: tuple[PlacedBlock, ...], positions: list[int], lookback: int) -> list[int]:
    """A gap larger than the lookback before each section, so that no lookback crosses it."""
    gaps = {"tools": 0, "system": lookback, "messages": 2 * lookback}
    return [position + gaps[placed.section] for position, placed in zip(positions, blocks, strict=True)]


def _find_breakpoints(request: ParsedRequest, blocks: tuple[PlacedBlock, ...]) -> tuple[Breakpoint, ...]:
    ttls: dict[int, Ttl] = {
        index: ttl for index, placed in enumerate(blocks) if (ttl := _ttl(placed.block)) is not None
    }
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
