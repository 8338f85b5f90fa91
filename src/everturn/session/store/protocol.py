"""The `Store` protocol: the interface between the runtime and a disk or a database.

A store holds the records of one conversation, a small state that a restart needs, and blobs (large tool
results, reports) that the transcript refers to. Opening a store locks it: until `close`, no other process can
append. `jsonl_store.py` is the store for files; implement this protocol to keep conversations elsewhere.
"""

from collections.abc import Sequence
from typing import Protocol

from everturn.history.records import Record


class Store(Protocol):
    # Identifies the conversation: a path, or a key in a database.
    path: str
    # Problems found when it was opened, for the user.
    notes: tuple[str, ...]
    # Why nothing can be appended; empty while it can.
    read_only_reason: str

    @property
    def records(self) -> tuple[Record, ...]:
        """The records it held when it was opened."""
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

    def reopen(self) -> "Store":
        """Close it and open it again, with all records that it holds now."""
        ...

    @property
    def is_closed(self) -> bool: ...

    def close(self) -> None:
        """Make everything durable, and release the lock."""
        ...
