"""A finished message as a stream: the events of the Messages API in their order (api-facts 6).

    message_start
    (content_block_start, content_block_delta*, content_block_stop)*     one ping after the first start
    message_delta
    message_stop

The stream carries the same message as the plain body: a client that joins the events gets an equal message.
Text is split by fixed rules, so equal messages give equal bytes.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Final

import msgspec

StreamEvent = tuple[str, dict[str, Any]]

# The output_tokens of message_start: the first token (api-facts 6: "small like 1-3").
FIRST_OUTPUT_TOKENS = 1

# Words per delta, in rotation. The API's deltas vary in a similar way; the exact sizes have no meaning.
WORDS_PER_DELTA = (1, 3, 2, 5, 4, 2, 6)
MAX_WORD_CHARS = 48
JSON_CHARS_PER_DELTA = 24
# The API limits how often it reports the progress of thinking.
MAX_ESTIMATES = 20

# Known only at the end, so not in `message_start`.
_LATE_USAGE = frozenset({"iterations", "output_tokens_details", "fallback_credit"})
# Only in `message_start`; `message_delta` has no field for it (api-facts 6).
_EARLY_USAGE = frozenset({"cache_creation", "service_tier", "inference_geo", "speed"})
_LATE_FIELDS = frozenset({"context_management"})

_WORD = re.compile(r"\s*\S+|\s+$")
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class StreamDetails:
    """What a stream shows beyond the message: how it was cut off, and how far thinking got."""

    # The JSON of the last tool call's input, if the output limit cut it off.
    partial_input: str | None = None
    # The increments of `estimated_tokens` for each thinking block; None without their beta header.
    estimated_tokens: Sequence[Sequence[int]] | None = None


NO_DETAILS: Final = StreamDetails()


def build_events(body: dict[str, Any], details: StreamDetails = NO_DETAILS) -> Iterator[StreamEvent]:
    """The events of a message, given the body of the response without streaming."""
    yield "message_start", {"type": "message_start", "message": _message_start(body)}
    pinged = False
    last = len(body["content"]) - 1
    thoughts = iter(details.estimated_tokens or ())
    for index, block in enumerate(body["content"]):
        start, deltas = _block_start(block)
        if index == last and details.partial_input is not None:
            deltas = _json_deltas(details.partial_input)
        elif block.get("type") == "thinking" and details.estimated_tokens is not None:
            deltas = _counted_thinking_deltas(block, next(thoughts, ()))
        for event in _block_events(index, start, deltas):
            yield event
            if not pinged:
                pinged = True
                yield "ping", {"type": "ping"}
    if not pinged:
        yield "ping", {"type": "ping"}
    yield "message_delta", _message_delta(body)
    yield "message_stop", {"type": "message_stop"}


def encode_sse(events: Iterable[StreamEvent]) -> Iterator[bytes]:
    """Encode events as server-sent events. The event name equals the `type` in its data."""
    for name, data in events:
        yield b"event: " + name.encode() + b"\ndata: " + _encode(data) + b"\n\n"


def stream_chunks(body: dict[str, Any], details: StreamDetails = NO_DETAILS) -> Iterator[tuple[float, bytes]]:
    """The encoded stream of a message at full speed: (0.0 seconds to wait, bytes) for each event."""
    for frame in encode_sse(build_events(body, details)):
        yield 0.0, frame


def error_event(kind: str, message: str) -> bytes:
    """The last event of a stream that fails after HTTP 200 (api-facts 6)."""
    data = {"type": "error", "error": {"type": kind, "message": message}}
    return next(encode_sse([("error", data)]))


# ── message_start and message_delta ──────────────────────────────────────────────────────────────


def _message_start(body: dict[str, Any]) -> dict[str, Any]:
    usage = {key: value for key, value in body["usage"].items() if key not in _LATE_USAGE}
    usage["output_tokens"] = min(FIRST_OUTPUT_TOKENS, usage.get("output_tokens", 0))
    opening = {key: value for key, value in body.items() if key not in _LATE_FIELDS}
    opening |= {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    if "stop_details" in opening:
        opening["stop_details"] = None
    return opening


def _message_delta(body: dict[str, Any]) -> dict[str, Any]:
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


def _block_events(
    index: int, start: dict[str, Any], deltas: Iterable[dict[str, Any]]
) -> Iterator[StreamEvent]:
    yield "content_block_start", {"type": "content_block_start", "index": index, "content_block": start}
    for delta in deltas:
        yield "content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}
    yield "content_block_stop", {"type": "content_block_stop", "index": index}


def _block_start(block: dict[str, Any]) -> tuple[dict[str, Any], Iterable[dict[str, Any]]]:
    """The block in `content_block_start`, and the deltas that complete it."""
    kind = block.get("type")
    if kind == "text":
        return _without(block, "citations") | {"text": ""}, _text_deltas(block)
    if kind == "thinking":
        return block | {"thinking": "", "signature": ""}, _thinking_deltas(block)
    if kind in ("tool_use", "server_tool_use", "mcp_tool_use"):
        return block | {"input": {}}, _input_deltas(block)
    if kind == "compaction" and "signature" not in block:
        return _without(block, "encrypted_content") | {"content": None}, [_compaction_delta(block)]
    # Redacted thinking, tool results and the signed block of an on-demand compaction have no deltas.
    return block, ()


def _without(block: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in block.items() if name != key}


def _text_deltas(block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for part in split_text(block["text"]):
        yield {"type": "text_delta", "text": part}
    for citation in block.get("citations") or ():
        yield {"type": "citations_delta", "citation": citation}


def _thinking_deltas(block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    # Omitted thinking has no text, so only the signature is sent.
    for part in split_text(block["thinking"]):
        yield {"type": "thinking_delta", "thinking": part}
    yield {"type": "signature_delta", "signature": block.get("signature", "")}


def _counted_thinking_deltas(block: dict[str, Any], increments: Iterable[int]) -> Iterator[dict[str, Any]]:
    """With the beta header: omitted thinking shows how far it got, other thinking has a null count."""
    if not block["thinking"]:
        for increment in increments:
            yield {"type": "thinking_delta", "thinking": "", "estimated_tokens": increment}
    for delta in _thinking_deltas(block):
        yield delta | {"estimated_tokens": None} if delta["type"] == "thinking_delta" else delta


def estimate_increments(tokens: int, step: int) -> list[int]:
    """The increments for thinking of so many tokens: a few multiples of a step, never more in all."""
    steps = tokens // step
    count = min(steps, MAX_ESTIMATES)
    return [step * (steps * (n + 1) // count - steps * n // count) for n in range(count)]


def _input_deltas(block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    return _json_deltas(_encode(block.get("input", {})).decode())


def _json_deltas(encoded: str) -> Iterator[dict[str, Any]]:
    yield {"type": "input_json_delta", "partial_json": ""}
    for start in range(0, len(encoded), JSON_CHARS_PER_DELTA):
        yield {"type": "input_json_delta", "partial_json": encoded[start : start + JSON_CHARS_PER_DELTA]}


def _compaction_delta(block: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "compaction_delta",
        "content": block.get("content"),
        "encrypted_content": block.get("encrypted_content"),
    }


def split_text(text: str) -> Iterator[str]:
    """Split text into parts of a few words. Joined, they equal the text."""
    words = [part for word in _WORD.findall(text) for part in _split_word(word)]
    sizes = cycle(WORDS_PER_DELTA)
    start = 0
    while start < len(words):
        end = start + next(sizes)
        yield "".join(words[start:end])
        start = end


def _split_word(word: str) -> list[str]:
    if len(word) <= MAX_WORD_CHARS:
        return [word]
    return [word[start : start + MAX_WORD_CHARS] for start in range(0, len(word), MAX_WORD_CHARS)]
