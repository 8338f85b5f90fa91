"""The file operations of the store, each one system call: what a disk can refuse, a test can refuse too.

Nothing is retried here and nothing is decided; what an `OSError` means is said in `transcript_store.py`.
"""

import fcntl
import os
from typing import Final, NamedTuple, Protocol

# A transcript holds everything that was ever said: it is its owner's alone.
FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700

CREATE: Final = os.O_RDWR | os.O_CREAT
APPEND: Final = CREATE | os.O_APPEND
READ: Final = os.O_RDONLY
FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY


class FileStatus(NamedTuple):
    """An open file: how long it is, and how many names it has (none: somebody removed it)."""

    size: int
    links: int


class FileSystem(Protocol):
    def make_folder(self, path: str) -> None: ...
    def exists(self, path: str) -> bool: ...
    def open(self, path: str, flags: int) -> int: ...
    def state(self, fd: int) -> FileStatus: ...
    def read(self, fd: int, size: int) -> bytes: ...
    def write(self, fd: int, data: bytes) -> int: ...
    def fsync(self, fd: int) -> None: ...
    def try_lock(self, fd: int) -> bool: ...
    def remove(self, path: str) -> None: ...
    def close(self, fd: int) -> None: ...


class LocalFileSystem:
    """The operating system's own."""

    def make_folder(self, path: str) -> None:
        os.mkdir(path, FOLDER_MODE)

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def open(self, path: str, flags: int) -> int:
        return os.open(path, flags | os.O_CLOEXEC, FILE_MODE)

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
        """An exclusive lock that the kernel drops with the process, however that ends."""
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
    """All bytes of an open file. It may grow meanwhile; asked for one byte more, it says so."""
    chunks: list[bytes] = []
    size = io.state(fd).size
    while chunk := io.read(fd, size + 1):
        chunks.append(chunk)
    return b"".join(chunks)


def sync_folder(io: FileSystem, path: str) -> None:
    """Make the names in a folder durable: a new file is lost with its name."""
    fd = io.open(path, FOLDER)
    try:
        io.fsync(fd)
    finally:
        io.close(fd)


def make_folders(io: FileSystem, path: str) -> list[str]:
    """Create what is missing of a path, from the top down; the folders that gained a name."""
    missing: list[str] = []
    while not io.exists(path):
        missing.append(path)
        path = os.path.dirname(path)
    for each in reversed(missing):
        io.make_folder(each)
    return [os.path.dirname(each) for each in reversed(missing)]
