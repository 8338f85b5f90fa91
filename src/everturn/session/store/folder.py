"""Transcripts in a folder: TENANT/CONVERSATION.jsonl. With an SQLite database beside them, they are indexed.

`FolderStores` has no index: several processes can share the folder, each transcript has a lock of its own,
and a reply is found by reading. `SqliteStores` is for one process, such as a gateway, and finds by index.
"""

import logging
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Final

from everturn.errors import InputError, SessionLocked, StoreError
from everturn.history.records import Record
from everturn.safe_files import MAX_SESSION_BYTES, open_stream, read_file
from everturn.session.store.factory import CounterStep, StoredConversation, check_names, is_name
from everturn.session.store.file_system import LocalFileSystem
from everturn.session.store.jsonl_store import Fsync, JsonlStore
from everturn.session.store.lock import TranscriptLock
from everturn.session.store.migrations import Migration
from everturn.session.store.protocol import Access
from everturn.session.store.sqlite_index import MIGRATIONS, SqliteIndex, make_parent
from everturn.session.transcripts import SUFFIX
from everturn.wire.claude_code_reader import parse_session_file
from everturn.wire.claude_code_writer import LineContext

COUNTERS: Final = "counters.sqlite"
# A longer one is cut off.
MAX_FIRST_LINE: Final = 1_000_000
log = logging.getLogger("everturn")


class _Transcripts:
    """The layout of a folder, and the transcripts in it that are open."""

    def __init__(self, folder: Path, fsync: Fsync) -> None:
        self.folder = folder
        self._fsync: Fsync = fsync
        self._open: set[FolderStore] = set()

    def path(self, tenant: str, conversation: str) -> Path:
        check_names(tenant, conversation)
        return self.folder / tenant / (conversation + SUFFIX)

    def open(self, path: Path, access: Access, appended: "Appended | None" = None) -> "FolderStore":
        if access == "read" and _is_missing(path):
            raise InputError(
                f"There is no conversation {path.stem} of the tenant {path.parent.name} in {self.folder}."
            )
        store = FolderStore.open(path, fsync=self._fsync, access=access, place=LineContext(cwd=os.getcwd()))
        store.watch(appended, self._open)
        return store

    def list_files(self, tenant: str) -> list[tuple[float, Path]]:
        """When each transcript was written, the newest first."""
        check_names(tenant)
        found: list[tuple[float, Path]] = []
        for path in _list_folder(self.folder / tenant):
            # What lies beside transcripts may have any name, and be anything.
            if path.suffix == SUFFIX and is_name(path.stem) and (state := _state_of(path)):
                found.append((state.st_mtime, path))
        return sorted(found, reverse=True)

    def first_lines(self, tenant: str, names: Sequence[StoredConversation]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for each in names:
            try:
                with open_stream(self.path(tenant, each.name), max_bytes=MAX_SESSION_BYTES) as file:
                    found[each.name] = file.readline(MAX_FIRST_LINE).rstrip(b"\n")
            except OSError:
                # It was removed since it was listed.
                continue
        return found

    def tenants(self) -> Iterator[str]:
        for path in sorted(_list_folder(self.folder)):
            if is_name(path.name) and os.path.isdir(path):
                yield path.name

    def close(self) -> None:
        for store in list(self._open):
            store.close()


def _list_folder(folder: Path) -> list[Path]:
    try:
        return [folder / name for name in os.listdir(folder)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as problem:
        why = problem.strerror or problem
        raise StoreError(f"{folder} cannot be read: {why}. Check its permissions.") from problem


def _state_of(path: Path) -> os.stat_result | None:
    """What the system says about a transcript; None if it is empty, or no file, or cannot be looked at."""
    try:
        found = path.stat()
    except FileNotFoundError:
        # It was removed since it was listed, or is a link to nothing.
        return None
    except OSError as problem:
        _warn_of_file(path, problem)
        return None
    return found if found.st_size and stat.S_ISREG(found.st_mode) else None


def _read_found(path: Path) -> bytes:
    """A transcript of a list; nothing if it cannot be read: one file must not hide the others."""
    try:
        return read_file(path, max_bytes=MAX_SESSION_BYTES)
    except FileNotFoundError:
        return b""
    except OSError as problem:
        _warn_of_file(path, problem)
        return b""


def _warn_of_file(path: Path, problem: OSError) -> None:
    log.warning("everturn: %s is skipped, it cannot be read: %s.", path, problem.strerror or problem)


def _is_missing(path: Path) -> bool:
    """Whether there is nothing of this name. What cannot be looked at may be there."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def _is_gone(path: Path) -> bool:
    """Whether this is no transcript any more, or cannot be one."""
    is_named = is_name(path.stem) and is_name(path.parent.name)
    return not is_named or _is_missing(path) or (os.path.exists(path) and _state_of(path) is None)


# Takes the records that were appended, and the size of the file now.
Appended = Callable[[Sequence[Record], int], None]


class FolderStore(JsonlStore):
    """A transcript of a folder; its factory hears of every append."""

    _appended: Appended | None = None
    _opened: "set[FolderStore] | None" = None

    def watch(self, appended: Appended | None, opened: "set[FolderStore]") -> None:
        self._appended, self._opened = appended, opened
        opened.add(self)

    def append(self, records: Sequence[Record]) -> None:
        super().append(records)
        if self._appended is not None:
            self._appended(records, self._size)

    def reopen(self) -> "FolderStore":
        self.close()
        store = FolderStore.open(self.path, fsync=self._fsync, place=self.place, io=self._io)
        if self._opened is not None:
            store.watch(self._appended, self._opened)
        store.drop_lines()
        return store

    def close(self) -> None:
        super().close()
        if self._opened is not None:
            self._opened.discard(self)


class FolderStores:
    def __init__(self, folder: Path, *, fsync: Fsync = "always") -> None:
        self.name = str(folder)
        self._transcripts = _Transcripts(folder, fsync)
        self._counters: SqliteIndex | None = None
        self._opening = Lock()

    def open(
        self, tenant: str, conversation: str, *, access: Access = "write", family: str = ""
    ) -> FolderStore:
        """A folder has only names, so `family` is not kept: make it a part of the name to list by it."""
        return self._transcripts.open(self._transcripts.path(tenant, conversation), access)

    def find_by_message(self, tenant: str, message_id: str) -> str | None:
        """Reads the transcripts, the oldest first; use a database where there are many."""
        wanted = re.compile(re.escape(message_id).encode())
        for _, path in reversed(self._transcripts.list_files(tenant)):
            data = _read_found(path)
            if wanted.search(data) and message_id in _message_ids(parse_session_file(data).records):
                return path.stem
        return None

    def conversations(
        self, tenant: str, *, family: str | None = None, most: int | None = None
    ) -> list[StoredConversation]:
        found = [
            StoredConversation(path.stem, family or "", datetime.fromtimestamp(changed, UTC))
            for changed, path in self._transcripts.list_files(tenant)
            if not family or family in path.stem
        ]
        return found[:most]

    def first_lines(self, tenant: str, most: int) -> Mapping[str, bytes]:
        return self._transcripts.first_lines(tenant, self.conversations(tenant, most=most))

    def count(self, tenant: str, steps: Sequence[CounterStep]) -> str:
        return self._database().count(tenant, steps)

    def read_counters(self, tenant: str, names: Sequence[str]) -> Mapping[str, int]:
        return self._database().read_counters(tenant, names)

    def check(self) -> str:
        folder = self._transcripts.folder
        is_there = not folder.exists() or os.access(folder, os.W_OK | os.X_OK)
        return "" if is_there else f"{folder} cannot be written; check its permissions."

    def close(self) -> None:
        self._transcripts.close()
        if self._counters is not None:
            self._counters.close()

    def _database(self) -> SqliteIndex:
        # SQLite does not wait for another connection that opens the same new file.
        with self._opening:
            self._counters = self._counters or SqliteIndex(self._transcripts.folder / COUNTERS)
            return self._counters


class SqliteStores:
    def __init__(
        self, path: Path, *, fsync: Fsync = "always", migrations: Sequence[Migration] = MIGRATIONS
    ) -> None:
        self.name = f"sqlite:{path}"
        self._transcripts = _Transcripts(path.parent, fsync)
        with ExitStack() as undo:
            undo.callback(_lock_store(path).release)
            self._index = SqliteIndex(path, migrations)
            undo.callback(self._index.close)
            self._catch_up()
            undo.callback(self._transcripts.close)
            # Closed in this order: transcripts, index, lock.
            self._held = undo.pop_all()

    def open(
        self, tenant: str, conversation: str, *, access: Access = "write", family: str = ""
    ) -> FolderStore:
        def appended(records: Sequence[Record], size: int) -> None:
            now = datetime.now(UTC).timestamp()
            try:
                self._index.note_conversation(tenant, conversation, family, size, _message_ids(records), now)
            except StoreError as problem:
                # The records are durable; the index gets them when it is opened again.
                log.warning("everturn: %s", problem)

        path = self._transcripts.path(tenant, conversation)
        return self._transcripts.open(path, access, appended)

    def find_by_message(self, tenant: str, message_id: str) -> str | None:
        return self._index.find_by_message(tenant, message_id)

    def conversations(
        self, tenant: str, *, family: str | None = None, most: int | None = None
    ) -> list[StoredConversation]:
        check_names(tenant)
        return self._index.conversations(tenant, family, most)

    def first_lines(self, tenant: str, most: int) -> Mapping[str, bytes]:
        return self._transcripts.first_lines(tenant, self.conversations(tenant, most=most))

    def count(self, tenant: str, steps: Sequence[CounterStep]) -> str:
        return self._index.count(tenant, steps)

    def read_counters(self, tenant: str, names: Sequence[str]) -> Mapping[str, int]:
        return self._index.read_counters(tenant, names)

    def check(self) -> str:
        return self._index.check()

    def close(self) -> None:
        self._held.close()

    def _catch_up(self) -> None:
        """Index what was written while nobody watched, or in the moment of a crash."""
        known = self._index.sizes()
        for tenant in self._transcripts.tenants():
            try:
                files = self._transcripts.list_files(tenant)
            except StoreError as problem:
                log.warning("everturn: %s", problem)
                continue
            for changed, path in files:
                state, size = _state_of(path), known.pop((tenant, path.stem), 0)
                if state and state.st_size != size and (data := _read_found(path)):
                    ids = _message_ids(parse_session_file(data).records)
                    self._index.note_conversation(tenant, path.stem, "", len(data), ids, changed)
        for tenant, name in known:
            if _is_gone(self._transcripts.folder / tenant / (name + SUFFIX)):
                self._index.forget_conversation(tenant, name)


def _lock_store(path: Path) -> TranscriptLock:
    try:
        make_parent(path)
        return TranscriptLock(LocalFileSystem(), os.path.realpath(path))
    except OSError as problem:
        raise StoreError(f"The store {path} cannot be opened: {problem.strerror or problem}.") from problem
    except SessionLocked as problem:
        who = re.search(r"process \d+|another process", str(problem))
        raise SessionLocked(
            f"The store {path} is used by {who[0] if who else 'another process'}. An SQLite store belongs to "
            "one process: end the other one, choose another file, or use PostgreSQL for several gateways."
        ) from None


def _message_ids(records: Sequence[Record]) -> list[str]:
    return list(dict.fromkeys(record.message_id for record in records if record.message_id))
