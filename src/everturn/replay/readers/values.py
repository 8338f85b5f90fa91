"""What readers are given and what they give back."""

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from everturn.history.threads import Thread


class RecordedPreamble(msgspec.Struct, frozen=True):
    """The system prompt and the tools, where a file holds them. Tools are as the file spells them."""

    system: str = ""
    tools: Any = None


class RecordedConversation(msgspec.Struct, frozen=True):
    """One conversation of a file. `key` names it among several in the same file; empty where it is alone."""

    threads: tuple[Thread, ...]
    key: str = ""
    notes: tuple[str, ...] = ()
    head: RecordedPreamble = RecordedPreamble()


class SourceFile:
    """The bytes of a file, and the JSON in them, parsed once for all readers that look at it."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    @cached_property
    def whole(self) -> Any:
        """The one JSON value that the file is; None where it is none."""
        if self.data.lstrip()[:1] not in (b"{", b"["):
            return None
        try:
            return msgspec.json.decode(self.data)
        except (msgspec.DecodeError, RecursionError):
            return None

    @cached_property
    def lines(self) -> tuple[dict[str, Any], ...]:
        """The JSON objects of a file with one per line; what is no object is left out."""
        if self.whole is not None:
            return (self.whole,) if isinstance(self.whole, dict) and b"\n" not in self.data.strip() else ()
        return tuple(_objects(self.data))


def _objects(data: bytes) -> Iterator[dict[str, Any]]:
    for line in data.split(b"\n"):
        if not line.lstrip().startswith(b"{"):
            continue
        try:
            found = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError):
            continue
        if isinstance(found, dict):
            yield found


class Reader(NamedTuple):
    """One format: its name, how it is recognised, and how it is read."""

    format: str
    recognises: Callable[[SourceFile], bool]
    conversations: Callable[[SourceFile], Iterator[RecordedConversation]]
