"""Putting a file in its place: whole or not at all, with the mode it had, never through a link.

The bytes go to a file beside the old one, which is then renamed over it. Folders on the way are made and
opened part by part without following links, as for reading (`session/files.py`).
"""

import os
import secrets
import stat
from contextlib import suppress
from typing import Final

from everturn.chat.tools.files.workspace import ResolvedPath, explain_os_errors

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def write_atomically(place: ResolvedPath, data: bytes, old: os.stat_result | None) -> os.stat_result:
    """Write, and tell what the file is now. `old` is what it was, where there was one."""
    with explain_os_errors(place):
        folder = _folder_of(place)
        try:
            return _replaced(folder, os.path.basename(place.way), data, old)
        finally:
            os.close(folder)


def _folder_of(place: ResolvedPath) -> int:
    at = os.open(place.base, _FOLDER)
    for part in filter(None, os.path.dirname(place.way).split("/")):
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
    # Short, so that a name of the greatest length still has room for its double.
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
