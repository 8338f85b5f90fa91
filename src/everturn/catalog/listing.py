"""The session files on this machine, newest first, and which of them a name means."""

import os
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from everturn.catalog.names import find_title_in, has_message_in, session_id, short_id
from everturn.catalog.places import Places, list_files
from everturn.safe_files import MAX_SESSION_BYTES, open_stream

# The first prompt usually follows only hooks and settings; if it does not, more is read, up to a limit.
_BEGINNING: Final = 64 * 1024
_MOST_READ: Final = 1024 * 1024
_AGENT: Final = "agent-"
Found = TypeVar("Found")
# A shorter beginning of an id or of a file's name would be a guess.
MIN_ID: Final = 4


class SessionFile(msgspec.Struct, frozen=True):
    """A file that may hold a session. `changed` is a Unix time; `size` is in bytes."""

    path: Path
    changed: float
    size: int

    @property
    def id(self) -> str:
        return short_id(str(self.path))

    @property
    def changed_at(self) -> datetime:
        return datetime.fromtimestamp(self.changed, UTC)


def list_sessions(places: Places) -> list[SessionFile]:
    """Every session file in these places, without those of sub-agents."""
    return newest_first(list_files(places))


def list_folders(folders: Iterable[Path], suffix: str = ".jsonl") -> list[SessionFile]:
    """The sessions that lie directly in these folders."""
    return newest_first(path for folder in folders for path in _files_in(folder) if path.suffix == suffix)


def newest_first(paths: Iterable[Path]) -> list[SessionFile]:
    found = [_stat(path) for path in dict.fromkeys(paths) if _AGENT not in path.name]
    return sorted((each for each in found if each and each.size), key=lambda each: (-each.changed, each.path))


def read_title(path: Path) -> str:
    """The title of the session in a file; "" if it has none, or if it cannot be read."""
    return _read(path, find_title_in) or ""


def holds_messages(path: Path) -> bool:
    """Whether the file is more than the beginning of a session."""
    return bool(_read(path, has_message_in))


def _read(path: Path, find: Callable[[bytes], Found]) -> Found | None:
    """What is found in the beginning of a file, or in a longer one."""
    try:
        with open_stream(path, max_bytes=MAX_SESSION_BYTES) as file:
            read = file.read(_BEGINNING)
            found = find(read)
            if found or len(read) < _BEGINNING:
                return found
            return find(read + file.read(_MOST_READ))
    except (OSError, ValueError):
        return None


def match_sessions(
    name: str, known: Sequence[SessionFile], title_of: Callable[[Path], str] = read_title
) -> list[SessionFile]:
    """The sessions that a name means: by the beginning of their id, else by the beginning of their file's
    name, else by a part of their title. Titles are read only if neither of the others fits."""
    wanted = name.strip().casefold()
    if not wanted:
        return []
    if len(wanted) >= MIN_ID:
        by_id = [each for each in known if session_id(str(each.path)).startswith(wanted)]
        if by_id:
            return by_id
        by_name = [each for each in known if each.path.name.casefold().startswith(wanted)]
        if by_name:
            return by_name
    return [each for each in known if wanted in title_of(each.path).casefold()]


def _files_in(folder: Path) -> list[Path]:
    try:
        return [Path(each.path) for each in os.scandir(folder) if each.is_file()]
    except OSError:
        return []


def _stat(path: Path) -> SessionFile | None:
    try:
        state = path.stat()
    except (OSError, ValueError):
        # Gone in the meantime, or a NUL byte in the name.
        return None
    return SessionFile(path, state.st_mtime, state.st_size)
