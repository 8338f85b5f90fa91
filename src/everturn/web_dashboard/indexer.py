"""Keeps the index up to date in the background: finds files, reads those that changed, newest first (DB-1).

Files are read in another process (`summarize.py`), so that a large one neither stops the pages nor keeps its
memory. What did not change since an earlier run, by size and time, is not read again. A file that grows while
it is read is read again afterwards.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import msgspec

from everturn.catalog.places import OWN, Places, list_files
from everturn.processes import end_with_parent
from everturn.replay.readers.claude_code import parent_of
from everturn.safe_files import MAX_SESSION_BYTES, open_stream
from everturn.web_dashboard.index import FileStamp, SessionIndex
from everturn.web_dashboard.values import FileSummary

_AGENT: Final = "agent-"
_SUBAGENTS: Final = "subagents"
# The first line of a sub-agent's file can be a long prompt.
_START_BYTES: Final = 64 * 1024
# A worker is replaced after this many files, so that memory does not grow.
_FILES_A_WORKER: Final = 200
_NICENESS: Final = 10

# Called with the name of an event and its values, from the thread of the indexer.
Publish = Callable[[str, Mapping[str, Any]], None]
Summarize = Callable[[str], FileSummary]


class Progress(msgspec.Struct, frozen=True):
    """How many files of the current round are done. `looked` is False before the first search for files."""

    done: int = 0
    total: int = 0
    looked: bool = False

    @property
    def is_done(self) -> bool:
        return self.looked and self.done >= self.total


class FileGroup(msgspec.Struct, frozen=True):
    """A session file with the files of its sub-agents."""

    file: FileStamp
    agents: tuple[FileStamp, ...] = ()

    @property
    def newest(self) -> int:
        return max(each.mtime for each in (self.file, *self.agents))


class Indexer:
    """A thread; `start` it once. `look` asks for another search."""

    def __init__(
        self,
        index: SessionIndex,
        places: Places,
        publish: Publish = lambda name, values: None,
        *,
        summarize: Summarize | None = None,
    ) -> None:
        self._index, self._places, self._publish = index, places, publish
        self._given = summarize
        self._pool: ProcessPoolExecutor | None = None
        # Files whose names are not text, as they are shown.
        self._misnamed: frozenset[str] = frozenset()
        self._wanted = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="everturn-indexer", daemon=True)
        self._wait = 0.0
        self.progress = Progress()
        index.on_lost = self.look

    def start(self, *, after: float = 0.0) -> None:
        """Search and read, from so many seconds on."""
        self._wait = after
        self._wanted.set()
        self._thread.start()

    def look(self) -> None:
        """Search for changed files soon. Several requests become one."""
        self._wanted.set()

    def stop(self) -> None:
        self._stopping.set()
        self._wanted.set()
        self._end_pool()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def update(self) -> None:
        """Search once and read everything that changed."""
        files = list_files(self._places)
        self._misnamed = frozenset(spell(file) for file in files if not _is_text(file))
        stamps = {each.path: each for each in map(_spelled, stamp_files(files).values())}
        gone = self._index.remove([path for path in self._index.stamps() if path not in stamps])
        if gone:
            self._publish("changed", {"sessions": gone})
        # Only now: files that repeat a call of a removed one have to be read again.
        known = self._index.stamps()
        groups = group_files(stamps, known)
        changed = sorted(
            (group for group in groups if _is_changed(group, known)), key=lambda group: -group.newest
        )
        self._tell(Progress(0, len(changed), looked=True))
        for number, group in enumerate(changed, start=1):
            if self._stopping.is_set():
                return
            self._read(group)
            self._tell(Progress(number, len(changed), looked=True))

    def _run(self) -> None:
        self._stopping.wait(self._wait)
        while not self._stopping.is_set():
            self._wanted.wait()
            self._wanted.clear()
            if self._stopping.is_set():
                return
            try:
                self.update()
            except Exception as problem:
                # The pages go on with what is known, and say so; the next change tries again.
                note = f"the index could not be updated ({type(problem).__name__}: {problem})"
                if not self._stopping.is_set() and note not in self._index.notes:
                    self._index.notes.append(note)

    def _tell(self, progress: Progress) -> None:
        self.progress = progress
        self._publish("progress", {"done": progress.done, "total": progress.total})

    def _read(self, group: FileGroup) -> None:
        try:
            self._store(group)
        except (ValueError, TypeError, ArithmeticError) as problem:
            # What a file holds must not stop the others: a number that SQLite cannot store, for example.
            why = f"it cannot be indexed ({type(problem).__name__}: {problem})"
            found = FileSummary(group.file.path, unreadable=((group.file.path, why),))
            self._index.store(found, [group.file, *group.agents], agent="")

    def _store(self, group: FileGroup) -> None:
        found = self._summarize(group.file.path)
        taken = {agent for each in found.sessions for agent in each.agents}
        ours = [each for each in group.agents if agent_of(each.path) in taken]
        ids = self._index.store(found, [group.file, *ours], agent=self._agent(group.file.path))
        # A sub-agent that its session does not know is a session of its own.
        for each in group.agents:
            if each not in ours:
                alone = self._summarize(each.path)
                stamp = msgspec.structs.replace(each, of="")
                ids += self._index.store(alone, [stamp], agent=self._agent(each.path))
        if ids:
            self._publish("changed", {"sessions": ids})

    def _agent(self, path: str) -> str:
        """Who wrote the file: everturn's own sessions have the format of another agent."""
        return OWN if Path(path).is_relative_to(self._places.own) else ""

    def _summarize(self, path: str) -> FileSummary:
        if path in self._misnamed:
            why = "its name is not valid UTF-8, so no page could link to it; rename it"
            return FileSummary(path, unreadable=((path, why),))
        if self._given is not None:
            return self._given(path)
        try:
            return self._workers().submit(summarize_in_worker, path).result()
        except BrokenProcessPool:
            self._end_pool()
            why = "the process that read it ended unexpectedly, most likely out of memory"
            return FileSummary(path, unreadable=((path, why),))

    def _workers(self) -> ProcessPoolExecutor:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                1, get_context("spawn"), initializer=begin_worker, max_tasks_per_child=_FILES_A_WORKER
            )
        return self._pool

    def _end_pool(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)


def begin_worker() -> None:
    """In a worker: Ctrl-C ends the dashboard, which ends its workers; and pages come first."""
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICENESS)


def summarize_in_worker(path: str) -> FileSummary:
    """Only workers import what reads a file: the dashboard itself starts without it."""
    from everturn.web_dashboard.summarize import summarize_file

    return summarize_file(path)


def stamp_files(files: Iterable[Path]) -> dict[str, FileStamp]:
    return {stamp.path: stamp for stamp in _stamps(files)}


def _stamps(files: Iterable[Path]) -> Iterator[FileStamp]:
    for file in files:
        try:
            state = file.stat()
        except (OSError, ValueError):
            # Gone in the meantime, or a NUL byte in the name.
            continue
        yield FileStamp(str(file), state.st_size, state.st_mtime_ns)


def _spelled(stamp: FileStamp) -> FileStamp:
    return msgspec.structs.replace(stamp, path=spell(Path(stamp.path)))


def spell(file: Path) -> str:
    """The path as text: bytes that are not UTF-8 are written as \\xff."""
    return str(file) if _is_text(file) else os.fsencode(file).decode(errors="backslashreplace")


def _is_text(file: Path) -> bool:
    try:
        str(file).encode()
    except UnicodeEncodeError:
        return False
    return True


def group_files(stamps: Mapping[str, FileStamp], known: Mapping[str, FileStamp]) -> list[FileGroup]:
    """Each session file with its sub-agents. Files of sub-agents without a session are groups themselves."""
    agents: dict[str, list[FileStamp]] = {}
    alone: list[FileStamp] = []
    sessions = _by_folder(path for path in stamps if _AGENT not in os.path.basename(path))
    for path, stamp in stamps.items():
        if _AGENT not in os.path.basename(path):
            alone.append(stamp)
            continue
        earlier = known.get(path)
        parent = earlier.of if earlier else _parent(Path(path), sessions)
        if parent and parent in stamps:
            agents.setdefault(parent, []).append(msgspec.structs.replace(stamp, of=parent))
        else:
            alone.append(stamp)
    return [FileGroup(stamp, tuple(agents.get(stamp.path, ()))) for stamp in alone]


def _by_folder(paths: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in paths:
        found.setdefault(os.path.dirname(path), []).append(path)
    return found


def agent_of(path: str) -> str:
    return Path(path).stem.rpartition(_AGENT)[2]


def _parent(path: Path, sessions: Mapping[str, list[str]]) -> str:
    """The session file that a sub-agent's file belongs to, by the id that it names; "" if there is none."""
    try:
        with open_stream(path, max_bytes=MAX_SESSION_BYTES) as opened:
            found = parent_of(opened.read(_START_BYTES))
    except (OSError, ValueError):
        return ""
    if found is None:
        return ""
    folder = path.parent.parent.parent if path.parent.name == _SUBAGENTS else path.parent
    beside = sessions.get(str(folder), [])
    return next((each for each in beside if found.session in os.path.basename(each)), "")


def _is_changed(group: FileGroup, known: Mapping[str, FileStamp]) -> bool:
    return any(known.get(each.path) != each for each in (group.file, *group.agents))
