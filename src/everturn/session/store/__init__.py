"""What happened, kept: the session's JSONL file is the truth, and it only grows."""

from everturn.session.store.appending import Access, Fsync, Store
from everturn.session.store.disk import Disk, Io

__all__ = ["Access", "Disk", "Fsync", "Io", "Store"]
