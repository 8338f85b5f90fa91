"""Where sessions are looked for, and where the dashboard keeps its own files (DB-1)."""

import os
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Final

import msgspec

from everturn.replay.sessions import files_below

# Files that everturn keeps beside a session; none of them is one.
_BESIDE: Final = (".state.json", ".lock", ".pins", ".sqlite", ".sqlite-wal", ".sqlite-shm", ".tmp", ".new")
_SESSION: Final = ".jsonl"
OWN: Final = "everturn"
_ID_BYTES: Final = 6


class Places(msgspec.Struct, frozen=True):
    """`roots` are searched for sessions; `own` is where everturn keeps the sessions that it writes itself.
    `any_format`: the user named the roots, so files of any agent are read, not only `.jsonl`."""

    roots: tuple[Path, ...]
    own: Path
    cache: Path
    any_format: bool


def find_places(environment: Mapping[str, str], *, home: Path, paths: Iterable[Path] = ()) -> Places:
    """Without paths: Claude Code's projects and everturn's own sessions, by the conventions of both."""
    data = _absolute(environment.get("XDG_DATA_HOME", "")) or home / ".local" / "share"
    cache = _absolute(environment.get("XDG_CACHE_HOME", "")) or home / ".cache"
    claude = Path(environment.get("CLAUDE_CONFIG_DIR") or home / ".claude")
    own = data / OWN
    given = tuple(dict.fromkeys(Path(os.path.abspath(path)) for path in paths))
    found = given or (claude / "projects", own)
    return Places(found, own, cache / OWN / "dashboard", bool(given))


def list_files(places: Places) -> list[Path]:
    """Every file that may hold a session. A folder that does not exist holds none."""
    found = files_below(root for root in places.roots if root.exists())
    return [path for path in found if is_candidate(path, places)]


def is_candidate(path: Path, places: Places) -> bool:
    if path.name.startswith(".") or path.name.endswith(_BESIDE):
        return False
    return places.any_format or path.suffix == _SESSION


def session_id(path: str) -> str:
    """A short name of a session for addresses: the same on every run, so that links can be kept."""
    return blake2b(path.encode(errors="surrogateescape"), digest_size=_ID_BYTES).hexdigest()


def _absolute(path: str) -> Path | None:
    return Path(path) if path.startswith("/") else None
