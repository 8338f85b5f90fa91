"""A full-text index beside the transcript. It is derived from the transcript and can be deleted at any time.

It remembers the byte offset up to which the transcript is indexed, so an update reads only new records. An
index that is missing, damaged, of another version or of another transcript is rebuilt, with a note. If it
cannot be stored on disk or another process has it open, it is built in memory. Problems of the index are
never errors of the session (F13, F16).
"""

import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

import msgspec

from everturn.errors import InputError
from everturn.safe_files import MAX_SESSION_BYTES, open_stream
from everturn.session.recall.database import (
    MEMORY,
    FullTextEngine,
    create_tables,
    find_damage,
    has_full_text_table,
    open_in_memory,
    open_on_disk,
    remove_database,
)
from everturn.session.recall.passages import Passage, iter_passages, queued_passages
from everturn.session.recall.query import Query
from everturn.wire.claude_code_reader import parse_session_file
from everturn.wire.queued_messages import find_unrecorded

SUFFIX: Final = ".index.sqlite"
# Bytes at the start of the file and at the indexed end that are hashed to notice a different file.
FINGERPRINT: Final = 4_096
# The newest passage scores this share higher than the oldest of equal fit: the later version of a text is
# usually the one wanted.
RECENCY: Final = 0.5
# How many of the best matches are weighted by recency, for each requested result.
CANDIDATES: Final = 8

INSERT: Final = "INSERT INTO passages VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
INSERT_WORDS: Final = "INSERT INTO words (rowid, text) SELECT id, text FROM passages WHERE id > ?"
# Not ORDER BY rank: FTS5 would then hold every matching row with its positions in memory.
MATCH: Final = "SELECT rowid, bm25(words) AS fit FROM words WHERE words MATCH ? ORDER BY fit, rowid LIMIT ?"
SCAN: Final = "SELECT id, -1.0 FROM passages WHERE {} ORDER BY id DESC LIMIT ?"
HOLDS: Final = r"text LIKE ? ESCAPE '\'"
FETCH: Final = "SELECT uuid, block, start, source, tool, call, agent, at, text FROM passages WHERE id = ?"
OF_RECORD: Final = FETCH.replace("id = ?", "substr(uuid, 1, length(?1)) = ?1 ORDER BY id")
NEWEST: Final = "SELECT coalesce(max(id), 0) FROM passages"
TOOL: Final = "SELECT tool FROM passages WHERE source = 'call' AND call = ? LIMIT 1"

T = TypeVar("T")
# Row ids and ranks of passages, and a remark on how they were found.
Rows = tuple[list[tuple[int, float]], str]


class PassageMatch(msgspec.Struct, frozen=True):
    """A passage that was found; a higher score means a better match or a newer passage."""

    passage: Passage
    score: float


class RecallIndex:
    """An open index; call `close` when done. `notes` says if it was rebuilt or is kept in memory, and why."""

    def __init__(
        self, transcript: str | os.PathLike[str], *, place: str = "", words: FullTextEngine = "fts5"
    ) -> None:
        """`place` is the path of the index, or ":memory:"; the default is beside the transcript."""
        self._transcript = os.path.realpath(transcript)
        self._place = place or self._transcript + SUFFIX
        self._words: FullTextEngine = words
        self.notes: list[str] = []
        self._db = self._opened()
        self.catch_up()
        if not has_full_text_table(self._db):
            self.notes.append("this SQLite has no FTS5: passages are searched one by one")

    def close(self) -> None:
        self._db.close()

    def catch_up(self) -> int:
        """Index what was appended since the last time; returns the number of new passages."""
        return self._healed(self._catch_up)

    def find(self, query: Query, most: int) -> tuple[list[PassageMatch], str]:
        """The best passages, one per block; and a remark if they were not found by all words."""
        return self._healed(lambda: self._find(query, most))

    def passages_of(self, uuid: str) -> list[Passage]:
        """The passages of a record in order; `uuid` may be a prefix."""
        return self._healed(lambda: [Passage(*row) for row in self._db.execute(OF_RECORD, (uuid,))])

    # ── opening ──────────────────────────────────────────────────────────────────────────────────

    def _opened(self) -> sqlite3.Connection:
        if self._place == MEMORY:
            return open_in_memory(self._words)
        is_new = not os.path.exists(self._place)
        try:
            db = open_on_disk(self._place)
        except (OSError, sqlite3.OperationalError) as problem:
            return self._in_memory(str(problem))
        except sqlite3.DatabaseError as problem:
            return self._anew(f"it is damaged ({problem})")
        if is_new:
            return self._with_tables(db)
        if why := find_damage(db) or self._is_of_another_file(db):
            db.close()
            return self._anew(why)
        return db

    def _with_tables(self, db: sqlite3.Connection) -> sqlite3.Connection:
        try:
            return create_tables(db, self._words)
        except sqlite3.Error as problem:
            db.close()
            return self._in_memory(str(problem))

    def _anew(self, why: str) -> sqlite3.Connection:
        self.notes.append(f"the index was rebuilt: {why}")
        try:
            remove_database(self._place)
            return self._with_tables(open_on_disk(self._place))
        except (OSError, sqlite3.Error) as problem:
            return self._in_memory(str(problem))

    def _in_memory(self, why: str) -> sqlite3.Connection:
        self.notes.append(f"the index is kept in memory only: {why}")
        self._place = MEMORY
        return open_in_memory(self._words)

    def _healed(self, act: Callable[[], T]) -> T:
        """Run `act`; if the database is damaged, rebuild it and run `act` again."""
        try:
            return act()
        except sqlite3.Error as problem:
            self._db.close()
            fresh = self._in_memory if self._place == MEMORY else self._anew
            self._db = fresh(f"it is damaged ({problem})")
            self._catch_up()
            return act()

    def _is_of_another_file(self, db: sqlite3.Connection) -> str:
        upto, fingerprint = db.execute("SELECT upto, fingerprint FROM progress").fetchone()
        is_same = not upto or _fingerprint(self._transcript, upto) == fingerprint
        return "" if is_same else "it was built from a different transcript"

    # ── updating ─────────────────────────────────────────────────────────────────────────────────

    def _catch_up(self) -> int:
        upto: int = self._db.execute("SELECT upto FROM progress").fetchone()[0]
        data = _read_from(self._transcript, upto)
        fresh = data[: _whole_lines(data)]
        if not fresh:
            return 0
        before: int = self._db.execute(NEWEST).fetchone()[0]
        with self._db:
            self._db.executemany(INSERT, self._rows(fresh))
            if has_full_text_table(self._db):
                self._db.execute(INSERT_WORDS, (before,))
            upto += len(fresh)
            reached = (upto, _fingerprint(self._transcript, upto))
            self._db.execute("UPDATE progress SET upto = ?, fingerprint = ?", reached)
            return self._db.execute(NEWEST).fetchone()[0] - before

    def _rows(self, fresh: bytes) -> Iterator[tuple[object, ...]]:
        tools: dict[str, str] = {}
        transcript = parse_session_file(fresh)
        for queued in find_unrecorded(transcript.lines, transcript.records):
            for passage in queued_passages(queued):
                yield msgspec.structs.astuple(passage)
        for record in transcript.records:
            tools.update((block.call, block.tool) for block in record.blocks if block.is_call)
            for passage in iter_passages(record, lambda call: tools.get(call) or self._tool_of(call)):
                yield msgspec.structs.astuple(passage)

    def _tool_of(self, call: str) -> str:
        found = self._db.execute(TOOL, (call,)).fetchone()
        return found[0] if found else ""

    # ── searching ────────────────────────────────────────────────────────────────────────────────

    def _find(self, query: Query, most: int) -> tuple[list[PassageMatch], str]:
        by_words = (self._by_all_words, self._by_some_words)
        searches = (self._by_letters, *by_words) if query.needs_letters else (*by_words, self._by_letters)
        for search in searches:
            rows, remark = search(query, most * CANDIDATES)
            if rows:
                return self._best(rows, most), remark
        return [], ""

    def _by_all_words(self, query: Query, most: int) -> Rows:
        return self._matched(query.all_of(), most), ""

    def _by_some_words(self, query: Query, most: int) -> Rows:
        if len(query.terms) == 1:
            return [], ""
        return self._matched(
            query.any_of(), most
        ), "no passage has all of these words; these have some of them"

    def _by_letters(self, query: Query, most: int) -> Rows:
        every = SCAN.format(" AND ".join(HOLDS for _ in query.terms))
        rows = self._db.execute(every, (*query.patterns(), most)).fetchall()
        return rows, "found as a substring, not as whole words"

    def _matched(self, words: str, most: int) -> list[tuple[int, float]]:
        return self._db.execute(MATCH, (words, most)).fetchall() if has_full_text_table(self._db) else []

    def _best(self, rows: list[tuple[int, float]], most: int) -> list[PassageMatch]:
        newest: int = self._db.execute(NEWEST).fetchone()[0]
        scored = [(-rank * (1 + RECENCY * number / newest), number) for number, rank in rows]
        found: dict[tuple[str, int], PassageMatch] = {}
        for score, number in sorted(scored, reverse=True):
            if len(found) == most:
                break
            passage = Passage(*self._db.execute(FETCH, (number,)).fetchone())
            found.setdefault((passage.uuid, passage.block), PassageMatch(passage, score))
        return list(found.values())


def _read_from(path: str, offset: int) -> bytes:
    try:
        with open_stream(path, max_bytes=MAX_SESSION_BYTES) as file:
            file.seek(offset)
            return file.read()
    except OSError as problem:
        raise InputError(
            f"{path} cannot be read: {problem.strerror}. Check the name and its permissions."
        ) from None


def _whole_lines(data: bytes) -> int:
    """The length of the complete lines: up to the last line break, or all if the last line can be parsed."""
    ended = data.rfind(b"\n") + 1
    tail = parse_session_file(data[ended:])
    return len(data) if tail.records and not tail.flaws else ended


def _fingerprint(path: str, upto: int) -> str:
    try:
        with open_stream(path, max_bytes=MAX_SESSION_BYTES) as file:
            first = file.read(min(FINGERPRINT, upto))
            file.seek(max(0, upto - FINGERPRINT))
            last = file.read(min(FINGERPRINT, upto))
    except OSError:
        return ""
    if len(last) < min(FINGERPRINT, upto):
        return ""
    return hashlib.blake2b(first + last, digest_size=16).hexdigest()
