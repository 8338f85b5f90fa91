"""Replays files: each session is read once by one worker, replayed under every policy, and cached.

A worker holds one session at a time and returns only sums; the calls stay in the cache. So memory is bounded
by the largest session. A session that fails under a policy is reported with the reason; the others, and its
other policies, continue (RP-1, RP-17).
Results are in the order of the input.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import cache, partial
from hashlib import blake2b
from pathlib import Path
from typing import Final

import msgspec

from everturn.catalog.names import find_thread_title
from everturn.catalog.places import files_below
from everturn.errors import StoreError
from everturn.history.records import is_sent
from everturn.replay.page.session_comparison import (
    SessionComparison,
    build_session_comparison,
    by_cost,
    how_many_are_drawn,
)
from everturn.replay.parallel.engines import Engine, map_tasks
from everturn.replay.parallel.result_cache import ResultCache
from everturn.replay.playing.offline_effects import SummaryWriter
from everturn.replay.policies import ReplayPolicy
from everturn.replay.runs import ReplayRun
from everturn.replay.sessions import (
    Period,
    ReplaySession,
    Unreadable,
    began_at,
    read_sessions,
)
from everturn.replay.simulate import index_uses, simulate

# Called after every task with the number of finished tasks, the number of all tasks, and the file.
ProgressCallback = Callable[[int, int, str], None]
_AGENT: Final = "agent-"
# Below this size in bytes, starting workers takes longer than the work itself.
_SMALL: Final = 2_000_000


class ReplayedSession(msgspec.Struct, frozen=True):
    """One session under every policy. `runs` have no calls; `load_calls` loads them."""

    name: str
    path: str
    model: str
    notes: tuple[str, ...]
    digest: str
    agents: tuple[str, ...]
    runs: tuple[ReplayRun, ...]
    # How many of the runs were computed now; the others came from the cache.
    computed: int = 0
    # A digest after each message of the main conversation: an earlier snapshot of it has one of them last.
    chain: tuple[bytes, ...] = ()
    # Title or first prompt, and the first and last moment.
    title: str = ""
    began: datetime | None = None


class ReplayOutcome(msgspec.Struct, frozen=True):
    """`unreadable` also has sessions that fail under some policy; they are in the others."""

    sessions: tuple[ReplayedSession, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()
    # Earlier snapshots of a session that is in `sessions`: left out, because their calls would count twice.
    snapshots: tuple[str, ...] = ()


class ReplayTask(msgspec.Struct, frozen=True):
    """One file for one worker."""

    file: str
    policies: tuple[ReplayPolicy, ...]
    keep: ResultCache
    period: Period = Period()


def replay_all(
    paths: Iterable[Path],
    policies: Sequence[ReplayPolicy],
    keep: ResultCache,
    *,
    engine: Engine = "processes",
    workers: int = 1,
    tell: ProgressCallback | None = None,
    writer: SummaryWriter | None = None,
    period: Period | None = None,
) -> ReplayOutcome:
    """Every session in these files and folders under every policy. If `writer` writes the summaries, the work
    is done in this process: a connection cannot be handed to another one."""
    if writer is not None:
        engine = "here"
    files = files_below(paths)
    agents = [file for file in files if _AGENT in file.name]
    period = period or Period()
    main = [file for file in files if file not in agents]
    found = _replay_files(main, policies, keep, engine, workers, tell, writer, period)
    known = {agent for each in found.sessions for agent in each.agents}
    # A sub-agent was replayed with its session if that is among the files; any other is a session.
    alone = [file for file in agents if file.stem.rpartition(_AGENT)[2] not in known]
    rest = _replay_files(alone, policies, keep, engine, workers, tell, writer, period)
    sessions, snapshots = _without_snapshots(found.sessions + rest.sessions)
    return ReplayOutcome(sessions, found.unreadable + rest.unreadable, snapshots)


def load_calls(
    replayed: ReplayedSession, policies: Iterable[ReplayPolicy], keep: ResultCache
) -> ReplayedSession:
    """The same session with the calls of its runs, from the cache."""
    made = {run.policy for run in replayed.runs}
    runs = [
        (each.name, keep.run(replayed.digest, replayed.name, each)) for each in policies if each.name in made
    ]
    if gone := [name for name, run in runs if run is None]:
        raise StoreError(
            f"The results of {replayed.name} under {', '.join(gone)} are no longer in {keep.folder}. "
            "The cache may have been cleared. Run the command again."
        )
    return msgspec.structs.replace(replayed, runs=tuple(run for _, run in runs if run is not None))


def load_comparisons(
    found: Sequence[ReplayedSession], policies: Sequence[ReplayPolicy], keep: ResultCache
) -> list[SessionComparison]:
    """The sessions for the page. Calls are loaded only for sessions with charts."""
    bare = by_cost(_session_comparison(each) for each in found)
    by_path = {each.path: each for each in found}
    drawn = bare[: how_many_are_drawn(bare)]
    return [_session_comparison(load_calls(by_path[each.path], policies, keep)) for each in drawn] + bare[
        len(drawn) :
    ]


def _session_comparison(each: ReplayedSession) -> SessionComparison:
    return build_session_comparison(
        each.runs,
        name=each.name,
        path=each.path,
        model=each.model,
        notes=each.notes,
        title=each.title,
        began=each.began,
    )


def replay_file(task: ReplayTask, writer: SummaryWriter | None = None) -> ReplayOutcome:
    """The work of one worker. Arguments and results are plain values."""
    done: list[ReplayedSession] = []
    failed: list[Unreadable] = []
    for each in read_sessions([Path(task.file)]):
        if isinstance(each, Unreadable):
            failed.append(each)
            continue
        if task.period.has(began_at(each)):
            session, problems = _replay(each, task, writer)
            done += [session] if session.runs else []
            failed += problems
    return ReplayOutcome(tuple(done), tuple(failed))


def _replay_files(
    files: Sequence[Path],
    policies: Sequence[ReplayPolicy],
    keep: ResultCache,
    engine: Engine,
    workers: int,
    tell: ProgressCallback | None,
    writer: SummaryWriter | None,
    period: Period,
) -> ReplayOutcome:
    tasks = [msgspec.structs.replace(task, period=period) for task in _tasks(files, policies, keep, workers)]
    if engine == "processes" and sum(_size(file) for file in files) < _SMALL:
        engine = "here"
    found: dict[int, ReplayOutcome] = {}
    work = replay_file if writer is None else partial(replay_file, writer=writer)
    for number, outcome in map_tasks(work, tasks, engine=engine, workers=workers):
        found[number] = outcome
        if tell is not None:
            tell(len(found), len(tasks), tasks[number].file)
    by_file: dict[str, list[ReplayOutcome]] = {str(file): [] for file in files}
    for number, task in enumerate(tasks):
        by_file[task.file].append(found[number])
    together = [_together(outcomes) for outcomes in by_file.values()]
    return ReplayOutcome(
        tuple(each for outcome in together for each in outcome.sessions),
        tuple(each for outcome in together for each in outcome.unreadable),
    )


def _tasks(
    files: Sequence[Path], policies: Sequence[ReplayPolicy], keep: ResultCache, workers: int
) -> list[ReplayTask]:
    """One task per file, the largest first; with fewer files than workers, one per file and policy."""
    ordered = sorted(files, key=_size, reverse=True)
    shares = [tuple(policies)] if len(files) >= workers else [(policy,) for policy in policies]
    kept = keep.for_workers()
    return [ReplayTask(str(file), share, kept) for file in ordered for share in shares]


def _together(outcomes: Sequence[ReplayOutcome]) -> ReplayOutcome:
    """Merges the outcomes of one file under different policies."""
    failed = {(each.path, each.why): each for outcome in outcomes for each in outcome.unreadable}
    done: dict[str, ReplayedSession] = {}
    for each in (each for outcome in outcomes for each in outcome.sessions):
        known = done.get(each.path, msgspec.structs.replace(each, runs=(), computed=0))
        runs, computed = known.runs + each.runs, known.computed + each.computed
        done[each.path] = msgspec.structs.replace(known, runs=runs, computed=computed)
    return ReplayOutcome(tuple(done.values()), tuple(failed.values()))


def _without_snapshots(
    found: Sequence[ReplayedSession],
) -> tuple[tuple[ReplayedSession, ...], tuple[str, ...]]:
    """A recording that is the beginning of another one, or equal to an earlier one, is left out."""
    longest: dict[bytes, tuple[int, int]] = {}
    for number, each in enumerate(found):
        for link in each.chain:
            # The longest recording with this link; of equal ones the first.
            longest[link] = max(longest.get(link, (0, 0)), (len(each.chain), -number))
    kept = [
        each for number, each in enumerate(found) if not each.chain or longest[each.chain[-1]][1] == -number
    ]
    names = {each.path for each in kept}
    return tuple(kept), tuple(each.path for each in found if each.path not in names)


def _chain(session: ReplaySession) -> tuple[bytes, ...]:
    links: list[bytes] = []
    last = b""
    for record in session.threads[0].records if session.threads else ():
        if is_sent(record) and record.blocks:
            last = blake2b(
                b"\0".join((last, *(block.raw for block in record.blocks))), digest_size=8
            ).digest()
            links.append(last)
    return tuple(links)


def _replay(
    session: ReplaySession, task: ReplayTask, writer: SummaryWriter | None
) -> tuple[ReplayedSession, list[Unreadable]]:
    """The session under every policy that it can be replayed under, and why not under the others."""
    uses = cache(lambda: index_uses(session))
    runs: list[ReplayRun] = []
    failed: list[Unreadable] = []
    computed = 0
    for policy in task.policies:
        run = task.keep.run(session.digest, session.name, policy)
        if run is None:
            try:
                run = simulate(session, policy, uses(), writer=writer if policy.summarizer else None)
            except (
                ArithmeticError,
                LookupError,
                TypeError,
                ValueError,
                AttributeError,
                AssertionError,
            ) as why:
                # Recordings come from anywhere. An unexpected error in one must not stop the others.
                what = f"it cannot be replayed under {policy.name} ({type(why).__name__}: {why})"
                failed.append(Unreadable(session.path, what))
                continue
            task.keep.save_run(session.digest, session.name, policy, run)
            computed += 1
        runs.append(msgspec.structs.replace(run, calls=()))
    replayed = ReplayedSession(
        name=session.name,
        path=session.path,
        model=session.model,
        notes=session.notes,
        digest=session.digest,
        agents=tuple(thread.agent for thread in session.threads if thread.agent),
        runs=tuple(runs),
        computed=computed,
        chain=_chain(session),
        title=find_thread_title(session.threads[0]) if session.threads else "",
        began=began_at(session),
    )
    return replayed, failed


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except (OSError, ValueError):
        return 0
