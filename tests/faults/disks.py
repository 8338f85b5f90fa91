"""Disks that misbehave on order: one in memory, and one that dies or fails at a chosen operation.

`MemoryDisk` keeps what was synced apart from what was only written, so that a power cut can take the rest.
`Trap` wraps any disk and springs at the n-th operation: before it, after it, or after k bytes of a write.
"""

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from everturn.session.store.file_system import FileStatus, FileSystem

When = Literal["before", "inside", "after"]


@dataclass
class Inode:
    data: bytes = b""
    synced: bytes = b""
    links: int = 1
    holder: int = 0


@dataclass
class MemoryDisk:
    """Files by name. Folders exist; a lock is held by an open file until that is closed."""

    files: dict[str, Inode] = field(default_factory=dict)
    fds: dict[int, tuple[Inode, int]] = field(default_factory=dict)
    last_fd: int = 100

    def make_folder(self, path: str) -> None:
        self.files[path] = Inode()

    def exists(self, path: str) -> bool:
        return True

    def is_at(self, fd: int, path: str) -> bool:
        return self.files.get(path) is self.fds[fd][0]

    def open(self, path: str, flags: int) -> int:
        if flags & os.O_DIRECTORY:
            found = self.files.setdefault(path + "/", Inode())
        elif path not in self.files and not flags & os.O_CREAT:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        else:
            found = self.files.setdefault(path, Inode())
        self.last_fd += 1
        self.fds[self.last_fd] = (found, 0)
        return self.last_fd

    def state(self, fd: int) -> FileStatus:
        return FileStatus(len(self.fds[fd][0].data), self.fds[fd][0].links)

    def read(self, fd: int, size: int) -> bytes:
        inode, at = self.fds[fd]
        chunk = inode.data[at : at + size]
        self.fds[fd] = (inode, at + len(chunk))
        return chunk

    def write(self, fd: int, data: bytes) -> int:
        self.fds[fd][0].data += data
        return len(data)

    def fsync(self, fd: int) -> None:
        self.fds[fd][0].synced = self.fds[fd][0].data

    def try_lock(self, fd: int) -> bool:
        inode = self.fds[fd][0]
        if inode.holder not in (0, fd):
            return False
        inode.holder = fd
        return True

    def remove(self, path: str) -> None:
        self.files.pop(path).links = 0

    def close(self, fd: int) -> None:
        inode, _ = self.fds.pop(fd)
        inode.holder = 0 if inode.holder == fd else inode.holder

    def after_death(self) -> "MemoryDisk":
        """What the next process finds: every byte that was written, and no lock."""
        return MemoryDisk({path: Inode(it.data, it.synced) for path, it in self.files.items()})


@dataclass
class Trap:
    """Another disk, until operation number `at` (from 1). `bite` dies or raises; `stays_shut`: from then on,
    for every operation."""

    inner: FileSystem
    bite: Callable[[], None]
    at: int = 0
    when: When = "before"
    after_bytes: int = 0
    # Which operations count: those of one name, or everything that touches the disk.
    only: str = ""
    stays_shut: bool = True
    done: list[str] = field(default_factory=list)

    def _passes(self, name: str) -> bool:
        """Whether the operation is none of ours to stop."""
        if self.only and name != self.only:
            return True
        self.done.append(name)
        if self.stays_shut and 0 < self.at < len(self.done):
            self.bite()
        return len(self.done) != self.at

    def _do(self, name: str, act: Callable[[], Any]) -> Any:
        if self._passes(name):
            return act()
        if self.when == "before":
            self.bite()
        found = act()
        if self.when == "after":
            self.bite()
        return found

    def make_folder(self, path: str) -> None:
        self._do("make_folder", lambda: self.inner.make_folder(path))

    def exists(self, path: str) -> bool:
        return self.inner.exists(path)

    def is_at(self, fd: int, path: str) -> bool:
        return self.inner.is_at(fd, path)

    def open(self, path: str, flags: int) -> int:
        return self._do("open", lambda: self.inner.open(path, flags))

    def state(self, fd: int) -> FileStatus:
        return self._do("state", lambda: self.inner.state(fd))

    def read(self, fd: int, size: int) -> bytes:
        return self._do("read", lambda: self.inner.read(fd, size))

    def write(self, fd: int, data: bytes) -> int:
        if self._passes("write"):
            return self.inner.write(fd, data)
        if self.when == "before":
            self.bite()
        written = self.inner.write(fd, data[: self.after_bytes] if self.when == "inside" else data)
        self.bite()
        return written

    def fsync(self, fd: int) -> None:
        self._do("fsync", lambda: self.inner.fsync(fd))

    def try_lock(self, fd: int) -> bool:
        return self._do("try_lock", lambda: self.inner.try_lock(fd))

    def remove(self, path: str) -> None:
        self._do("remove", lambda: self.inner.remove(path))

    def close(self, fd: int) -> None:
        self._do("close", lambda: self.inner.close(fd))
