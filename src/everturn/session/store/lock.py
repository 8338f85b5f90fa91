"""One writer per session: a lock file beside the transcript that names its holder (F20).

The lock is a kernel lock and ends with the process. The file holds the process id, for the error message
that a second writer gets.
"""

import os
from os import getpid
from typing import Final

from everturn.errors import SessionLocked, StoreError
from everturn.session.store.file_system import CREATE, FileSystem

SUFFIX: Final = ".lock"
# Wide enough for any process id, so that a shorter one overwrites a longer one completely.
WIDTH: Final = 20
# The holder removes the lock file; a process that opened it just before must try again with a new one.
TRIES: Final = 5


class TranscriptLock:
    """Held from its creation until `release`, which may be called again."""

    # An interrupt can end the creation before there is a descriptor.
    _fd = -1

    def __init__(self, io: FileSystem, transcript: str) -> None:
        self._io = io
        self._path = transcript + SUFFIX
        # A child that is forked has the same descriptor, and the lock stays with this process.
        self._owner = getpid()
        self._fd = self._taken(transcript)

    def __del__(self) -> None:
        """An interrupt can come between taking the lock and keeping it, or in the middle of its release. What
        nobody can release any more must not keep this process out of its own file."""
        self._close()

    def release(self) -> None:
        """Remove the file, then release the lock; in the other order another process could take the lock and
        lose its file."""
        try:
            # Without a link, somebody removed our file: one of that name is another writer's.
            if self._fd >= 0 and getpid() == self._owner and self._io.state(self._fd).links:
                self._io.remove(self._path)
        except OSError:
            # A file that stays is harmless: the next writer locks it again.
            pass
        finally:
            self._close()

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            self._io.close(fd)

    def _taken(self, transcript: str) -> int:
        for _ in range(TRIES):
            fd = self._io.open(self._path, CREATE | os.O_NOFOLLOW)
            try:
                if not self._io.try_lock(fd):
                    raise SessionLocked(_in_use(transcript, self._io.read(fd, WIDTH)))
                if self._io.state(fd).links:
                    self._io.write(fd, f"{getpid():<{WIDTH}}\n".encode())
                    return fd
            except BaseException:
                self._io.close(fd)
                raise
            self._io.close(fd)
        raise StoreError(
            f"{self._path} was removed {TRIES} times right after it was created. "
            "Check which other program works in that folder."
        )


def _in_use(transcript: str, holder: bytes) -> str:
    number = holder.decode(errors="replace").strip()
    who = f"process {number}" if number.isdigit() else "another process"
    return (
        f"{transcript} is being written by {who}. End it first, or open the session for reading only: "
        "two writers would mix their records."
    )
