"""Writes a file atomically, keeps its mode, and never follows a symbolic link.

The data goes to a temporary file in the same folder, which is then renamed. Parent folders are created and
opened one by one without following links, as for reading (`session/files.py`).
"""

import os
import secrets
import stat
from contextlib import suppress
from typing import Final

from everturn.chat.tools.files.workspace import ResolvedPath, explain_os_errors

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def write_atomically(target: ResolvedPath, data: bytes, old: os.stat_result | None) -> os.stat_result:
    """Write the file and return its new stat. `old` is the stat of the existing file, if there is one."""
    with explain_os_errors(target):
        folder = _folder_of(target)
        try:
            return _replaced(folder, os.path.basename(target.relative_path), data, old)
        finally:
            os.close(folder)


def _folder_of(target: ResolvedPath) -> int:
    at = os.open(target.base, _FOLDER)
    for part in filter(None, os.path.dirname(target.relative_path).split("/")):
        at = _below(at, part)
    return at


def _below(at: int, part: str) -> int:
    try:
        with suppress(FileExistsError):
            os.mkdir(part, dir_fd=at)
        return os.open(part, _FOLDER, dir_fd=at)
    finally:
        os.close(at)


def _replaced(folder: int, name: str, data: bytes, old: os.stat_result | None) -> os.stat_result:
    # A short name, so that it is valid even if `name` has the maximum length.
    beside = f".{secrets.token_hex(8)}.tmp"
    fd = os.open(beside, _NEW, 0o666, dir_fd=folder)
    try:
        with open(fd, "wb") as file:
            file.write(data)
            file.flush()
            if old is not None:
                os.fchmod(fd, stat.S_IMODE(old.st_mode))
            os.fsync(fd)
            found = os.fstat(fd)
        os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(beside, dir_fd=folder)
        raise
    return found
