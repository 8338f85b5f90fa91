"""One function over many tasks: here, on all cores of this machine, or on a Ray cluster.

Every engine yields (number of the task, its result) as results come. Tasks and results are plain values that
can be pickled, and workers are started afresh (spawn), so that nothing depends on what this process holds.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any, Final, Literal, TypeVar

from everturn.errors import EverturnError, UsageError

Engine = Literal["here", "processes", "ray"]
ENGINES: Final[tuple[Engine, ...]] = ("processes", "ray", "here")
TaskT = TypeVar("TaskT")
ResultT = TypeVar("ResultT")

# A worker that has done so many tasks makes room for a fresh one, so that memory does not creep up.
_TASKS_A_WORKER: Final = 200


def map_tasks(
    work: Callable[[TaskT], ResultT], tasks: Sequence[TaskT], *, engine: Engine, workers: int
) -> Iterator[tuple[int, ResultT]]:
    if engine == "ray":
        return _by_ray(work, tasks, workers)
    if engine == "here" or workers == 1 or len(tasks) < 2:
        return ((number, work(task)) for number, task in enumerate(tasks))
    return _by_processes(work, tasks, min(workers, len(tasks)))


def _by_processes(
    work: Callable[[TaskT], ResultT], tasks: Sequence[TaskT], workers: int
) -> Iterator[tuple[int, ResultT]]:
    pool = ProcessPoolExecutor(workers, get_context("spawn"), max_tasks_per_child=_TASKS_A_WORKER)
    waiting = iter(enumerate(tasks))
    running: dict[Future[ResultT], int] = {}
    try:
        while True:
            # Few at a time: results are taken as fast as they come, and never pile up.
            while len(running) < 2 * workers and (following := next(waiting, None)) is not None:
                running[pool.submit(work, following[1])] = following[0]
            if not running:
                return
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(done), done.result()
    except BrokenProcessPool:
        raise EverturnError(
            "A worker ended suddenly, most likely for want of memory. What was computed is kept: "
            "run the command again, with fewer workers (--workers 1)."
        ) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _by_ray(
    work: Callable[[TaskT], ResultT], tasks: Sequence[TaskT], workers: int
) -> Iterator[tuple[int, ResultT]]:
    ray = _ray()
    if started := not ray.is_initialized():
        quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
        ray.init(num_cpus=workers, **quiet)
    try:
        remote = ray.remote(work)
        running = {remote.remote(task): number for number, task in enumerate(tasks)}
        while running:
            done, _ = ray.wait(list(running))
            for each in done:
                yield running.pop(each), ray.get(each)
    finally:
        if started:
            ray.shutdown()


def _ray() -> Any:
    try:
        import ray  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise UsageError(
            "`--engine ray` needs the package 'ray', which is not installed: "
            "pip install 'everturn[ray]' brings it."
        ) from None
    return ray
