"""A store whose lines are rows: in memory, or in a database.

An append is one step that happens or does not; `Rows` says where. Blobs and other files of the session are in
a local folder, so that an agent can read them; the rows have the blobs, too, and a machine that opens the
conversation writes those that it lacks.
"""

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from everturn.errors import EverturnError, StoreError, StoreUnavailable
from everturn.history.records import Record
from everturn.session.private_files import write_blob, write_private_file
from everturn.session.store.jsonl_store import CLOSED, FILES_SUFFIX
from everturn.session.store.line_tags import FORMAT, find_newest_format
from everturn.session.store.protocol import READ_ONLY, Access
from everturn.session.store.record_lines import RecordLines
from everturn.session.transcripts import SUFFIX, parse_whole_file
from everturn.wire.claude_code_writer import LineContext


class NotTried(StoreUnavailable):
    """The database was not asked, so it is known that nothing has happened."""


class Rows(Protocol):
    """The rows of one conversation. With `write` access this process holds its lease."""

    def read_lines(self) -> list[bytes]: ...
    def append(self, at: int, lines: Sequence[bytes], message_ids: Sequence[str]) -> None:
        """Append the lines if there are `at` lines now and the lease is ours; raises `StoreError`."""
        ...

    def read_state(self) -> bytes: ...
    def write_state(self, data: bytes) -> None: ...
    def write_blob(self, name: str, data: bytes) -> None: ...
    def read_blobs(self, known: Sequence[str]) -> Mapping[str, bytes]:
        """The blobs of the conversation, except those with a known name."""
        ...

    def release(self) -> None: ...
    def resume(self, at: int) -> bool: ...


class RowStore:
    """One open conversation. `acquire` takes its lease and returns its rows; `reopen` calls it again."""

    def __init__(
        self,
        label: str,
        local: Path,
        acquire: Callable[[], Rows],
        *,
        access: Access,
        opened: "set[RowStore]",
    ) -> None:
        self.label = label
        self.path = str(local.with_name(local.name + SUFFIX))
        self.notes: tuple[str, ...] = ()
        self.read_only_reason = ""
        self._acquire = acquire
        self._access: Access = access
        # The stores of the factory that are open, this one included.
        self._opened = opened
        self._one_at_a_time = threading.Lock()
        self._lines = RecordLines(label, LineContext(cwd=os.getcwd()))
        self._rows = acquire()
        self._count = 0
        self._is_resting = False
        try:
            self._load()
        except BaseException:
            self._release()
            raise
        opened.add(self)

    def _load(self) -> None:
        lines = self._rows.read_lines()
        self._count = len(lines)
        data = b"".join(line + b"\n" for line in lines)
        self.notes = self._lines.load(data, parse_whole_file(data))
        self._write_missing_blobs()
        if self._access == "read":
            self.read_only_reason = READ_ONLY
        if (newer := find_newest_format(data)) > FORMAT:
            formats = f"format {newer}, this one knows {FORMAT}"
            self.read_only_reason = f"a newer everturn wrote it ({formats}); update everturn to continue it"
            self.notes = (*self.notes, f"opened for reading only: {self.read_only_reason}")
            self._release()

    def _write_missing_blobs(self) -> None:
        folder = Path(self.blob_folder)
        known = [each.name for each in folder.iterdir()] if folder.is_dir() else []
        for name, data in self._rows.read_blobs(known).items():
            write_blob(folder, name, data)

    @property
    def place(self) -> LineContext:
        return self._lines.place

    @place.setter
    def place(self, place: LineContext) -> None:
        self._lines.place = place

    @property
    def records(self) -> tuple[Record, ...]:
        return self._lines.records

    def drop_lines(self) -> None:
        self._lines.drop_lines()

    def append(self, records: Sequence[Record]) -> None:
        """Append these records in one step. If it is unknown whether that happened, the store accepts no more
        appends until it is opened again."""
        with self._one_at_a_time:
            self._check_writable()
            new = self._lines.prepare(records)
            if new is None:
                return
            lines = new.data[:-1].split(b"\n")
            ids = list(dict.fromkeys(record.message_id for record in new.records if record.message_id))
            try:
                self._rows.append(self._count, lines, ids)
            except NotTried:
                raise
            except BaseException as problem:
                why = "failed" if isinstance(problem, EverturnError) else "was interrupted"
                self.read_only_reason = f"an append {why}; open it again to see what it holds"
                raise
            self._count += len(lines)
            self._lines.commit(new)

    def _check_writable(self) -> None:
        if self.read_only_reason:
            raise StoreError(f"Nothing can be appended to {self.label}: {self.read_only_reason}.")

    def read_state(self) -> bytes:
        return self._rows.read_state()

    def write_state(self, data: bytes) -> str:
        try:
            self._rows.write_state(data)
        except EverturnError as problem:
            return str(problem)
        return ""

    @property
    def blob_folder(self) -> str:
        return self.path + FILES_SUFFIX

    def write_blob(self, name: str, data: bytes) -> str:
        self._rows.write_blob(Path(name).name, data)
        return write_blob(Path(self.blob_folder), name, data)

    def write_copy(self) -> str:
        path = Path(self.path)
        try:
            write_private_file(
                path.parent, path.name, b"".join(line + b"\n" for line in self._rows.read_lines())
            )
        except OSError as problem:
            raise StoreError(f"{path} could not be written: {problem.strerror or problem}.") from problem
        return self.path

    def release(self) -> None:
        if not self.read_only_reason:
            self._release()
            self._is_resting = True

    def resume(self) -> bool:
        self._check_writable()
        if self._is_resting:
            self._is_resting = not self._rows.resume(self._count)
        return not self._is_resting

    def reopen(self) -> "RowStore":
        place = self.place
        self.close()
        store = RowStore(
            self.label,
            Path(self.path).with_suffix(""),
            self._acquire,
            access=self._access,
            opened=self._opened,
        )
        store.place = place
        store.drop_lines()
        return store

    @property
    def is_closed(self) -> bool:
        return self.read_only_reason == CLOSED

    def close(self) -> None:
        if not self.is_closed:
            self._release()
            self.read_only_reason = CLOSED
            self._opened.discard(self)

    def _release(self) -> None:
        if self._access == "write":
            self._rows.release()
