"""What happened, kept: the session's JSONL file is the truth, and it only grows."""

from everturn.session.store.file_system import FileSystem, LocalFileSystem
from everturn.session.store.transcript_store import Access, Fsync, Store

__all__ = ["Access", "FileSystem", "Fsync", "LocalFileSystem", "Store"]
