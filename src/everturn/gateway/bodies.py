"""Reads bodies for the record: requests as the client sent them, replies as the upstream sent them.

Nothing here is on the way of a relayed byte. Decompression stops at a limit, piece by piece.
"""

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from everturn.gateway.known_bodies import BodyMemo
from everturn.history.blocks import THINKING
from everturn.history.records import Usage
from everturn.wire.json_values import is_list, is_object
from everturn.wire.streamed import StreamedReply

EVENT_STREAM: Final = "text/event-stream"
TOO_DEEP: Final = "its JSON is nested too deep"
_PIECE: Final = 1 << 16
# Each part copies what follows it. Our choice.
MAX_PARTS: Final = 16
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
        raise UnreadableBody(f"its content-encoding {coding[:20]!r} cannot be read")
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


# Reads the formats of zlib and gzip.
_make_decoder: Final = partial(zlib.decompressobj, wbits=zlib.MAX_WBITS | 32)


def read_request(
    body: bytes, encoding: str, *, max_bytes: int, max_messages: int, scope: str = ""
) -> Mapping[str, Any]:
    """The fields of a request; raises `UnreadableBody`. `scope` names its session, if the client does."""
    if encoding:
        body = b"".join(decompress([body], encoding, max_bytes))
    try:
        fields = _bodies.decode(body, scope)
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


def without_thinking(fields: Mapping[str, Any]) -> bytes | None:
    """The body of a request whose replies have no thinking; None if they had none, or nothing else."""
    given: Any = fields.get("messages")
    if not is_list(given) or not all(map(is_object, given)):
        return None
    messages = [_drop_thinking(each) for each in given]
    is_changed = any(now is not before for now, before in zip(messages, given, strict=True))
    is_whole = all(each.get("content") for each in messages)
    return msgspec.json.encode({**fields, "messages": messages}) if is_changed and is_whole else None


def _drop_thinking(message: dict[str, Any]) -> dict[str, Any]:
    content: Any = message.get("content")
    if not is_list(content) or not any(map(_is_thinking, content)):
        return message
    return {**message, "content": [block for block in content if not _is_thinking(block)]}


def _is_thinking(block: Any) -> bool:
    return is_object(block) and block.get("type") in THINKING


def read_reply(pieces: Sequence[bytes], content_type: str, encoding: str, *, max_bytes: int) -> ReadReply:
    """The reply in what was relayed; raises `UnreadableBody`."""
    content = decompress(pieces, encoding, max_bytes)
    if not content_type.startswith(EVENT_STREAM):
        return ReadReply(b"".join(content))
    streamed = StreamedReply()
    # In one piece: nobody waits for single events here.
    streamed.feed(b"".join(content))
    if streamed.is_whole:
        return ReadReply(streamed.body)
    return ReadReply(streamed.body, streamed.problem or "the stream ended before the reply did")
