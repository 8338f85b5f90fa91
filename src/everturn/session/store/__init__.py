"""Session stores: the session's JSONL file is append-only and holds the whole conversation."""

from everturn.session.store.file_system import FileSystem, LocalFileSystem
from everturn.session.store.jsonl_store import Fsync, JsonlStore
from everturn.session.store.protocol import Access, Store

__all__ = ["Access", "FileSystem", "Fsync", "JsonlStore", "LocalFileSystem", "Store"]
