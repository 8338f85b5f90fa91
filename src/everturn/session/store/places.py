"""Where conversations are kept, chosen by a URL.

memory:                    in this process only
a folder, or file:PATH     transcripts in a folder
sqlite:PATH                transcripts beside an SQLite database: for one process, such as a gateway
postgresql://…             rows in PostgreSQL: for several replicas
"""

import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from everturn.decide.options import StoreSettings
from everturn.errors import InputError, UsageError
from everturn.safe_files import MAX_SESSION_BYTES, open_stream
from everturn.session.store.factory import StoreFactory
from everturn.session.store.jsonl_store import Fsync, JsonlStore
from everturn.session.store.protocol import Access, Store

# The first bytes of a database (sqlite.org/fileformat.html).
SQLITE_HEADER = b"SQLite format 3\0"
POSTGRES = ("postgresql", "postgres")


def open_stores(
    url: str, *, folder: Path | None = None, fsync: Fsync = "always", deadline: float | None = None
) -> StoreFactory:
    """The factory of this URL. `folder` is for local files of a database (default: the user's data folder);
    `deadline` is the longest that one operation of a database may take, in seconds."""
    # Not above: most sessions are plain files, and need no database.
    from everturn.session.store.folder import FolderStores, SqliteStores
    from everturn.session.store.memory import NAME as MEMORY
    from everturn.session.store.memory import MemoryStores

    scheme, separator, rest = url.partition(":")
    if not separator or os.path.isabs(url) or len(scheme) == 1:
        return FolderStores(_path(url), fsync=fsync)
    if url == MEMORY:
        return MemoryStores()
    if scheme == "file":
        return FolderStores(_path(rest.removeprefix("//")), fsync=fsync)
    if scheme == "sqlite":
        return SqliteStores(_path(rest.removeprefix("//")), fsync=fsync)
    if scheme in POSTGRES:
        return _open_postgres(url, folder or default_folder(), deadline)
    raise UsageError(
        f"{scheme}: is not a kind of store. Use memory:, a folder, sqlite:PATH or postgresql://HOST/DATABASE."
    )


def open_for_reading(url: str, folder: Path) -> StoreFactory:
    """The same for a program that writes nothing. An SQLite store is read by its transcripts, so that the
    gateway that has it open need not end."""
    from everturn.session.store.folder import FolderStores

    scheme, _, rest = url.partition(":")
    path = _path(rest.removeprefix("//")) if scheme == "sqlite" else None
    if path is not None and not path.exists():
        raise InputError(f"There is no store {path}.")
    if path is not None and not _is_database(path):
        raise InputError(
            f"{path} is not an SQLite database. Give the database that lies beside the transcripts, as "
            f"sqlite:PATH, or their folder: {path.parent}."
        )
    return FolderStores(path.parent) if path is not None else open_stores(url, folder=folder)


def _is_database(path: Path) -> bool:
    try:
        with open_stream(path, max_bytes=MAX_SESSION_BYTES) as file:
            # SQLite creates an empty file first.
            return file.read(len(SQLITE_HEADER)) in (SQLITE_HEADER, b"")
    except OSError:
        # Too large, or not to be read: what opens it says why. A folder is none.
        return not path.is_dir()


def open_configured(settings: StoreSettings, *, fsync: Fsync) -> StoreFactory:
    """The factory that these options name."""
    folder = Path(settings.folder).expanduser().absolute() if settings.folder else None
    return open_stores(settings.url.reveal(), folder=folder, fsync=fsync, deadline=settings.deadline)


def open_session_store(
    path: str | os.PathLike[str], settings: StoreSettings, access: Access
) -> tuple[Store, Callable[[], None]]:
    """The store of one session, and what closes it and the connection to its place. Without a URL it is this
    file; with one, `path` is its name there."""
    if not settings.url:
        store = JsonlStore.open(path, fsync=settings.fsync, access=access)
        return store, store.close
    stores = _open_for_session(settings, access)
    try:
        return stores.open(settings.tenant, os.fspath(path), access=access), partial(_SHARED.close, stores)
    except BaseException:
        _SHARED.close(stores)
        raise


def _open_for_session(settings: StoreSettings, access: Access) -> StoreFactory:
    """An SQLite store belongs to one process, and a process may have many sessions: they share it. Whoever
    only reads needs its transcripts, and not the database."""
    url = settings.url.reveal()
    if not url.startswith("sqlite:"):
        return open_configured(settings, fsync=settings.fsync)
    if access == "read":
        return open_for_reading(url, default_folder())
    return _SHARED.share(
        os.path.realpath(_path(url.removeprefix("sqlite:").removeprefix("//"))), settings.fsync
    )


class _SharedStores:
    """The SQLite stores that sessions of this process have open, each closed with its last session."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._open: dict[tuple[str, str], tuple[StoreFactory, int]] = {}

    def share(self, path: str, fsync: Fsync) -> StoreFactory:
        with self._guard:
            stores, users = self._open.get((path, fsync)) or (open_stores(f"sqlite:{path}", fsync=fsync), 0)
            self._open[path, fsync] = stores, users + 1
        return stores

    def close(self, stores: StoreFactory) -> None:
        with self._guard:
            key = next((key for key, (held, _) in self._open.items() if held is stores), None)
            users = self._open.pop(key)[1] - 1 if key else 0
            if key and users:
                self._open[key] = stores, users
            else:
                stores.close()


_SHARED: Final = _SharedStores()


def default_folder() -> Path:
    """The user's data folder for transcripts (XDG base directory specification)."""
    data = os.environ.get("XDG_DATA_HOME") or ""
    base = Path(data) if os.path.isabs(data) else Path.home() / ".local" / "share"
    return base / "everturn" / "sessions"


def _path(text: str) -> Path:
    if not text:
        raise UsageError("The URL of the store has no path. Write a folder, or sqlite:PATH.")
    return Path(text).expanduser().absolute()


def _open_postgres(url: str, folder: Path, deadline: float | None) -> StoreFactory:
    try:
        from everturn.session.store.postgres.stores import PostgresStores
    except ModuleNotFoundError as missing:
        raise UsageError(
            f"A store in PostgreSQL needs the package {missing.name!r}. Run: pip install 'everturn[postgres]'"
        ) from None
    return PostgresStores(url, folder) if deadline is None else PostgresStores(url, folder, deadline=deadline)
