"""The `Store` protocol: the interface between the runtime and a disk or a database.

A store holds the records of one conversation, a small state that a restart needs, and blobs (large tool
results, reports) that the transcript refers to. Opening a store locks it: until `close`, no other process can
append. `jsonl_store.py` is the store for files, `row_store.py` the one for databases. Stores are opened by a
factory (`factory.py`).
"""

from collections.abc import Sequence
from typing import Final, Literal, Protocol, runtime_checkable

from everturn.history.records import Record
from everturn.wire.claude_code_writer import LineContext

Access = Literal["write", "read"]
# Why nothing can be appended to a store of a database that was opened with "read".
READ_ONLY: Final = "it was opened for reading only"


class Store(Protocol):
    # Identifies the conversation. Other files of the session (notes, pins) have names that begin with it.
    path: str
    # Problems found when it was opened, for the user.
    notes: tuple[str, ...]
    # Why nothing can be appended; empty while it can.
    read_only_reason: str

    @property
    def place(self) -> LineContext:
        """Where the session works: written into every line."""
        ...

    @place.setter
    def place(self, place: LineContext) -> None: ...

    @property
    def records(self) -> tuple[Record, ...]:
        """The records it held when it was opened."""
        ...

    def drop_lines(self) -> None:
        """Drop the raw lines of the records from memory."""
        ...

    def append(self, records: Sequence[Record]) -> None:
        """Append these records, all or none. They are durable when it returns; raises `StoreError`."""
        ...

    def read_state(self) -> bytes:
        """The state as it was last written; empty if there is none."""
        ...

    def write_state(self, data: bytes) -> str:
        """Replace the state as a whole. Returns why that failed, or ""."""
        ...

    @property
    def blob_folder(self) -> str:
        """The folder in which blobs can be read as files."""
        ...

    def write_blob(self, name: str, data: bytes) -> str:
        """Store a blob and return the path it can be read at. Raises `StoreError`."""
        ...

    def write_copy(self) -> str:
        """The path of a file with all lines that were recorded. Files are that already; others write one."""
        ...

    def reopen(self) -> "Store":
        """Close it and open it again, with all records that it holds now."""
        ...

    @property
    def is_closed(self) -> bool: ...

    def close(self) -> None:
        """Make everything durable, and release the lock."""
        ...


@runtime_checkable
class SharedStore(Store, Protocol):
    """A store that several machines can open. Between two requests it need not be locked."""

    def release(self) -> None:
        """Let another process write. Raises nothing: a lease that cannot be given back expires."""
        ...

    def resume(self) -> bool:
        """Take back the right to write. False if another process has written since: open it again then.
        Raises `SessionLocked` while another process is writing."""
        ...
