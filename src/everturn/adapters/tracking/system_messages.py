"""Messages with role "system" inside the list (api-facts 5: they follow a user's message).

The log knows the roles user and assistant. The text of a system message is recorded as a block of its own
kind in a user's message, so that it is never taken for the user's words, and becomes a message with role
"system" again in the request. If the caller stops using that role, as clients do for models that refuse it,
the text is sent as a reminder inside the user's message, which is what those clients do themselves.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from everturn.adapters.tracking.chain import SYSTEM_TEXT
from everturn.history.blocks import Block, block_from_json
from everturn.history.messages import Message
from everturn.wire.anthropic import Request

_read_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


class _WireMessage(msgspec.Struct):
    """A message as it is sent, with any role."""

    role: str
    content: Sequence[msgspec.Raw]


def to_system_blocks(blocks: Iterable[Block]) -> tuple[Block, ...]:
    """How the text blocks of a system message are recorded."""
    return tuple(_with_type(block, SYSTEM_TEXT) for block in blocks)


def encode_request(request: Request, *, native: bool) -> bytes:
    """The bytes of a request. System text becomes messages with role "system" if `native`, else reminders."""
    if all(block.kind != SYSTEM_TEXT for message in request.messages for block in message.blocks):
        return request.to_bytes()
    if not native:
        return msgspec.structs.replace(
            request, messages=tuple(map(_as_reminders, request.messages))
        ).to_bytes()
    parts = [part for message in request.messages for part in _split(message)]
    whole = msgspec.structs.replace(request, messages=()).to_bytes()
    return whole[: -len(b"]}")] + _encode(parts)[1:] + b"}"


def _split(message: Message) -> Iterator[_WireMessage]:
    """A user's message and the system messages in it. They go behind it: the API accepts no other order."""
    system = [block for block in message.blocks if block.kind == SYSTEM_TEXT]
    others = [block for block in message.blocks if block.kind != SYSTEM_TEXT]
    if not others:
        yield _wire(message.role, _as_reminders(message).blocks)
        return
    yield _wire(message.role, others)
    if system:
        yield _wire("system", [_with_type(block, "text") for block in system])


def _wire(role: str, blocks: Iterable[Block]) -> _WireMessage:
    return _WireMessage(role, [msgspec.Raw(block.raw) for block in blocks])


def _as_reminders(message: Message) -> Message:
    blocks = (_as_reminder(block) if block.kind == SYSTEM_TEXT else block for block in message.blocks)
    return Message(message.role, tuple(blocks))


def _as_reminder(block: Block) -> Block:
    fields: Mapping[str, Any] = _read_fields(block.raw)
    text = msgspec.json.decode(fields["text"], type=str)
    reminder = f"<system-reminder>\n{text}\n</system-reminder>"
    return block_from_json(_encode({**fields, "type": "text", "text": reminder}))


def _with_type(block: Block, kind: str) -> Block:
    fields: Mapping[str, Any] = _read_fields(block.raw)
    return block_from_json(_encode({**fields, "type": kind}))
