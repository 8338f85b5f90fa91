"""Where shadows are kept: a folder with one transcript for each conversation.

    DATE-TIME-LINK-ID.jsonl       when it began, the link of its first message, its id

The name carries the first link, so a conversation is found again after a restart without any index: few
files begin like it, and each tells its own chain (`chain.py`). A disk that refuses costs the transcript and
not the conversation: it goes on in memory, and somebody is told.
"""

import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from everturn.errors import EverturnError
from everturn.history.records import Record
from everturn.history.threads import split_threads
from everturn.session.store import Store
from everturn.wire.claude_code_writer import LineContext

# What happened, and what the disk said.
ReportProblem = Callable[[str, str], None]

# Conversations with one first message that are looked into, newest first: opening one costs reading it.
MAX_CANDIDATES: Final = 16
_NAME: Final = re.compile(r"^\d{4}-\d\d-\d\d-\d{6}-([0-9a-f]{32})-([\w-]+)\.jsonl$")


class TranscriptFile:
    """The transcript of one conversation; without a store it only says that there is none."""

    def __init__(self, store: Store | None, trouble: ReportProblem) -> None:
        self.store = store
        self.path = store.path if store else ""
        self._trouble = trouble

    @property
    def name(self) -> str:
        """The id that its file is named for."""
        found = _NAME.match(os.path.basename(self.path))
        return found[2] if found else ""

    @property
    def records(self) -> list[Record]:
        """What its file held when it was opened."""
        return list(split_threads(self.store.records).main.records) if self.store else []

    def append(self, records: Sequence[Record]) -> None:
        if self.store is None or not records:
            return
        try:
            self.store.append(records)
        except EverturnError as problem:
            self._trouble("a transcript ends, its conversation goes on in memory", str(problem))
            self.close()

    def close(self) -> None:
        store, self.store = self.store, None
        if store is not None:
            store.close()


class TranscriptFolder:
    """All conversations of one folder; of none, where there is no folder."""

    def __init__(self, folder: Path | None, trouble: ReportProblem) -> None:
        self.folder = folder
        self._trouble = trouble

    def new(self, first: bytes, name: str, now: datetime) -> TranscriptFile:
        if self.folder is None:
            return TranscriptFile(None, self._trouble)
        stamp = now.astimezone(UTC).strftime("%Y-%m-%d-%H%M%S")
        return self._opened(self.folder / f"{stamp}-{first.hex()}-{name}.jsonl")

    def candidates(self, first: bytes, but: Collection[str]) -> Iterator[TranscriptFile]:
        """Conversations that begin with this link, newest first, each open for writing; whoever takes one
        closes it."""
        for path in self._named(first, but):
            kept = self._opened(path, quietly=True)
            if kept.store is not None:
                yield kept

    def _named(self, first: bytes, but: Collection[str]) -> list[Path]:
        if self.folder is None:
            return []
        try:
            names = sorted(os.listdir(self.folder), reverse=True)
        except OSError:
            return []
        matches = [name for name in names if (found := _NAME.match(name)) and found[1] == first.hex()]
        paths = [self.folder / name for name in matches]
        return [path for path in paths if os.path.realpath(path) not in but][:MAX_CANDIDATES]

    def _opened(self, path: Path, *, quietly: bool = False) -> TranscriptFile:
        try:
            # Not synced: what is lost with the power the caller still has, and brings again.
            store = Store.open(path, fsync="never", place=LineContext(cwd=os.getcwd()))
        except (EverturnError, OSError) as problem:
            if not quietly:
                self._trouble("no transcript is kept, a conversation is held in memory", str(problem))
            return TranscriptFile(None, self._trouble)
        return TranscriptFile(store, self._trouble)
