"""Reads a caller's list of messages, and remembers the lists that were read.

A caller sends all of its list with every request, and nearly all of it is known. Comparing it with the last
list is cheaper than computing its links again: Python compares values in C, and strings that are the same
object without reading them. What is remembered is a copy, because callers change their lists in place.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from threading import Lock
from typing import Any, Final

import msgspec

from everturn.adapters.tracking.chain import START, BlockPosition, append_end_link, append_links
from everturn.wire.json_values import is_list, is_object, is_sequence

ROLES: Final = ("user", "assistant", "system")
# Lists that are remembered, and those of them that begin alike (sub-agents with one task). Our choice.
MAX_LISTS: Final = 128
# The characters of all lists that are remembered. Our choice.
MAX_CHARACTERS: Final = 32 << 20
MAX_ALIKE: Final = 8
KEY_CHARACTERS: Final = 200
# What an object or a list without characters takes.
_CONTAINER: Final = 100


class OwnedList(list[Any]):
    """A list that nobody changes, nor anything in it. It is remembered without a copy."""

    # What was read from it; before that, what was read from the list that it continues, and how many messages
    # they have in common.
    read: "MessageList | None" = None
    continues: "tuple[MessageList, int] | None" = None

    @property
    def begins_with_read(self) -> bool:
        """Whether it was read, or the list that it continues was."""
        return self.read is not None or self.continues is not None

    def go_on(self, same: int, added: list[Any]) -> "OwnedList":
        """The first `same` messages of this list, and others."""
        longer = OwnedList(self[:same])
        longer += added
        if self.read is not None:
            longer.continues = self.read, same
        return longer


class OwnedFields(dict[str, Any]):
    """The fields of a request that nobody changes. Requests that differ only in their messages share what was
    read from the other fields, by who places the breakpoints."""

    read: dict[str, Any]


class MessageList(msgspec.Struct, frozen=True):
    """What is read from a list of messages: its chain, its breakpoints, and where system messages are."""

    messages: Sequence[Any]
    links: list[bytes]
    positions: list[BlockPosition]
    # For each message, the number of links up to its end.
    ends: list[int]
    # Position of the message, and the `cache_control` in it.
    breakpoints: list[tuple[int, dict[str, Any]]]
    system_messages: list[int]
    # For each message, the number of characters up to its end; nothing if it was not measured.
    sizes: list[int]

    @property
    def characters(self) -> int:
        return self.sizes[-1] if self.sizes else 0


class UnsupportedMessage(msgspec.Struct, frozen=True):
    """A message that could not be sent again as it came."""

    at: int


class ListMemo:
    """The last lists, by the words that they begin with. Safe to use from threads."""

    def __init__(self) -> None:
        self._lists: OrderedDict[tuple[bytes, str], list[MessageList]] = OrderedDict()
        self._characters = 0
        self._lock = Lock()

    def read(
        self, messages: Sequence[Mapping[str, Any]], start: bytes = START
    ) -> MessageList | UnsupportedMessage:
        """`start` is the link before the first message."""
        if not messages:
            return _EMPTY
        if start != START or not isinstance(messages, OwnedList):
            return self._read_like_others(messages, start)
        if messages.read is not None:
            return messages.read
        known, messages.continues = messages.continues, None
        if known is None:
            read = self._read_like_others(messages, start)
        else:
            read = _extend(*known, messages, start, is_measured=False)
        if isinstance(read, MessageList):
            messages.read = read
        return read

    def _read_like_others(
        self, messages: Sequence[Mapping[str, Any]], start: bytes
    ) -> MessageList | UnsupportedMessage:
        """With what is remembered of a list that begins with the same words."""
        key = (start, _first_words(messages[0]))
        with self._lock:
            known = list(self._lists.get(key, ()))
        best, same = _EMPTY, 0
        for each in known:
            if (count := _count_same(each.messages, messages)) > same:
                best, same = each, count
        read = _extend(best, same, messages, start)
        if isinstance(read, MessageList):
            self._remember(key, read, best)
        return read

    def _remember(self, key: tuple[bytes, str], read: MessageList, before: MessageList) -> None:
        """Replaces the list that this one continues."""
        is_continued = len(before.messages) <= len(read.messages)
        with self._lock:
            alike = self._lists.setdefault(key, [])
            for at, each in enumerate(alike):
                if each is before and is_continued:
                    self._characters -= alike.pop(at).characters
                    break
            alike.append(read)
            self._characters += read.characters
            if len(alike) > MAX_ALIKE:
                self._characters -= alike.pop(0).characters
            self._lists.move_to_end(key)
            while len(self._lists) > MAX_LISTS or (
                self._characters > MAX_CHARACTERS and len(self._lists) > 1
            ):
                self._characters -= _count_characters(self._lists.popitem(last=False)[1])
            while self._characters > MAX_CHARACTERS and len(alike) > 1:
                self._characters -= alike.pop(0).characters


_EMPTY: Final = MessageList([], [], [], [], [], [], [])


def _count_characters(lists: Sequence[MessageList]) -> int:
    return sum(each.characters for each in lists)


def _first_words(message: Any) -> str:
    """The beginning of the first text: lists that begin alike are compared."""
    content: Any = message.get("content") if is_object(message) else None
    first: Any = content[0] if is_list(content) and content else content
    text: Any = first.get("text") if is_object(first) else first
    return text[:KEY_CHARACTERS] if isinstance(text, str) else ""


def _count_same(known: Sequence[Any], now: Sequence[Any]) -> int:
    """How many messages two lists have in common at their beginning."""
    length = min(len(known), len(now))
    if known[:length] == now[:length]:
        return length
    return next(at for at in range(length) if known[at] != now[at])


def _extend(
    known: MessageList,
    same: int,
    messages: Sequence[Mapping[str, Any]],
    start: bytes,
    *,
    is_measured: bool = True,
) -> MessageList | UnsupportedMessage:
    """The first `same` messages of a known list, and the messages behind them. A list that is not remembered
    need not be measured."""
    while same and messages[same - 1]["role"] == "assistant":
        # What follows a reply decides whether its thinking has a link.
        same -= 1
    end = known.ends[same - 1] if same else 0
    new = messages[same:] if isinstance(messages, OwnedList) else map(_copy, messages[same:])
    found = MessageList(
        messages=[*known.messages[:same], *new],
        links=known.links[:end],
        positions=known.positions[:end],
        ends=known.ends[:same],
        breakpoints=[each for each in known.breakpoints if each[0] < same],
        system_messages=[each for each in known.system_messages if each < same],
        sizes=known.sizes[:same],
    )
    for at in range(same, len(messages)):
        message = messages[at]
        if not _is_plain(message):
            return UnsupportedMessage(at)
        if append_end_link(messages, at, found.ends, found.links, found.positions, start):
            found.ends[-1] += 1
        append_links(message, at, found.links, found.positions, start)
        found.ends.append(len(found.links))
        if is_measured:
            found.sizes.append(found.characters + _measure(message))
        content = message["content"]
        if is_list(content):
            for block in content:
                if (control := block.get("cache_control")) is None:
                    continue
                if not is_object(control) or not isinstance(control.get("type"), str):
                    # It would be left out, and the API refuses it.
                    return UnsupportedMessage(at)
                found.breakpoints.append((at, control))
        if message["role"] == "system":
            found.system_messages.append(at)
    return found


def _measure(value: Any) -> int:
    """About how many characters a value has."""
    if isinstance(value, str):
        return len(value)
    parts: Iterable[Any] = value.values() if is_object(value) else value if is_sequence(value) else ()
    size = _CONTAINER if isinstance(value, (dict, list, tuple)) else 0
    # Most parts are texts: a call for each of them would be most of the work.
    for part in parts:
        size += len(part) if isinstance(part, str) else _measure(part)
    return size


def _copy(value: Any) -> Any:
    """All but the strings in it, which nobody can change."""
    try:
        return msgspec.to_builtins(value, builtin_types=(bytes, bytearray))
    except (TypeError, ValueError, RecursionError):
        # A class of the caller's own.
        return _copy_parts(value)


def _copy_parts(value: Any) -> Any:
    if is_object(value):
        return {name: part if isinstance(part, str) else _copy_parts(part) for name, part in value.items()}
    return [_copy_parts(part) for part in value] if is_sequence(value) else value


def _is_plain(message: Any) -> bool:
    if not is_object(message) or message.get("role") not in ROLES:
        return False
    content = message.get("content")
    known = ("role", "content", "output_config") if message["role"] == "system" else ("role", "content")
    # Other fields of a message (a time to be cleared at) could not be sent again.
    for name, value in message.items():
        if name not in known and value is not None:
            return False
    if isinstance(content, str):
        return True
    # A block without a field cannot be sent with a breakpoint.
    if not is_list(content) or not all(content) or not all(map(is_object, content)):
        return False
    return message["role"] != "system" or all(block.get("type") == "text" for block in content)
