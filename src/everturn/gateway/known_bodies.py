"""Reads the body of a request, of which nearly all is known: a client sends its whole list every time.

The bytes of the last bodies are kept, with the place where each message ends. A body that begins with the
same bytes has the same messages, and only what follows is decoded. What is read is equal to what decoding the
whole body gives; wherever that is not certain, the whole body is decoded.

    {"model": ..., "messages": [ {...}, {...}, {...}, {...} ], "system": ..., "tools": ...}
    └ compared ─────────────────────────────┘└ decoded ──┘└ compared ───────────────────┘
"""

import re
import secrets
from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import Any, Final, NamedTuple

import msgspec

from everturn.adapters.tracking.list_memo import OwnedFields, OwnedList
from everturn.wire.json_values import is_list, is_object

# Smaller bodies are decoded faster than they are compared. Our choice.
MIN_BYTES: Final = 4096
# All bodies that are kept, and those of them that begin alike and name no session. Our choice.
MAX_BYTES: Final = 64 << 20
MAX_ALIKE: Final = 8
KEY_BYTES: Final = 200
# How many of the newest messages a client may spell differently the next time: it moves its breakpoint, and
# drops reminders.
MAX_RESPELLED: Final = 4
# What is compared, and what is decoded, while all streams wait: about a millisecond. Our choice.
MAX_AT_ONCE: Final = 4 << 20
MAX_ADDED_AT_ONCE: Final = 64 << 10

_SPACE: Final = b" \t\n\r"
_LIST_BEGINS: Final = re.compile(rb'"messages"[ \t\n\r]*:[ \t\n\r]*\Z')
# Stands for the known messages where the rest of a body is decoded. No client can know it.
_REST: Final = f"rest-{secrets.token_hex(8)}"
_REST_BEGINS: Final = f'{{"{_REST}":['.encode()

# What a known body cannot be read with. The whole body is decoded then, and has the same problem or none.
_PROBLEMS: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

_decode_any = msgspec.json.Decoder().decode
_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode


def decode_json(data: bytes | msgspec.Raw) -> Any:
    """All values of bodies are decoded here."""
    return _decode_any(data)


class KnownBody(NamedTuple):
    """A body, and what was read from it."""

    body: bytes
    # Where the first message begins, and where each message ends.
    start: int
    ends: list[int]
    messages: OwnedList
    # The other fields, before and behind the messages.
    head: dict[str, Any]
    tail: dict[str, Any]
    # What was read from these.
    read: dict[str, Any]

    @property
    def fields(self) -> OwnedFields:
        # In the order of the body; a name that comes twice has its last value.
        made = OwnedFields({**self.head, "messages": self.messages, **self.tail})
        made.read = self.read
        return made


class BodyMemo:
    """The last bodies, by the session that sent them. Safe to use from threads."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._known: OrderedDict[tuple[str, bytes], list[KnownBody]] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def decode(self, body: bytes, scope: str) -> Any:
        """The decoded body. `scope` names the session, or is empty. Raises as decoding does."""
        if not MIN_BYTES <= len(body) <= self._max_bytes:
            return decode_json(body)
        key, known = self._find_alike(body, scope)
        try:
            before, found = _read_next(known, body)
            if found is None:
                found = _read_whole(body)
        except _PROBLEMS:
            return decode_json(body)
        if found is None:
            return decode_json(body)
        self._remember(key, found, before)
        return found.fields

    def decode_at_once(self, body: bytes, scope: str) -> Any:
        """The same for a body that is small, or adds little to a known one; None for any other."""
        if len(body) > MAX_AT_ONCE:
            return None
        try:
            if len(body) < MIN_BYTES:
                return decode_json(body)
            key, known = self._find_alike(body, scope)
            before, found = _read_next(known, body, MAX_ADDED_AT_ONCE)
        except _PROBLEMS:
            return None
        if found is None:
            return None
        self._remember(key, found, before)
        return found.fields

    def _find_alike(self, body: bytes, scope: str) -> tuple[tuple[str, bytes], list[KnownBody]]:
        """The key of a body, and the bodies that are known under it, the newest first."""
        key = (scope, body[:KEY_BYTES])
        with self._lock:
            return key, self._known.get(key, [])[::-1]

    def _remember(self, key: tuple[str, bytes], found: KnownBody, before: KnownBody | None) -> None:
        """Replaces the body that this one continues."""
        with self._lock:
            alike = self._known.setdefault(key, [])
            is_continued = before is not None and len(before.messages) <= len(found.messages)
            for at, each in enumerate(alike):
                if each is before and is_continued:
                    self._bytes -= len(alike.pop(at).body)
                    break
            if len(alike) >= MAX_ALIKE:
                self._bytes -= len(alike.pop(0).body)
            alike.append(found)
            self._bytes += len(found.body)
            self._known.move_to_end(key)
            while self._bytes > self._max_bytes:
                self._bytes -= _size(self._known.popitem(last=False)[1])


def _size(bodies: Sequence[KnownBody]) -> int:
    return sum(len(each.body) for each in bodies)


def _read_next(
    known: Sequence[KnownBody], body: bytes, max_added: int = MAX_BYTES
) -> tuple[KnownBody | None, KnownBody | None]:
    """The known body that this one continues, if there is one that is not much shorter or longer, and what is
    read of this one."""
    for each in known:
        if abs(len(body) - len(each.body)) > max_added:
            continue
        if (count := _count_same(each, body)) and (found := _read_rest(each, count, body)) is not None:
            return each, found
    return None, None


def _count_same(known: KnownBody, body: bytes) -> int:
    """How many messages both begin with. The newest ones are compared first: they tell two lists that begin
    alike apart."""
    ends = known.ends
    same = first = max(0, len(ends) - MAX_RESPELLED)
    begin = ends[first - 1] if first else known.start
    for end in ends[first:]:
        if body[begin:end] != known.body[begin:end]:
            break
        same, begin = same + 1, end
    settled = ends[first - 1] if first else known.start
    return same if same and body.startswith(memoryview(known.body)[:settled]) else 0


def _read_rest(known: KnownBody, same: int, body: bytes) -> KnownBody | None:
    """What comes behind the messages that are the same. None if that cannot be told."""
    end, tail = known.ends[same - 1], memoryview(known.body)[known.ends[-1] :]
    if len(body) - end >= len(tail) and body.endswith(tail):
        added, fields = _decode_added(body[end : len(body) - len(tail)]), known.tail
    else:
        added, fields = _decode_rest(body[end:])
    if added is None:
        return None
    return KnownBody(
        body=body,
        start=known.start,
        ends=[*known.ends[:same], *_find_ends(body, end, added)],
        messages=known.messages.go_on(same, list(map(decode_json, added))),
        head=known.head,
        tail=fields,
        read=known.read if fields is known.tail else {},
    )


def _decode_added(text: bytes) -> list[msgspec.Raw] | None:
    """The messages in this text, each with a comma before it."""
    text = text.lstrip(_SPACE)
    if not text:
        return []
    # An empty list would come from a comma without a message.
    return _decode_list(b"[%b]" % text[1:]) or None if text.startswith(b",") else None


def _decode_rest(text: bytes) -> tuple[list[msgspec.Raw] | None, dict[str, Any]]:
    """The messages in this text, and the fields behind them."""
    text = text.lstrip(_SPACE)
    is_longer = text.startswith(b",")
    if not is_longer and not text.startswith(b"]"):
        return None, {}
    fields = _decode_fields(_REST_BEGINS + text[is_longer:])
    added = _decode_list(fields.pop(_REST))
    if "messages" in fields or bool(added) != is_longer:
        return None, {}
    return added, _own({name: decode_json(value) for name, value in fields.items()})


def _read_whole(body: bytes) -> KnownBody | None:
    """A body that continues no known one; None if it has no list of messages."""
    text = bytes(_decode_fields(body).get("messages", b""))
    at = body.find(text)
    if not text.startswith(b"[") or not _LIST_BEGINS.search(body, max(0, at - 64), at):
        return None
    head, tail = decode_json(body[:at] + b"[]}"), decode_json(_REST_BEGINS + b"]" + body[at + len(text) :])
    added = _decode_list(text)
    # The list stands for itself, and not for a part of another value.
    is_plain = is_object(head) and head.pop("messages", None) == [] and tail.pop(_REST) == []
    if not is_plain or not added or "messages" in tail:
        return None
    ends = _find_ends(body, at + 1, added)
    return KnownBody(body, at + 1, ends, OwnedList(map(decode_json, added)), _own(head), _own(tail), {})


def _find_ends(body: bytes, at: int, added: Sequence[msgspec.Raw]) -> list[int]:
    """Where these messages end, which follow each other from this place on."""
    ends: list[int] = []
    for each in added:
        text = bytes(each)
        at = body.index(text, at) + len(text)
        ends.append(at)
    return ends


def _own(fields: dict[str, Any]) -> dict[str, Any]:
    """System prompt and tools are the same objects as long as their bytes are the same."""
    return {name: OwnedList(value) if is_list(value) else value for name, value in fields.items()}
