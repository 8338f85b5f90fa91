"""What a session is called: a title for people, and a short id that every command takes.

The title is the first thing that a person said. The id is made from the path, so it is the same on every run
and in every place that shows it, and two copies of a session have different ones.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, Final

import msgspec

from everturn.history.blocks import text_of
from everturn.history.records import Record
from everturn.history.threads import Thread

MAX_TITLE: Final = 160
# Characters of an id that are shown. Among ten thousand sessions, two that agree in all of them are unlikely,
# and then both are listed.
ID_SHOWN: Final = 8
_ID_BYTES: Final = 6
# What the harness writes in the name of the user.
_NOT_SAID: Final = ("<", "Caveat:", "[Request interrupted")
_COMMAND: Final = re.compile(r"<command-name>([^<]{1,80})</command-name>")


def session_id(path: str) -> str:
    """The whole id, which addresses of the dashboard have."""
    absolute = os.path.abspath(path) if path else ""
    return blake2b(absolute.encode(errors="surrogateescape"), digest_size=_ID_BYTES).hexdigest()


def short_id(path: str) -> str:
    return session_id(path)[:ID_SHOWN]


def find_thread_title(thread: Thread) -> str:
    """The title of a conversation. Where everything that a person said was rewound, it is that."""
    return find_title(thread.records) or find_title(thread.abandoned)


def find_title(records: Iterable[Record]) -> str:
    """The first words of a person, on one line; else their first command; "" if there is neither."""
    return _first_title(
        [text_of(block) for block in record.blocks if block.kind == "text"]
        for record in records
        if record.kind == "user" and not record.meta and not record.compact_summary
    )


class _Message(msgspec.Struct):
    content: str | list[dict[str, Any]] = ""


class _Line(msgspec.Struct, rename="camel"):
    type: str = ""
    is_meta: bool | None = None
    is_compact_summary: bool | None = None
    message: _Message | None = None


_read_line = msgspec.json.Decoder(_Line).decode


def find_title_in(beginning: bytes) -> str:
    """The same for the first bytes of a file, without reading the rest."""
    return _first_title(
        _texts(found.message.content)
        for found in _iter_lines(beginning, b'"user"')
        if found.type == "user" and not found.is_meta and not found.is_compact_summary and found.message
    )


def has_message_in(beginning: bytes) -> bool:
    """Whether somebody said something in the first bytes of a file."""
    return any(found.type in ("user", "assistant") for found in _iter_lines(beginning, b'"message"'))


def _iter_lines(data: bytes, having: bytes) -> Iterator[_Line]:
    for line in data.splitlines():
        if having in line:
            try:
                yield _read_line(line)
            except (msgspec.DecodeError, RecursionError):
                continue


def _texts(content: str | list[dict[str, Any]]) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [str(part.get("text") or "") for part in content if part.get("type") == "text"]


def _first_title(messages: Iterable[Sequence[str]]) -> str:
    command = ""
    for text in (text for texts in messages for text in texts):
        line = " ".join(text.split())
        if line and not line.startswith(_NOT_SAID):
            return line if len(line) <= MAX_TITLE else f"{line[: MAX_TITLE - 1]}…"
        found = _COMMAND.search(line)
        command = command or (found[1].strip() if found else "")
    return command
