"""A hash chain that identifies a list of messages: one link per message.

A link is the digest of its message and of the previous link, so equal links mean equal prefixes. Equivalent
forms of a message have the same link: breakpoints, nulls and the order of keys are ignored, and a string
equals one text block. Of a reply, thinking, citations and unknown fields are ignored too, because the caller
may have dropped them before sending it back. `tracker.py` finds the conversation of a chain.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, TypeGuard

import msgspec

from everturn.history.blocks import THINKING, fields_of
from everturn.history.records import Record

START: Final = b""
_SIZE: Final = 16
_encode = msgspec.json.Encoder(order="sorted").encode


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    """Whether a decoded JSON value is an object."""
    return isinstance(value, dict)


def is_sequence(value: Any) -> TypeGuard[Sequence[Any]]:
    """Whether a value is an array: decoded JSON has lists, a caller's own body may have tuples."""
    return isinstance(value, list | tuple)


def is_mapping(value: Any) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping)


def is_list(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def build_chain(messages: Iterable[Mapping[str, Any]], start: bytes = START) -> tuple[bytes, ...]:
    """The links of messages in the format of the Messages API."""
    links: list[bytes] = []
    for message in messages:
        start = make_link(start, str(message.get("role")), message.get("content"))
        links.append(start)
    return tuple(links)


def make_link(before: bytes, role: str, content: Any) -> bytes:
    blocks = content if is_sequence(content) else [content]
    normalize = _normalize_reply_block if role == "assistant" else _normalize
    parts = [part for block in blocks if (part := normalize(_as_block(block))) is not None]
    return digest(before, role, parts)


def make_record_link(before: bytes, record: Record) -> bytes:
    """The link of a recorded message. It equals the link of the message that the caller sends."""
    return make_link(before, record.kind, [fields_of(block) for block in record.blocks])


def build_record_chain(records: Iterable[Record]) -> tuple[list[bytes], int]:
    """The chain of a transcript, and how many of its links come before the first recorded reply."""
    links: list[bytes] = []
    before = -1
    for record in filter(is_caller_message, records):
        before = len(links) if before < 0 and record.message_id else before
        links.append(make_record_link(links[-1] if links else START, record))
    return links, before if before >= 0 else len(links)


def common_prefix_length(one: Sequence[bytes], other: Sequence[bytes]) -> int:
    """How many links two chains share. Equal links mean equal prefixes, so a binary search finds the last."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[middle - 1] == other[middle - 1] else (low, middle - 1)
    return low


def is_caller_message(record: Record) -> bool:
    """Whether a record is a message of the caller's list. Summaries and attachments are everturn's own."""
    return record.kind in ("user", "assistant") and not (record.compact_summary or record.meta)


def digest(*parts: Any) -> bytes:
    """A digest of JSON values: equal values have equal digests."""
    result = blake2b(digest_size=_SIZE)
    for part in parts:
        data = part if isinstance(part, bytes) else _encode(part)
        result.update(len(data).to_bytes(8, "big"))
        result.update(data)
    return result.digest()


def without_cache_control(value: Any) -> Any:
    """A block without `cache_control`, also in nested blocks. The input of a tool call is left as it is."""
    if is_object(value):
        kept = ((name, part) for name, part in value.items() if name != "cache_control")
        return {name: part if name == "input" else without_cache_control(part) for name, part in kept}
    if is_sequence(value):
        return [without_cache_control(part) for part in value]
    return value


def _as_block(block: Any) -> Any:
    return {"type": "text", "text": block} if isinstance(block, str) else block


def _normalize_reply_block(block: Any) -> Any:
    if not is_object(block):
        return _normalize(block)
    kind = block.get("type")
    if kind in THINKING:
        return None
    if kind == "text":
        text = block.get("text")
        return [kind, text] if str(text).strip() else None
    if kind == "tool_use":
        return [kind, block.get("id"), block.get("name"), block.get("input")]
    return _normalize(block)


def _normalize(value: Any) -> Any:
    """The value without breakpoints and nulls, at any depth."""
    if is_object(value):
        kept = ((name, part) for name, part in value.items() if part is not None and name != "cache_control")
        return {name: part if isinstance(part, str) else _normalize(part) for name, part in kept}
    if is_sequence(value):
        return [_normalize(part) for part in value]
    return value
