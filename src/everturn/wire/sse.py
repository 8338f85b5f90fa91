"""An incremental reader of server-sent events: the bytes may be split anywhere.

An event is returned as soon as the byte that ends it is read. Lines may end in LF, CR or CRLF; comments and
fields that the Messages API does not use are ignored.
"""

import re
from typing import Final

import msgspec

_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_MARK: Final = b"\xef\xbb\xbf"


class ServerEvent(msgspec.Struct, frozen=True):
    """One event: its name ("" if it has none), and its data lines joined by line breaks."""

    name: str
    data: bytes


class SseReader:
    """Takes bytes in pieces of any size and returns the complete events."""

    def __init__(self) -> None:
        self._line: list[bytes] = []
        self._ended_in_cr = False
        self._is_first = True
        self._name = ""
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> list[ServerEvent]:
        if self._ended_in_cr and piece:
            # The second half of a CRLF that was split between two pieces.
            self._ended_in_cr = False
            piece = piece.removeprefix(b"\n")
        if not piece:
            return []
        *ended, rest = _LINE_END.split(piece)
        self._ended_in_cr = piece.endswith(b"\r")
        found: list[ServerEvent] = []
        for end in ended:
            line = b"".join([*self._line, end])
            self._line.clear()
            if (event := self._take(line)) is not None:
                found.append(event)
        self._line.append(rest)
        return found

    def _take(self, line: bytes) -> ServerEvent | None:
        if self._is_first:
            self._is_first, line = False, line.removeprefix(_MARK)
        if not line:
            return self._ended()
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"event":
            self._name = value.decode(errors="replace")
        elif field == b"data":
            self._data.append(value)
        return None

    def _ended(self) -> ServerEvent | None:
        name, data = self._name, self._data
        self._name, self._data = "", []
        return ServerEvent(name, b"\n".join(data)) if data else None
