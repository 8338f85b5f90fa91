"""Read one file that must be inside the allowed roots (NM-3).

Links are resolved first, then the resolved path is checked against the roots. The file is opened from its
root, one folder at a time and without following links: a folder replaced by a link in between is refused.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

import msgspec

from everturn.safe_files import RefusedFile, read_file

# Called for every path with its links resolved; returns whether the file may be read.
ReadPermission = Callable[[Path], bool]

# Names of files that usually hold secrets. Memory files are sent to the model, so these are not read.
SECRET_FILE_PATTERNS: Final = (
    ".env", ".env.*", "*.pem", "*.key", "*.p12", "*.pfx", "*.kdbx", "id_rsa*", "id_ed25519*", "id_ecdsa*",
    ".netrc", ".pgpass", ".npmrc", ".pypirc", ".git-credentials", "*credentials*.json", "*.tfstate",
)  # fmt: skip


class ReadScope(msgspec.Struct, frozen=True, kw_only=True):
    """What may be read: the folders, the permission callback, and the size limit."""

    roots: tuple[Path, ...]
    may_read: ReadPermission
    # Larger files are not instructions (ecosystem 2.5).
    max_bytes: int = 4 * 1024 * 1024


class UnreadFile(msgspec.Struct, frozen=True):
    """Why a file was not read. `is_missing` if it does not exist."""

    why: str
    is_missing: bool = False


class FileText(msgspec.Struct, frozen=True):
    path: Path
    text: str


def allow_all(_: Path) -> bool:
    """The default: all files below the roots may be read."""
    return True


def read_confined(path: Path, reach: ReadScope) -> FileText | UnreadFile:
    try:
        real = path.resolve(strict=True)
    except (FileNotFoundError, NotADirectoryError):
        return UnreadFile("it does not exist", is_missing=True)
    except (OSError, RuntimeError, ValueError) as problem:
        return UnreadFile(f"its path cannot be resolved ({type(problem).__name__})")
    root = _root_of(real, reach.roots)
    if root is None:
        return UnreadFile("it is outside the allowed roots; add its folder to the roots to read it")
    if any(fnmatch(real.name.lower(), pattern) for pattern in SECRET_FILE_PATTERNS):
        return UnreadFile("its name suggests that it holds secrets")
    if not _is_permitted(real, reach.may_read):
        return UnreadFile("permission was refused")
    return _read(real, root, reach.max_bytes)


def _is_permitted(real: Path, may_read: ReadPermission) -> bool:
    try:
        return may_read(real) is True
    except Exception:
        # A callback that fails counts as a refusal.
        return False


def _root_of(real: Path, roots: Sequence[Path]) -> Path | None:
    for root in roots:
        with suppress(OSError, RuntimeError):
            resolved = root.resolve(strict=True)
            if real.is_relative_to(resolved):
                return resolved
    return None


def _read(real: Path, root: Path, max_bytes: int) -> FileText | UnreadFile:
    try:
        data = read_file("/".join(real.relative_to(root).parts), below=root, max_bytes=max_bytes)
    except RefusedFile as problem:
        return UnreadFile(problem.why)
    except OSError as problem:
        return UnreadFile(f"it cannot be read: {problem.strerror}")
    return _decoded(real, data)


def _decoded(real: Path, data: bytes) -> FileText | UnreadFile:
    if b"\0" in data:
        return UnreadFile("it is binary, not text")
    try:
        return FileText(real, data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        return UnreadFile("it is not UTF-8 text")
