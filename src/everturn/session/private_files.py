"""Files beside a transcript: their owner's alone from the first byte on, and no link is followed (S09, S10).

A transcript may lie in a folder that came with a project, and so may a link under the name of a file that we
are about to write; what it leads to is not ours. Reading below allowed folders: `files.py`.
"""

import errno
import os
from pathlib import Path
from typing import Final

from everturn.session.store.file_system import FILE_MODE, FOLDER_MODE

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


def write_private_file(folder: Path, name: str, data: bytes) -> Path:
    """A file of the session in a folder of its own. Raises `OSError`, in words where a link is in the way."""
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
    """A small file, whole or not at all; why not, in words, or nothing."""
    beside = f"{path}.new"
    try:
        _write(beside, data)
        os.replace(beside, path)
    except OSError as problem:
        return f"{path} could not be written: {problem.strerror or problem}"
    return ""


def _write(name: str, data: bytes, folder: int | None = None) -> None:
    with open(_opened(name, _NEW, folder), "wb") as file:
        # One that was there before keeps its mode otherwise, and its bytes.
        os.fchmod(file.fileno(), FILE_MODE)
        file.truncate()
        file.write(data)


def _opened(name: str, flags: int, folder: int | None = None) -> int:
    try:
        return os.open(name, flags, FILE_MODE, dir_fd=folder)
    except OSError as problem:
        # A folder that is a link is no directory to the system, and one too many anywhere else.
        if problem.errno in (errno.ELOOP, errno.ENOTDIR) and os.path.islink(name):
            raise OSError(problem.errno, f"{name} is a link; remove it, and see who put it there") from None
        raise
