"""Files in, replays out: each session is read once by one worker, replayed under every scheme, and kept.

A worker holds one session at a time, and gives back sums and where the calls are kept; so memory is bounded
by the largest session, however many there are. A session that fails is named with the reason, and the rest
goes on (RP-1). Results come in the order of the input, whichever is ready first.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from everturn.errors import StoreError
from everturn.replay.page.session_comparison import (
    SessionComparison,
    build_session_comparison,
    by_cost,
    how_many_are_drawn,
)
from everturn.replay.parallel.engines import Engine, map_tasks
from everturn.replay.parallel.result_cache import ResultCache
from everturn.replay.policies import ReplayPolicy
from everturn.replay.runs import ReplayRun
from everturn.replay.sessions import ReplaySession, Unreadable, files_below, read_sessions
from everturn.replay.simulate import index_uses, simulate

# Told after every task: how many are done, of how many, and which file it was about.
ProgressCallback = Callable[[int, int, str], None]
_AGENT: Final = "agent-"
# Below so many bytes, starting workers takes longer than the work itself.
_SMALL: Final = 2_000_000


class ReplayedSession(msgspec.Struct, frozen=True):
    """One session under every scheme. `runs` are without their calls; `whole` brings those back."""

    name: str
    path: str
    model: str
    notes: tuple[str, ...]
    digest: str
    agents: tuple[str, ...]
    runs: tuple[ReplayRun, ...]
    # How many of the runs were computed now; the others were kept from before.
    computed: int = 0


class ReplayOutcome(msgspec.Struct, frozen=True):
    sessions: tuple[ReplayedSession, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()


class ReplayTask(msgspec.Struct, frozen=True):
    """One file for one worker."""

    file: str
    schemes: tuple[ReplayPolicy, ...]
    keep: ResultCache


def replay_all(
    paths: Iterable[Path],
    schemes: Sequence[ReplayPolicy],
    keep: ResultCache,
    *,
    engine: Engine = "processes",
    workers: int = 1,
    tell: ProgressCallback | None = None,
) -> ReplayOutcome:
    """Every session in these files and folders under every scheme."""
    files = files_below(paths)
    agents = [file for file in files if _AGENT in file.name]
    found = _replay_files(
        [file for file in files if file not in agents], schemes, keep, engine, workers, tell
    )
    known = {agent for each in found.sessions for agent in each.agents}
    # A sub-agent whose session is here was replayed with it; any other is a session by itself.
    alone = [file for file in agents if file.stem.rpartition(_AGENT)[2] not in known]
    rest = _replay_files(alone, schemes, keep, engine, workers, tell)
    return ReplayOutcome(found.sessions + rest.sessions, found.unreadable + rest.unreadable)


def load_calls(
    replayed: ReplayedSession, schemes: Iterable[ReplayPolicy], keep: ResultCache
) -> ReplayedSession:
    """The same with the calls of its runs, from where they are kept."""
    runs = [(each.name, keep.run(replayed.digest, replayed.name, each)) for each in schemes]
    if gone := [name for name, run in runs if run is None]:
        raise StoreError(
            f"The results of {replayed.name} under {', '.join(gone)} are no longer in {keep.folder}. "
            "Was it emptied meanwhile? Run the command again."
        )
    return msgspec.structs.replace(replayed, runs=tuple(run for _, run in runs if run is not None))


def load_comparisons(
    found: Sequence[ReplayedSession], schemes: Sequence[ReplayPolicy], keep: ResultCache
) -> list[SessionComparison]:
    """For the page: calls are brought back only for the sessions that it draws."""
    bare = by_cost(_chapter(each) for each in found)
    by_path = {each.path: each for each in found}
    drawn = bare[: how_many_are_drawn(bare)]
    return [_chapter(load_calls(by_path[each.path], schemes, keep)) for each in drawn] + bare[len(drawn) :]


def _chapter(each: ReplayedSession) -> SessionComparison:
    return build_session_comparison(
        each.runs, name=each.name, path=each.path, model=each.model, notes=each.notes
    )


def replay_file(task: ReplayTask) -> ReplayOutcome:
    """What one worker does. Plain values in and out."""
    done: list[ReplayedSession] = []
    failed: list[Unreadable] = []
    for each in read_sessions([Path(task.file)]):
        if isinstance(each, Unreadable):
            failed.append(each)
            continue
        try:
            done.append(_replay(each, task))
        except (
            ArithmeticError,
            LookupError,
            TypeError,
            ValueError,
            AttributeError,
            AssertionError,
        ) as problem:
            # Recordings come from anywhere: whatever is odd in one of them, the others go on.
            failed.append(
                Unreadable(each.path, f"it cannot be replayed ({type(problem).__name__}: {problem})")
            )
    return ReplayOutcome(tuple(done), tuple(failed))


def _replay_files(
    files: Sequence[Path],
    schemes: Sequence[ReplayPolicy],
    keep: ResultCache,
    engine: Engine,
    workers: int,
    tell: ProgressCallback | None,
) -> ReplayOutcome:
    tasks = _tasks(files, schemes, keep, workers)
    if engine == "processes" and sum(_size(file) for file in files) < _SMALL:
        engine = "here"
    found: dict[int, ReplayOutcome] = {}
    for number, outcome in map_tasks(replay_file, tasks, engine=engine, workers=workers):
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
    files: Sequence[Path], schemes: Sequence[ReplayPolicy], keep: ResultCache, workers: int
) -> list[ReplayTask]:
    """A file for each worker, the largest first; where there are fewer files than workers, a scheme."""
    ordered = sorted(files, key=_size, reverse=True)
    shares = [tuple(schemes)] if len(files) >= workers else [(scheme,) for scheme in schemes]
    kept = keep.for_workers()
    return [ReplayTask(str(file), share, kept) for file in ordered for share in shares]


def _together(outcomes: Sequence[ReplayOutcome]) -> ReplayOutcome:
    """The outcomes of one file under different schemes, as one. What failed once is not shown elsewhere."""
    failed = {each.path: each for outcome in outcomes for each in outcome.unreadable}
    done: dict[str, ReplayedSession] = {}
    for each in (each for outcome in outcomes for each in outcome.sessions if each.path not in failed):
        known = done.get(each.path, msgspec.structs.replace(each, runs=(), computed=0))
        runs, computed = known.runs + each.runs, known.computed + each.computed
        done[each.path] = msgspec.structs.replace(known, runs=runs, computed=computed)
    return ReplayOutcome(tuple(done.values()), tuple(failed.values()))


def _replay(session: ReplaySession, task: ReplayTask) -> ReplayedSession:
    uses = cache(lambda: index_uses(session))
    runs: list[ReplayRun] = []
    computed = 0
    for scheme in task.schemes:
        run = task.keep.run(session.digest, session.name, scheme)
        if run is None:
            run = simulate(session, scheme, uses())
            task.keep.save_run(session.digest, session.name, scheme, run)
            computed += 1
        runs.append(msgspec.structs.replace(run, calls=()))
    return ReplayedSession(
        name=session.name,
        path=session.path,
        model=session.model,
        notes=session.notes,
        digest=session.digest,
        agents=tuple(thread.agent for thread in session.threads if thread.agent),
        runs=tuple(runs),
        computed=computed,
    )


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except (OSError, ValueError):
        return 0
