"""A hash chain that identifies a list of messages by its content: one link per content block.

A link is the digest of a block, of its role and of the previous link, so equal links mean equal beginnings.
Where messages begin and end does not count: two messages of one role in a row equal one message with the
blocks of both. Equivalent forms of a block have the same link: breakpoints, nulls and the order of keys are
ignored, and a string equals one text block. Of a reply, thinking, citations and unknown fields are ignored
too, because the caller may have dropped them before sending it back. Only thinking that no other block of a
reply follows has a link: a reply that was cut inside its thinking may have nothing else, and the list without
it is another one. `recogniser.py` finds the conversation of a chain, and `respelling.py` compares what is
equal in meaning but not in its links.

A caller sends all of its list with every request. Digests of long texts are therefore remembered by the text
itself: a string that was seen before is found without reading it, because Python caches its hash.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import msgspec

from everturn.history.blocks import SYSTEM_TEXT, THINKING, Block, fields_of
from everturn.history.records import Record
from everturn.wire.json_values import is_object, is_sequence

START: Final = b""
# Where a block of a message with role "system" keeps the other fields of its message.
SYSTEM_FIELDS: Final = "everturn_fields"
_SIZE: Final = 16
_encode = msgspec.json.Encoder(order="sorted").encode


class BlockPosition(NamedTuple):
    """Where a link comes from: a block of a message."""

    message: int
    block: int


def append_links(
    message: Mapping[str, Any], at: int, links: list[bytes], positions: list[BlockPosition], start: bytes
) -> None:
    """Append the links of a message in the format of the Messages API, and the block that each stands for.
    `at` is its position in the list, `start` the link before the list."""
    role, content = message["role"], message["content"]
    for block_at, block in enumerate(content if is_sequence(content) else (content,)):
        found = digest_block(role, block)
        if found is not None:
            links.append(_join(links[-1] if links else start, role, found))
            positions.append(BlockPosition(at, block_at))


def record_links(before: bytes, record: Record) -> list[bytes]:
    """The links of a recorded message. They equal those of the message that the caller sends; for thinking at
    the end of a reply, see `end_link`."""
    links: list[bytes] = []
    for block in record.blocks:
        role = role_of(record, block)
        found = digest_block(role, fields_of(block))
        if found is not None:
            before = _join(before, role, found)
            links.append(before)
    return links


def append_end_link(
    messages: Sequence[Mapping[str, Any]],
    at: int,
    ends: Sequence[int],
    links: list[bytes],
    positions: list[BlockPosition],
    start: bytes,
) -> bool:
    """Append the link of the thinking with which the reply in front of message `at` ends; False if there is
    none. The reply is all assistant messages in a row: a caller may send each block as a message. `ends` has
    the number of links up to the end of each message."""
    if not at or messages[at]["role"] == "assistant" or messages[at - 1]["role"] != "assistant":
        return False
    if not _ends_without_link(messages[at - 1]["content"]):
        return False
    first = at - 1
    # Without a link in the last message, the thinking may have begun in an earlier one.
    while first and messages[first - 1]["role"] == "assistant" and ends[first] == ends[first - 1]:
        first -= 1
    blocks = [block for each in messages[first:at] for block in _blocks_of(each)]
    found = digest_end(blocks)
    if found is None:
        return False
    links.append(_join(links[-1] if links else start, "assistant", found))
    positions.append(BlockPosition(at - 1, len(_blocks_of(messages[at - 1])) - 1))
    return True


def end_link(before: bytes, records: Sequence[Record]) -> bytes | None:
    """The same for the recorded messages of a reply, whose other links end with `before`."""
    blocks: list[Any] = []
    for block in (block for record in reversed(records) for block in reversed(record.blocks)):
        # Asked of every reply, and nearly all of them end with a text or a call.
        if not block.is_thinking and (block.kind != "text" or not _has_no_link(fields_of(block))):
            break
        blocks.append(fields_of(block))
    found = digest_end(blocks[::-1])
    return None if found is None else _join(before, "assistant", found)


def digest_end(blocks: Sequence[Any]) -> bytes | None:
    """The digest of the thinking with which a reply ends; None if it ends with another block."""
    found: list[Any] = []
    for block in reversed(blocks):
        if not _has_no_link(block):
            break
        if is_object(block) and block.get("type") in THINKING:
            # The signature and the data of redacted thinking cannot be changed; its text may be left out.
            found.append(block.get("signature") or block.get("data") or block.get("thinking"))
    return digest(b"thinking", found) if found else None


def _blocks_of(message: Mapping[str, Any]) -> Sequence[Any]:
    content = message["content"]
    return content if is_sequence(content) else (content,)


def _ends_without_link(content: Any) -> bool:
    return bool(content) and is_sequence(content) and _has_no_link(content[-1])


def _has_no_link(block: Any) -> bool:
    """Whether `digest_block` has no digest for a block of a reply."""
    if is_object(block):
        kind, text = block.get("type"), block.get("text")
        return kind in THINKING or (kind == "text" and isinstance(text, str) and not text.strip())
    return isinstance(block, str) and not block.strip()


def role_of(record: Record, block: Block) -> str:
    """The role that the caller's message had. Messages with role "system" are recorded as the user's."""
    return "system" if block.kind == SYSTEM_TEXT else record.kind


def is_caller_message(record: Record) -> bool:
    """Whether a record is a message of the caller's list. Summaries and attachments are everturn's own."""
    return record.kind in ("user", "assistant") and not (record.compact_summary or record.meta)


def is_reply(records: Sequence[Record], blocks: Sequence[Block]) -> bool:
    """Whether the first message of these records is a reply with these blocks."""
    said = next(filter(is_caller_message, records), None)
    if said is None or said.kind != "assistant":
        return False
    reply = msgspec.structs.replace(said, blocks=tuple(blocks))
    ends = end_link(START, [said]), end_link(START, [reply])
    return ends[0] == ends[1] and record_links(START, said) == record_links(START, reply)


def common_prefix_length(one: Sequence[bytes], other: Sequence[bytes]) -> int:
    """How many links two chains share. Equal links mean equal prefixes, so a binary search finds the last."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[middle - 1] == other[middle - 1] else (low, middle - 1)
    return low


def _join(before: bytes, role: str, content: bytes) -> bytes:
    return blake2b(b"%b%b%b" % (before, role.encode(), content), digest_size=_SIZE).digest()


# ── digests ──────────────────────────────────────────────────────────────────────────────────────


def digest(*parts: Any) -> bytes:
    """A digest of JSON values: equal values have equal digests."""
    result = blake2b(digest_size=_SIZE)
    for part in parts:
        data = part if isinstance(part, bytes) else _encode(part)
        result.update(len(data).to_bytes(8, "big"))
        result.update(data)
    return result.digest()


def digest_block(role: str, block: Any) -> bytes | None:
    """The digest of a block's content; None if it has none: thinking, or a text without a character."""
    if isinstance(block, str):
        return _texts.digest(block) if block.strip() else None
    if not is_object(block):
        return digest(b"value", _normalize(block))
    kind = block.get("type")
    if kind in ("text", SYSTEM_TEXT):
        return _digest_text_block(role, block)
    if role == "assistant":
        if kind in THINKING:
            return None
        if kind == "tool_use":
            return digest(b"call", [block.get("id"), block.get("name"), _shorten(block.get("input"))])
    return digest(b"block", _as_result(block) if kind == "tool_result" else _normalize(block))


def _as_result(block: dict[str, Any]) -> dict[str, Any]:
    """A result in one form: a string equals one text block, and no error is the default."""
    content = block.get("content")
    is_error = block.get("is_error") or None
    if not isinstance(content, str):
        return _normalize({**block, "is_error": is_error})
    told = [{"type": "text", "text": _shorten(content)}]
    name = block.get("tool_use_id")
    if is_error is None and block.keys() <= _RESULT_FIELDS and isinstance(name, str) and len(name) < _LONG:
        return {"type": "tool_result", "tool_use_id": name, "content": told}
    plain = {**block, "content": None, "is_error": is_error}
    return _normalize(plain) | {"content": told}


# What nearly all results have: there is nothing to normalize.
_RESULT_FIELDS: Final = frozenset({"type", "tool_use_id", "content"})


def _digest_text_block(role: str, block: dict[str, Any]) -> bytes | None:
    text = block.get("text")
    if not isinstance(text, str):
        return digest(b"block", _normalize(block))
    if not text.strip():
        return None
    if role != "assistant":
        for name, value in block.items():
            if value is not None and name not in _TEXT_FIELDS:
                return digest(b"block", _normalize(block))
    return _texts.digest(text)


_TEXT_FIELDS: Final = frozenset({"type", "text", "cache_control", SYSTEM_FIELDS})


class _DigestMemo:
    """Digests of strings. It is emptied when it holds too much: it keeps the strings in memory."""

    MAX_CHARACTERS: Final = 32_000_000

    def __init__(self) -> None:
        self._known: dict[str, bytes] = {}
        self._characters = 0

    def digest(self, text: str) -> bytes:
        found = self._known.get(text)
        if found is None:
            found = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_SIZE).digest()
            if self._characters + len(text) > self.MAX_CHARACTERS:
                self._known, self._characters = {}, 0
            self._characters += len(text)
            self._known[text] = found
        return found


_texts: Final = _DigestMemo()
# Shorter strings cost less to encode than to look up.
_LONG: Final = 200


def _shorten(value: Any) -> Any:
    """The value with its long strings replaced by digests."""
    if isinstance(value, str):
        return value if len(value) < _LONG else {"digest": _texts.digest(value).hex()}
    if is_object(value):
        return {name: _shorten(part) for name, part in value.items()}
    return [_shorten(part) for part in value] if is_sequence(value) else value


def _normalize(value: Any) -> Any:
    """The same without breakpoints and nulls, at any depth."""
    if isinstance(value, str):
        return _shorten(value)
    if is_object(value):
        return {
            name: _normalize(part)
            for name, part in value.items()
            if part is not None and name != "cache_control"
        }
    if is_sequence(value):
        return [_normalize(part) for part in value]
    return value
