"""Where the gateway keeps conversations: the one place to exchange.

A tracker asks for the store of a new conversation, and for the stores that may hold the beginning of a
request. `ConversationStores` gives each tenant a source of its own, so that no tenant can find what another
one has said: a folder of transcripts each, or its part of the store that `store.url` names.
"""

from functools import partial
from pathlib import Path
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
from everturn.session.store.factory import StoreFactory
from everturn.session.store.places import default_folder, open_configured


class ConversationStores(Protocol):
    def find_transcripts(self, tenant: str) -> OpenTranscripts:
        """Opens the conversations of one tenant."""
        ...

    def close(self) -> None:
        """No tenant has a conversation open any more."""
        ...


class TenantFolders:
    """One folder per tenant; None keeps conversations in memory only. The names of tenants are checked where
    tokens are read."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def find_transcripts(self, tenant: str) -> OpenTranscripts:
        return partial(TranscriptFolder, self._folder / tenant if self._folder else None)

    def close(self) -> None:
        """Each transcript is closed by its conversation."""


class SharedStores:
    """The store of `store.url`, for all tenants. It is opened when it is needed first, so that a database
    that does not answer delays nobody; until it does, requests pass unchanged and an event says why."""

    def __init__(self, settings: StoreSettings) -> None:
        self._settings = settings
        self._lock = Lock()
        self._opened: StoreFactory | None = None

    def find_transcripts(self, tenant: str) -> OpenTranscripts:
        def open_transcripts(report_problem: ReportProblem, report_damage: ReportDamage) -> Transcripts:
            return StoreTranscripts(self._open, tenant, report_problem, is_ours=False)

        return open_transcripts

    def close(self) -> None:
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    def _open(self) -> StoreFactory:
        with self._lock:
            # No fsync: the client still has what a power failure loses, and sends it again.
            self._opened = self._opened or open_configured(self._settings, fsync="never")
            return self._opened


def default_gateway_folder() -> Path:
    """Beside the sessions of other surfaces in the user's data folder."""
    return default_folder().parent / "gateway"
