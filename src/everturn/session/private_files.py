"""Write files that only their owner can read, without following links (S09, S10).

A transcript may be in a folder that came with a project. A link in that folder could lead a write to a file
elsewhere, so links are refused. For reading below allowed folders, see `files.py`.
"""

import errno
import os
from pathlib import Path
from typing import Final

from everturn.errors import StoreError

# A transcript holds the whole conversation: only its owner may read it.
FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700


_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


def write_private_file(folder: Path, name: str, data: bytes) -> Path:
    """Write a file into the session's folder. Raises `OSError`, which says so if a link is the cause."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    if not folder.exists():
        folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
    at = _opened(str(folder), _FOLDER)
    try:
        _write(name, data, at)
    finally:
        os.close(at)
    return folder / name


def replace_file(path: str, data: bytes) -> str:
    """Replace a small file atomically. Returns why that failed, or ""."""
    beside = f"{path}.new"
    try:
        _write(beside, data)
        os.replace(beside, path)
    except OSError as problem:
        return f"{path} could not be written: {problem.strerror or problem}"
    return ""


def _write(name: str, data: bytes, folder: int | None = None) -> None:
    with open(_opened(name, _NEW, folder), "wb") as file:
        # A file that existed before would keep its mode and its content otherwise.
        os.fchmod(file.fileno(), FILE_MODE)
        file.truncate()
        file.write(data)


def _opened(name: str, flags: int, folder: int | None = None) -> int:
    try:
        return os.open(name, flags, FILE_MODE, dir_fd=folder)
    except OSError as problem:
        # With O_NOFOLLOW a link fails as ENOTDIR if a directory is expected, and as ELOOP otherwise.
        if problem.errno in (errno.ELOOP, errno.ENOTDIR) and os.path.islink(name):
            raise OSError(
                problem.errno, f"{name} is a symbolic link; remove it and check where it came from"
            ) from None
        raise


def write_blob(folder: Path, name: str, data: bytes) -> str:
    """Write a file in the folder; directories in the name are ignored. Raises `StoreError`."""
    path = folder / Path(name).name
    try:
        write_private_file(folder, path.name, data)
    except OSError as problem:
        raise StoreError(f"{path} could not be written: {problem.strerror or problem}.") from problem
    return str(path)
