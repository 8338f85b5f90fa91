"""Messages with role "system" inside the list (api-facts 5: they follow a user's message).

The log knows the roles user and assistant. The text of a system message is recorded as a block of its own
kind in a user's message, so that it is never taken for the user's words, and becomes a message with role
"system" again in the request. If the caller stops using that role, as clients do for models that refuse it,
the text is sent as a reminder inside the user's message, which is what those clients do themselves.

Such a message may set the effort from there on (`output_config`), and then it may have no text. Its last
block keeps that field; it is left out when the caller no longer sends it, because it needs a beta.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from everturn.adapters.tracking.chain import SYSTEM_FIELDS
from everturn.history.blocks import SYSTEM_TEXT, Block, block_from_fields, block_from_json, fields_of
from everturn.history.messages import Message
from everturn.history.repair import server_calls_under_way
from everturn.wire.anthropic import Request

OUTPUT_CONFIG: Final = "output_config"
# One of these is needed for that field.
OUTPUT_CONFIG_BETAS: Final = frozenset(
    {"mid-conversation-output-config-2026-07-01", "per-turn-control-2026-07-01"}
)

_read_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


class _WireMessage(msgspec.Struct):
    """A message as it is sent, with any role."""

    role: str
    content: Sequence[msgspec.Raw]
    output_config: Any = msgspec.UNSET


def to_system_blocks(blocks: Sequence[Block], config: Any = None) -> tuple[Block, ...]:
    """How the text blocks of a system message are recorded, and its `output_config`."""
    if config is None:
        return tuple(_with_type(block, SYSTEM_TEXT) for block in blocks)
    kept = {OUTPUT_CONFIG: config}
    last = blocks[-1] if blocks else block_from_json(b'{"type":"text","text":""}')
    return (
        *(_with_type(block, SYSTEM_TEXT) for block in blocks[:-1]),
        _with_type(last, SYSTEM_TEXT, **{SYSTEM_FIELDS: kept}),
    )


def encode_request(request: Request, *, native: bool, has_config: bool) -> bytes:
    """The bytes of a request. System text becomes messages with role "system" if `native`, else reminders.
    `has_config`: such messages may have an `output_config`."""
    if all(block.kind != SYSTEM_TEXT for message in request.messages for block in message.blocks):
        return request.to_bytes()
    if not native:
        return msgspec.structs.replace(request, messages=tuple(_with_reminders(request.messages))).to_bytes()
    parts = [part for message in request.messages for part in _split(message, has_config)]
    whole = msgspec.structs.replace(request, messages=()).to_bytes()
    return whole[: -len(b"]}")] + _encode(parts)[1:] + b"}"


def _with_reminders(messages: Iterable[Message]) -> Iterator[Message]:
    """The messages with reminders for system text. While a tool of the provider's waits for results, a text
    beside them would end it, and the API refuses that: there the reminder is a part of the last result."""
    under_way: list[Block] = []
    for message in messages:
        told = message if message.role == "assistant" else _as_reminders(message)
        if message.role == "assistant":
            under_way = server_calls_under_way([*under_way, *message.blocks])
        elif under_way and all(block.is_result or block.kind == SYSTEM_TEXT for block in message.blocks):
            told = _as_parts_of_result(told)
        else:
            under_way = []
        yield told


def _as_parts_of_result(message: Message) -> Message:
    """A message of results and texts with the texts at the end of the last result."""
    results = [block for block in message.blocks if block.is_result]
    texts = [fields_of(block) for block in message.blocks if not block.is_result]
    if not (results and texts):
        return message
    fields = fields_of(results[-1])
    content: Any = fields.get("content") or []
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    last = block_from_fields({**fields, "content": [*parts, *texts]})
    return Message(message.role, (*results[:-1], last))


def _split(message: Message, has_config: bool) -> Iterator[_WireMessage]:
    """A user's message and the system messages in it. They go behind it: the API accepts no other order."""
    system = [block for block in message.blocks if block.kind == SYSTEM_TEXT]
    others = [block for block in message.blocks if block.kind != SYSTEM_TEXT]
    if not others:
        yield _wire(message.role, _as_reminders(message).blocks)
        return
    yield _wire(message.role, others)
    configs = [config for block in system if has_config and (config := _read_config(block)) is not None]
    texts = [_with_type(block, "text") for block in system if _read_text(block)]
    if texts or configs:
        said = _wire("system", texts)
        if configs:
            said.output_config = configs[-1]
        yield said


def _read_text(block: Block) -> str:
    return msgspec.json.decode(_read_fields(block.raw)["text"], type=str)


def _read_config(block: Block) -> Any:
    kept = _read_fields(block.raw).get(SYSTEM_FIELDS)
    return None if kept is None else msgspec.json.decode(kept, type=dict[str, Any]).get(OUTPUT_CONFIG)


def _wire(role: str, blocks: Iterable[Block]) -> _WireMessage:
    return _WireMessage(role, [msgspec.Raw(block.raw) for block in blocks])


def _as_reminders(message: Message) -> Message:
    blocks = (_as_reminder(block) if block.kind == SYSTEM_TEXT else block for block in message.blocks)
    return Message(message.role, tuple(blocks))


def _as_reminder(block: Block) -> Block:
    fields = _plain_fields(block)
    text = _read_text(block)
    reminder = f"<system-reminder>\n{text}\n</system-reminder>"
    return block_from_json(_encode({**fields, "type": "text", "text": reminder}))


def _with_type(block: Block, kind: str, **more: Any) -> Block:
    return block_from_json(_encode({**_plain_fields(block), "type": kind, **more}))


def _plain_fields(block: Block) -> Mapping[str, Any]:
    return {name: value for name, value in _read_fields(block.raw).items() if name != SYSTEM_FIELDS}
