"""Messages as they are recognised: a chain of digests, one for each message of a caller's list.

A link is the digest of its message and of the link before it, so equal links mean equal beginnings. Two
spellings of one message have one link: markers, nulls and the order of keys count for nothing, a string is
one text block. Of a reply only what people say and do counts: whoever echoes it may have lost its thinking,
its citations, or fields that the SDK does not know. Which conversation a chain belongs to: `tracker.py`.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

import msgspec

from everturn.history.blocks import THINKING, fields_of
from everturn.history.records import Record

START: Final = b""
_SIZE: Final = 16
_encode = msgspec.json.Encoder(order="sorted").encode


def build_chain(messages: Iterable[Mapping[str, Any]], start: bytes = START) -> tuple[bytes, ...]:
    """The links of messages as the API spells them."""
    links: list[bytes] = []
    for message in messages:
        start = make_link(start, str(message.get("role")), message.get("content"))
        links.append(start)
    return tuple(links)


def make_link(before: bytes, role: str, content: Any) -> bytes:
    blocks = content if isinstance(content, list | tuple) else [content]
    essence = _said_and_done if role == "assistant" else _essential
    found = [part for block in blocks if (part := essence(_spelled_out(block))) is not None]
    return digest(before, role, found)


def make_record_link(before: bytes, record: Record) -> bytes:
    """The link of a recorded message: what was recorded is what the caller said, or will echo."""
    return make_link(before, record.kind, [fields_of(block) for block in record.blocks])


def build_record_chain(records: Iterable[Record]) -> tuple[list[bytes], int]:
    """The chain that a transcript tells, and how many of its links come before the first reply of ours."""
    links: list[bytes] = []
    before = -1
    for record in filter(is_caller_message, records):
        before = len(links) if before < 0 and record.message_id else before
        links.append(make_record_link(links[-1] if links else START, record))
    return links, before if before >= 0 else len(links)


def common_prefix_length(one: Sequence[bytes], other: Sequence[bytes]) -> int:
    """How many links two chains share. They share a beginning, so the last shared link tells."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[middle - 1] == other[middle - 1] else (low, middle - 1)
    return low


def is_caller_message(record: Record) -> bool:
    """Whether a record is a message of the caller's list. Summaries and attachments are ours."""
    return record.kind in ("user", "assistant") and not (record.compact_summary or record.meta)


def digest(*parts: Any) -> bytes:
    """Equal values, equal digests."""
    made = blake2b(digest_size=_SIZE)
    for part in parts:
        data = part if isinstance(part, bytes) else _encode(part)
        made.update(len(data).to_bytes(8, "big"))
        made.update(data)
    return made.digest()


def without_cache_control(value: Any) -> Any:
    """A block without markers, those of blocks inside it included. What a tool is called with is no block."""
    if isinstance(value, dict):
        kept = ((name, part) for name, part in value.items() if name != "cache_control")
        return {name: part if name == "input" else without_cache_control(part) for name, part in kept}
    if isinstance(value, list | tuple):
        return [without_cache_control(part) for part in value]
    return value


def _spelled_out(block: Any) -> Any:
    return {"type": "text", "text": block} if isinstance(block, str) else block


def _said_and_done(block: Any) -> Any:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind in THINKING:
        return None
    if kind == "text":
        text = block.get("text")
        return [kind, text] if str(text).strip() else None
    if kind == "tool_use":
        return [kind, block.get("id"), block.get("name"), block.get("input")]
    return _essential(block)


def _essential(value: Any) -> Any:
    """Without markers and nulls, at any depth."""
    if isinstance(value, dict):
        kept = ((name, part) for name, part in value.items() if part is not None and name != "cache_control")
        return {name: part if isinstance(part, str) else _essential(part) for name, part in kept}
    if isinstance(value, list | tuple):
        return [_essential(part) for part in value]
    return value
