"""One writer per session: a lock beside the transcript that names who holds it (F20).

The lock is the kernel's and ends with the process; the file is only where it hangs, and holds the number of
the process for the sentence that whoever comes second reads.
"""

import os
from typing import Final

from everturn.errors import SessionLocked, StoreError
from everturn.session.store.file_system import CREATE, FileSystem

SUFFIX: Final = ".lock"
# Wide enough for any process number, so that a shorter one overwrites a longer one whole.
WIDTH: Final = 20
# A lock file is removed by its holder; whoever opened it just before tries again with a new one.
TRIES: Final = 5


class TranscriptLock:
    """Held from its making until `release`."""

    def __init__(self, io: FileSystem, transcript: str) -> None:
        self._io = io
        self._path = transcript + SUFFIX
        self._fd = self._taken(transcript)

    def release(self) -> None:
        """The file goes first: without its lock it would say nothing."""
        try:
            self._io.remove(self._path)
        except OSError:
            # A name that stays is harmless: the next writer locks it again.
            pass
        finally:
            self._io.close(self._fd)

    def _taken(self, transcript: str) -> int:
        for _ in range(TRIES):
            fd = self._io.open(self._path, CREATE | os.O_NOFOLLOW)
            try:
                if not self._io.try_lock(fd):
                    raise SessionLocked(_in_use(transcript, self._io.read(fd, WIDTH)))
                if self._io.state(fd).links:
                    self._io.write(fd, f"{os.getpid():<{WIDTH}}\n".encode())
                    return fd
            except BaseException:
                self._io.close(fd)
                raise
            self._io.close(fd)
        raise StoreError(f"{self._path} is removed whenever it is made; what else works in that folder?")


def _in_use(transcript: str, holder: bytes) -> str:
    number = holder.decode(errors="replace").strip()
    who = f"process {number}" if number.isdigit() else "another process"
    return (
        f"{transcript} is being written by {who}. End it first, or open the session for reading only: "
        "two writers would mix their records."
    )
