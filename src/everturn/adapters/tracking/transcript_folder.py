"""The folder with one transcript file per conversation.

    DATE-TIME-LINK-ID.jsonl       start of the conversation, link of its first block, conversation id

The file name contains the first link, so after a restart a conversation is found without an index: few files
have the same first link, and the chain (`chain.py`) is computed from each of them. If a caller has left out a
part of its first message, the link differs; then the first lines of the newest files are compared. If the
disk fails, the transcript ends. The conversation continues in memory and the problem is reported.

One process writes a transcript at a time. A transcript that another process is writing is opened for reading.
"""

import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from everturn.adapters.tracking.caller_request import CallerRequest
from everturn.adapters.tracking.respelling import is_reduced
from everturn.errors import EverturnError, SessionLocked
from everturn.history.records import Record
from everturn.history.threads import split_threads
from everturn.safe_files import MAX_SESSION_BYTES, open_stream, read_file
from everturn.session.store import JsonlStore
from everturn.session.store.lock import SUFFIX as LOCK_SUFFIX
from everturn.wire.claude_code_writer import LineContext

# Takes what happened and the error message.
ReportProblem = Callable[[str, str], None]

# Files with the same first message that are opened, newest first: each one has to be read. Our choice.
MAX_CANDIDATES: Final = 16
# Files with another first link whose first line is read, newest first, and the longest such line. Our choice.
MAX_PEEKED: Final = 64
MAX_FIRST_LINE: Final = 1_000_000
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
    def holder(self) -> str:
        """The process that writes it, as its lock file says."""
        try:
            number = read_file(self.path + LOCK_SUFFIX).decode("ascii").strip()
        except (OSError, ValueError):
            number = ""
        return f"process {number}" if number.isdigit() else "another process"

    @property
    def is_writable(self) -> bool:
        return self.store is not None and not self.store.read_only_reason

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

    def candidates(self, request: CallerRequest, exclude: Collection[str]) -> Iterator[TranscriptFile]:
        """Transcripts that may have the beginning of this request, newest first. The caller closes them."""
        same, others = self._list_paths(request.chain[0], exclude)
        for path in (*same, *(path for path in others if _may_begin(path, request))):
            transcript = self._open(path, quietly=True)
            if transcript.store is not None:
                yield transcript

    def _list_paths(self, first: bytes, exclude: Collection[str]) -> tuple[list[Path], list[Path]]:
        """The files with this first link, and the others; those that were written last come first."""
        if self.folder is None:
            return [], []
        same: list[tuple[float, Path]] = []
        others: list[tuple[float, Path]] = []
        try:
            with os.scandir(self.folder) as entries:
                for entry in entries:
                    found = _NAME.match(entry.name)
                    if found and os.path.realpath(entry.path) not in exclude:
                        listed = same if found[1] == first.hex() else others
                        listed.append((entry.stat().st_mtime, Path(entry.path)))
        except OSError:
            return [], []
        newest = [[path for _, path in sorted(listed, reverse=True)] for listed in (same, others)]
        return newest[0][:MAX_CANDIDATES], newest[1][:MAX_PEEKED]

    def _open(self, path: Path, *, quietly: bool = False) -> TranscriptFile:
        try:
            # No fsync: the caller still has what a power failure loses, and sends it again.
            store = self._open_store(path, may_read=quietly)
        except (EverturnError, OSError) as problem:
            if not quietly:
                self._report_problem(
                    "a transcript could not be opened; its conversation is in memory only", str(problem)
                )
            return TranscriptFile(None, self._report_problem)
        return TranscriptFile(store, self._report_problem)

    def _open_store(self, path: Path, *, may_read: bool) -> JsonlStore:
        place = LineContext(cwd=os.getcwd())
        try:
            return JsonlStore.open(path, fsync="never", place=place)
        except SessionLocked:
            if not may_read:
                raise
            return JsonlStore.open(path, access="read", place=place)


def _may_begin(path: Path, request: CallerRequest) -> bool:
    """Whether the request's first message may be what the transcript's first message was, with a part left
    out. Only the first line is read."""
    if request.known or request.role(0) != "user":
        return False
    try:
        with open_stream(path, max_bytes=MAX_SESSION_BYTES) as file:
            line = file.readline(MAX_FIRST_LINE)
        sent = msgspec.json.decode(line, type=_FirstLine).message.content
    except (OSError, ValueError, RecursionError, msgspec.MsgspecError):
        return False
    blocks = sent if isinstance(sent, list) else [sent]
    return is_reduced([("user", block) for block in blocks], [("user", request.block(0))])


class _FirstMessage(msgspec.Struct):
    content: str | list[dict[str, Any]] = ""


class _FirstLine(msgspec.Struct):
    message: _FirstMessage = msgspec.field(default_factory=_FirstMessage)
