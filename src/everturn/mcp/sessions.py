"""Finds the session file: by path, by id, or the session of the calling agent.

The path comes from a model and is not trusted: only sessions below the roots are opened.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from everturn.catalog.names import session_id
from everturn.catalog.places import claude_folder, claude_projects
from everturn.errors import InputError
from everturn.session.transcripts import SUFFIX


class SessionLocator(msgspec.Struct, frozen=True):
    """Where to look for sessions, and which one is the default. `roots` are resolved paths."""

    roots: tuple[Path, ...]
    project: Path
    current: str = ""


def build_locator(
    environment: Mapping[str, str], *, home: Path, here: Path, more: tuple[Path, ...] = ()
) -> SessionLocator:
    projects = claude_projects(environment, home)
    data = Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share")
    roots = (projects, data / "everturn", here, *more)
    return SessionLocator(
        tuple(dict.fromkeys(root.resolve() for root in roots)),
        claude_folder(projects, here),
        environment.get("CLAUDE_CODE_SESSION_ID", ""),
    )


def find_session_file(where: SessionLocator, named: str) -> Path:
    """The file of a session. The error says where it was searched."""
    if named.endswith(SUFFIX) or "/" in named:
        return _inside(where, Path(named).expanduser())
    if wanted := named or where.current:
        return _by_id(where, wanted)
    return _newest(where)


def _inside(where: SessionLocator, path: Path) -> Path:
    real = path.resolve()
    if real.suffix != SUFFIX:
        raise InputError(f"{path} is not a session: sessions are {SUFFIX} files.")
    if not any(real.is_relative_to(root) for root in where.roots):
        raise InputError(
            f"{path} is outside the folders that may be read: {_listed(where)}. "
            "Start the server with --root FOLDER to add one."
        )
    if not real.is_file():
        raise InputError(f"No session found at {path}.")
    return real


def _by_id(where: SessionLocator, wanted: str) -> Path:
    found = sorted({path for path in _all(where) if _is_named(path, wanted)}, key=_changed)
    if not found:
        raise InputError(f"No session found whose id starts with {wanted!r} in {_listed(where)}.")
    if len({path.name for path in found}) > 1:
        names = ", ".join(path.stem for path in found[-5:])
        raise InputError(f"{len(found)} session ids start with {wanted!r}: {names}. Give more of the id.")
    return found[-1]


def _is_named(path: Path, wanted: str) -> bool:
    """By the beginning of the file's name, or of the id that our commands show."""
    return path.name.startswith(wanted) or session_id(str(path)).startswith(wanted)


def _newest(where: SessionLocator) -> Path:
    found = [path for path in where.project.glob(f"*{SUFFIX}") if path.is_file()]
    if not found:
        raise InputError(
            f"No session given, and none found in {where.project}. Give `session`: a .jsonl file, or an id."
        )
    return max(found, key=_changed).resolve()


def _all(where: SessionLocator) -> Iterator[Path]:
    """Sessions that can be found by id. The current directory may be large; sessions there need a path."""
    for root in where.roots[:2]:
        for path in root.glob(f"**/*{SUFFIX}"):
            if path.resolve().is_relative_to(root):
                yield path.resolve()


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _listed(where: SessionLocator) -> str:
    return ", ".join(map(str, where.roots))
