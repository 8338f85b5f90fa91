"""The format of the Messages API: requests as bytes, replies as values.

A request is assembled from existing bytes: blocks are sent as received, and nothing that was sent before is
serialised again. `Usage` is defined next to the records that carry it (`history/records.py`).
"""

from collections.abc import Mapping, Sequence
from operator import is_
from typing import Any

import msgspec

from everturn.history.blocks import Block
from everturn.history.messages import Message
from everturn.history.records import ReplyMeta, Usage
from everturn.wire.claude_code_reader import blocks_from_content
from everturn.wire.fitting import decode_lenient
from everturn.wire.json_values import is_object, is_sequence

_encode = msgspec.json.Encoder().encode
_OPEN = {"user": b'{"role":"user","content":[', "assistant": b'{"role":"assistant","content":['}


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is sent. `system` and `tools` are blocks too: their bytes are part of the cache key.

    `settings` are the other top-level fields (max_tokens, thinking, ...), in the order given.
    """

    model: str
    messages: tuple[Message, ...]
    system: tuple[Block, ...] = ()
    tools: tuple[Block, ...] = ()
    settings: Mapping[str, Any] = {}

    def to_bytes(self, spelled: "MessagePieces | None" = None) -> bytes:
        """`spelled` remembers the messages of the request before this one."""
        pieces = [b'{"model":', _encode(self.model)]
        for name, value in self.settings.items():
            pieces += [b",", _encode(name), b":", _encode(value)]
        spelled = spelled or MessagePieces()
        pieces.append(spelled.preamble(self.tools, self.system))
        pieces += [b',"messages":[', *spelled.update(self.messages), b"]}"]
        return b"".join(pieces)


class MessagePieces:
    """The bytes of the messages of the last request, not joined, and those of its tools and system prompt. A
    conversation sends nearly all of them again, as the same objects: those are not looked at again.
    """

    def __init__(self) -> None:
        self._preamble: tuple[tuple[Block, ...], tuple[Block, ...]] = ((), ())
        self._preamble_bytes = b""
        self._messages: tuple[Message, ...] = ()
        self._pieces: list[bytes] = []
        # For each message, the number of pieces up to its end.
        self._ends: list[int] = []

    def preamble(self, tools: tuple[Block, ...], system: tuple[Block, ...]) -> bytes:
        """The fields with the tools and the system prompt; those without a block are left out."""
        if self._preamble != (tools, system):
            self._preamble = tools, system
            fields = ((b',"tools":[', tools), (b',"system":[', system))
            pieces = (b"".join([name, *_joined(blocks), b"]"]) for name, blocks in fields if blocks)
            self._preamble_bytes = b"".join(pieces)
        return self._preamble_bytes

    def update(self, messages: tuple[Message, ...]) -> list[bytes]:
        """The pieces of these messages."""
        same = _count_identical(self._messages, messages)
        pieces, ends = self._pieces, self._ends
        del ends[same:]
        del pieces[ends[-1] if ends else 0 :]
        append = pieces.append
        for message in messages[same:]:
            append(_OPEN[message.role])
            for block in message.blocks:
                append(block.raw)
                append(b",")
            if message.blocks:
                pieces[-1] = b"]},"
            else:
                append(b"]},")
            ends.append(len(pieces))
        self._messages = messages
        return [*pieces[:-1], b"]}"] if pieces else []


def _count_identical(one: Sequence[Message], other: Sequence[Message]) -> int:
    """How many messages at the beginning are the same objects."""
    found = list(map(is_, one, other))
    return found.index(False) if False in found else len(found)


def _joined(blocks: Sequence[Block]) -> list[bytes]:
    pieces = [b","] * (2 * len(blocks) - 1)
    pieces[::2] = [block.raw for block in blocks]
    return pieces


class _Body(msgspec.Struct):
    id: str = ""
    model: str = ""
    stop_reason: str | None = None
    usage: Usage | None = None
    content: msgspec.Raw = msgspec.Raw(b"[]")


class Response(msgspec.Struct, frozen=True):
    """A reply as received: its blocks byte for byte, and the metadata that the API sent with it."""

    blocks: tuple[Block, ...]
    reply: ReplyMeta


_read_body = msgspec.json.Decoder(_Body).decode


def read_response(body: bytes, *, request_id: str = "") -> Response:
    """Read a plain (not streamed) response body. Raises msgspec.DecodeError if it is not one."""
    try:
        seen = _read_body(body)
    except msgspec.ValidationError:
        # Counts may be null, and fields may change their shape: the reply must stay readable in both cases.
        seen = decode_lenient(body, _Body)
        if not seen.id:
            raise
    reply = ReplyMeta(
        seen.id, seen.model, seen.stop_reason or "", seen.usage, request_id, _deleted_tokens(body)
    )
    return Response(blocks_from_content(seen.content), reply)


class _Deletions(msgspec.Struct):
    cache_deleted_input_tokens: int | None = None


class _Deleting(msgspec.Struct):
    usage: _Deletions = msgspec.field(default_factory=_Deletions)


def _deleted_tokens(body: bytes) -> int | None:
    """Reported only by providers that support deletions by reference, next to the common usage."""
    if b'"cache_deleted_input_tokens"' not in body:
        return None
    try:
        return msgspec.json.decode(body, type=_Deleting).usage.cache_deleted_input_tokens
    except msgspec.ValidationError:
        return None


class _Parts(msgspec.Struct, frozen=True):
    iterations: tuple[Usage, ...] = ()


class _Parted(msgspec.Struct):
    usage: _Parts = _Parts()


def compaction_usage(body: bytes) -> Usage:
    """The usage of the API's own compaction: its first iteration. Top-level usage excludes it (api-facts
    2.5). None if it is not reported.
    """
    try:
        parts = msgspec.json.decode(body, type=_Parted).usage.iterations
    except msgspec.ValidationError:
        return Usage()
    return parts[0] if parts else Usage()


def tool_block(definition: Mapping[str, Any]) -> Block:
    """A tool definition as a block."""
    return Block("tool", _encode(definition), tool=str(definition.get("name", "")))


def without_cache_control(value: Any) -> Any:
    """A block without `cache_control`, also in nested blocks. The input of a tool call is left as it is."""
    if is_object(value):
        kept = ((name, part) for name, part in value.items() if name != "cache_control")
        return {
            name: part if name == "input" or isinstance(part, str) else without_cache_control(part)
            for name, part in kept
        }
    if is_sequence(value):
        return [without_cache_control(part) for part in value]
    return value
