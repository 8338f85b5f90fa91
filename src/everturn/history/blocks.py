"""Content blocks: one piece of a message, its bytes exactly as they came.

The payload of a block is spelled the way the Messages API spells it, whoever wrote the file. We look
into it (`kind`, the ids of a tool pair) but never re-serialise it: signatures, unknown fields and key
order leave as they arrived, and the provider's cache sees the same bytes every time.
"""

from typing import Any

import msgspec

CALL = "tool_use"
RESULT = "tool_result"
THINKING = frozenset({"thinking", "redacted_thinking"})


class Block(msgspec.Struct, frozen=True, gc=False):
    """One content block. `call` is the id that ties a tool call to its result, on both sides."""

    kind: str
    raw: bytes
    call: str = ""
    tool: str = ""

    @property
    def is_call(self) -> bool:
        return self.kind == CALL

    @property
    def is_result(self) -> bool:
        return self.kind == RESULT

    @property
    def is_thinking(self) -> bool:
        return self.kind in THINKING


class _Head(msgspec.Struct):
    """The few fields that we look at; everything else is skipped, not parsed."""

    type: str | None = None
    id: str | None = None
    tool_use_id: str | None = None
    name: str | None = None


_read_head = msgspec.json.Decoder(_Head).decode
_read_any = msgspec.json.Decoder().decode
_read_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


def block_from_json(raw: bytes) -> Block:
    """A block from the bytes of its JSON object; raises msgspec.DecodeError when it is none."""
    head = _read_head(raw)
    if head.type == CALL:
        return Block(CALL, raw, head.id or "", head.name or "")
    return Block(head.type or "", raw, head.tool_use_id or "")


def block_from_fields(fields: dict[str, Any]) -> Block:
    return block_from_json(_encode(fields))


def text_block(text: str) -> Block:
    return Block("text", _encode({"type": "text", "text": text}))


def text_block_from_json_string(raw: bytes) -> Block:
    """The block that a message with plain string content stands for. `raw` is the quoted string."""
    return Block("text", b'{"type":"text","text":' + raw + b"}")


def result_block(call: str, text: str, *, is_error: bool = False) -> Block:
    fields: dict[str, Any] = {"type": RESULT, "tool_use_id": call, "content": text}
    if is_error:
        fields["is_error"] = True
    return Block(RESULT, _encode(fields), call)


def with_field(block: Block, name: str, value: str) -> Block:
    """The block with one field of another value; the bytes of all other fields stay as they came."""
    fields: dict[str, Any] = {**_read_fields(block.raw), name: value}
    return block_from_json(_encode(fields))


def fields_of(block: Block) -> dict[str, Any]:
    """The decoded payload. Costs a full parse: for looking, not for sending."""
    return _read_any(block.raw)


class _Part(msgspec.Struct):
    text: str = ""


class _Words(msgspec.Struct):
    """Where text can stand in a block: its own, its thinking, or the content of a result."""

    text: str = ""
    thinking: str = ""
    content: str | list[_Part] | None = None


_read_words = msgspec.json.Decoder(_Words).decode


class _Parts(msgspec.Struct):
    content: tuple[msgspec.Raw, ...] = ()


_read_parts = msgspec.json.Decoder(_Parts).decode


def parts_of(block: Block) -> tuple[Block, ...]:
    """The blocks inside a result; none when its content is plain text."""
    try:
        return tuple(block_from_json(bytes(part)) for part in _read_parts(block.raw).content)
    except (msgspec.DecodeError, RecursionError):
        return ()


def text_of(block: Block) -> str:
    """The words a person would read in a block: its text, its thinking, or the text inside a result."""
    try:
        words = _read_words(block.raw)
    except (msgspec.DecodeError, RecursionError):
        return ""
    if isinstance(words.content, list):
        return "\n".join(part.text for part in words.content if part.text)
    return words.text or words.thinking or words.content or ""
