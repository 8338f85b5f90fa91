"""The index of all sessions: written by the indexer, read by the pages (DB-1, DB-11).

A response that several files repeat is counted once, for the session that began first (of two that began
together, the one whose path comes first), whatever the order in which the files are read. `repeats`
remembers who else has it: if its session disappears, those files are read again.
"""

import sqlite3
import threading
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

import msgspec

from everturn.catalog.names import session_id
from everturn.web_dashboard.database import MEMORY, open_database, remove_database
from everturn.web_dashboard.values import FileSummary, SearchText, SessionDetail, SessionSummary

T = TypeVar("T")
Row = tuple[Any, ...]

# Totals are kept by quarter of an hour: every time zone begins its days at one.
QUARTER: Final = 900
# Calls without a time belong to no day.
NO_QUARTER: Final = -1
# Pages wait while passages are written, so few are written at a time.
_PASSAGES_AT_ONCE: Final = 400

_SUMS: Final = """
UPDATE sessions SET (calls, read, written, plain, output, nanos, unpriced) = (
    SELECT coalesce(sum(calls), 0), coalesce(sum(read), 0), coalesce(sum(written), 0),
        coalesce(sum(plain), 0), coalesce(sum(output), 0), coalesce(sum(nanos), 0), coalesce(sum(unpriced), 0)
    FROM usage WHERE session = ?1),
    (breaks, break_nanos) = (
    SELECT count(*), coalesce(sum(nanos), 0) FROM breaks WHERE session = ?1)
WHERE number = ?1
"""
_USAGE: Final = """
INSERT INTO usage SELECT session, quarter, model, count(*), sum(read), sum(written), sum(plain), sum(output),
    coalesce(sum(nanos), 0), sum(nanos IS NULL), sum(read_nanos), sum(write_nanos), sum(plain_nanos)
FROM calls WHERE session = ? GROUP BY quarter, model
"""


class FileStamp(msgspec.Struct, frozen=True):
    """A file as it was when it was read. `of` is the session file that a sub-agent's file belongs to."""

    path: str
    size: int
    mtime: int
    of: str = ""


def clean(text: str) -> str:
    """Text that SQLite can store: names of files may hold bytes that are not UTF-8."""
    return text.encode(errors="replace").decode()


class SessionIndex:
    """One open database. Its methods may be called from any thread."""

    def __init__(self, place: str = MEMORY) -> None:
        self._place = place
        self._lock = threading.RLock()
        self._db, note = open_database(place)
        self.notes: list[str] = [note] if note else []
        # Called after the index was lost and made anew: everything has to be read again.
        self.on_lost: Callable[[], None] = lambda: None

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def read(self, query: str, values: Sequence[Any] = ()) -> list[Row]:
        return self._healed(lambda: self._db.execute(query, values).fetchall())

    # ── files ────────────────────────────────────────────────────────────────────────────────────

    def stamps(self) -> dict[str, FileStamp]:
        rows = self.read("SELECT path, size, mtime, of FROM files")
        return {row[0]: FileStamp(*row) for row in rows}

    def store(self, found: FileSummary, stamps: Iterable[FileStamp], *, agent: str) -> list[str]:
        """Replace what is known of a file; `agent` names who wrote it, where the format does not. Returns the
        ids of the sessions that changed."""
        kept = list(stamps)
        numbers = self._healed(lambda: self._store(found, kept, agent))
        for number, session in zip(numbers, found.sessions, strict=True):
            fresh = self._healed(lambda number=number, texts=session.texts: self._unknown(number, texts))
            for start in range(0, len(fresh), _PASSAGES_AT_ONCE):
                part = fresh[start : start + _PASSAGES_AT_ONCE]
                self._healed(lambda number=number, part=part: self._store_texts(number, part))
        return sorted(session_id(each.path) for each in found.sessions)

    def remove(self, files: Iterable[str]) -> list[str]:
        """Forget files that are gone. Returns the ids of their sessions."""
        return self._healed(lambda: self._remove(list(files)))

    def _store(self, found: FileSummary, stamps: list[FileStamp], agent: str) -> list[int]:
        with self._db:
            known = {session_id(each.path) for each in found.sessions}
            gone = [
                number
                for number, id in self._db.execute(
                    "SELECT number, id FROM sessions WHERE file = ?", (found.path,)
                )
                if id not in known
            ]
            for number in gone:
                self._forget(number)
            why = clean("; ".join(reason for _, reason in found.unreadable))
            self._db.executemany(
                "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?)",
                [(each.path, each.size, each.mtime, each.of, "" if each.of else why) for each in stamps],
            )
            return [self._store_session(each, found.path, agent) for each in found.sessions]

    def _remove(self, files: list[str]) -> list[str]:
        ids: list[str] = []
        with self._db:
            for file in files:
                self._db.execute("DELETE FROM files WHERE path = ?", (file,))
                rows = self._db.execute("SELECT number, id FROM sessions WHERE file = ?", (file,)).fetchall()
                for number, id in rows:
                    self._forget(number)
                    ids.append(id)
        return ids

    # ── sessions ─────────────────────────────────────────────────────────────────────────────────

    def _store_session(self, each: SessionSummary, file: str, agent: str) -> int:
        fields: dict[str, Any] = {
            "id": session_id(each.path),
            "path": each.path,
            "file": file,
            "name": clean(each.name),
            "format": each.format,
            "agent": agent or each.format,
            "title": clean(each.title),
            "project": clean(each.project),
            "model": clean(each.model),
            "started": each.started,
            "ended": each.ended,
            "ttl": each.ttl,
            "compactions": each.compactions,
            "practice": each.practice,
            "peak": each.peak,
            "context": each.context,
            "window": each.window,
            "spark": msgspec.msgpack.encode(each.spark),
        }
        names = ", ".join(fields)
        holes = ", ".join("?" for _ in fields)
        changed = ", ".join(f"{name} = excluded.{name}" for name in fields if name != "id")
        self._db.execute(
            f"INSERT INTO sessions ({names}) VALUES ({holes}) ON CONFLICT (id) DO UPDATE SET {changed}",
            tuple(fields.values()),
        )
        number: int = self._db.execute(
            "SELECT number FROM sessions WHERE id = ?", (fields["id"],)
        ).fetchone()[0]
        data = zlib.compress(msgspec.msgpack.encode(each.detail), 1)
        self._db.execute("INSERT OR REPLACE INTO details VALUES (?, ?)", (number, data))
        self._store_calls(number, each)
        return number

    def _store_calls(self, number: int, each: SessionSummary) -> None:
        self._db.execute("DELETE FROM calls WHERE session = ?", (number,))
        self._db.execute("DELETE FROM breaks WHERE session = ?", (number,))
        self._db.execute("DELETE FROM repeats WHERE session = ?", (number,))
        others: set[int] = set()
        for call in each.calls:
            quarter = NO_QUARTER if call.at is None else call.at // QUARTER
            written = call.write_5m + call.write_1h
            tokens = (call.read, written, call.plain, call.output)
            spent = (call.nanos, call.read_nanos, call.write_nanos, call.plain_nanos)
            values = (quarter, clean(call.model), *tokens, *spent)
            others |= self._insert("calls", number, call.key, values)
        for found in each.detail.breaks:
            values = (found.at, found.reason, found.lost, found.idle, found.nanos)
            others |= self._insert("breaks", number, found.key, values)
        for changed in {number, *others}:
            self._sum(changed)

    def _insert(self, table: str, number: int, key: int, values: Sequence[Any]) -> set[int]:
        """Insert a row unless another session has it with more right; then the other way round. Returns the
        sessions that lost one."""
        holder = self._db.execute(f"SELECT session FROM {table} WHERE key = ?", (key,)).fetchone()
        if holder is not None and holder[0] != number:
            if self._precedes(holder[0], number):
                self._db.execute("INSERT OR IGNORE INTO repeats VALUES (?, ?)", (key, number))
                return set()
            self._db.execute("INSERT OR IGNORE INTO repeats VALUES (?, ?)", (key, holder[0]))
        holes = ", ".join("?" for _ in values)
        self._db.execute(f"INSERT OR REPLACE INTO {table} VALUES (?, ?, {holes})", (key, number, *values))
        return set() if holder is None or holder[0] == number else {holder[0]}

    def _precedes(self, one: int, other: int) -> bool:
        order = "SELECT coalesce(started, 1 << 60), path FROM sessions WHERE number = ?"
        found = [self._db.execute(order, (number,)).fetchone() for number in (one, other)]
        return found[0] is not None and found[0] <= found[1]

    def _sum(self, number: int) -> None:
        self._db.execute("DELETE FROM usage WHERE session = ?", (number,))
        self._db.execute(_USAGE, (number,))
        self._db.execute(_SUMS, (number,))

    def _forget(self, number: int) -> None:
        repeated = self._db.execute(
            "SELECT DISTINCT file FROM repeats JOIN sessions ON number = repeats.session "
            "WHERE repeats.key IN (SELECT key FROM calls WHERE session = ?)",
            (number,),
        ).fetchall()
        for table in ("calls", "breaks", "repeats", "usage", "details", "passages"):
            self._db.execute(f"DELETE FROM {table} WHERE session = ?", (number,))
        self._db.execute("DELETE FROM sessions WHERE number = ?", (number,))
        # A size that no file has: these are read again, and take over the calls.
        self._db.executemany("UPDATE files SET size = -1 WHERE path = ?", repeated)

    # ── text ─────────────────────────────────────────────────────────────────────────────────────

    def _unknown(self, number: int, texts: Sequence[SearchText]) -> list[SearchText]:
        """The passages of records that are not there yet: a transcript only grows."""
        rows = self._db.execute("SELECT DISTINCT uuid FROM passages WHERE session = ?", (number,))
        known = {row[0] for row in rows}
        return [each for each in texts if each.uuid not in known]

    def _store_texts(self, number: int, texts: Sequence[SearchText]) -> None:
        with self._db:
            for each in texts:
                text = clean(each.text)
                row = self._db.execute(
                    "INSERT INTO passages (session, uuid, at, source, tool, text) VALUES (?, ?, ?, ?, ?, ?)",
                    (number, each.uuid, each.at, each.source, each.tool, zlib.compress(text.encode(), 1)),
                ).lastrowid
                self._db.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (row, text))

    # ── kept comparisons ─────────────────────────────────────────────────────────────────────────

    def keep_comparison(self, id: str, made: int, sessions: Iterable[str], data: bytes) -> None:
        row = id, made, " ".join(sessions), data

        def keep() -> None:
            with self._db:
                self._db.execute("INSERT OR REPLACE INTO comparisons VALUES (?, ?, ?, ?)", row)

        self._healed(keep)

    def load_detail(self, number: int) -> SessionDetail | None:
        rows = self.read("SELECT data FROM details WHERE session = ?", (number,))
        return msgspec.msgpack.decode(zlib.decompress(rows[0][0]), type=SessionDetail) if rows else None

    # ── damage ───────────────────────────────────────────────────────────────────────────────────

    def _healed(self, act: Callable[[], T]) -> T:
        """Run `act`; if the database turns out to be damaged, make it anew and run `act` again."""
        with self._lock:
            try:
                return act()
            except (sqlite3.DatabaseError, zlib.error) as problem:
                if not _is_damage(problem):
                    raise
                self._db.close()
                if self._place != MEMORY:
                    remove_database(self._place)
                self._db, _ = open_database(self._place)
                self.notes.append(f"the index was rebuilt: it is damaged ({problem})")
                done = act()
        self.on_lost()
        return done


def _is_damage(problem: Exception) -> bool:
    """Whether the database itself is broken. A full disk or a mistake in a query must not cost the index."""
    said = str(problem)
    is_broken = type(problem) is sqlite3.DatabaseError or isinstance(problem, zlib.error)
    return is_broken or "no such table" in said or "malformed" in said
