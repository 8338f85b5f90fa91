"""What one message contributes to the rules between messages, found once and remembered.

A conversation re-sends all its messages with every request, and the parser hands out the same `Message`
object for the same bytes. So the shape of a message is checked when it is first seen, and what `messages.py`,
`breakpoints.py` and the signatures ask about it is remembered beside it. A wrong message is not remembered.
"""

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import msgspec

from everturn.twin.validate import betas, blocks
from everturn.twin.validate.grammar import EXTRA, ShapeCheck, invalid_field, join_path, unknown_tag
from everturn.twin.validate.params import build_grammar
from everturn.twin.values import ParsedBlock, ParsedMessage, Ttl

grammar = build_grammar()
# With the extension's fields; where it is off they are refused as needs that nothing fulfils.
_CHECKS: dict[str, ShapeCheck] = {
    **grammar.family("block", blocks.BLOCKS),
    "tool_result": grammar.shape(f"type any, {blocks.BLOCKS['tool_result']}, {blocks.REFERABLE}"),
    "cache_edits": grammar.shape(f"type any, {blocks.CACHE_EDITS_BLOCK}"),
}
_encode = msgspec.json.Encoder(order="deterministic").encode

# Two hundred conversations of a hundred messages; beyond it the memo starts over.
_REMEMBERED = 20_000


@dataclass(frozen=True, slots=True)
class BetaRequirement:
    """A piece of the message that exists only under one of these headers."""

    headers: betas.Headers
    path: str
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class RequestBreakpoint:
    path: str
    ttl: Ttl


@dataclass(frozen=True, slots=True)
class ServerCall:
    id: str
    name: str
    answered_by: str


@dataclass(frozen=True, slots=True)
class MessageFacts:
    kinds: tuple[str, ...]
    # Identifiers with the position of their block.
    calls: tuple[tuple[int, str], ...]
    results: tuple[tuple[int, str], ...]
    leading_results: int
    server_calls: tuple[ServerCall, ...]
    server_results: tuple[tuple[int, str, str], ...]
    markers: tuple[RequestBreakpoint, ...]
    beta_requirements: tuple[BetaRequirement, ...]
    thinking: tuple[int, ...]
    compactions: tuple[int, ...]
    images: int
    blank: str | None
    empty_marked: str | None
    cited: int | None
    # Per block, what thinking is bound to: without markers, nulls and the order of keys.
    binding_digests: tuple[bytes, ...]


_memo: dict[int, tuple[ParsedMessage, MessageFacts]] = {}


def collect_message_facts(message: ParsedMessage, index: int) -> MessageFacts:
    """The facts of a message whose shape is right; raises Refusal, with paths below `messages.{index}`."""
    known = _memo.get(id(message))
    # The memo holds the message itself, so an id in it cannot have been given to another object.
    if known is not None and known[0] is message:
        return known[1]
    found = _find(message, f"messages.{index}")
    if len(_memo) >= _REMEMBERED:
        _memo.clear()
    _memo[id(message)] = (message, found)
    return found


def _find(message: ParsedMessage, path: str) -> MessageFacts:
    _check_extra(message, path)
    for position, block in enumerate(message.blocks):
        _check_block(message, block, join_path(path, f"content.{position}"))
    sent = message.blocks
    return MessageFacts(
        kinds=tuple(block.kind for block in sent),
        calls=tuple((at, block.body["id"]) for at, block in enumerate(sent) if block.kind == "tool_use"),
        results=_ids(sent, ("tool_result",)),
        leading_results=_leading_results(sent),
        server_calls=tuple(_server_call(block) for block in sent if _calls_server(block)),
        server_results=tuple(
            (at, block.kind, block.body["tool_use_id"])
            for at, block in enumerate(sent)
            if block.kind in blocks.SERVER_RESULTS
        ),
        markers=_markers(sent),
        beta_requirements=_needs(message),
        thinking=tuple(at for at, block in enumerate(sent) if block.kind in blocks.THINKING),
        compactions=tuple(at for at, block in enumerate(sent) if block.kind == "compaction"),
        images=sum(_images(block.body) for block in sent),
        blank=_blank(sent),
        empty_marked=_empty_marked(sent),
        cited=next((at for at, b in enumerate(sent) if b.kind == "text" and b.body.get("citations")), None),
        binding_digests=tuple(compute_binding_digest(block.body) for block in sent),
    )


def _check_extra(message: ParsedMessage, path: str) -> None:
    for name, value in message.extra.items():
        if message.role != "system" or name not in betas.MESSAGE_FIELDS:
            raise invalid_field(join_path(path, name), EXTRA)
        spelled = {"clear_at": "'next_user_message'/'never'?", "output_config": "message_output_config?"}
        grammar.kind(spelled[name])(value, join_path(path, name))


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
    """The blocks nested in a result, a search result or a document."""
    content = body.get("content")
    if content is None and isinstance(body.get("source"), dict):
        content = body["source"].get("content")
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _markers(sent: tuple[ParsedBlock, ...]) -> tuple[RequestBreakpoint, ...]:
    found: list[RequestBreakpoint] = []
    for at, block in enumerate(sent):
        # Nested markers count towards the maximum (api-facts 1.1), and come before their carrier's own.
        for nested, part in enumerate(_parts(block.body)):
            if isinstance(control := part.get("cache_control"), dict):
                found.append(RequestBreakpoint(f"content.{at}.content.{nested}", control.get("ttl", "5m")))
        if block.marker is not None:
            found.append(RequestBreakpoint(f"content.{at}", block.marker))
    return tuple(found)


def _needs(message: ParsedMessage) -> tuple[BetaRequirement, ...]:
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


def _blank(sent: tuple[ParsedBlock, ...]) -> str | None:
    for block in sent:
        if block.kind == "text" and not block.body["text"].strip():
            return "contain non-whitespace text" if block.body["text"] else "be non-empty"
        for part in _parts(block.body):
            if part.get("type") == "text" and not part["text"]:
                return "be non-empty"
    return None


def _empty_marked(sent: tuple[ParsedBlock, ...]) -> str | None:
    for at, block in enumerate(sent):
        if block.kind == "text" and block.marker is not None and not block.body["text"].strip():
            return f"content.{at}.text"
    return None


def compute_binding_digest(body: dict[str, Any]) -> bytes:
    return blake2b(_encode(_plain(body)), digest_size=16).digest()


def _plain(body: dict[str, Any]) -> dict[str, Any]:
    plain = {name: value for name, value in body.items() if value is not None and name != "cache_control"}
    content = plain.get("content")
    if isinstance(content, list):
        plain["content"] = [_plain(part) if isinstance(part, dict) else part for part in content]
    return plain
