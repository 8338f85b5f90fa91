"""Input and output types of readers."""

from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from everturn.history.threads import Thread
from everturn.wire.json_values import is_object

Json = dict[str, Any]


class RecordedPreamble(msgspec.Struct, frozen=True):
    """System prompt and tools, if a file holds them. Tools are as in the file."""

    system: str = ""
    tools: Any = None


class RecordedConversation(msgspec.Struct, frozen=True):
    """One conversation of a file. `key` names it if the file has several; else it is empty."""

    threads: tuple[Thread, ...]
    key: str = ""
    notes: tuple[str, ...] = ()
    preamble: RecordedPreamble = RecordedPreamble()
    # Those of the notes that say what the file has lost.
    flaws: tuple[str, ...] = ()
    # Dollars that the agent itself recorded for it; None if it recorded none.
    cost: Decimal | None = None
    # The context window that the agent itself recorded, in tokens; 0 if it recorded none.
    window: int = 0


class SourceFile:
    """The bytes of a file and the JSON in them, parsed once for all readers."""

    def __init__(self, data: bytes, state: bytes = b"") -> None:
        """`state` is what the state file beside a session of ours holds: it says how the file ended."""
        self.data = data
        self.state = state

    @cached_property
    def whole(self) -> Any:
        """The JSON value of the whole file; None if it is not one JSON value."""
        if self.data.lstrip()[:1] not in (b"{", b"["):
            return None
        return _decoded(self.data)

    @cached_property
    def lines(self) -> tuple[Json, ...]:
        """The JSON objects of a file with one per line. Other lines are left out."""
        if self.whole is not None:
            return (self.whole,) if is_object(self.whole) and b"\n" not in self.data.strip() else ()
        return tuple(_objects(self.data))


def _objects(data: bytes) -> Iterator[Json]:
    for line in data.split(b"\n"):
        if not line.lstrip().startswith(b"{"):
            continue
        found = _decoded(line)
        if is_object(found):
            yield found


def _decoded(data: bytes) -> Any:
    """The JSON value in these bytes; None if there is none. Bytes that are not UTF-8 (output of a program, a
    character cut by a crash) are U+FFFD: one of them must not hide the session."""
    try:
        return msgspec.json.decode(data)
    except UnicodeDecodeError:
        return _decoded(data.decode(errors="replace").encode())
    except (msgspec.DecodeError, RecursionError):
        return None


class Reader(NamedTuple):
    """One format: its name, how it is recognised, and how it is read."""

    format: str
    recognises: Callable[[SourceFile], bool]
    conversations: Callable[[SourceFile], Iterator[RecordedConversation]]
