"""The SQLite database of the index: its tables, and one connection with an exclusive lock.

With an exclusive lock, the WAL reset bug of SQLite before 3.51.3 cannot occur (F11), and the WAL needs no
shared memory, which network file systems lack (F12).
"""

import os
import sqlite3
from contextlib import suppress
from typing import Final, Literal

from everturn.safe_files import touch_file
from everturn.session.exclusive_database import open_exclusively

MEMORY: Final = ":memory:"
# The version of the tables below; an index with another version is rebuilt.
SCHEMA: Final = 1
# Larger than SQLite's default of 4,096 bytes, which two long passages fill. A scan of all passages, which the
# search by substring needs, is 25% faster with it (docs/log.md).
PAGE: Final = 16_384

TABLES: Final = """
CREATE TABLE passages (
    id INTEGER PRIMARY KEY, uuid TEXT, block INTEGER, start INTEGER, source TEXT, tool TEXT, call TEXT,
    agent TEXT, at TEXT, text TEXT);
CREATE INDEX passages_of_calls ON passages (call) WHERE source = 'call';
CREATE INDEX passages_of_records ON passages (uuid);
CREATE TABLE progress (upto INTEGER, fingerprint TEXT);
INSERT INTO progress VALUES (0, '');
"""
FULL_TEXT_TABLE: Final = """
CREATE VIRTUAL TABLE words USING fts5(
    text, content='passages', content_rowid='id', tokenize='porter unicode61 remove_diacritics 2');
"""

# fts5: a full-text index. none: passages are scanned, as with an SQLite library without FTS5.
FullTextEngine = Literal["fts5", "none"]


def open_on_disk(place: str) -> sqlite3.Connection:
    """Raises `sqlite3.OperationalError` if another process has it open."""
    _touch(place)
    return open_exclusively(place, page_bytes=PAGE, synchronous="NORMAL")


def open_in_memory(words: FullTextEngine) -> sqlite3.Connection:
    return create_tables(sqlite3.connect(MEMORY, check_same_thread=False), words)


def create_tables(db: sqlite3.Connection, words: FullTextEngine) -> sqlite3.Connection:
    db.executescript(f"{TABLES} PRAGMA user_version = {SCHEMA};")
    if words == "fts5":
        with suppress(sqlite3.OperationalError):
            db.executescript(FULL_TEXT_TABLE)
    return db


def has_full_text_table(db: sqlite3.Connection) -> bool:
    return bool(db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'words'").fetchone()[0])


def find_damage(db: sqlite3.Connection) -> str:
    """Why this database cannot be used; empty if it can."""
    try:
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version != SCHEMA:
            return f"it has schema version {version}, and this everturn uses {SCHEMA}"
        verdict = db.execute("PRAGMA quick_check").fetchone()[0]
        db.execute("SELECT upto, fingerprint FROM progress").fetchone()[1]
    except (sqlite3.Error, TypeError) as problem:
        return f"it is damaged ({problem})"
    return "" if verdict == "ok" else f"it is damaged ({verdict})"


def remove_database(place: str) -> None:
    for name in (place, f"{place}-wal", f"{place}-shm", f"{place}-journal"):
        with suppress(FileNotFoundError):
            os.unlink(name)


def _touch(path: str) -> None:
    """Create the file readable by its owner only; SQLite gives its journals the same permissions."""
    touch_file(path)
