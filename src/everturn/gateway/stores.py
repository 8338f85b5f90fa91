"""Where the gateway keeps conversations: the one place to exchange.

A tracker asks for the store of a new conversation, and for the stores that may hold the beginning of a
request. `ConversationStores` gives each tenant a source of its own, so that no tenant can find what another
one has said: a folder of transcripts each, or its part of the store that `store.url` names.
"""

import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock
from typing import Protocol

from everturn.adapters.tracking.store_transcripts import StoreTranscripts
from everturn.adapters.tracking.transcript_folder import (
    OpenTranscripts,
    ReportDamage,
    ReportProblem,
    TranscriptFolder,
    Transcripts,
)
from everturn.decide.options import StoreSettings
from everturn.errors import EverturnError
from everturn.safe_files import make_folder
from everturn.session.store.breaker import MAX_FAILURES, StoreBreaker
from everturn.session.store.factory import StoreFactory
from everturn.session.store.folder import FolderStores
from everturn.session.store.memory import MemoryStores
from everturn.session.store.places import POSTGRES, default_folder, open_configured


class ConversationStores(Protocol):
    # Whether replicas may continue each other's conversations.
    is_shared: bool

    def open(self) -> StoreFactory:
        """Where counters are kept."""
        ...

    def find_transcripts(self, tenant: str) -> OpenTranscripts:
        """Opens the conversations of one tenant."""
        ...

    def close(self) -> None:
        """No tenant has a conversation open any more."""
        ...


class TenantFolders:
    """One folder per tenant; None keeps conversations in memory only. The names of tenants are checked where
    tokens are read."""

    is_shared = False

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._lock = Lock()
        self._opened: StoreFactory | None = None

    def open(self) -> StoreFactory:
        with self._lock:
            self._opened = self._opened or (FolderStores(self._folder) if self._folder else MemoryStores())
            return self._opened

    def find_transcripts(self, tenant: str) -> OpenTranscripts:
        return partial(TranscriptFolder, self._folder / tenant if self._folder else None)

    def close(self) -> None:
        """Each transcript is closed by its conversation."""
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()


class SharedStores:
    """The store of `store.url`, for all tenants. It is opened when it is needed first, so that a database
    that does not answer delays nobody; until it does, requests pass unchanged and an event says why."""

    def __init__(self, settings: StoreSettings) -> None:
        self.is_shared = settings.url.reveal().partition(":")[0] in POSTGRES
        self._settings = settings
        self._lock = Lock()
        self._opened: StoreFactory | None = None
        self._breaker = StoreBreaker()
        # Why it could not be opened last time.
        self._problem: EverturnError | None = None

    def find_transcripts(self, tenant: str) -> OpenTranscripts:
        def open_transcripts(report_problem: ReportProblem, report_damage: ReportDamage) -> Transcripts:
            return StoreTranscripts(self.open, tenant, report_problem, is_ours=False)

        return open_transcripts

    def close(self) -> None:
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    def open(self) -> StoreFactory:
        """The store. While it cannot be opened, one thread tries from time to time, and the others are told
        why the last attempt failed."""
        if self._opened is not None:
            return self._opened
        problem = self._problem
        if problem is not None and (self._breaker.refuses(time.monotonic()) or self._lock.locked()):
            raise _repeat(problem)
        with self._lock:
            if self._opened is None:
                self._try()
            if self._opened is None:
                assert self._problem is not None
                raise _repeat(self._problem)
            return self._opened

    def _try(self) -> None:
        if self._breaker.refuses(time.monotonic()):
            return
        try:
            # No fsync: the client still has what a power failure loses, and sends it again.
            self._opened = open_configured(self._settings, fsync="never")
            self._breaker, self._problem = StoreBreaker(), None
        except EverturnError as problem:
            # Opening it takes a whole deadline, so one failure is enough.
            failures = max(self._breaker.failures, MAX_FAILURES - 1)
            self._breaker = StoreBreaker(failures).after_failure(time.monotonic())
            self._problem = problem


def _repeat(problem: EverturnError) -> EverturnError:
    """For another thread: an error belongs to the one that raised it."""
    return type(problem)(*problem.args)


def find_folder_problem(folder: Path) -> str:
    """Why conversations cannot be kept in a folder, or "". Makes the folder if it is missing."""
    try:
        make_folder(folder)
        # Whoever has the rights may still fail, as on a disk that is mounted for reading.
        with TemporaryFile(dir=folder):
            return ""
    except OSError as problem:
        return f"Conversations cannot be kept in {folder}: {problem.strerror}."


def default_gateway_folder() -> Path:
    """Beside the sessions of other surfaces in the user's data folder."""
    return default_folder().parent / "gateway"
