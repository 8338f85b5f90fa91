"""Runs one function over many tasks: in this process, on all cores, or on a Ray cluster.

Every engine yields (task number, result) as results arrive. Tasks and results are plain values that can be
pickled. Workers are started with spawn, so that nothing depends on the state of this process.
"""

import signal
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from typing import Any, Final, Literal, TypeVar

from everturn.errors import EverturnError, UsageError
from everturn.processes import end_with_parent

Engine = Literal["here", "processes", "ray"]
TaskT = TypeVar("TaskT")
ResultT = TypeVar("ResultT")

# A worker is replaced after this many tasks, so that memory does not grow.
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
    pool = ProcessPoolExecutor(
        workers, get_context("spawn"), initializer=_begin_worker, max_tasks_per_child=_TASKS_A_WORKER
    )
    waiting = iter(enumerate(tasks))
    running: dict[Future[ResultT], int] = {}
    try:
        while True:
            # Few tasks at a time, so that results do not pile up.
            while len(running) < 2 * workers and (following := next(waiting, None)) is not None:
                with _interrupts_blocked():
                    running[pool.submit(work, following[1])] = following[0]
            if not running:
                return
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(done), done.result()
    except (KeyboardInterrupt, GeneratorExit):
        # A worker would finish its session first, which can take a minute. GeneratorExit: the interrupt came
        # while a result was used.
        for worker in active_children():
            worker.terminate()
        raise
    except BrokenProcessPool:
        raise EverturnError(
            "A worker process ended unexpectedly, most likely out of memory. Finished results are cached: "
            "run the command again, with fewer workers (--workers 1)."
        ) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _interrupts_blocked() -> Generator[None]:
    """Processes that start here never see Ctrl-C, not even before they can ignore it. Here it waits."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin_worker() -> None:
    """Ctrl-C reaches the workers too; the process that started them ends them."""
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)


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
            "`--engine ray` needs the package 'ray', which is not installed. Install it with: "
            "pip install 'everturn[ray]'"
        ) from None
    return ray
