"""Where the gateway keeps conversations: the one place to exchange.

A tracker asks for the store of a new conversation, and for the stores that may hold the beginning of a
request. `ConversationStores` gives each tenant a source of its own, so that no tenant can find what another
one has said. Today these are JSONL transcripts in one folder per tenant.
"""

from functools import partial
from pathlib import Path
from typing import Protocol

from everturn.adapters.tracking.parts import default_folder
from everturn.adapters.tracking.transcript_folder import OpenTranscripts, TranscriptFolder


class ConversationStores(Protocol):
    def find_transcripts(self, tenant: str) -> OpenTranscripts:
        """Opens the conversations of one tenant."""
        ...


class FolderStores:
    """One folder per tenant; None keeps conversations in memory only. The names of tenants are checked where
    tokens are read."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def find_transcripts(self, tenant: str) -> OpenTranscripts:
        return partial(TranscriptFolder, self._folder / tenant if self._folder else None)


def default_gateway_folder() -> Path:
    """Beside the sessions of other surfaces in the user's data folder."""
    return default_folder().parent / "gateway"
