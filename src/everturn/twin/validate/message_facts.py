"""Facts about one message that the rules between messages need, collected once and cached.

A conversation sends all its messages again with every request, and the parser returns the same
`ParsedMessage` object for the same bytes. So the shape of a message is checked once, and what `messages.py`,
`breakpoints.py` and `twin/signatures.py` need is cached with it. An invalid message is not cached.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import msgspec

from everturn.history.blocks import THINKING
from everturn.measure.prefix_cache import Ttl
from everturn.twin.validate import betas, blocks
from everturn.twin.validate.grammar import EXTRA, ShapeCheck, invalid_field, join_path, unknown_tag
from everturn.twin.validate.params import build_grammar
from everturn.twin.validate.reported_refusals import find_image_problem
from everturn.twin.values import ParsedBlock, ParsedMessage, ParsedRequest, RequestRole
from everturn.wire.json_values import as_object, as_objects, is_list, is_object

grammar = build_grammar()
# Includes the fields of the extension. If it is off, they are rejected as a beta requirement without header.
_CHECKS: dict[str, ShapeCheck] = {
    **grammar.family("block", blocks.BLOCKS),
    "tool_result": grammar.shape(f"type any, {blocks.BLOCKS['tool_result']}, {blocks.REFERABLE}"),
    "cache_edits": grammar.shape(f"type any, {blocks.CACHE_EDITS_BLOCK}"),
}
_encode = msgspec.json.Encoder(order="deterministic").encode
_PLAIN_KINDS: dict[RequestRole, frozenset[str]] = {
    "user": frozenset(("text", "tool_result")),
    "assistant": frozenset(("text", "tool_use", *THINKING)),
    "system": frozenset(),
}


@dataclass(frozen=True, slots=True)
class BetaRequirement:
    """A part of the message that needs one of these headers."""

    headers: betas.Headers
    path: str
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class RequestBreakpoint:
    """A `cache_control` in the request; `path` is relative to its message in `MessageFacts`."""

    path: str
    ttl: Ttl


@dataclass(frozen=True, slots=True)
class ServerCall:
    """A call of a server tool, and the block type of its result."""

    id: str
    name: str
    answered_by: str


@dataclass(frozen=True, slots=True)
class MessageFacts:
    """What the rules need to know about one message."""

    # Only the rules about calls and their results can refuse it.
    is_plain: bool
    kinds: tuple[str, ...]
    # The position of the block, and its id.
    calls: tuple[tuple[int, str], ...]
    results: tuple[tuple[int, str], ...]
    call_ids: tuple[str, ...]
    result_ids: tuple[str, ...]
    leading_results: int
    server_calls: tuple[ServerCall, ...]
    server_results: tuple[tuple[int, str, str], ...]
    breakpoints: tuple[RequestBreakpoint, ...]
    beta_requirements: tuple[BetaRequirement, ...]
    thinking: tuple[int, ...]
    compactions: tuple[int, ...]
    images: int
    blank: str | None
    empty_with_breakpoint: str | None
    cited: int | None
    # An image that cannot be read: the option for it, its path, and the reason.
    image_problem: tuple[str, str, str] | None
    # One per block, for thinking binding: without cache_control, nulls and the order of keys.
    binding_digests: tuple[bytes, ...]


def collect_message_facts(message: ParsedMessage, index: int) -> MessageFacts:
    """The facts of a message. Raises ApiError, with the path `messages.{index}`, if its shape is invalid."""
    found: MessageFacts | None = message.computed.get("facts")
    if found is None:
        found = message.computed["facts"] = _find(message, f"messages.{index}")
    return found


@dataclass(frozen=True, slots=True)
class RequestFacts:
    """The facts of all messages, and of those that are not plain, with their indexes."""

    all: Sequence[MessageFacts]
    notable: Sequence[tuple[int, MessageFacts]]


def collect_facts(request: ParsedRequest) -> RequestFacts:
    """The facts of a request. Raises ApiError if the shape of a message is invalid."""
    facts = [collect_message_facts(message, index) for index, message in enumerate(request.messages)]
    return RequestFacts(facts, [(i, found) for i, found in enumerate(facts) if not found.is_plain])


def _find(message: ParsedMessage, path: str) -> MessageFacts:
    _check_extra(message, path)
    for position, block in enumerate(message.blocks):
        _check_block(message, block, join_path(path, f"content.{position}"))
    return _find_all(message)


def _is_plain(
    message: ParsedMessage, kinds: tuple[str, ...], noted: tuple[object, ...], problems: tuple[object, ...]
) -> bool:
    if not kinds or message.extra or not _PLAIN_KINDS[message.role].issuperset(kinds):
        return False
    return not any(noted) and all(problem is None for problem in problems)


def _find_all(message: ParsedMessage) -> MessageFacts:
    sent = message.blocks
    kinds = tuple([block.kind for block in sent])
    calls = tuple([(at, b.body["id"]) for at, b in enumerate(sent) if b.kind == "tool_use"])
    results = _ids(sent, ("tool_result",))
    breakpoints = _find_breakpoints(sent)
    beta_requirements = _find_beta_requirements(message)
    # Most messages have no image. One can stand in a block, or in the source of a document.
    has_images = "image" in message.kinds
    images = sum(_images(block.body) for block in sent) if has_images or "document" in kinds else 0
    blank = _find_blank(sent)
    empty_with_breakpoint = _find_empty_with_breakpoint(sent)
    cited = next((at for at, b in enumerate(sent) if b.kind == "text" and b.body.get("citations")), None)
    image_problem = find_image_problem(sent) if has_images else None
    noted = (breakpoints, beta_requirements, images)
    problems = (blank, empty_with_breakpoint, cited, image_problem)
    return MessageFacts(
        is_plain=_is_plain(message, kinds, noted, problems),
        kinds=kinds,
        calls=calls,
        results=results,
        call_ids=tuple([id for _, id in calls]),
        result_ids=tuple([id for _, id in results]),
        leading_results=_leading_results(sent),
        server_calls=tuple([_server_call(block) for block in sent if _calls_server(block)]),
        server_results=tuple(
            [
                (at, block.kind, block.body["tool_use_id"])
                for at, block in enumerate(sent)
                if block.kind in blocks.SERVER_RESULTS
            ]
        ),
        breakpoints=breakpoints,
        beta_requirements=beta_requirements,
        thinking=tuple([at for at, kind in enumerate(kinds) if kind in THINKING]),
        compactions=tuple([at for at, kind in enumerate(kinds) if kind == "compaction"]),
        images=images,
        blank=blank,
        empty_with_breakpoint=empty_with_breakpoint,
        cited=cited,
        image_problem=image_problem,
        binding_digests=tuple([compute_binding_digest(block.body) for block in sent]),
    )


def _check_extra(message: ParsedMessage, path: str) -> None:
    for name, value in message.extra.items():
        if message.role != "system" or name not in betas.MESSAGE_FIELDS:
            raise invalid_field(join_path(path, name), EXTRA)
        notation = {"clear_at": "'next_user_message'/'never'?", "output_config": "message_output_config?"}
        grammar.kind(notation[name])(value, join_path(path, name))


def _check_block(message: ParsedMessage, block: ParsedBlock, path: str) -> None:
    expected = blocks.SYSTEM_MESSAGE_BLOCKS if message.role == "system" else _CHECKS.keys()
    if block.kind not in expected:
        raise invalid_field(path, unknown_tag(block.kind, expected & blocks.BLOCKS.keys()))
    _CHECKS[block.kind](block.body, join_path(path, block.kind))


def _ids(sent: tuple[ParsedBlock, ...], kinds: tuple[str, ...]) -> tuple[tuple[int, str], ...]:
    return tuple((at, block.body["tool_use_id"]) for at, block in enumerate(sent) if block.kind in kinds)


def _leading_results(sent: tuple[ParsedBlock, ...]) -> int:
    return next((at for at, block in enumerate(sent) if block.kind != "tool_result"), len(sent))


def _calls_server(block: ParsedBlock) -> bool:
    return block.kind in ("server_tool_use", "mcp_tool_use")


def _server_call(block: ParsedBlock) -> ServerCall:
    name = block.body["name"]
    return ServerCall(block.body["id"], name, blocks.SERVER_TOOLS.get(name, "mcp_tool_result"))


def _parts(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The blocks inside a tool result, a search result or a document."""
    content = body.get("content")
    if content is None:
        content = as_object(body.get("source")).get("content")
    return as_objects(content)


def _find_breakpoints(sent: tuple[ParsedBlock, ...]) -> tuple[RequestBreakpoint, ...]:
    found: list[RequestBreakpoint] = []
    for at, block in enumerate(sent):
        # Nested breakpoints count towards the maximum (api-facts 1.1), and come before the outer block's.
        for nested, part in enumerate(_parts(block.body)):
            if is_object(control := part.get("cache_control")):
                found.append(RequestBreakpoint(f"content.{at}.content.{nested}", control.get("ttl", "5m")))
        if block.cache_ttl is not None:
            found.append(RequestBreakpoint(f"content.{at}", block.cache_ttl))
    return tuple(found)


def _find_beta_requirements(message: ParsedMessage) -> tuple[BetaRequirement, ...]:
    found = [BetaRequirement(betas.MESSAGE_FIELDS[name], name) for name in message.extra]
    for at, block in enumerate(message.blocks):
        path = f"content.{at}"
        if block.kind in betas.BLOCK_KINDS:
            found.append(BetaRequirement(betas.BLOCK_KINDS[block.kind], path, block.kind))
        # Only on-demand compaction signs its blocks (api-facts 2.5).
        if block.kind == "compaction" and block.body.get("signature"):
            found.append(BetaRequirement(betas.COMPACT_ON_DEMAND, path, block.kind))
        if block.kind == "tool_addition" and block.body["tool"]["type"] == "tool_definition":
            found.append(BetaRequirement(betas.INLINE_TOOLS, f"{path}.tool_addition.tool", "tool_definition"))
        if block.kind == "cache_edits":
            found.append(BetaRequirement(betas.NO_BETA_HEADER, path, block.kind))
        if "cache_reference" in block.body:
            found.append(BetaRequirement(betas.NO_BETA_HEADER, f"{path}.{block.kind}.cache_reference"))
    return tuple(found)


def _images(body: dict[str, Any]) -> int:
    return (body["type"] == "image") + sum(part.get("type") == "image" for part in _parts(body))


def _find_blank(sent: tuple[ParsedBlock, ...]) -> str | None:
    for block in sent:
        if block.kind == "text" and not block.body["text"].strip():
            return "contain non-whitespace text" if block.body["text"] else "be non-empty"
        for part in _parts(block.body):
            if part.get("type") == "text" and not part["text"]:
                return "be non-empty"
    return None


def _find_empty_with_breakpoint(sent: tuple[ParsedBlock, ...]) -> str | None:
    for at, block in enumerate(sent):
        if block.kind == "text" and block.cache_ttl is not None and not block.body["text"].strip():
            return f"content.{at}.text"
    return None


def compute_binding_digest(body: dict[str, Any]) -> bytes:
    return blake2b(_encode(_plain(body)), digest_size=16).digest()


def _plain(body: dict[str, Any]) -> dict[str, Any]:
    plain = {name: value for name, value in body.items() if value is not None and name != "cache_control"}
    content = plain.get("content")
    if is_list(content):
        plain["content"] = [_plain(part) if is_object(part) else part for part in content]
    return plain
