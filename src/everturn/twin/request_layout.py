"""The prompt as the cache sees it: blocks in their order, a key for every prefix, tokens, markers (TW-2).

Order: tools, system, messages. A key chains the digests of all blocks up to its own, so any change
invalidates everything after it. What is not a block but still shapes the prompt is mixed into the chain where
a section begins; the invalidation matrix (api-facts 1.6) is `_tools_seed`, `_system_seed`, `_messages_seed`.
The lookup itself is `measure.prefix_cache`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, Literal, NamedTuple

import msgspec

from everturn.measure.prefix_cache import Breakpoint, PromptLayout, Ttl, group_positions
from everturn.twin.count import BlockCounter, make_block_counter
from everturn.twin.options import TwinOptions
from everturn.twin.values import ParsedBlock, ParsedMessage, ParsedRequest

# Blocks that can never carry a marker, the automatic one included (api-facts 1.1, 1.2).
NO_BREAKPOINT_KINDS: Final = frozenset(
    ("thinking", "redacted_thinking", "connector_text", "fallback", "mcp_tool_listing", "cache_edits")
)
# Not published: what a change of speaker costs in delimiters.
TURN_TOKENS: Final = 4

_encode = msgspec.json.Encoder(order="deterministic").encode


class PlacedBlock(NamedTuple):
    """One block of the prompt, where it stands in the request, and what it costs there."""

    block: ParsedBlock
    section: Literal["tools", "system", "messages"]
    # Its message, and its place in the message or section.
    message: int
    index: int
    tokens: int

    @property
    def path(self) -> str:
        if self.section == "messages":
            return f"messages.{self.message}.content.{self.index}"
        return f"{self.section}.{self.index}"


@dataclass(frozen=True, slots=True)
class RequestLayout:
    pieces: tuple[PlacedBlock, ...]
    prompt: PromptLayout
    # After the last block; the counts of the pieces and this one sum to the total.
    trailing: int

    @property
    def total(self) -> int:
        return self.prompt.total


def lay_out(
    request: ParsedRequest, options: TwinOptions, *, unseen: frozenset[bytes] = frozenset()
) -> RequestLayout:
    """Blocks whose digest is in `unseen` keep their place in every key and cost nothing (TW-7)."""
    count = make_block_counter(request.model, options)
    pieces = tuple(_pieces(request, count, unseen))
    ends: list[int] = []
    total = 0
    for piece in pieces:
        total += piece.tokens
        ends.append(total)
    prompt = PromptLayout(
        scope=(request.workspace, request.model.id, "" if options.speeds_share_tools else _speed(request)),
        keys=_keys(request, pieces, options),
        ends=ends,
        positions=_positions(pieces, options),
        markers=_markers(request, pieces),
        total=total + options.trailing_tokens,
        minimum=options.min_cache.get(request.model.id, request.model.min_cache),
        lookback=options.lookback,
        rewrites_below_hit=options.rewrites_below_hit,
        alive_at_ttl=options.alive_at_ttl,
        longer_marker_lengthens=options.longer_marker_lengthens,
    )
    return RequestLayout(pieces, prompt, options.trailing_tokens)


# ── blocks and what they cost ────────────────────────────────────────────────────────────────────


def _pieces(request: ParsedRequest, count: BlockCounter, unseen: frozenset[bytes]) -> Iterator[PlacedBlock]:
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
    # What a forced choice adds to the hidden prompt comes with the messages: tools and system stay valid.
    extra = prompt_left + _forced_tokens(request)
    role = ""
    for number, message in enumerate(request.messages):
        expired = _expired(request.messages, number)
        for index, block in enumerate(message.blocks):
            frame = TURN_TOKENS if message.role != role and not expired else 0
            silent = expired or block.kind == "cache_edits" or block.digest in unseen
            tokens = frame + extra + (0 if silent else count(block))
            extra, role = 0, message.role
            yield PlacedBlock(block, "messages", number, index, tokens)


def _tools_in_prefix(request: ParsedRequest) -> list[tuple[int, ParsedBlock]]:
    """Without deferred tools. Web tools come last: they are rendered with the system prompt."""
    loaded = [(i, tool) for i, tool in enumerate(request.tools) if tool.body.get("defer_loading") is not True]
    return sorted(loaded, key=lambda item: _is_web(item[1]))


def _is_web(tool: ParsedBlock) -> bool:
    return str(tool.body.get("type", "")).startswith(("web_search_", "web_fetch_"))


def _forced_tokens(request: ParsedRequest) -> int:
    if not request.tools or _field(request.body, "tool_choice", "type") not in ("any", "tool"):
        return 0
    return request.model.tool_prompt_forced - request.model.tool_prompt


def _expired(messages: tuple[ParsedMessage, ...], number: int) -> bool:
    """A `clear_at` message is shown for its turn only: until a person speaks again (api-facts 7)."""
    if not is_turn_scoped(messages[number]):
        return False
    return any(is_user_prompt(message) for message in messages[number + 1 :])


def is_turn_scoped(message: ParsedMessage) -> bool:
    """Shown for one turn, so it takes no marker: no later turn could read the entry (api-facts 1.1)."""
    return message.extra.get("clear_at") == "next_user_message"


def is_user_prompt(message: ParsedMessage) -> bool:
    """A user message that is more than tool results."""
    return message.role == "user" and any(block.kind != "tool_result" for block in message.blocks)


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────


def _keys(request: ParsedRequest, pieces: tuple[PlacedBlock, ...], options: TwinOptions) -> tuple[bytes, ...]:
    seeds = {"system": _system_seed, "messages": _messages_seed}
    chain = _tools_seed(request, options)
    section = "tools"
    keys: list[bytes] = []
    for piece in pieces:
        while section != piece.section:
            section = "system" if section == "tools" else "messages"
            chain = _mix(chain, seeds[section](request, options))
        frame = _frame(request.messages[piece.message]) if section == "messages" else b""
        chain = _mix(chain, frame, piece.block.digest)
        keys.append(chain)
    return tuple(keys)


def _frame(message: ParsedMessage) -> bytes:
    return message.role.encode() + (_encode(message.extra) if message.extra else b"")


def _mix(*parts: bytes) -> bytes:
    return blake2b(b"\0".join(parts), digest_size=16).digest()


def _tools_seed(request: ParsedRequest, options: TwinOptions) -> bytes:
    betas = sorted(request.betas) if options.betas_invalidate else []
    return _encode(["tools", betas, *_thinking_seed(request, options, "tools")])


def _system_seed(request: ParsedRequest, options: TwinOptions) -> bytes:
    return _encode(["system", _speed(request), _cites(request), *_thinking_seed(request, options, "system")])


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
    """What shapes the prompt without being a block of it; a default spelled out equals leaving it out."""
    return [_tool_choice(request), _thinking(request), _effort(request), _output_format(request)]


def _speed(request: ParsedRequest) -> str:
    return request.body.get("speed") or "standard"


def _thinking(request: ParsedRequest) -> list[Any]:
    """Type and budget; how thinking is displayed or bound does not reach the model."""
    default = "adaptive" if request.model.thinks_by_default else "disabled"
    config = request.body.get("thinking") or {}
    return [config.get("type", default), config.get("budget_tokens")]


def _effort(request: ParsedRequest) -> Any:
    return _field(request.body, "output_config", "effort") or request.model.default_effort


def _output_format(request: ParsedRequest) -> Any:
    return _field(request.body, "output_config", "format") or request.body.get("output_format")


def _tool_choice(request: ParsedRequest) -> Any:
    """`auto` spelled out equals leaving it out; so does not forbidding parallel calls."""
    choice = request.body.get("tool_choice") or {}
    parallel = not choice.get("disable_parallel_tool_use")
    return [choice.get("type", "auto"), choice.get("name"), parallel]


def _images(request: ParsedRequest) -> int:
    return sum(_images_in(block) for message in request.messages for block in message.blocks)


def _images_in(block: ParsedBlock) -> int:
    if block.kind != "tool_result":
        return int(block.kind == "image")
    content = block.body.get("content")
    return sum(_kind(part) == "image" for part in content) if isinstance(content, list) else 0


def _cites(request: ParsedRequest) -> bool:
    blocks = (block for message in request.messages for block in message.blocks)
    return any(block.kind == "document" and _field(block.body, "citations", "enabled") for block in blocks)


def _field(body: dict[str, Any], outer: str, inner: str) -> Any:
    value = body.get(outer)
    return value.get(inner) if isinstance(value, dict) else None


def _kind(part: Any) -> str:
    return str(part.get("type")) if isinstance(part, dict) else ""


# ── positions and markers ────────────────────────────────────────────────────────────────────────


def _positions(pieces: tuple[PlacedBlock, ...], options: TwinOptions) -> tuple[int, ...]:
    kinds = [piece.block.kind for piece in pieces]
    positions = list(group_positions(kinds) if options.runs_are_one_position else range(len(kinds)))
    if not options.thinking_is_a_position:
        positions = _without_thinking(kinds, positions)
    if not options.lookback_crosses_sections:
        positions = _walled(pieces, positions, options.lookback)
    return tuple(positions)


def _without_thinking(kinds: list[str], positions: list[int]) -> list[int]:
    skipped = 0
    counted: list[int] = []
    for kind, position in zip(kinds, positions, strict=True):
        skipped += kind in ("thinking", "redacted_thinking")
        counted.append(position - skipped)
    return counted


def _walled(pieces: tuple[PlacedBlock, ...], positions: list[int], lookback: int) -> list[int]:
    """A gap wider than the lookback before each section, so that no walk gets across."""
    walls = {"tools": 0, "system": lookback, "messages": 2 * lookback}
    return [position + walls[piece.section] for position, piece in zip(positions, pieces, strict=True)]


def _markers(request: ParsedRequest, pieces: tuple[PlacedBlock, ...]) -> tuple[Breakpoint, ...]:
    marked: dict[int, Ttl] = {
        index: ttl for index, piece in enumerate(pieces) if (ttl := _ttl(piece.block)) is not None
    }
    if (automatic := _automatic(request)) is not None:
        last = next((i for i in range(len(pieces) - 1, -1, -1) if _markable(pieces[i], request)), None)
        if last is not None:
            marked.setdefault(last, automatic)
    return tuple(Breakpoint(index, marked[index]) for index in sorted(marked))


def _automatic(request: ParsedRequest) -> Ttl | None:
    control = request.body.get("cache_control")
    if not isinstance(control, dict):
        return None
    return "1h" if control.get("ttl") == "1h" else "5m"


def _markable(piece: PlacedBlock, request: ParsedRequest) -> bool:
    block = piece.block
    if piece.section == "messages" and is_turn_scoped(request.messages[piece.message]):
        return False
    return block.kind not in NO_BREAKPOINT_KINDS and not (block.kind == "text" and not block.body.get("text"))


def _ttl(block: ParsedBlock) -> Ttl | None:
    """A marker inside a result's content takes effect where the result ends."""
    content = block.body.get("content") if block.marker is None and block.kind == "tool_result" else None
    if not isinstance(content, list):
        return block.marker
    controls = [part.get("cache_control") for part in content if isinstance(part, dict)]
    nested = [control for control in controls if isinstance(control, dict)]
    if not nested:
        return None
    return "1h" if any(control.get("ttl") == "1h" for control in nested) else "5m"
