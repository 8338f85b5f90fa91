"""Where sessions are looked for: Claude Code's projects, everturn's own folder, other agents (DB-1)."""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

# Files that everturn keeps beside a session; none of them is one.
_BESIDE: Final = (".state.json", ".lock", ".pins", ".sqlite", ".sqlite-wal", ".sqlite-shm", ".tmp", ".new")
# What broke the cache, as it is written beside a session.
_CACHE_BREAK: Final = re.compile(r"cache-break-.+\.diff")
_SESSION: Final = ".jsonl"
# The folder with large results and partial replies of a session; of sessions it has only those of sub-agents.
_FILES: Final = ".jsonl.files"
# Gemini CLI kept one JSON file for each session, in a folder of this name; newer versions keep JSON lines.
_GEMINI: Final = (".json", "chats")
OWN: Final = "everturn"
# Claude Code names a project's folder after its path: other characters than letters and digits become dashes.
_NOT_IN_A_NAME: Final = re.compile(r"[^A-Za-z0-9]")


class Places(msgspec.Struct, frozen=True):
    """`roots` are searched for sessions; `own` is where everturn keeps the sessions that it writes itself.
    `any_format`: the user named the roots, so files of any agent are read, not only `.jsonl`."""

    roots: tuple[Path, ...]
    own: Path
    cache: Path
    any_format: bool


def find_places(
    environment: Mapping[str, str], *, home: Path, paths: Iterable[Path] = (), others: bool = False
) -> Places:
    """Without paths: Claude Code's projects and everturn's own sessions, by the conventions of both.
    `others`: also those of Codex and Gemini CLI, for commands that only read."""
    data = _absolute(environment.get("XDG_DATA_HOME", "")) or home / ".local" / "share"
    cache = _absolute(environment.get("XDG_CACHE_HOME", "")) or home / ".cache"
    own = data / OWN
    given = tuple(dict.fromkeys(Path(os.path.abspath(path)) for path in paths))
    more = _other_agents(environment, home) if others else ()
    found = given or (claude_projects(environment, home), own, *more)
    return Places(found, own, cache / OWN / "dashboard", bool(given))


def claude_projects(environment: Mapping[str, str], home: Path) -> Path:
    return Path(environment.get("CLAUDE_CONFIG_DIR") or home / ".claude") / "projects"


def _other_agents(environment: Mapping[str, str], home: Path) -> tuple[Path, ...]:
    """Codex moves sessions to a second folder when they are archived. Gemini CLI's variable names what is
    used instead of the home folder, not instead of `.gemini`."""
    codex = Path(environment.get("CODEX_HOME") or home / ".codex")
    gemini = Path(environment.get("GEMINI_CLI_HOME") or home) / ".gemini"
    found = (codex / "sessions", codex / "archived_sessions", gemini / "tmp")
    return tuple(path for path in found if path.is_dir())


def claude_folder(projects: Path, project: Path) -> Path:
    """The folder below Claude Code's projects with the sessions of one project."""
    return projects / _NOT_IN_A_NAME.sub("-", os.fspath(project))


def list_files(places: Places) -> list[Path]:
    """Every file that may hold a session. A folder that does not exist holds none."""
    found = files_below(root for root in places.roots if root.exists())
    return [path for path in found if is_candidate(path, places)]


def is_candidate(path: Path, places: Places) -> bool:
    name = path.name
    if name.startswith(".") or name.endswith(_BESIDE) or _CACHE_BREAK.fullmatch(name):
        return False
    is_any = places.any_format and not path.parent.name.endswith(_FILES)
    return is_any or path.suffix == _SESSION or (path.suffix, path.parent.name) == _GEMINI


def files_below(paths: Iterable[Path]) -> list[Path]:
    """Each file once; folders are listed recursively in a fixed order, without hidden files."""
    found: dict[Path, None] = {}
    for path in paths:
        if not path.is_dir():
            found[path] = None
            continue
        for folder, below, names in os.walk(path):
            below[:] = sorted(name for name in below if not name.startswith("."))
            found |= dict.fromkeys(Path(folder, name) for name in sorted(names) if not name.startswith("."))
    return list(found)


def _absolute(path: str) -> Path | None:
    return Path(path) if path.startswith("/") else None
