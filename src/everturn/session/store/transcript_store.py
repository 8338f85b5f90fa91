"""The transcript on disk: what `append` acknowledges survives whatever happens next (TR-10, law 4).

One append is one write of whole lines, and nothing in the file is ever changed. A line that a crash cut off
stays where it is, and what comes next starts on a new line. After a write or sync that failed nobody knows
what reached the disk, so the store takes nothing more until it is opened again (F06, F08).

How long "durable" holds is the caller's choice:

    always   `append` returns when the disk has it: it survives power loss
    batch    `append` returns when the system has it: it survives our death; `sync` brings it to the disk,
             and is called before a request is sent that depends on it
    never    as batch, and the system writes to the disk when it likes: power loss may take the last seconds
"""

import errno
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Final, Literal, Self

import msgspec

from everturn.errors import StoreError, UsageError
from everturn.history.edits import Undone
from everturn.history.records import Record
from everturn.session.store.file_system import (
    APPEND,
    READ,
    FileSystem,
    LocalFileSystem,
    make_folders,
    read_whole,
    sync_folder,
)
from everturn.session.store.line_tags import (
    FORMAT,
    find_newest_format,
    is_compaction,
    tag_lines,
    undo_cut_off_compaction,
)
from everturn.session.store.lock import TranscriptLock
from everturn.session.transcripts import parse_transcript
from everturn.wire.claude_code_reader import parse_session_file
from everturn.wire.claude_code_writer import LineContext, encode_record
from everturn.wire.line_repair import LineProblem

Fsync = Literal["always", "batch", "never"]
Access = Literal["write", "parse_session_file"]

# How every line that we spell begins; and so many zeros at a file's start are a hole, not a file format.
FIRST_BYTES: Final = b'{"parentUuid":'
HOLE: Final = 64

ADVICE: Final = {
    errno.ENOSPC: "Make room on the disk, then open the session again.",
    errno.EDQUOT: "Your quota is used up; make room, then open the session again.",
    errno.EACCES: "Check the permissions of the file and of its folder.",
    errno.EPERM: "Check the permissions of the file and of its folder.",
    errno.EROFS: "The disk is mounted read-only; give a folder that can be written.",
    errno.EISDIR: "It is a folder; give the name of a file.",
    errno.ENOTDIR: "A part of its path is a file, not a folder.",
    errno.ENOENT: "There is no such file.",
    errno.ELOOP: "Its lock file is a link; remove it, and see who put it there.",
    errno.EIO: "The disk has failed; copy what is there before anything else.",
}


class Store:
    """One session file, open. Made by `Store.open`; ended by `close`, or by `with`."""

    def __init__(self, path: str, io: FileSystem, *, fsync: Fsync, place: LineContext) -> None:
        self.path = path
        self.flaws: tuple[LineProblem, ...] = ()
        # What a person should know of how the file was found.
        self.notes: tuple[str, ...] = ()
        # Why nothing can be appended; empty while it can.
        self.read_only_reason = ""
        self._io = io
        self._fsync: Fsync = fsync
        self._place = place
        self._fd = -1
        self._size = 0
        self._starts_new_line = False
        self._is_unsynced = False
        self._found: tuple[Record, ...] = ()
        self._known: dict[str, Record] = {}
        self._owed: tuple[Record, ...] = ()
        self._held = ExitStack()
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
    ) -> "Store":
        """The session in this file, made with its folder where there is none.

        Opening changes no byte of it. A file of a newer everturn opens for reading only; `refuses` says so.
        """
        store = cls(
            os.path.realpath(path), io or LocalFileSystem(), fsync=fsync, place=place or LineContext()
        )
        with ExitStack() as undo:
            undo.callback(store._held.close)
            try:
                store._load(access)
            except OSError as problem:
                raise StoreError(f"{store.path} cannot be opened: {_said(problem)}") from problem
            undo.pop_all()
        return store

    @property
    def records(self) -> tuple[Record, ...]:
        """What the file held when it was opened; and, where a compaction was cut off, its undoing."""
        return (*self._found, *self._owed)

    def drop_lines(self) -> None:
        """Hold the records without the bytes of their lines. Those are in the file, and in memory they are
        more than everything else that an open session needs."""
        self._found = tuple(msgspec.structs.replace(record, raw=b"") for record in self._found)
        self._known.update((record.uuid, record) for record in self._found)

    def append(self, records: Sequence[Record]) -> None:
        """Keep these records, all in one write. When it returns they are durable; when it raises, the store
        takes nothing more. A record that the file already holds is not written again (F02)."""
        with self._one_at_a_time:
            self._check_writable()
            new = self._unknown(records)
            if not new:
                return
            lines = tag_lines(new, self._place)
            if self._owed:
                lines = tag_lines(self._owed, self._place) + lines
            data = b"".join(line + b"\n" for line in lines)
            self._write(b"\n" + data if self._starts_new_line else data)
            self._starts_new_line = False
            self._owed = ()
            self._known.update((record.uuid, record) for record in new)

    def sync(self) -> None:
        """Bring to the disk what was appended since the last time; nothing to do but with "batch"."""
        with self._one_at_a_time:
            if self._is_unsynced and self._fsync == "batch":
                self._check_writable()
                self._guarded(self._sync)

    def close(self) -> None:
        """Sync what is owed, and let others write."""
        try:
            if not self.read_only_reason:
                self.sync()
        finally:
            self.read_only_reason = self.read_only_reason or "it was closed"
            self._held.close()

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
            self._held.callback(TranscriptLock(self._io, self.path).release)
        self._fd = self._io.open(self.path, APPEND if access == "write" else READ)
        self._held.callback(self._io.close, self._fd)
        if access == "write" and self._fsync != "never":
            sync_folder(self._io, os.path.dirname(self.path))
        data = read_whole(self._io, self._fd)
        self._size = len(data)
        self._starts_new_line = bool(data) and not data.endswith(b"\n")
        transcript = parse_session_file(data) if _is_our_wreck(data) else parse_transcript(data, self.path)
        self._found, self.flaws = transcript.records, transcript.flaws
        self._known = {record.uuid: record for record in self._found}
        undone = undo_cut_off_compaction(self._found)
        self._owed = (undone,) if undone else ()
        self.notes = tuple(_notes(self.flaws, undone))
        if access == "read":
            self.read_only_reason = "it was opened for reading only"
        if (newer := find_newest_format(data)) > FORMAT:
            self._be_readable_only(newer)

    def _prepare_folder(self) -> None:
        for folder in make_folders(self._io, os.path.dirname(self.path)):
            if self._fsync != "never":
                sync_folder(self._io, folder)

    def _be_readable_only(self, newer: int) -> None:
        formats = f"format {newer}, this one knows {FORMAT}"
        self.read_only_reason = f"a newer everturn wrote it ({formats}); update everturn to go on with it"
        self.notes = (*self.notes, f"opened for reading only: {self.read_only_reason}")
        self._held.close()

    # ── appending ────────────────────────────────────────────────────────────────────────────────

    def _check_writable(self) -> None:
        if self.read_only_reason:
            raise StoreError(f"Nothing can be appended to {self.path}: {self.read_only_reason}.")

    def _unknown(self, records: Sequence[Record]) -> list[Record]:
        new: dict[str, Record] = {}
        for record in records:
            known = self._known.get(record.uuid) or new.get(record.uuid)
            if known is None:
                new[record.uuid] = record
            elif not _same(known, record):
                raise UsageError(
                    f"{self.path} already holds another record with the uuid {record.uuid}; "
                    "give every record an id of its own."
                )
        if is_compaction(records) and 0 < len(new) < len(records):
            raise UsageError(
                f"{self.path} holds a part of this compaction, which was cut off and no longer counts; "
                "make it again with new ids."
            )
        return list(new.values())

    def _write(self, data: bytes) -> None:
        def steps() -> None:
            self._check_alone()
            written = self._io.write(self._fd, data)
            self._size += written
            if written != len(data):
                raise OSError(errno.ENOSPC, f"only {written:,} of {len(data):,} bytes were written")
            self._is_unsynced = True
            if self._fsync == "always":
                self._sync()

        self._guarded(steps)

    def _sync(self) -> None:
        self._io.fsync(self._fd)
        self._is_unsynced = False

    def _check_alone(self) -> None:
        """A program that does not know our lock may write too; its lines and ours must not mix."""
        state = self._io.state(self._fd)
        if not state.links:
            raise OSError(errno.ENOENT, "somebody removed or replaced it while it was open")
        if state.size != self._size:
            sizes = f"it has {state.size:,} bytes and not {self._size:,}"
            raise OSError(errno.EBUSY, f"another program wrote to it ({sizes}); open the session again")

    def _guarded(self, steps: Callable[[], None]) -> None:
        """Whatever interrupts these steps, what reached the disk is unknown from then on."""
        try:
            steps()
        except OSError as problem:
            self.read_only_reason = (
                f"an append failed ({problem.strerror}), so open it again to see what it holds"
            )
            raise StoreError(f"{self.path} did not take the last append: {_said(problem)}") from problem
        except BaseException:
            self.read_only_reason = "an append was interrupted, so open it again to see what it holds"
            raise


def _is_our_wreck(data: bytes) -> bool:
    """A first write of ours that a power cut took to pieces: it holds no record, and is a session all the
    same. Nobody was told that anything of it is safe."""
    first = data.partition(b"\n")[0][: len(FIRST_BYTES)]
    return bool(first) and (FIRST_BYTES.startswith(first) or not data[:HOLE].strip(b"\0"))


def _said(problem: OSError) -> str:
    advice = ADVICE.get(problem.errno or 0, "")
    return f"{problem.strerror or problem}. {advice}".rstrip()


def _notes(flaws: Sequence[LineProblem], undone: Record | None) -> Iterator[str]:
    for flaw in flaws:
        yield f"line {flaw.line}: {flaw.what}"
    if undone is not None and isinstance(undone.edit, Undone):
        cut = f"the compaction {undone.edit.boundary} was cut off while it was written"
        yield f"{cut}; the view before it holds"


def _same(one: Record, other: Record) -> bool:
    """Whether two records are the same fact. Their bytes may differ: marks, and where the session runs."""
    return _as_read(one) == _as_read(other)


def _as_read(record: Record) -> Record:
    (found,) = parse_session_file(encode_record(record)).records
    return msgspec.structs.replace(found, raw=b"")
