"""One at a time, for threads and tasks alike.

A conversation may be reached from threads and from an event loop at once. Whoever wants it asks for a
future: a thread waits for its result, a task awaits it, and the one who is done hands on to the next.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from threading import Lock


class FairLock:
    def __init__(self) -> None:
        self._guard = Lock()
        self._is_taken = False
        self._waiting: deque[Future[None]] = deque()

    @contextmanager
    def held(self) -> Iterator[None]:
        self._asked().result()
        try:
            yield
        finally:
            self._hand_on()

    @asynccontextmanager
    async def held_async(self) -> AsyncIterator[None]:
        asked = self._asked()
        if not asked.done():
            await self._waited(asked)
        try:
            yield
        finally:
            self._hand_on()

    async def _waited(self, asked: "Future[None]") -> None:
        try:
            await asyncio.wrap_future(asked)
        except asyncio.CancelledError:
            # Cancelled in the moment in which it was our turn: it is somebody else's then.
            if not asked.cancel():
                self._hand_on()
            raise

    def _asked(self) -> "Future[None]":
        asked: Future[None] = Future()
        with self._guard:
            if self._is_taken:
                self._waiting.append(asked)
                return asked
            self._is_taken = True
        asked.set_result(None)
        return asked

    def _hand_on(self) -> None:
        while True:
            with self._guard:
                if not self._waiting:
                    self._is_taken = False
                    return
                following = self._waiting.popleft()
            if following.set_running_or_notify_cancel():
                following.set_result(None)
                return
