"""Policies side by side, computed in the background and kept (DB-8).

The work is that of `everturn replay`, in a process of its own, and its results are in the same cache. The
index remembers which comparisons were made, so that they are there again after a restart.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from hashlib import blake2b
from multiprocessing import get_context
from typing import Final, NamedTuple

import msgspec

from everturn.decide.options import Options
from everturn.errors import EverturnError, UsageError
from everturn.replay.page.session_comparison import SessionComparison
from everturn.replay.parallel import ResultCache, load_comparisons
from everturn.replay.parallel.replays import ReplayedSession, ReplayOutcome, ReplayTask, replay_file
from everturn.replay.policies import REPLAY_POLICIES, ReplayPolicy, parse_policy
from everturn.replay.sessions import Unreadable
from everturn.web_dashboard.index import SessionIndex
from everturn.web_dashboard.indexer import Publish, begin_worker
from everturn.web_dashboard.pages.what_if import Job, Retry
from everturn.web_dashboard.queries import IndexedSession

DEFAULT_POLICIES: Final = "none,recorded,claude-code,economic,clear-keep-3"
# The page shows bounds as lines, not as policies to choose.
_BOUND: Final = "clears-only"
OFFERED: Final = (
    *(each for each in REPLAY_POLICIES if each != _BOUND),
    "claude-code+1h",
    "claude-code+refresh",
    "configured",
)
# Each session takes seconds for each policy.
MAX_SESSIONS: Final = 200
MAX_POLICIES: Final = 16
_RECENT: Final = 12
_ENDED: Final = (
    "the process that replayed it ended unexpectedly, most likely because the machine was short of memory"
)

Replay = Callable[[ReplayTask], ReplayOutcome]


class KeptComparison(msgspec.Struct, frozen=True):
    """What is needed to draw a comparison again; the calls are in the cache of results."""

    policies: str
    # By the path of the session, in the order in which they were chosen.
    titles: dict[str, str]
    sessions: tuple[ReplayedSession, ...]
    unreadable: tuple[Unreadable, ...]
    # What to compute again if a process ended while it worked; else nothing.
    retry: Retry | None = None


class LoadedComparison(NamedTuple):
    """A finished comparison. `left_out` are files without a result, each with the reason."""

    sessions: list[SessionComparison]
    left_out: list[tuple[str, str]]
    retry: Retry | None


class WorkerEndedError(EverturnError):
    """The process that replayed a file ended: the file may be fine, and the next try may work."""


class Comparisons:
    """Computes comparisons, one after the other."""

    def __init__(
        self,
        index: SessionIndex,
        cache: ResultCache,
        options: Options,
        publish: Publish = lambda name, values: None,
        *,
        clock: Callable[[], float],
        replay: Replay | None = None,
    ) -> None:
        self._index, self._cache, self._options, self._publish = index, cache, options, publish
        self._clock, self._replay = clock, replay
        self._jobs: dict[str, Job] = {}
        self._turn = threading.Lock()
        self._pool: ProcessPoolExecutor | None = None
        self._is_stopping = False

    def start(self, sessions: Sequence[IndexedSession], policies: str) -> str:
        """Begin to compute; returns the name of the comparison. Raises UsageError for a wrong policy."""
        if not 1 <= len(sessions) <= MAX_SESSIONS:
            raise UsageError(f"Choose 1 to {MAX_SESSIONS} sessions; {len(sessions):,} were chosen.")
        parsed = self._parse(policies)
        id = _name(sessions, policies)
        running = self._jobs.get(id)
        if running is None or running.why:
            retry = Retry(tuple(each.id for each in sessions), policies)
            self._jobs[id] = Job(id, 0, len({each.file for each in sessions}), retry=retry)
            work = threading.Thread(
                target=self._compute, args=(id, tuple(sessions), policies, parsed), daemon=True
            )
            work.start()
        return id

    def stop(self) -> None:
        self._is_stopping = True
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)

    def job(self, id: str) -> Job | None:
        """The state of a comparison that is not finished."""
        return self._jobs.get(id)

    def load(self, id: str) -> LoadedComparison | None:
        """A finished comparison; None if there is none of this name, or its results are gone."""
        rows = self._index.read("SELECT data FROM comparisons WHERE id = ?", (id,))
        return self._load(rows[0][0]) if rows else None

    def latest_of(self, session: IndexedSession) -> tuple[str, SessionComparison | None]:
        """The newest comparison that includes this session, with its name; "" and None if there is none."""
        rows = self._index.read(
            "SELECT id, data FROM comparisons WHERE sessions LIKE ? ORDER BY made DESC LIMIT 1",
            (f"%{session.id}%",),
        )
        found = self._load(rows[0][1]) if rows else None
        one = next((each for each in found.sessions if each.path == session.path), None) if found else None
        return (rows[0][0], one) if one else ("", None)

    def recent(self) -> list[tuple[str, str]]:
        rows = self._index.read("SELECT id, data FROM comparisons ORDER BY made DESC LIMIT ?", (_RECENT,))
        return [(id, _describe(msgspec.msgpack.decode(data, type=KeptComparison))) for id, data in rows]

    def _load(self, data: bytes) -> LoadedComparison | None:
        kept = msgspec.msgpack.decode(data, type=KeptComparison)
        try:
            found = load_comparisons(kept.sessions, self._parse(kept.policies), self._cache)
        except EverturnError:
            return None
        named = [msgspec.structs.replace(each, name=kept.titles.get(each.path, each.name)) for each in found]
        return LoadedComparison(named, [(each.path, each.why) for each in kept.unreadable], kept.retry)

    def _parse(self, policies: str) -> list[ReplayPolicy]:
        names = [each for each in policies.split(",") if each.strip()]
        if not 1 <= len(names) <= MAX_POLICIES:
            raise UsageError(f"Choose 1 to {MAX_POLICIES} policies; {len(names)} were chosen.")
        found = [parse_policy(each, configured=self._options) for each in names]
        return list({each.name: each for each in found}.values())

    def _compute(
        self, id: str, sessions: Sequence[IndexedSession], policies: str, parsed: Sequence[ReplayPolicy]
    ) -> None:
        try:
            with self._turn:
                kept = self._replay_all(id, sessions, policies, parsed)
            data = msgspec.msgpack.encode(kept)
            self._index.keep_comparison(id, int(self._clock()), (each.id for each in sessions), data)
            del self._jobs[id]
        except Exception as problem:
            why = (
                str(problem) if isinstance(problem, EverturnError) else f"{type(problem).__name__}: {problem}"
            )
            self._jobs[id] = msgspec.structs.replace(self._jobs[id], why=why)
        self._publish("job", {"id": id})

    def _replay_all(
        self, id: str, sessions: Sequence[IndexedSession], policies: str, parsed: Sequence[ReplayPolicy]
    ) -> KeptComparison:
        wanted = {each.path for each in sessions}
        files = list(dict.fromkeys(each.file for each in sessions))
        done: list[ReplayedSession] = []
        failed: list[Unreadable] = []
        ended: list[str] = []
        for number, file in enumerate(files, start=1):
            try:
                outcome = self._replay_file(ReplayTask(file, tuple(parsed), self._cache.for_workers()))
                done += [each for each in outcome.sessions if each.path in wanted]
                failed += outcome.unreadable
            except WorkerEndedError as problem:
                ended.append(file)
                failed.append(Unreadable(file, str(problem)))
            self._jobs[id] = msgspec.structs.replace(self._jobs[id], done=number)
            self._publish("job", {"id": id, "done": number, "total": len(files)})
        if ended and not done:
            # Nothing to keep: with the same name it would answer the next try.
            raise WorkerEndedError(f"{ended[0]}: {_ENDED}.")
        titles = {each.path: each.title for each in sessions}
        retry = self._jobs[id].retry if ended else None
        return KeptComparison(policies, titles, tuple(done), tuple(failed), retry)

    def _replay_file(self, task: ReplayTask) -> ReplayOutcome:
        try:
            return self._replay(task) if self._replay is not None else self._replay_in_process(task)
        except BrokenProcessPool:
            self._pool = None
            raise WorkerEndedError(_ENDED) from None

    def _replay_in_process(self, task: ReplayTask) -> ReplayOutcome:
        if self._is_stopping:
            raise UsageError("The dashboard was stopped.")
        if self._pool is None:
            self._pool = ProcessPoolExecutor(1, get_context("spawn"), initializer=begin_worker)
        return self._pool.submit(replay_file, task).result()


def _name(sessions: Sequence[IndexedSession], policies: str) -> str:
    """The same sessions in the same state under the same policies have the same name."""
    spelled = [(each.id, each.ended, each.calls) for each in sorted(sessions, key=lambda each: each.id)]
    return blake2b(msgspec.json.encode((spelled, policies)), digest_size=6).hexdigest()


def _describe(kept: KeptComparison) -> str:
    first = next(iter(kept.titles.values()), "nothing")
    more = f" and {len(kept.titles) - 1} more" if len(kept.titles) > 1 else ""
    return f"{first[:60]}{more}: {kept.policies.replace(',', ', ')}"
