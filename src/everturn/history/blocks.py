"""Content blocks: the parts of a message, with their bytes exactly as received.

The payload of a block always has the shape of the Messages API, whichever program wrote the file. We read
some fields (`kind`, the ids of a tool pair) but never re-serialise it: signatures, unknown fields and key
order are sent as they were received, so the provider's cache sees the same bytes every time.
"""

from typing import Any

import msgspec

TOOL_USE = "tool_use"
TOOL_RESULT = "tool_result"
THINKING = frozenset({"thinking", "redacted_thinking"})
# The kind of a block that holds the text of a message with role "system". It is recorded in a user's message
# and sent as a message of its own (`adapters/tracking/system_messages.py`).
SYSTEM_TEXT = "everturn_system"


class Block(msgspec.Struct, frozen=True, gc=False):
    """One content block. `call` is the tool call id, on the call and on its result."""

    kind: str
    raw: bytes
    call: str = ""
    tool: str = ""

    @property
    def is_call(self) -> bool:
        return self.kind == TOOL_USE

    @property
    def is_result(self) -> bool:
        return self.kind == TOOL_RESULT

    @property
    def is_thinking(self) -> bool:
        return self.kind in THINKING


class _Head(msgspec.Struct):
    """The few fields that we read; all others are skipped without parsing."""

    type: str | None = None
    id: str | None = None
    tool_use_id: str | None = None
    name: str | None = None


_read_head = msgspec.json.Decoder(_Head).decode
_read_any = msgspec.json.Decoder().decode
_read_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode_roomy = msgspec.json.Encoder().encode


def _encode(fields: dict[str, Any]) -> bytes:
    """The encoder's own bytes have up to half as much room behind them, which is kept as long as they are. A
    block is kept as long as its conversation is, so it gets a copy."""
    return bytes(memoryview(_encode_roomy(fields)))


def block_from_json(raw: bytes) -> Block:
    """A block from the bytes of its JSON object. Raises msgspec.DecodeError if they are not a block."""
    head = _read_head(raw)
    if head.type == TOOL_USE:
        return Block(TOOL_USE, raw, head.id or "", head.name or "")
    return Block(head.type or "", raw, head.tool_use_id or "")


def block_from_fields(fields: dict[str, Any]) -> Block:
    return block_from_json(_encode(fields))


def text_block(text: str) -> Block:
    return Block("text", _encode({"type": "text", "text": text}))


def text_block_from_json_string(raw: bytes) -> Block:
    """The text block for a message whose content is a plain string. `raw` is the quoted string."""
    return Block("text", b'{"type":"text","text":' + raw + b"}")


def result_block(call: str, text: str, *, is_error: bool = False) -> Block:
    fields: dict[str, Any] = {"type": TOOL_RESULT, "tool_use_id": call, "content": text}
    if is_error:
        fields["is_error"] = True
    return Block(TOOL_RESULT, _encode(fields), call)


def with_field(block: Block, name: str, value: str) -> Block:
    """A copy of the block with one field set. The bytes of all other fields stay as received."""
    fields: dict[str, Any] = {**_read_fields(block.raw), name: value}
    return block_from_json(_encode(fields))


def fields_of(block: Block) -> dict[str, Any]:
    """The decoded payload. This is a full parse: use it to inspect a block, not to send one."""
    return _read_any(block.raw)


class _Part(msgspec.Struct):
    text: str = ""


class _Words(msgspec.Struct):
    """The fields of a block that can hold text: its own text, its thinking, or the content of a result."""

    text: str = ""
    thinking: str = ""
    content: str | list[_Part] | None = None


_read_words = msgspec.json.Decoder(_Words).decode


class _Parts(msgspec.Struct):
    content: tuple[msgspec.Raw, ...] = ()


_read_parts = msgspec.json.Decoder(_Parts).decode


def parts_of(block: Block) -> tuple[Block, ...]:
    """The blocks inside a result; empty if its content is plain text."""
    try:
        return tuple(block_from_json(bytes(part)) for part in _read_parts(block.raw).content)
    except (msgspec.DecodeError, RecursionError):
        return ()


def text_of(block: Block) -> str:
    """The readable text of a block: its text, its thinking, or the text inside a result."""
    try:
        words = _read_words(block.raw)
    except (msgspec.DecodeError, RecursionError):
        return ""
    if isinstance(words.content, list):
        return "\n".join(part.text for part in words.content if part.text)
    return words.text or words.thinking or words.content or ""
