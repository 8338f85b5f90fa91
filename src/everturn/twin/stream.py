"""A finished answer, told as a stream: the events of the Messages API in their order (api-facts 6).

    message_start
    (content_block_start, content_block_delta*, content_block_stop)*     one ping after the first start
    message_delta
    message_stop

The stream says what the plain body says, no more: a client that puts the events together again must
arrive at the same message. Pieces are cut by fixed rules, so equal answers give equal bytes.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import cycle
from typing import Any

import msgspec

StreamEvent = tuple[str, dict[str, Any]]

# What a message_start reports as output so far: the first token (api-facts 6: "small like 1-3").
FIRST_OUTPUT_TOKENS = 1

# Words per piece, in turn. The API's own pieces vary like this; the exact sizes mean nothing.
WORDS_PER_PIECE = (1, 3, 2, 5, 4, 2, 6)
MAX_WORD_CHARS = 48
JSON_PIECE = 24

# Known only at the end, so `message_start` cannot carry it.
_LATE_USAGE = frozenset({"iterations", "output_tokens_details", "fallback_credit"})
# Told once at the start; `message_delta` has no field for it (api-facts 6).
_EARLY_USAGE = frozenset({"cache_creation", "service_tier", "inference_geo", "speed"})
_LATE_FIELDS = frozenset({"context_management"})

_WORD = re.compile(r"\s*\S+|\s+$")
_encode = msgspec.json.Encoder().encode


def build_events(body: dict[str, Any]) -> Iterator[StreamEvent]:
    """The events of one message, given the body that a plain request would have got."""
    yield "message_start", {"type": "message_start", "message": _opening(body)}
    pinged = False
    for index, block in enumerate(body["content"]):
        for event in _block_events(index, block):
            yield event
            if not pinged:
                pinged = True
                yield "ping", {"type": "ping"}
    if not pinged:
        yield "ping", {"type": "ping"}
    yield "message_delta", _closing(body)
    yield "message_stop", {"type": "message_stop"}


def encode_sse(parts: Iterable[StreamEvent]) -> Iterator[bytes]:
    """Events as server-sent events; the name of an event equals the type of its data."""
    for name, data in parts:
        yield b"event: " + name.encode() + b"\ndata: " + _encode(data) + b"\n\n"


def stream_chunks(body: dict[str, Any]) -> Iterator[tuple[float, bytes]]:
    """The stream of an answer that nothing slows down: each event, and the seconds to wait before it."""
    for frame in encode_sse(build_events(body)):
        yield 0.0, frame


def error_event(kind: str, message: str) -> bytes:
    """An error after HTTP 200: the stream ends with it (api-facts 6)."""
    data = {"type": "error", "error": {"type": kind, "message": message}}
    return next(encode_sse([("error", data)]))


# ── message_start and message_delta ──────────────────────────────────────────────────────────────


def _opening(body: dict[str, Any]) -> dict[str, Any]:
    usage = {key: value for key, value in body["usage"].items() if key not in _LATE_USAGE}
    usage["output_tokens"] = min(FIRST_OUTPUT_TOKENS, usage.get("output_tokens", 0))
    opening = {key: value for key, value in body.items() if key not in _LATE_FIELDS}
    opening |= {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    if "stop_details" in opening:
        opening["stop_details"] = None
    return opening


def _closing(body: dict[str, Any]) -> dict[str, Any]:
    delta = {"stop_reason": body.get("stop_reason"), "stop_sequence": body.get("stop_sequence")}
    delta |= {key: body[key] for key in ("stop_details", "container") if key in body}
    usage = {
        key: value for key, value in body["usage"].items() if key not in _EARLY_USAGE and value is not None
    }
    closing: dict[str, Any] = {"type": "message_delta", "delta": delta, "usage": usage}
    if body.get("context_management") is not None:
        closing["context_management"] = body["context_management"]
    return closing


# ── one block ────────────────────────────────────────────────────────────────────────────────────


def _block_events(index: int, block: dict[str, Any]) -> Iterator[StreamEvent]:
    opened, deltas = _opened(block)
    yield "content_block_start", {"type": "content_block_start", "index": index, "content_block": opened}
    for delta in deltas:
        yield "content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}
    yield "content_block_stop", {"type": "content_block_stop", "index": index}


def _opened(block: dict[str, Any]) -> tuple[dict[str, Any], Iterable[dict[str, Any]]]:
    """The block as `content_block_start` shows it, and the deltas that fill it."""
    kind = block.get("type")
    if kind == "text":
        return _without(block, "citations") | {"text": ""}, _text_deltas(block)
    if kind == "thinking":
        return block | {"thinking": "", "signature": ""}, _thinking_deltas(block)
    if kind in ("tool_use", "server_tool_use", "mcp_tool_use"):
        return block | {"input": {}}, _input_deltas(block)
    if kind == "compaction" and "signature" not in block:
        return _without(block, "encrypted_content") | {"content": None}, [_compaction_delta(block)]
    # Redacted thinking, tool results, and the signed block of a compaction on demand come whole.
    return block, ()


def _without(block: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in block.items() if name != key}


def _text_deltas(block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for piece in split_text(block["text"]):
        yield {"type": "text_delta", "text": piece}
    for citation in block.get("citations") or ():
        yield {"type": "citations_delta", "citation": citation}


def _thinking_deltas(block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    # Omitted thinking is empty text: then the signature is all there is to send.
    for piece in split_text(block["thinking"]):
        yield {"type": "thinking_delta", "thinking": piece}
    yield {"type": "signature_delta", "signature": block.get("signature", "")}


def _input_deltas(block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    spelled = _encode(block.get("input", {})).decode()
    yield {"type": "input_json_delta", "partial_json": ""}
    for start in range(0, len(spelled), JSON_PIECE):
        yield {"type": "input_json_delta", "partial_json": spelled[start : start + JSON_PIECE]}


def _compaction_delta(block: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "compaction_delta",
        "content": block.get("content"),
        "encrypted_content": block.get("encrypted_content"),
    }


def split_text(text: str) -> Iterator[str]:
    """Text in pieces of a few words; together they are the text, byte for byte."""
    words = [part for word in _WORD.findall(text) for part in _parts(word)]
    sizes = cycle(WORDS_PER_PIECE)
    start = 0
    while start < len(words):
        end = start + next(sizes)
        yield "".join(words[start:end])
        start = end


def _parts(word: str) -> list[str]:
    if len(word) <= MAX_WORD_CHARS:
        return [word]
    return [word[start : start + MAX_WORD_CHARS] for start in range(0, len(word), MAX_WORD_CHARS)]
