"""An SQLite database beside transcripts: which conversations there are, which has a reply, and counters.

The transcripts are the truth. What a crash kept out of the index is added when it is opened again: a file
that has another size than the index knows is read anew.
"""

import sqlite3
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from everturn.errors import StoreError
from everturn.safe_files import make_folder, touch_file
from everturn.session.store.factory import CounterStep, StoredConversation, check_steps, find_exceeded
from everturn.session.store.migrations import Migration, SchemaVersion, plan_migrations

# Another process may be in the middle of a transaction, which takes milliseconds. Our choice.
BUSY_SECONDS: Final = 5.0

MIGRATIONS: Final = (
    Migration(
        1,
        1,
        (
            "CREATE TABLE conversation (tenant TEXT NOT NULL, name TEXT NOT NULL, family TEXT NOT NULL, "
            "size INTEGER NOT NULL, changed_at REAL NOT NULL, PRIMARY KEY (tenant, name)) WITHOUT ROWID",
            "CREATE INDEX conversation_by_family ON conversation (tenant, family, changed_at)",
            "CREATE TABLE message (tenant TEXT NOT NULL, id TEXT NOT NULL, conversation TEXT NOT NULL, "
            "PRIMARY KEY (tenant, id)) WITHOUT ROWID",
            "CREATE TABLE counter (tenant TEXT NOT NULL, name TEXT NOT NULL, amount INTEGER NOT NULL, "
            "PRIMARY KEY (tenant, name)) WITHOUT ROWID",
        ),
    ),
)

_NOTE: Final = (
    "INSERT INTO conversation VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (tenant, name) DO UPDATE SET "
    "family = CASE family WHEN '' THEN excluded.family ELSE family END, size = ?4, changed_at = ?5"
)
_ADD: Final = (
    "INSERT INTO counter VALUES (?1, ?2, ?3) ON CONFLICT (tenant, name) DO UPDATE SET amount = amount + ?3"
)


def make_parent(path: Path) -> None:
    if not path.parent.exists():
        make_folder(path.parent)


class SqliteIndex:
    """An open database. Threads may share it, and so may processes."""

    def __init__(self, path: Path, migrations: Sequence[Migration] = MIGRATIONS) -> None:
        self.path = path
        self._guard = threading.RLock()
        with self._explained():
            make_parent(path)
            touch_file(path)
            self._db = sqlite3.connect(
                path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
        try:
            with self._explained():
                self._db.execute("PRAGMA journal_mode = WAL")
            self._migrate(migrations)
        except BaseException:
            self._db.close()
            raise

    def close(self) -> None:
        with self._guard:
            self._db.close()

    def note_conversation(
        self, tenant: str, name: str, family: str, size: int, message_ids: Sequence[str], at: float
    ) -> None:
        """The transcript has this size now, and these replies in it."""
        with self._transaction():
            self._db.execute(_NOTE, (tenant, name, family, size, at))
            self._db.executemany(
                "INSERT OR IGNORE INTO message VALUES (?, ?, ?)",
                [(tenant, each, name) for each in message_ids],
            )

    def forget_conversation(self, tenant: str, name: str) -> None:
        """The transcript is gone."""
        with self._transaction():
            self._db.execute("DELETE FROM conversation WHERE tenant = ? AND name = ?", (tenant, name))
            self._db.execute("DELETE FROM message WHERE tenant = ? AND conversation = ?", (tenant, name))

    def sizes(self) -> dict[tuple[str, str], int]:
        """Of every conversation that the index knows, by tenant and name."""
        with self._guard, self._explained():
            rows = self._db.execute("SELECT tenant, name, size FROM conversation").fetchall()
        return {(tenant, name): size for tenant, name, size in rows}

    def find_by_message(self, tenant: str, message_id: str) -> str | None:
        with self._guard, self._explained():
            asked = "SELECT conversation FROM message WHERE tenant = ? AND id = ?"
            found = self._db.execute(asked, (tenant, message_id)).fetchone()
        return found[0] if found else None

    def conversations(self, tenant: str, family: str | None, most: int | None) -> list[StoredConversation]:
        # One that was found without us has no family, but may have it in its name.
        with self._guard, self._explained():
            rows = self._db.execute(
                "SELECT name, family, changed_at FROM conversation WHERE tenant = ?1 AND size > 0 "
                "AND (?2 IS NULL OR family = ?2 OR (family = '' AND instr(name, ?2))) "
                "ORDER BY changed_at DESC LIMIT ?3",
                (tenant, family, -1 if most is None else most),
            ).fetchall()
        return [
            StoredConversation(name, kept, datetime.fromtimestamp(changed, UTC))
            for name, kept, changed in rows
        ]

    def count(self, tenant: str, steps: Sequence[CounterStep]) -> str:
        check_steps(steps)
        with self._transaction():
            exceeded = find_exceeded(steps, self.read_counters(tenant, [step.name for step in steps]))
            if not exceeded:
                self._db.executemany(_ADD, [(tenant, step.name, step.amount) for step in steps])
        return exceeded

    def read_counters(self, tenant: str, names: Sequence[str]) -> Mapping[str, int]:
        with self._guard, self._explained():
            asked = "SELECT amount FROM counter WHERE tenant = ? AND name = ?"
            found = [self._db.execute(asked, (tenant, name)).fetchone() for name in names]
        return {name: row[0] if row else 0 for name, row in zip(names, found, strict=True)}

    def check(self) -> str:
        """Why the database cannot be read; "" if it can."""
        try:
            self.sizes()
        except StoreError as problem:
            return str(problem)
        return ""

    def _migrate(self, migrations: Sequence[Migration]) -> None:
        with self._transaction():
            self._db.execute("CREATE TABLE IF NOT EXISTS schema_version (version INTEGER, oldest INTEGER)")
            row = self._db.execute("SELECT version, oldest FROM schema_version").fetchone()
            found = self._checked_version(row) if row else SchemaVersion()
            for each in plan_migrations(found, migrations, str(self.path)):
                for statement in each.statements:
                    self._db.execute(statement)
                self._db.execute("DELETE FROM schema_version")
                self._db.execute("INSERT INTO schema_version VALUES (?, ?)", (each.version, each.oldest))

    def _checked_version(self, row: Sequence[object]) -> SchemaVersion:
        """SQLite keeps any value in any column."""
        match row:
            case [int() as version, int() as oldest]:
                return SchemaVersion(version, oldest)
            case _:
                held = " and ".join(map(repr, row))
                raise StoreError(
                    f"The database {self.path} is damaged: its schema_version holds {held} instead of two "
                    "numbers. Move it away: what it knows of transcripts is read from them again, and its "
                    "counters begin at 0."
                )

    @contextmanager
    def _transaction(self) -> Generator[None]:
        """Holds SQLite's write lock from the start, so that what was read is still true when it is used."""
        with self._guard, self._explained():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    @contextmanager
    def _explained(self) -> Generator[None]:
        try:
            yield
        except sqlite3.DatabaseError as problem:
            raise StoreError(
                f"The database {self.path} failed: {problem}. Check that it is an SQLite file of everturn, "
                "its permissions and the space on its disk. Transcripts are beside it, and are not affected."
            ) from problem
        except OSError as problem:
            why = problem.strerror or problem
            raise StoreError(f"The database {self.path} cannot be opened: {why}.") from problem
