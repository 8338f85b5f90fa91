"""The file operations of the store, one system call each, so that tests can inject any disk failure.

There are no retries here; `jsonl_store.py` handles each `OSError`.
"""

import errno
import fcntl
import os
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

from everturn.safe_files import (
    FILE_MODE,
    FOLDER_MODE,
    MAX_SESSION_BYTES,
    RefusedFile,
    describe_kind,
    describe_size,
)

CREATE: Final = os.O_RDWR | os.O_CREAT
APPEND: Final = CREATE | os.O_APPEND
READ: Final = os.O_RDONLY
FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY


class FileStatus(NamedTuple):
    """An open file: its size, and its number of links (0 if it was removed)."""

    size: int
    links: int


class FileSystem(Protocol):
    def make_folder(self, path: str) -> None: ...
    def exists(self, path: str) -> bool: ...
    def is_at(self, fd: int, path: str) -> bool: ...
    def open(self, path: str, flags: int) -> int: ...
    def state(self, fd: int) -> FileStatus: ...
    def read(self, fd: int, size: int) -> bytes: ...
    def write(self, fd: int, data: bytes) -> int: ...
    def fsync(self, fd: int) -> None: ...
    def try_lock(self, fd: int) -> bool: ...
    def remove(self, path: str) -> None: ...
    def close(self, fd: int) -> None: ...


class LocalFileSystem:
    """The operating system's file system."""

    def make_folder(self, path: str) -> None:
        os.mkdir(path, FOLDER_MODE)

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def is_at(self, fd: int, path: str) -> bool:
        """Whether the open file is the one that this path leads to."""
        try:
            return os.path.samestat(os.fstat(fd), os.stat(path))
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            # A folder that was closed to us, for example, does not say that the file is another one.
            return True

    def open(self, path: str, flags: int) -> int:
        """Without blocking: a pipe of this name would wait for its other end."""
        fd = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY, FILE_MODE)
        if not flags & os.O_DIRECTORY and (what := describe_kind(os.fstat(fd).st_mode)):
            os.close(fd)
            raise RefusedFile(errno.EINVAL, what, path)
        return fd

    def state(self, fd: int) -> FileStatus:
        found = os.fstat(fd)
        return FileStatus(found.st_size, found.st_nlink)

    def read(self, fd: int, size: int) -> bytes:
        return os.read(fd, size)

    def write(self, fd: int, data: bytes) -> int:
        return os.write(fd, data)

    def fsync(self, fd: int) -> None:
        os.fsync(fd)

    def try_lock(self, fd: int) -> bool:
        """Take an exclusive lock. The kernel releases it when the process ends, even in a crash."""
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def remove(self, path: str) -> None:
        os.unlink(path)

    def close(self, fd: int) -> None:
        os.close(fd)


def read_whole(io: FileSystem, fd: int) -> bytes:
    """All bytes of an open file. It may grow while it is read, so it is read until a read returns nothing."""
    chunks: list[bytes] = []
    size = io.state(fd).size
    if size > MAX_SESSION_BYTES:
        raise RefusedFile(errno.EFBIG, describe_size(size, MAX_SESSION_BYTES))
    while chunk := io.read(fd, size + 1):
        chunks.append(chunk)
    return b"".join(chunks)


def sync_folder(io: FileSystem, path: str) -> None:
    """Make the names in a folder durable; without this, a crash can lose a new file's name."""
    fd = io.open(path, FOLDER)
    try:
        io.fsync(fd)
    finally:
        io.close(fd)


def make_folders(io: FileSystem, path: str) -> list[str]:
    """Create the missing folders of a path; returns the folders in which a name was added."""
    missing: list[str] = []
    while not io.exists(path):
        missing.append(path)
        path = os.path.dirname(path)
    for each in reversed(missing):
        # Another session may begin in the same new folder at the same time.
        with suppress(FileExistsError):
            io.make_folder(each)
    return [os.path.dirname(each) for each in reversed(missing)]
