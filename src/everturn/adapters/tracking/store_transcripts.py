"""The transcripts of an adapter in a store: a database that replicas share, or files beside an index.

The name of a conversation is that of its transcript in a folder (`transcript_folder.py`), and its family is
the link of its first block. Whatever fails here is raised: the caller's own request is then sent unchanged,
and the next one asks the store again.
"""

import os
from collections.abc import Callable, Collection, Iterator
from datetime import datetime
from threading import Lock

from everturn.adapters.tracking.caller_request import CallerRequest
from everturn.adapters.tracking.transcript_folder import (
    MAX_CANDIDATES,
    MAX_PEEKED,
    ReportProblem,
    TranscriptFile,
    full_name,
    may_begin,
)
from everturn.errors import SessionLocked
from everturn.session.store.factory import StoreFactory
from everturn.session.store.protocol import Store
from everturn.session.transcripts import SUFFIX


class StoreTranscripts:
    """`open_stores` is called when the store is needed first, and again after `close`. A factory that belongs
    to somebody else is not closed."""

    def __init__(
        self,
        open_stores: Callable[[], StoreFactory],
        tenant: str,
        report_problem: ReportProblem,
        *,
        is_ours: bool = True,
    ) -> None:
        self._open_stores, self._tenant, self._report_problem = open_stores, tenant, report_problem
        self._is_ours = is_ours
        self._opened: StoreFactory | None = None
        self._opening = Lock()

    def new(self, first: bytes, name: str, now: datetime) -> TranscriptFile:
        stores = self._stores()
        store = stores.open(self._tenant, full_name(first, name, now), family=first.hex())
        return TranscriptFile(store, self._report_problem)

    def candidates(self, request: CallerRequest, exclude: Collection[str]) -> Iterator[TranscriptFile]:
        """Conversations that may have the beginning of this request, newest first. The caller closes them."""
        stores, first = self._stores(), request.chain[0].hex()
        same = [each.name for each in stores.conversations(self._tenant, family=first, most=MAX_CANDIDATES)]
        yield from self._open_all(same, exclude)
        for name, line in stores.first_lines(self._tenant, MAX_PEEKED).items():
            if name not in same and may_begin((line,), request):
                yield from self._open_all([name], exclude)

    def find_reply(self, message_id: str) -> TranscriptFile | None:
        stores = self._stores()
        name = stores.find_by_message(self._tenant, message_id)
        if name is None:
            return None
        return TranscriptFile(stores.open(self._tenant, name, access="read"), self._report_problem)

    def counters(self) -> tuple[StoreFactory, str]:
        return self._stores(), self._tenant

    def open_again(self, transcript: TranscriptFile) -> TranscriptFile | None:
        stores, name = self._stores(), os.path.basename(transcript.path).removesuffix(SUFFIX)
        try:
            store = stores.open(self._tenant, name)
        except SessionLocked:
            if transcript.is_shared:
                raise
            # A file that another process writes: each has a copy of its own.
            return None
        return TranscriptFile(store, self._report_problem)

    def close(self) -> None:
        stores, self._opened = self._opened, None
        if stores is not None and self._is_ours:
            stores.close()

    def _open_all(self, names: list[str], exclude: Collection[str]) -> Iterator[TranscriptFile]:
        known = {os.path.basename(path) for path in exclude}
        for name in names:
            if name + SUFFIX not in known:
                yield TranscriptFile(self._open(name), self._report_problem)

    def _open(self, name: str) -> Store:
        stores = self._stores()
        try:
            return stores.open(self._tenant, name)
        except SessionLocked:
            return stores.open(self._tenant, name, access="read")

    def _stores(self) -> StoreFactory:
        with self._opening:
            self._opened = self._opened or self._open_stores()
            return self._opened
