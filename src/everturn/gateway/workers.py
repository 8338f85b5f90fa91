"""Threads for work that waits: for a disk, for a lock, for a summary.

An executor of the standard library costs two to three times as much per piece of work, mostly locks and
callbacks between two kinds of futures. Here everything but the work itself happens on the event loop.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class _Job(NamedTuple):
    work: Callable[[], Any]
    future: "asyncio.Future[Any]"


class WorkerThreads:
    """Used on one event loop. The thread that was free last gets the next work: few threads do most of it."""

    def __init__(self, max_threads: int, name: str) -> None:
        self._max, self._name = max_threads, name
        self._free: list[_Worker] = []
        self._started = 0
        self._waiting: deque[_Job] = deque()
        # Set while `close` waits for the last work.
        self._closed: asyncio.Future[None] | None = None

    async def run(self, work: Callable[[], T]) -> T:
        """The result of `work`. Work that has begun is not stopped if nobody waits for it any more."""
        return await self.submit(work)

    def submit(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        """The same for a caller that does not wait."""
        loop = asyncio.get_running_loop()
        job = _Job(work, loop.create_future())
        if self._free:
            self._free.pop().jobs.put(job)
        elif self._started < self._max:
            self._started += 1
            worker = _Worker(loop, self._finish)
            Thread(target=worker.run, name=f"{self._name}-{self._started}", daemon=True).start()
            worker.jobs.put(job)
        else:
            self._waiting.append(job)
        return job.future

    def _finish(self, worker: "_Worker", future: "asyncio.Future[Any]", result: Any, problem: Any) -> None:
        """On the event loop, when a worker has done something."""
        self._give_work(worker)
        if future.cancelled():
            return
        if problem is None:
            future.set_result(result)
        else:
            future.set_exception(problem)

    def _give_work(self, worker: "_Worker") -> None:
        while self._waiting:
            job = self._waiting.popleft()
            if not job.future.cancelled():
                worker.jobs.put(job)
                return
        self._free.append(worker)
        if self._closed is not None and self._is_idle and not self._closed.done():
            self._closed.set_result(None)

    @property
    def _is_idle(self) -> bool:
        return len(self._free) == self._started

    async def close(self) -> None:
        """End the threads, when all work is done."""
        if not self._is_idle:
            self._closed = asyncio.get_running_loop().create_future()
            await self._closed
        while self._free:
            self._free.pop().jobs.put(None)
        self._started = 0


class _Worker:
    """One thread. It is given one job at a time."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        on_done: "Callable[[_Worker, asyncio.Future[Any], Any, Any], None]",
    ) -> None:
        self.jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._loop, self._on_done = loop, on_done

    def run(self) -> None:
        while (job := self.jobs.get()) is not None:
            result = problem = None
            try:
                result = job.work()
            except BaseException as raised:
                problem = raised
            try:
                self._loop.call_soon_threadsafe(self._on_done, self, job.future, result, problem)
            except RuntimeError:
                # The event loop was closed meanwhile: nobody waits.
                return
            # Nothing of a request is kept while the thread waits for the next one.
            del job, result, problem
