"""SQLite files that one process has for itself: an index of its own, which can be built again."""

import sqlite3
from typing import Literal


def open_exclusively(
    place: str, *, page_bytes: int, synchronous: Literal["OFF", "NORMAL"]
) -> sqlite3.Connection:
    """Raises `sqlite3.OperationalError` if another process has it open."""
    db = sqlite3.connect(place, timeout=0, check_same_thread=False)
    try:
        # Applies to a new file only; an existing one keeps its page size.
        db.execute(f"PRAGMA page_size = {page_bytes}")
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("PRAGMA journal_mode = WAL").fetchone()
        db.execute(f"PRAGMA synchronous = {synchronous}")
        # The lock is taken with the first write, not with the pragma.
        db.execute("BEGIN IMMEDIATE")
        db.rollback()
    except BaseException:
        db.close()
        raise
    return db
