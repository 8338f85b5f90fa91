"""From a body as a peer spells it to the request that is billed, and from our messages to plain values."""

from typing import Any

import msgspec

from everturn.history.blocks import Block, block_from_fields, fields_of, text_block
from everturn.history.messages import Message
from everturn.wire.anthropic import Request
from peers.keeping import Json, blocks_in, words_in

_NEVER_MARKED = ("thinking", "redacted_thinking")


def message_value(message: Message) -> Json:
    return {"role": message.role, "content": [fields_of(block) for block in message.blocks]}


def request_of(body: Json, model: str) -> Request:
    """The body with its markers where `measure` looks for them; one for the whole body is put at the end."""
    sent = [[dict(block) for block in blocks_in(message)] for message in body["messages"]]
    roles = [message["role"] for message in body["messages"]]
    if (automatic := body.get("cache_control")) and sent:
        last = next((b for b in reversed(sent[-1]) if b.get("type") not in _NEVER_MARKED), None)
        if last is not None:
            last.setdefault("cache_control", automatic)
    messages = (
        Message(role, tuple(map(_block, blocks))) for role, blocks in zip(roles, sent, strict=True) if blocks
    )
    return Request(
        model=model, messages=tuple(messages), system=_system(body), settings={"max_tokens": 8_000}
    )


def _system(body: Json) -> tuple[Block, ...]:
    system: Any = body.get("system") or []
    parts: list[Json] = [{"type": "text", "text": system}] if isinstance(system, str) else system
    marks = [part["cache_control"] for part in parts if part.get("cache_control")]
    # One block, however it was cut: the head stands for tools too, and has one size in all replays.
    block = text_block("\n\n".join(words_in(part.get("text", "")) for part in parts))
    return (_marked(block, marks[-1]) if marks else block,)


def _block(fields: Json) -> Block:
    control = fields.pop("cache_control", None)
    block = block_from_fields({name: value for name, value in fields.items() if value is not None})
    return _marked(block, control) if control else block


def _marked(block: Block, control: Json) -> Block:
    ttl = control.get("ttl", "5m")
    mark = {"type": "ephemeral", "ttl": ttl} if ttl == "1h" else {"type": "ephemeral"}
    raw = block.raw[:-1] + b',"cache_control":' + msgspec.json.encode(mark) + b"}"
    return msgspec.structs.replace(block, raw=raw)


def plain_request(request: Request) -> bytes:
    """The body for a judge of its validity. Tools are part of the head; their names are enough for it."""
    calls = {block.tool for message in request.messages for block in message.blocks if block.is_call}
    tools = [{"name": name, "input_schema": {"type": "object"}} for name in sorted(calls)]
    settings = {**request.settings, "tools": tools} if tools else request.settings
    return msgspec.structs.replace(request, settings=settings).to_bytes()
