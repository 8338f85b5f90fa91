"""Where conversations are stored: one folder per project, one file per conversation.

    $XDG_DATA_HOME/everturn/chat/<project>/<id>.jsonl     (or ~/.local/share/...)

Ids start with the time of creation, so they sort in that order. The store creates folders with mode 0700 and
files with 0600 (`session/store/file_system.py`).
"""

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from everturn.errors import UsageError
from everturn.safe_files import MAX_SESSION_BYTES, make_folder, open_stream, read_file, write_file
from everturn.session.bill import UsageTotals
from everturn.session.store.jsonl_store import FILES_SUFFIX
from everturn.session.transcripts import SUFFIX

NEWEST: Final = "newest"
# How much of a file is searched for the first prompt, which follows only hooks and settings.
_MAX_BYTES_READ: Final = 256 * 1024
_MAX_STATE_BYTES: Final = 64 * 1024
_UNFIT: Final = re.compile(r"[^A-Za-z0-9._-]+")


class SavedSession(msgspec.Struct, frozen=True):
    """A conversation on disk. `changed` is a Unix time, `size` is in bytes."""

    path: Path
    words: str
    changed: float
    size: int

    @property
    def id(self) -> str:
        return self.path.stem


def project_folder(project: Path, environment: Mapping[str, str], home: Path) -> Path:
    """The folder for a project's conversations. A digest of its path separates projects of the same name."""
    data = environment.get("XDG_DATA_HOME", "")
    # The XDG base directory specification says to ignore relative paths.
    base = Path(data) if os.path.isabs(data) else home / ".local" / "share"
    where = str(project.resolve())
    name = _UNFIT.sub("-", project.resolve().name).strip("-.")[:40] or "root"
    digest = hashlib.sha256(where.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return base / "everturn" / "chat" / f"{name}-{digest}"


def new_session_path(folder: Path, now: datetime, chance: str) -> Path:
    """The file for a new conversation; `chance` separates conversations of the same second."""
    return folder / f"{now.astimezone(UTC):%Y%m%d-%H%M%S}-{chance[:4]}{SUFFIX}"


def list_sessions(folder: Path) -> tuple[SavedSession, ...]:
    """All conversations that are not empty, most recently changed first."""
    found = [_read_session(path) for path in _files(folder)]
    return tuple(sorted(filter(None, found), key=lambda each: (-each.changed, each.id)))


def select_session(kept: Iterable[SavedSession], which: str) -> SavedSession:
    """The newest conversation, one by its number in the list (from 1), or one by the start of its id."""
    every = tuple(kept)
    if not every:
        raise UsageError("No earlier conversation found in this folder.")
    if which in ("", NEWEST):
        return every[0]
    if which.isdecimal() and 0 < int(which) <= len(every):
        return every[int(which) - 1]
    near = [each for each in every if each.id.startswith(which)]
    if len(near) == 1:
        return near[0]
    problem = f"{len(near)} conversations" if near else "No conversation"
    raise UsageError(f"{problem} found whose id starts with {which!r}; /resume in the chat lists them all.")


def remove_if_empty(path: Path) -> None:
    """Delete the file of an empty conversation."""
    try:
        if path.stat().st_size == 0:
            path.unlink()
    except OSError:
        pass


class ChatState(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a resumed conversation starts with, beside its transcript: the model, if one was chosen, what
    search agents have cost, and whether the twin has answered in it."""

    model: str = ""
    searches: UsageTotals = UsageTotals()
    has_practice: bool = False


def read_chat_state(transcript: str | Path) -> ChatState:
    try:
        found = msgspec.json.decode(
            read_file(_state_path(transcript), max_bytes=_MAX_STATE_BYTES), type=ChatState
        )
    except (OSError, msgspec.MsgspecError, ValueError):
        return ChatState()
    return found if found.model.isprintable() else msgspec.structs.replace(found, model="")


def write_chat_state(transcript: str | Path, state: ChatState) -> None:
    """A disk that is full or read-only costs nothing but this."""
    path = _state_path(transcript)
    with suppress(OSError):
        make_folder(path.parent)
        write_file(path, msgspec.json.encode(state))


def _state_path(transcript: str | Path) -> Path:
    return Path(f"{transcript}{FILES_SUFFIX}") / "chat.json"


def _files(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if path.suffix == SUFFIX]
    except OSError:
        return []


def _read_session(path: Path) -> SavedSession | None:
    try:
        with open_stream(path, max_bytes=MAX_SESSION_BYTES) as file:
            state = os.fstat(file.fileno())
            beginning = file.read(_MAX_BYTES_READ)
    except OSError:
        return None
    if not state.st_size:
        return None
    return SavedSession(path, read_first_prompt(beginning), state.st_mtime, state.st_size)


class _Message(msgspec.Struct):
    content: str | list[dict[str, Any]] = ""


class _Line(msgspec.Struct):
    type: str = ""
    message: _Message | None = None


_read_line = msgspec.json.Decoder(_Line).decode


def read_first_prompt(beginning: bytes) -> str:
    """The first prompt of the user, on one line; "" if none is found."""
    for line in beginning.splitlines():
        try:
            found = _read_line(line)
        except msgspec.DecodeError:
            continue
        if found.type == "user" and found.message and (words := _words(found.message)):
            return " ".join(words.split())
    return ""


def _words(message: _Message) -> str:
    if isinstance(message.content, str):
        return message.content
    texts = (part.get("text") for part in message.content if part.get("type") == "text")
    return " ".join(text for text in texts if isinstance(text, str))
