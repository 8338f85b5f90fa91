"""Reads bodies for the record: requests as the client sent them, replies as the upstream sent them.

Nothing here is on the way of a relayed byte. Decompression stops at a limit, piece by piece.
"""

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from everturn.adapters.tracking.list_memo import OwnedList
from everturn.engine.wire import ANTHROPIC_WIRE
from everturn.gateway.known_bodies import BodyMemo, decode_json
from everturn.history.blocks import THINKING
from everturn.history.records import Usage
from everturn.wire.json_values import is_list, is_object

EVENT_STREAM: Final = "text/event-stream"
TOO_DEEP: Final = "its JSON is nested too deep"
_PIECE: Final = 1 << 16
# Each part copies what follows it. Our choice.
MAX_PARTS: Final = 16
# Errors of the API are a few hundred bytes. Our choice.
MAX_ERROR_BYTES: Final = 1 << 20
_UNREAD_ENCODINGS: Final = ("br", "zstd", "compress")
_bodies: Final = BodyMemo()


class UnreadableBody(Exception):
    """A body that is relayed and not read; the reason is one of few, for counting."""


class TooLarge(UnreadableBody):
    """A body that is larger than allowed when it is decompressed."""


class AnsweredUsage(msgspec.Struct):
    """What an answer says that it used, and of which model."""

    model: str = ""
    usage: Usage = Usage()


class ReadReply(NamedTuple):
    """A reply as a plain request would have returned it, and why it is not whole, if it is not."""

    body: bytes
    problem: str = ""


def read_answered_usage(body: bytes) -> AnsweredUsage:
    """Nothing was used, if the answer cannot be read."""
    try:
        return msgspec.json.decode(body, type=AnsweredUsage)
    except msgspec.MsgspecError:
        return AnsweredUsage()


def decompress(pieces: Iterable[bytes], encoding: str, limit: int) -> Iterator[bytes]:
    """The content, piece by piece; raises `TooLarge` above the limit."""
    coding = encoding.strip().lower()
    if coding in ("", "identity"):
        yield from pieces
        return
    if coding not in ("gzip", "x-gzip", "deflate"):
        # The reason goes into metrics and logs, so it repeats nothing that a client made up.
        named = f" {coding}" if coding in _UNREAD_ENCODINGS else ""
        raise UnreadableBody(f"its content-encoding{named} cannot be read")
    decoder, size, parts = _make_decoder(), 0, 1
    for piece in pieces:
        rest = piece
        while rest:
            try:
                data = decoder.decompress(rest, _PIECE)
            except zlib.error:
                raise UnreadableBody("its compressed content is damaged") from None
            size += len(data)
            if size > limit:
                raise TooLarge("it is larger than allowed when decompressed")
            yield data
            rest = decoder.unconsumed_tail
            if decoder.eof and decoder.unused_data:
                # Content may be compressed in several parts, which follow each other.
                rest, decoder, parts = decoder.unused_data, _make_decoder(), parts + 1
                if parts > MAX_PARTS:
                    raise UnreadableBody("its compressed content has too many parts")


def read_error_body(body: bytes, encoding: str) -> bytes:
    """The body of an error without its compression, for whoever reads what it says; as it came if that is not
    possible."""
    try:
        return b"".join(decompress([body], encoding, MAX_ERROR_BYTES))
    except UnreadableBody:
        return body


# Reads the formats of zlib and gzip.
_make_decoder: Final = partial(zlib.decompressobj, wbits=zlib.MAX_WBITS | 32)


def read_request(
    body: bytes, encoding: str, *, max_bytes: int, max_messages: int, scope: str = "", is_kept: bool = True
) -> Mapping[str, Any]:
    """The fields of a request; raises `UnreadableBody`. `scope` names its session, if the client does.
    `is_kept`: the next request is expected to continue this body."""
    if encoding:
        body = b"".join(decompress([body], encoding, max_bytes))
    try:
        fields = _bodies.decode(body, scope) if is_kept else decode_json(body)
    except RecursionError:
        raise UnreadableBody(TOO_DEEP) from None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise UnreadableBody("it is not JSON") from None
    if not is_object(fields):
        raise UnreadableBody("it is not a JSON object")
    messages = fields.get("messages")
    if is_list(messages) and len(messages) > max_messages:
        raise UnreadableBody("it has more messages than the limit")
    return fields


def read_at_once(body: bytes, encoding: str, *, max_messages: int, scope: str) -> Mapping[str, Any] | None:
    """The fields of a request, if that takes no time that anybody would notice; None also where something is
    wrong with it."""
    fields = None if encoding else _bodies.decode_at_once(body, scope)
    messages = fields.get("messages") if is_object(fields) else None
    if not is_list(messages) or len(messages) > max_messages:
        return None
    # Otherwise all of a long list would have to be digested.
    is_read = not isinstance(messages, OwnedList) or messages.begins_with_read
    return fields if is_read else None


def replace_messages(body: bytes, messages: msgspec.Raw) -> bytes:
    """The body of a request with other messages. The bytes of all other values stay as they came."""
    return msgspec.json.encode({**_decode_values(body), "messages": messages})


_decode_values: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def without_thinking(fields: Mapping[str, Any]) -> bytes | None:
    """The body of a request whose replies have no thinking; None if they had none, or nothing else."""
    given: Any = fields.get("messages")
    if not is_list(given) or not all(map(is_object, given)):
        return None
    messages = [_drop_thinking(each) for each in given]
    is_changed = any(now is not before for now, before in zip(messages, given, strict=True))
    is_whole = all(each.get("content") for each in messages)
    return msgspec.json.encode({**fields, "messages": messages}) if is_changed and is_whole else None


def drop_thinking(body: bytes) -> bytes | None:
    """The same from the bytes of a request, for lists of any size: only messages with thinking are read, all
    others stay as they came. Raises what the decoder does."""
    fields = _decode_values(body)
    messages: list[Any] = _decode_items(fields.get("messages", b"[]"))
    is_changed = False
    for at, message in enumerate(messages):
        if _THINKING_KIND not in bytes(message):
            continue
        before = decode_json(bytes(message))
        now = _drop_thinking(before) if is_object(before) else before
        if now is not before:
            if not now["content"]:
                return None
            messages[at], is_changed = now, True
    return msgspec.json.encode({**fields, "messages": messages}) if is_changed else None


# A part of both kinds.
_THINKING_KIND: Final = b'thinking"'
_decode_items: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode


def _drop_thinking(message: dict[str, Any]) -> dict[str, Any]:
    content: Any = message.get("content")
    if not is_list(content) or not any(map(_is_thinking, content)):
        return message
    return {**message, "content": [block for block in content if not _is_thinking(block)]}


def _is_thinking(block: Any) -> bool:
    return is_object(block) and block.get("type") in THINKING


def is_event_stream(content_type: str) -> bool:
    return content_type.lower().startswith(EVENT_STREAM)


def read_reply(pieces: Sequence[bytes], content_type: str, encoding: str, *, max_bytes: int) -> ReadReply:
    """The reply in what was relayed; raises `UnreadableBody`."""
    content = decompress(pieces, encoding, max_bytes) if encoding else pieces
    if not is_event_stream(content_type):
        return ReadReply(b"".join(content))
    streamed = ANTHROPIC_WIRE.parse_stream()
    # In one piece: nobody waits for single events here.
    streamed.feed(b"".join(content))
    if streamed.is_whole:
        return ReadReply(streamed.body)
    return ReadReply(streamed.body, streamed.problem or "the stream ended before the reply did")
