"""The folder with one transcript file per conversation.

    DATE-TIME-LINK-ID.jsonl       start of the conversation, link of its first message, conversation id

The file name contains the first link, so after a restart a conversation is found without an index: few files
have the same first link, and the chain (`chain.py`) is computed from each of them. If the disk fails, the
transcript ends. The conversation continues in memory and the problem is reported.
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
from everturn.session.store import JsonlStore
from everturn.wire.claude_code_writer import LineContext

# Takes what happened and the error message.
ReportProblem = Callable[[str, str], None]

# Files with the same first message that are opened, newest first: each one has to be read. Our choice.
MAX_CANDIDATES: Final = 16
_NAME: Final = re.compile(r"^\d{4}-\d\d-\d\d-\d{6}-([0-9a-f]{32})-([\w-]+)\.jsonl$")


class TranscriptFile:
    """The transcript of one conversation. Without a store, nothing is written and the path is empty."""

    def __init__(self, store: JsonlStore | None, report_problem: ReportProblem) -> None:
        self.store = store
        self.path = store.path if store else ""
        self._report_problem = report_problem

    @property
    def name(self) -> str:
        """The conversation id in the file name."""
        found = _NAME.match(os.path.basename(self.path))
        return found[2] if found else ""

    @property
    def records(self) -> list[Record]:
        """The records that the file contained when it was opened."""
        return list(split_threads(self.store.records).main.records) if self.store else []

    def append(self, records: Sequence[Record]) -> None:
        if self.store is None or not records:
            return
        try:
            self.store.append(records)
        except EverturnError as problem:
            self._report_problem(
                "a transcript could not be written; its conversation continues in memory", str(problem)
            )
            self.close()

    def close(self) -> None:
        store, self.store = self.store, None
        if store is not None:
            store.close()


class TranscriptFolder:
    """The transcripts of one folder. Without a folder nothing is written."""

    def __init__(self, folder: Path | None, report_problem: ReportProblem) -> None:
        self.folder = folder
        self._report_problem = report_problem

    def new(self, first: bytes, name: str, now: datetime) -> TranscriptFile:
        if self.folder is None:
            return TranscriptFile(None, self._report_problem)
        stamp = now.astimezone(UTC).strftime("%Y-%m-%d-%H%M%S")
        return self._open(self.folder / f"{stamp}-{first.hex()}-{name}.jsonl")

    def candidates(self, first: bytes, exclude: Collection[str]) -> Iterator[TranscriptFile]:
        """Transcripts with this first link, newest first, each open for writing. The caller closes them."""
        for path in self._list_paths(first, exclude):
            transcript = self._open(path, quietly=True)
            if transcript.store is not None:
                yield transcript

    def _list_paths(self, first: bytes, exclude: Collection[str]) -> list[Path]:
        if self.folder is None:
            return []
        try:
            names = sorted(os.listdir(self.folder), reverse=True)
        except OSError:
            return []
        matches = [name for name in names if (found := _NAME.match(name)) and found[1] == first.hex()]
        paths = [self.folder / name for name in matches]
        return [path for path in paths if os.path.realpath(path) not in exclude][:MAX_CANDIDATES]

    def _open(self, path: Path, *, quietly: bool = False) -> TranscriptFile:
        try:
            # No fsync: the caller still has what a power failure loses, and sends it again.
            store = JsonlStore.open(path, fsync="never", place=LineContext(cwd=os.getcwd()))
        except (EverturnError, OSError) as problem:
            if not quietly:
                self._report_problem(
                    "a transcript could not be opened; its conversation is in memory only", str(problem)
                )
            return TranscriptFile(None, self._report_problem)
        return TranscriptFile(store, self._report_problem)
