"""The folder with one transcript file per conversation.

    DATE-TIME-LINK-ID.jsonl       start of the conversation, link of its first block, conversation id

The file name contains the first link, so after a restart a conversation is found without an index: few files
have the same first link, and the chain (`chain.py`) is computed from each of them. If a caller has left out a
part of its first message, the link differs; then the first lines of the newest files are compared. If the
disk fails, the conversation continues in memory and the problem is reported. The transcript is opened again
from time to time, and gets what it lacks when there is room.

One process writes a transcript at a time. A transcript that another process is writing is opened for reading.
"""

import heapq
import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from everturn.adapters.tracking.caller_request import CallerRequest
from everturn.adapters.tracking.respelling import is_reduced
from everturn.adapters.tracking.scopes import is_in_scope
from everturn.errors import EverturnError, SessionLocked, StoreError
from everturn.history.records import Record
from everturn.history.threads import split_threads
from everturn.safe_files import MAX_SESSION_BYTES, open_stream, read_file
from everturn.session.store import JsonlStore
from everturn.session.store.factory import StoreFactory
from everturn.session.store.lock import SUFFIX as LOCK_SUFFIX
from everturn.session.store.protocol import READ_ONLY, SharedStore, Store
from everturn.wire.claude_code_writer import LineContext

# Takes what happened and the error message.
ReportProblem = Callable[[str, str], None]
# Takes the path, and what is wrong with the file, line by line.
ReportDamage = Callable[[str, Sequence[str]], None]

# How long nothing is tried after a file could not be written: it has to be read again. Our choice.
RETRY_SECONDS: Final = 5.0
# A folder belongs to one tenant.
_EVERYBODY: Final = "everybody"
# Files with the same first message that are opened, newest first: each one has to be read. Our choice.
MAX_CANDIDATES: Final = 16
# Files with another first link whose first lines are read, newest first; so many lines, because a caller
# rarely says more before the first reply; and the longest such line. Our choice.
MAX_PEEKED: Final = 64
MAX_FIRST_LINES: Final = 4
MAX_FIRST_LINE: Final = 1_000_000
# The end of a file in which a reply is looked for. Our choice.
MAX_LAST_BYTES: Final = 250_000
_NAME: Final = re.compile(r"^\d{4}-\d\d-\d\d-\d{6}-([0-9a-f]{32})-([\w-]+)\.jsonl$")


class Transcripts(Protocol):
    """Where a tracker keeps its conversations, and finds them again."""

    def new(self, first: bytes, name: str, now: datetime) -> "TranscriptFile":
        """The transcript of a new conversation: the link of its first block, and its id."""
        ...

    def candidates(self, request: CallerRequest, exclude: Collection[str]) -> "Iterator[TranscriptFile]":
        """Transcripts that may have the beginning of this request, newest first, without those whose path is
        excluded. The caller closes them."""
        ...

    def find_reply(self, message_id: str) -> "TranscriptFile | None":
        """The transcript with the reply that has this id, for reading; the caller closes it."""
        ...

    def open_again(self, transcript: "TranscriptFile") -> "TranscriptFile | None":
        """A transcript that was closed, as it is now. None where replicas share nothing. Raises
        `SessionLocked` while another one writes it."""
        ...

    def counters(self) -> "tuple[StoreFactory, str] | None":
        """Where everybody who keeps conversations in this place counts together, and as which tenant; None
        where nothing is kept. Raises `StoreError` if it cannot be opened."""
        ...

    def close(self) -> None:
        """No conversation is open any more."""
        ...


# Called with how problems and damage are reported.
OpenTranscripts = Callable[[ReportProblem, ReportDamage], Transcripts]


class TranscriptFile:
    """The transcript of one conversation. Without a store, nothing is written and the path is empty."""

    def __init__(self, store: Store | None, report_problem: ReportProblem) -> None:
        self.store = store
        # The blob with the system prompt and tools of a thread.
        self.preamble = ""
        self.path = store.path if store else ""
        self._report_problem = report_problem
        # Looked at once: to compare an object with a protocol takes longer than the rest of a release.
        self._shared = store if isinstance(store, SharedStore) else None
        # Whether other replicas may continue the conversation between two requests.
        self.is_shared = self._shared is not None
        # What could not be written, and what was not tried since.
        self._unwritten: _Unwritten | None = None
        self._last = _find_last(store) if store else ""

    @property
    def name(self) -> str:
        """The conversation id in the file name."""
        found = _NAME.match(os.path.basename(self.path))
        return found[2] if found else ""

    @property
    def told_path(self) -> str:
        """The path that the model is told. Replicas send the same bytes, whatever their folders are called,
        so it is told none of a store that they share."""
        return "" if self.is_shared else self.path

    @property
    def holder(self) -> str:
        """The process that writes it, as its lock file says."""
        try:
            number = read_file(self.path + LOCK_SUFFIX).decode("ascii").strip()
        except (OSError, ValueError):
            number = ""
        return f"process {number}" if number.isdigit() else "another process"

    @property
    def is_written_elsewhere(self) -> bool:
        """Whether another replica holds the lease, so that this one could open it for reading only."""
        return isinstance(self.store, SharedStore) and self.store.read_only_reason == READ_ONLY

    @property
    def is_writable(self) -> bool:
        return self.store is not None and not self.store.read_only_reason

    @property
    def is_failing(self) -> bool:
        """Whether the conversation is in memory only, because its file cannot be written."""
        return self._unwritten is not None

    def fail(self, open_again: Callable[[], Store], path: str) -> None:
        """The file cannot be opened now, or cannot be written."""
        self._unwritten = _Unwritten(open_again, path, self._last)
        self.close()

    @property
    def records(self) -> list[Record]:
        """The records that the file contained when it was opened."""
        return list(split_threads(self.store.records).main.records) if self.store else []

    def append(self, records: Sequence[Record]) -> None:
        if not records:
            return
        if self.store is None:
            if self.is_shared:
                # Whoever works on it has to look it up again: the store must not miss what was answered.
                raise StoreError(f"The conversation {self.name} was removed from memory meanwhile.")
            self._keep_unwritten(records)
            return
        try:
            self.store.append(records)
            self._last = records[-1].uuid
        except EverturnError as problem:
            if self.is_shared:
                # Another replica continues what the store holds; a copy in memory would differ from it.
                raise
            self._report_problem(
                "a transcript could not be written; its conversation continues in memory", str(problem)
            )
            self.fail(self.store.reopen, self.path)
            self._keep_unwritten(records)

    def _keep_unwritten(self, records: Sequence[Record]) -> None:
        """Write them with what was not written before, if that is possible again."""
        unwritten = self._unwritten
        if unwritten is None:
            return
        unwritten.records += records
        if (store := unwritten.open_in_time()) is None:
            return
        try:
            # Those that are in the file already are not written again.
            store.append(unwritten.records)
        except EverturnError:
            unwritten.open_again = store.reopen
            store.close()
            return
        self.store, self.path, self._last = store, store.path, records[-1].uuid
        self._unwritten = None

    def resume(self) -> bool:
        """Before something is recorded: False if another replica has continued the conversation since, or if
        it was closed."""
        return self._shared.resume() if self._shared is not None else not self.is_shared

    def release(self) -> None:
        """Between two requests any replica can continue the conversation."""
        if self._shared is not None:
            self._shared.release()

    def close(self) -> None:
        store, self.store, self._shared = self.store, None, None
        if store is not None:
            store.close()


class _Unwritten:
    """What a file lacks that could not be written, and when that is tried again."""

    def __init__(self, open_again: Callable[[], Store], path: str, last: str) -> None:
        """`last` is the last record that the file has; "" if it has none."""
        self.open_again = open_again
        self.records: list[Record] = []
        self._path, self._last = path, last
        self._next_try = time.monotonic() + RETRY_SECONDS

    def open_in_time(self) -> Store | None:
        """The store, if it is time to try, and if it ends where this process has left it. A file that was
        removed is not made again: somebody may have wanted that."""
        if time.monotonic() < self._next_try or (self._last and not os.path.exists(self._path)):
            return None
        self._next_try = time.monotonic() + RETRY_SECONDS
        try:
            store = self.open_again()
        except (EverturnError, OSError):
            return None
        # An attempt may have written the first of several records.
        ours = {self._last, *(each.uuid for each in self.records)}
        if store.read_only_reason or _find_last(store) not in ours:
            store.close()
            return None
        return store


def _find_last(store: Store) -> str:
    return store.records[-1].uuid if store.records else ""


class TranscriptFolder:
    """The transcripts of one folder. Without a folder nothing is written."""

    def __init__(
        self, folder: Path | None, report_problem: ReportProblem, report_damage: ReportDamage
    ) -> None:
        self.folder = folder
        self._report_problem = report_problem
        self._report_damage = report_damage
        self._counters: StoreFactory | None = None

    def new(self, first: bytes, name: str, now: datetime) -> TranscriptFile:
        if self.folder is None:
            return TranscriptFile(None, self._report_problem)
        return self._open(self.folder / f"{full_name(first, name, now)}.jsonl")

    def candidates(self, request: CallerRequest, exclude: Collection[str]) -> Iterator[TranscriptFile]:
        """Transcripts that may have the beginning of this request, newest first. The caller closes them."""
        same, others = self._list_paths(request, exclude)
        for path in chain(same, (path for path in others if _may_begin(path, request))):
            transcript = self._open(path, quietly=True)
            if transcript.store is not None:
                yield transcript

    def find_reply(self, message_id: str) -> TranscriptFile | None:
        """A folder has no index. Whoever continues a thread names its last reply, so it is looked for at the
        ends of the files that were written last."""
        wanted = msgspec.json.encode(message_id)
        for path in self._list_newest():
            if wanted in _read_end(path):
                transcript = self._open_to_read(path)
                if transcript is not None:
                    return transcript
        return None

    def _list_newest(self) -> list[Path]:
        return _newest([entry for _, entry in self._scan()], MAX_PEEKED)

    def _scan(self) -> Iterator[tuple[re.Match[str], os.DirEntry[str]]]:
        """The transcripts of the folder, whose own path is resolved, and what their names say."""
        if self.folder is None:
            return
        try:
            with os.scandir(os.path.realpath(self.folder)) as entries:
                for entry in entries:
                    if found := _NAME.match(entry.name):
                        yield found, entry
        except FileNotFoundError:
            # Nothing was written yet.
            return
        except OSError as problem:
            self._report_problem(
                "the folder of the transcripts cannot be read; no earlier conversation is found in it",
                str(problem),
            )

    def _open_to_read(self, path: Path) -> TranscriptFile | None:
        try:
            return TranscriptFile(JsonlStore.open(path, access="read"), self._report_problem)
        except (EverturnError, OSError):
            return None

    def open_again(self, transcript: TranscriptFile) -> TranscriptFile | None:
        return None

    def counters(self) -> tuple[StoreFactory, str] | None:
        """A database in the folder."""
        if self.folder is None:
            return None
        # Not above: most programs count nothing, and need no database.
        from everturn.session.store.folder import FolderStores

        self._counters = self._counters or FolderStores(self.folder)
        return self._counters, _EVERYBODY

    def close(self) -> None:
        """Each transcript is closed by its conversation."""
        counters, self._counters = self._counters, None
        if counters is not None:
            counters.close()

    def _list_paths(self, request: CallerRequest, exclude: Collection[str]) -> tuple[list[Path], list[Path]]:
        """The files with the first link of the request, and the others of its scope: as in memory, only its
        own conversation may have more than it. Those that were written last come first."""
        # There may be thousands of files: whatever is done for each counts.
        first = request.chain[0].hex()
        same: list[os.DirEntry[str]] = []
        others: list[os.DirEntry[str]] = []
        for found, entry in self._scan():
            if not (found[1] == first or is_in_scope(found[2], request.scope)):
                continue
            # The folder is resolved; only a link in it has another path.
            path = os.path.realpath(entry.path) if entry.is_symlink() else entry.path
            if path not in exclude:
                (same if found[1] == first else others).append(entry)
        return _newest(same, MAX_CANDIDATES), _newest(others, MAX_PEEKED)

    def _open(self, path: Path, *, quietly: bool = False) -> TranscriptFile:
        try:
            # No fsync: the caller still has what a power failure loses, and sends it again.
            store = self._open_store(path, may_read=quietly)
        except (EverturnError, OSError) as problem:
            if quietly:
                self._report_damage(os.fspath(path), (str(problem),))
            else:
                self._report_problem(
                    "a transcript could not be opened; its conversation is in memory only", str(problem)
                )
            failed = TranscriptFile(None, self._report_problem)
            if not quietly:
                failed.fail(lambda: self._open_store(path, may_read=False), os.fspath(path))
            return failed
        if store.notes:
            self._report_damage(store.path, store.notes)
        return TranscriptFile(store, self._report_problem)

    def _open_store(self, path: Path, *, may_read: bool) -> JsonlStore:
        place = LineContext(cwd=os.getcwd())
        try:
            return JsonlStore.open(path, fsync="never", place=place)
        except SessionLocked:
            if not may_read:
                raise
            return JsonlStore.open(path, access="read", place=place)


def _read_end(path: Path) -> bytes:
    try:
        with open_stream(path, max_bytes=MAX_SESSION_BYTES) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - MAX_LAST_BYTES))
            return file.read(MAX_LAST_BYTES)
    except OSError:
        return b""


def _when_written(entry: os.DirEntry[str]) -> float | None:
    try:
        return entry.stat().st_mtime
    except OSError:
        return None


def _newest(listed: Iterable[os.DirEntry[str]], count: int) -> list[Path]:
    """Those that were written last, without what was removed since it was listed and links to nothing."""
    written = ((when, entry.path) for entry in listed if (when := _when_written(entry)) is not None)
    return [Path(path) for _, path in heapq.nlargest(count, written)]


def full_name(first: bytes, name: str, now: datetime) -> str:
    """The name of a new transcript: when it starts, the link of its first block, the conversation's id."""
    return f"{now.astimezone(UTC).strftime('%Y-%m-%d-%H%M%S')}-{first.hex()}-{name}"


def _may_begin(path: Path, request: CallerRequest) -> bool:
    """The same for the transcript in a file. Only its first lines are read."""
    try:
        with open_stream(path, max_bytes=MAX_SESSION_BYTES) as file:
            lines = [file.readline(MAX_FIRST_LINE) for _ in range(MAX_FIRST_LINES)]
    except OSError:
        return False
    return may_begin(lines, request)


def may_begin(lines: Iterable[bytes], request: CallerRequest) -> bool:
    """Whether the request's first message may be among the messages of these first lines, with a part left
    out. What the caller said first may have been several messages."""
    if request.known or request.role(0) != "user":
        return False
    sent: list[tuple[str, Any]] = []
    for line in lines:
        try:
            found = msgspec.json.decode(line, type=_FirstLine)
        except (ValueError, RecursionError, msgspec.MsgspecError):
            break
        if found.type != "user":
            break
        content = found.message.content
        sent += [("user", block) for block in (content if isinstance(content, list) else [content])]
    return is_reduced(sent, [("user", request.block(0))])


class _FirstMessage(msgspec.Struct):
    content: str | list[dict[str, Any]] = ""


class _FirstLine(msgspec.Struct):
    type: str = ""
    message: _FirstMessage = msgspec.field(default_factory=_FirstMessage)
