"""Who waits until a hold is due: threads, tasks of an event loop, or nobody in virtual time (EC-11).

A timer calls a function after some seconds, and again after as many as the function returns, until it returns
None or is cancelled. No timer calls anything once the process has been told to end.
"""

import asyncio
import atexit
import heapq
import os
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import count
from typing import Protocol

# Sends a hold. Returns the seconds until the next one, or None if there is none.
HoldStep = Callable[[], float | None]
AsyncHoldStep = Callable[[], Awaitable[float | None]]


class PendingHold:
    """A hold that is waited for. `cancel` may be called from any thread, more than once."""

    def __init__(self, on_cancel: Callable[[], object] = lambda: None) -> None:
        self._cancelled = threading.Event()
        self.on_cancel = on_cancel

    @property
    def is_cancelled(self) -> bool:
        return self._cancelled.is_set() or is_ending()

    def cancel(self) -> None:
        self._cancelled.set()
        self.on_cancel()


class HoldTimer(Protocol):
    def start(self, seconds: float, step: HoldStep) -> PendingHold: ...


_ENDING = threading.Event()


def is_ending() -> bool:
    """Whether this process has been told to end, or its main thread has."""
    return _ENDING.is_set() or not threading.main_thread().is_alive()


def end_holds() -> None:
    """Send no more holds in this process. For programs that catch SIGTERM and go on for a while."""
    _ENDING.set()


atexit.register(end_holds)


class ThreadTimer:
    """One sleeping thread for all holds of the process; each step runs in a short thread of its own, because
    the API may take seconds to answer."""

    def __init__(self) -> None:
        self._order = count()
        self._changed = threading.Condition()
        self._due: list[tuple[float, int, PendingHold, HoldStep]] = []
        self._thread: threading.Thread | None = None

    def start(self, seconds: float, step: HoldStep) -> PendingHold:
        waiting = PendingHold()
        self._add(seconds, waiting, step)
        return waiting

    def forget(self) -> None:
        """After a fork: the holds are the parent's, and so is the thread."""
        self._changed, self._due, self._thread = threading.Condition(), [], None

    def _add(self, seconds: float, waiting: PendingHold, step: HoldStep) -> None:
        with self._changed:
            entry = (time.monotonic() + seconds, next(self._order), waiting, step)
            heapq.heappush(self._due, entry)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="cache holds", daemon=True)
                self._thread.start()
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                # A cancelled hold is not kept until it is due: it has the whole conversation in memory.
                if any(each[2].is_cancelled for each in self._due):
                    self._due = [each for each in self._due if not each[2].is_cancelled]
                    heapq.heapify(self._due)
                left = self._due[0][0] - time.monotonic() if self._due else None
                if left is None or left > 0:
                    self._changed.wait(SWEEP_SECONDS if left is None else min(left, SWEEP_SECONDS))
                    continue
                _, _, waiting, step = heapq.heappop(self._due)
            threading.Thread(target=self._step, args=(waiting, step), name="cache hold", daemon=True).start()

    def _step(self, waiting: PendingHold, step: HoldStep) -> None:
        if waiting.is_cancelled:
            return
        seconds = step()
        if seconds is not None and not waiting.is_cancelled:
            self._add(seconds, waiting, step)


# How long a cancelled hold may stay in memory.
SWEEP_SECONDS = 60.0
THREADS = ThreadTimer()
os.register_at_fork(after_in_child=THREADS.forget)


class TaskTimer:
    """Waits in tasks of an event loop. `start` may be called from any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        # A loop keeps only weak references to its tasks.
        self._sent: set[asyncio.Future[float | None]] = set()

    def start(self, seconds: float, step: HoldStep) -> PendingHold:
        """The step runs in a thread of its own. Not in one of the loop's: the loop waits for those when it
        ends, and the answer to a hold may take long."""
        return self.start_async(seconds, lambda: self._in_thread(step))

    def start_async(self, seconds: float, step: AsyncHoldStep) -> PendingHold:
        waiting = PendingHold()
        if self._loop.is_closed():
            waiting.cancel()
            return waiting
        sleeping = asyncio.run_coroutine_threadsafe(self._sleep(seconds, waiting, step), self._loop)
        waiting.on_cancel = sleeping.cancel
        return waiting

    async def _in_thread(self, step: HoldStep) -> float | None:
        done: asyncio.Future[float | None] = self._loop.create_future()

        def finish(seconds: float | None, problem: BaseException | None) -> None:
            if done.cancelled():
                return
            if problem is None:
                done.set_result(seconds)
            else:
                done.set_exception(problem)

        def run() -> None:
            seconds, problem = None, None
            try:
                seconds = step()
            except BaseException as raised:
                problem = raised
            # The loop may have ended in the meantime: then nobody waits.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(finish, seconds, problem)

        threading.Thread(target=run, name="cache hold", daemon=True).start()
        return await done

    async def _sleep(self, seconds: float, waiting: PendingHold, step: AsyncHoldStep) -> None:
        after: float | None = seconds
        while after is not None:
            await asyncio.sleep(after)
            if waiting.is_cancelled:
                return
            # Shielded: a hold that was sent is paid, so its answer is waited for.
            sent = asyncio.ensure_future(step())
            self._sent.add(sent)
            sent.add_done_callback(self._sent.discard)
            after = await asyncio.shield(sent)


class VirtualTimer:
    """Waits in virtual time: holds are sent when `advance` passes the moment at which they are due."""

    def __init__(self, now: Callable[[], datetime], set_time: Callable[[datetime], None]) -> None:
        self._now, self._set_time = now, set_time
        self._order = count()
        self._due: list[tuple[datetime, int, PendingHold, HoldStep]] = []

    def start(self, seconds: float, step: HoldStep) -> PendingHold:
        waiting = PendingHold()
        self._add(seconds, waiting, step)
        return waiting

    def _add(self, seconds: float, waiting: PendingHold, step: HoldStep) -> None:
        at = self._now() + timedelta(seconds=seconds)
        heapq.heappush(self._due, (at, next(self._order), waiting, step))

    def advance(self, seconds: float) -> None:
        end = self._now() + timedelta(seconds=seconds)
        while self._due and self._due[0][0] <= end:
            at, _, waiting, step = heapq.heappop(self._due)
            if waiting.is_cancelled:
                continue
            self._set_time(at)
            after = step()
            if after is not None:
                self._add(after, waiting, step)
        self._set_time(end)
