"""The SQLite database of the dashboard: its tables, and one connection with an exclusive lock.

It is a cache: everything in it can be made again from the session files. A database that is damaged, or of
another version, is deleted. Only one process uses it at a time; a second dashboard keeps its own in memory,
because two writers would index everything twice and, with SQLite before 3.51.3, could damage a shared
write-ahead log.
"""

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Final

from everturn.safe_files import make_folder, touch_file
from everturn.session.exclusive_database import open_exclusively

MEMORY: Final = ":memory:"
# Increased with every change of the tables or of the values in them.
SCHEMA: Final = 4
_PAGE_BYTES: Final = 16_384

TABLES: Final = """
CREATE TABLE files (path TEXT PRIMARY KEY, size INTEGER, mtime INTEGER, of TEXT, why TEXT) WITHOUT ROWID;
CREATE TABLE sessions (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE, path TEXT, file TEXT, name TEXT, format TEXT,
    agent TEXT, title TEXT, project TEXT, model TEXT, started INTEGER, ended INTEGER, ttl INTEGER,
    compactions INTEGER, practice INTEGER, peak INTEGER, context INTEGER, window INTEGER, spark BLOB,
    calls INTEGER DEFAULT 0, read INTEGER DEFAULT 0, written INTEGER DEFAULT 0, plain INTEGER DEFAULT 0,
    output INTEGER DEFAULT 0, nanos INTEGER DEFAULT 0, unpriced INTEGER DEFAULT 0,
    breaks INTEGER DEFAULT 0, break_nanos INTEGER DEFAULT 0);
CREATE INDEX sessions_by_file ON sessions (file);
CREATE INDEX sessions_by_end ON sessions (ended);
CREATE INDEX sessions_by_cost ON sessions (nanos);
CREATE TABLE details (session INTEGER PRIMARY KEY, data BLOB);
CREATE TABLE calls (
    key INTEGER PRIMARY KEY, session INTEGER, quarter INTEGER, model TEXT, read INTEGER, written INTEGER,
    plain INTEGER, output INTEGER, nanos INTEGER, read_nanos INTEGER, write_nanos INTEGER,
    plain_nanos INTEGER);
CREATE INDEX calls_by_session ON calls (session);
CREATE TABLE breaks (
    key INTEGER PRIMARY KEY, session INTEGER, at INTEGER, reason TEXT, lost INTEGER, idle REAL,
    nanos INTEGER);
CREATE INDEX breaks_by_session ON breaks (session);
CREATE TABLE repeats (key INTEGER, session INTEGER, PRIMARY KEY (key, session)) WITHOUT ROWID;
CREATE TABLE usage (
    session INTEGER, quarter INTEGER, model TEXT, calls INTEGER, read INTEGER, written INTEGER,
    plain INTEGER, output INTEGER, nanos INTEGER, unpriced INTEGER, read_nanos INTEGER,
    write_nanos INTEGER, plain_nanos INTEGER,
    PRIMARY KEY (session, quarter, model)) WITHOUT ROWID;
CREATE INDEX usage_by_quarter ON usage (quarter);
CREATE TABLE passages (
    number INTEGER PRIMARY KEY AUTOINCREMENT, session INTEGER, uuid TEXT, at INTEGER, source TEXT,
    tool TEXT, text BLOB);
CREATE INDEX passages_by_session ON passages (session, uuid);
CREATE VIRTUAL TABLE words USING fts5(
    text, content='', tokenize='porter unicode61 remove_diacritics 2');
CREATE TABLE comparisons (id TEXT PRIMARY KEY, made INTEGER, sessions TEXT, data BLOB) WITHOUT ROWID;
"""


def open_database(place: str) -> tuple[sqlite3.Connection, str]:
    """The database in a file, and a note if it was made anew or is kept in memory instead."""
    if place == MEMORY:
        return _create(_connect(MEMORY)), ""
    try:
        make_folder(Path(place).parent)
        touch_file(place)
        return _opened_or_new(place)
    except (OSError, sqlite3.OperationalError) as problem:
        why = "another dashboard has it open" if "locked" in str(problem) else str(problem)
        return _create(_connect(MEMORY)), f"the index is kept in memory only: {why}"


def remove_database(place: str) -> None:
    for name in (place, f"{place}-wal", f"{place}-shm", f"{place}-journal"):
        with suppress(FileNotFoundError):
            os.unlink(name)


def _opened_or_new(place: str) -> tuple[sqlite3.Connection, str]:
    why = ""
    if os.path.getsize(place):
        try:
            db = _locked(place)
            if not (why := _damage(db)):
                return db, ""
            db.close()
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError as problem:
            why = f"it is damaged ({problem})"
    remove_database(place)
    touch_file(place)
    return _create(_locked(place)), f"the index was rebuilt: {why}" if why else ""


def _locked(place: str) -> sqlite3.Connection:
    return open_exclusively(place, page_bytes=_PAGE_BYTES, synchronous="OFF")


def _connect(place: str) -> sqlite3.Connection:
    db = sqlite3.connect(place, timeout=0, check_same_thread=False)
    db.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
    return db


def _create(db: sqlite3.Connection) -> sqlite3.Connection:
    db.executescript(f"{TABLES} PRAGMA user_version = {SCHEMA};")
    return db


def _damage(db: sqlite3.Connection) -> str:
    """Why this database cannot be used; empty if it can. A complete check would read all of it, so other
    damage is noticed when it is met."""
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version != SCHEMA:
        return f"it has schema version {version}, and this everturn uses {SCHEMA}"
    try:
        db.execute("SELECT count(*) FROM files").fetchone()
        db.execute("SELECT max(number) FROM sessions").fetchone()
    except sqlite3.Error as problem:
        return f"it is damaged ({problem})"
    return ""
