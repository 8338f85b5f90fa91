"""Processes that run trials for the soak: forked from it while it is small, and told what to do by a pipe.

What a fork costs is the memory of the process that forks. So kinds that fork in each trial have processes of
their own, where the frameworks that other kinds load are not. A worker whose pipe is closed ends: a soak that
was killed leaves nothing running but the tasks under way.
"""

import gc
import os
import signal
from collections.abc import Iterator
from multiprocessing.connection import Connection, Pipe, wait
from typing import Final

import msgspec
from reliability.kinds import KINDS
from reliability.ledger import Task
from reliability.score import Row, tally

# Trials leave the machine to whoever else works on it.
NICENESS: Final = 10
# Trials make many small values and few circles; the collector's own 700 takes a tenth of the time. What lies
# about for long has left the processor's caches when it is collected.
GARBAGE_THRESHOLD: Final = 5_000


class WorkerEnded(RuntimeError):
    """A worker is gone that had a task: nobody knows what became of its trials."""


def work(task: Task) -> Row:
    return tally(KINDS[task.kind], range(task.first, task.first + task.count)).row


class Worker:
    """One process. It has one task at a time."""

    def __init__(self, others: list["Worker"]) -> None:
        self.pipe, theirs = Pipe()
        self.task: Task | None = None
        self.pid = os.fork()
        if self.pid == 0:
            try:
                # A pipe is closed when nobody holds its other end any more.
                for each in (self, *others):
                    each.pipe.close()
                _serve(theirs)
            finally:
                os._exit(1)
        theirs.close()

    def give(self, task: Task) -> None:
        self.task = task
        self.pipe.send_bytes(msgspec.json.encode(task))

    def take(self) -> tuple[Task, Row]:
        task, self.task = self.task, None
        if task is None:
            raise WorkerEnded(f"Worker {self.pid} has ended, without a task.")
        try:
            return task, msgspec.json.decode(self.pipe.recv_bytes(), type=Row)
        except (EOFError, ConnectionError):
            last = task.first + task.count - 1
            raise WorkerEnded(
                f"Worker {self.pid} has ended in the middle of {task.kind}, seeds {task.first} to {last}."
            ) from None


def _serve(pipe: Connection) -> None:
    """Tasks until the pipe is closed. The soak hears signals, and says when it is over."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Not SIG_IGN, which programs that a trial starts would inherit: they are to end when they are told to.
    signal.signal(signal.SIGTERM, lambda *_: None)
    os.nice(NICENESS)
    gc.set_threshold(GARBAGE_THRESHOLD)
    seen: set[str] = set()
    while True:
        try:
            task = msgspec.json.decode(pipe.recv_bytes(), type=Task)
        except EOFError:
            os._exit(0)
        if task.kind not in seen:
            seen.add(task.kind)
            KINDS[task.kind].load()
            # What is loaded stays: neither the collector nor a fork needs to look at it again.
            gc.freeze()
        pipe.send_bytes(msgspec.json.encode(work(task)))


class Crew:
    """So many tasks at a time, as many as there are workers; they are made when a task needs them."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._workers: dict[bool, list[Worker]] = {True: [], False: []}

    def __enter__(self) -> "Crew":
        return self

    def __exit__(self, *how: object) -> None:
        for each in self._all:
            each.pipe.close()
        for each in self._all:
            os.waitpid(each.pid, 0)

    @property
    def _all(self) -> list[Worker]:
        return [each for group in self._workers.values() for each in group]

    @property
    def busy(self) -> list[Worker]:
        return [each for each in self._all if each.task is not None]

    @property
    def is_full(self) -> bool:
        return len(self.busy) >= self._size

    def give(self, task: Task) -> None:
        group = self._workers[KINDS[task.kind].forks]
        free = next((each for each in group if each.task is None), None)
        if free is None:
            free = Worker(self._all)
            group.append(free)
        free.give(task)

    def finished(self) -> Iterator[tuple[Task, Row]]:
        """Waits until a task is done; all that are done by then."""
        ready = wait([each.pipe for each in self.busy])
        for each in self.busy:
            if each.pipe in ready:
                yield each.take()
