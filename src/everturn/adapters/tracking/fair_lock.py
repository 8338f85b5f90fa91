"""A first-come, first-served lock for threads and asyncio tasks.

A conversation can be used from threads and from event loops at the same time. Each waiter gets a future: a
thread blocks on its result, a task awaits it. Releasing the lock completes the future of the next waiter.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from threading import Lock


class FairLock:
    """A lock for threads and tasks that is granted in the order of the requests."""

    def __init__(self) -> None:
        self._guard = Lock()
        self._is_locked = False
        self._waiting: deque[Future[None]] = deque()

    @property
    def is_held(self) -> bool:
        return self._is_locked

    def acquire(self) -> "FairLock":
        """For a `with` block. The lock itself, because every call needs it: a generator costs more."""
        return self

    def __enter__(self) -> None:
        granted = self._request()
        if granted is not None:
            granted.result()

    def __exit__(self, *_: object) -> None:
        self.release()

    def take_if_free(self) -> bool:
        """Take the lock without waiting; False if somebody has it."""
        with self._guard:
            was_locked, self._is_locked = self._is_locked, True
            return not was_locked

    @asynccontextmanager
    async def acquire_async(self) -> AsyncGenerator[None, None]:
        granted = self._request()
        if granted is not None:
            await self._wait(granted)
        try:
            yield
        finally:
            self.release()

    async def _wait(self, granted: "Future[None]") -> None:
        try:
            await asyncio.wrap_future(granted)
        except asyncio.CancelledError:
            # If the lock was granted just before the cancellation, pass it on to the next waiter.
            if not granted.cancel():
                self.release()
            raise

    def _request(self) -> "Future[None] | None":
        """None if the lock is free, and taken now; otherwise what to wait for."""
        with self._guard:
            if not self._is_locked:
                self._is_locked = True
                return None
            granted: Future[None] = Future()
            self._waiting.append(granted)
            return granted

    def release(self) -> None:
        while True:
            with self._guard:
                if not self._waiting:
                    self._is_locked = False
                    return
                waiter = self._waiting.popleft()
            if waiter.set_running_or_notify_cancel():
                waiter.set_result(None)
                return
