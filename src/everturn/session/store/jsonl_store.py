"""The transcript on disk: records are durable when `append` returns (TR-10, law 4).

One append is one write of complete lines. Existing bytes of the file never change. A line that a crash left
incomplete stays there, and the next append starts on a new line. After a failed write or sync it is unknown
what reached the disk, so the store accepts no more appends until it is opened again (F06, F08).

The caller chooses what "durable" means:

    always   `append` returns when the data is on disk: it survives a power failure
    batch    `append` returns when the operating system has the data: it survives a crash of the process;
             `sync` writes it to disk, and is called before sending a request that depends on it
    never    as batch, without `sync`: a power failure may lose the last seconds
"""

import errno
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

import msgspec

from everturn.errors import StoreError
from everturn.history.records import Record
from everturn.safe_files import MAX_SESSION_BYTES
from everturn.session.private_files import replace_file, write_blob
from everturn.session.store.file_system import (
    APPEND,
    READ,
    FileSystem,
    LocalFileSystem,
    make_folders,
    read_whole,
    sync_folder,
)
from everturn.session.store.line_tags import FORMAT, find_newest_format
from everturn.session.store.lock import TranscriptLock
from everturn.session.store.protocol import Access
from everturn.session.store.record_lines import NewLines, RecordLines
from everturn.session.transcripts import (
    STATE_SUFFIX,
    parse_transcript,
    parse_whole_file,
    read_state_beside,
)
from everturn.wire.claude_code_writer import LineContext
from everturn.wire.line_repair import LineProblem
from everturn.wire.line_sums import TranscriptEnd, tag_state

# The folder beside the transcript.
FILES_SUFFIX: Final = ".files"
# The `read_only_reason` of a closed store.
CLOSED: Final = "it was closed"
Fsync = Literal["always", "batch", "never"]

# The first bytes of every line we write; and the number of leading zero bytes that mean lost data.
FIRST_BYTES: Final = b'{"parentUuid":'
HOLE: Final = 64

ADVICE: Final = {
    errno.ENOSPC: "Free some disk space, then open the session again.",
    errno.EDQUOT: "Your disk quota is used up; free some space, then open the session again.",
    errno.EACCES: "Check the permissions of the file and of its folder.",
    errno.EPERM: "Check the permissions of the file and of its folder.",
    errno.EROFS: "The disk is mounted read-only; use a writable folder.",
    errno.EISDIR: "It is a folder; give the name of a file.",
    errno.ENOTDIR: "A part of its path is a file, not a folder.",
    errno.ENOENT: "The file does not exist.",
    errno.ESTALE: "Open the session again to go on with what is there now.",
    errno.ELOOP: "Its lock file is a symbolic link; remove it and check where it came from.",
    errno.EIO: "The disk failed; make a copy of the file first.",
}


class JsonlStore:
    """One open session file. Create it with `JsonlStore.open`; end it with `close`, or use `with`."""

    def __init__(self, path: str, io: FileSystem, *, fsync: Fsync, place: LineContext) -> None:
        self.path = path
        self.flaws: tuple[LineProblem, ...] = ()
        # Problems found in the file, for the user.
        self.notes: tuple[str, ...] = ()
        # Why nothing can be appended; empty while it can.
        self.read_only_reason = ""
        self._io = io
        self._fsync: Fsync = fsync
        self._lines = RecordLines(path, place)
        self._fd = -1
        self._size = 0
        self._is_unsynced = False
        self._held = ExitStack()
        self._lock: TranscriptLock | None = None
        self._one_at_a_time = threading.Lock()

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        fsync: Fsync = "always",
        access: Access = "write",
        place: LineContext | None = None,
        io: FileSystem | None = None,
    ) -> Self:
        """Open the session in this file; the file and its folder are created if necessary.

        Opening does not change an existing file. A file written by a newer everturn is opened for reading
        only; `read_only_reason` says so.
        """
        store = cls(
            os.path.realpath(path), io or LocalFileSystem(), fsync=fsync, place=place or LineContext()
        )
        with ExitStack() as undo:
            undo.callback(store._held.close)
            try:
                store._load(access)
            except OSError as problem:
                raise StoreError(f"{store.path} cannot be opened: {_describe(problem)}") from problem
            undo.pop_all()
        return store

    @property
    def place(self) -> LineContext:
        """Where the session works: written into every line."""
        return self._lines.place

    @place.setter
    def place(self, place: LineContext) -> None:
        self._lines.place = place

    @property
    def records(self) -> tuple[Record, ...]:
        """The records in the file when it was opened, and an undo record if a compaction is incomplete."""
        return self._lines.records

    def drop_lines(self) -> None:
        self._lines.drop_lines()

    def append(self, records: Sequence[Record]) -> None:
        """Append these records in one write. They are durable when it returns. After an I/O error the store
        accepts no more appends. A record that the file already holds is not written again (F02)."""
        with self._one_at_a_time:
            self._check_writable()
            new = self._lines.prepare(records)
            if new is not None:
                self._write(new)

    def sync(self) -> None:
        """Write to disk what was appended since the last sync. Only has an effect with "batch"."""
        with self._one_at_a_time:
            if self._is_unsynced and self._fsync == "batch":
                self._check_writable()
                self._guarded(self._sync)

    def read_state(self) -> bytes:
        return read_state_beside(self.path)

    def write_state(self, data: bytes) -> str:
        end = TranscriptEnd(self._size, self._lines.sum)
        return replace_file(self.path + STATE_SUFFIX, tag_state(data, end))

    @property
    def blob_folder(self) -> str:
        return self.path + FILES_SUFFIX

    def write_blob(self, name: str, data: bytes) -> str:
        return write_blob(Path(self.blob_folder), name, data)

    def write_copy(self) -> str:
        return self.path

    @property
    def is_closed(self) -> bool:
        return self.read_only_reason == CLOSED

    def close(self) -> None:
        """Sync, and release the lock."""
        try:
            if not self.read_only_reason:
                self.sync()
        finally:
            self.read_only_reason = self.read_only_reason or CLOSED
            try:
                self._held.close()
            finally:
                # An interrupt may have come right before its release, and the traceback keeps it.
                if self._lock is not None:
                    self._lock.release()

    def reopen(self) -> "JsonlStore":
        """Close it and open it again, with all records that the file holds now."""
        self.close()
        store = JsonlStore.open(self.path, fsync=self._fsync, place=self.place, io=self._io)
        store.drop_lines()
        return store

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ── opening ──────────────────────────────────────────────────────────────────────────────────

    def _load(self, access: Access) -> None:
        if access == "write":
            self._prepare_folder()
            self._lock = TranscriptLock(self._io, self.path)
            self._held.callback(self._lock.release)
        self._fd = self._io.open(self.path, APPEND if access == "write" else READ)
        self._held.callback(self._io.close, self._fd)
        if access == "write" and self._fsync != "never":
            sync_folder(self._io, os.path.dirname(self.path))
        # Before the lines: whoever only reads must not take for lost what a writer has added since.
        state = self.read_state()
        data = read_whole(self._io, self._fd)
        self._size = len(data)
        is_wreck = _is_our_wreck(data)
        transcript = parse_whole_file(data, state) if is_wreck else parse_transcript(data, self.path, state)
        self.flaws = transcript.flaws
        self.notes = (*self._lines.load(data, transcript), *self._describe_state(state))
        if access == "read":
            self.read_only_reason = "it was opened for reading only"
        if (newer := find_newest_format(data)) > FORMAT:
            self._be_readable_only(newer)

    def _describe_state(self, state: bytes) -> tuple[str, ...]:
        path = self.path + STATE_SUFFIX
        if _is_object(state) or not (state or os.path.isfile(path)):
            return ()
        return (
            f"{path} cannot be read: whether the end of the transcript is missing is not known, and what was "
            "known of breakers, cache and costs begins anew",
        )

    def _prepare_folder(self) -> None:
        for folder in make_folders(self._io, os.path.dirname(self.path)):
            if self._fsync != "never":
                sync_folder(self._io, folder)

    def _be_readable_only(self, newer: int) -> None:
        formats = f"format {newer}, this one knows {FORMAT}"
        self.read_only_reason = f"a newer everturn wrote it ({formats}); update everturn to continue it"
        self.notes = (*self.notes, f"opened for reading only: {self.read_only_reason}")
        self._held.close()

    # ── appending ────────────────────────────────────────────────────────────────────────────────

    def _check_writable(self) -> None:
        if self.read_only_reason:
            raise StoreError(f"Nothing can be appended to {self.path}: {self.read_only_reason}.")

    def _write(self, new: NewLines) -> None:
        data = new.data

        def steps() -> None:
            self._check_alone()
            self._check_size(self._size + len(data))
            written = self._io.write(self._fd, data)
            self._size += written
            if written != len(data):
                raise OSError(errno.ENOSPC, f"only {written:,} of {len(data):,} bytes were written")
            self._is_unsynced = True
            if self._fsync == "always":
                self._sync()
            # Within the guard: the state says where the transcript ended by its size and its checksum.
            self._lines.commit(new)

        self._guarded(steps)

    def _sync(self) -> None:
        self._io.fsync(self._fd)
        self._is_unsynced = False

    def _check_alone(self) -> None:
        """Raise if another program changed the file: one that ignores the lock could mix lines with ours. Nor
        may a record be acknowledged that nobody will find, because the file has another name now."""
        state = self._io.state(self._fd)
        if not state.links or not self._io.is_at(self._fd, self.path):
            gone = "moved to another name" if state.links else "removed"
            how = "replaced by another file" if self._io.exists(self.path) else gone
            raise OSError(errno.ESTALE, f"it was {how} while it was open")
        if state.size != self._size:
            sizes = f"it has {state.size:,} bytes, expected {self._size:,}"
            raise OSError(errno.EBUSY, f"another program wrote to it ({sizes}); open the session again")

    def _check_size(self, size: int) -> None:
        """Raise before the file is larger than one that can be opened."""
        if size > MAX_SESSION_BYTES:
            sizes = f"{size:,} bytes, at most {MAX_SESSION_BYTES:,}"
            instead = "go on in another session, and read this one"
            raise OSError(errno.EFBIG, f"it would be too large to be opened again ({sizes}); {instead}")

    def _guarded(self, steps: Callable[[], None]) -> None:
        """Run these steps; if they fail or are interrupted, accept no more appends, because it is unknown
        what reached the disk."""
        try:
            steps()
        except OSError as problem:
            self.read_only_reason = (
                f"an append failed ({problem.strerror}); open it again to see what it holds"
            )
            raise StoreError(f"The last append to {self.path} failed: {_describe(problem)}") from problem
        except BaseException:
            self.read_only_reason = "an append was interrupted; open it again to see what it holds"
            raise


def _is_object(data: bytes) -> bool:
    try:
        msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    except (ValueError, RecursionError, msgspec.MsgspecError):
        return False
    return True


def _is_our_wreck(data: bytes) -> bool:
    """Whether the file is a damaged first write of ours, after a power failure. It is a session, though it
    holds no complete record; `append` had not returned, so nothing acknowledged is lost."""
    first = data.partition(b"\n")[0][: len(FIRST_BYTES)]
    return bool(first) and (FIRST_BYTES.startswith(first) or not data[:HOLE].strip(b"\0"))


def _describe(problem: OSError) -> str:
    advice = ADVICE.get(problem.errno or 0, "")
    return f"{problem.strerror or problem}. {advice}".rstrip()
