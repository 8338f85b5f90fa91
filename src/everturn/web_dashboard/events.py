"""Server-sent events: what changed, told to every open page (DB-5).

Other threads publish; each page has a queue. A page that does not read fast enough loses the oldest events
and reloads what it shows anyway.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import msgspec

_MAX_WAITING: Final = 100
# A comment now and then, so that a closed connection is noticed.
_HEARTBEAT_SECONDS: Final = 15


class EventHub:
    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._queues: set[asyncio.Queue[bytes | None]] = set()
        self._is_closed = False

    def publish(self, name: str, values: Mapping[str, Any]) -> None:
        """May be called from any thread; without an open page it does nothing."""
        if self._loop is not None and not self._loop.is_closed():
            data = f"event: {name}\ndata: {msgspec.json.encode(values).decode()}\n\n".encode()
            self._loop.call_soon_threadsafe(self._spread, data)

    def close(self) -> None:
        """End all streams; called in the thread of the server."""
        self._is_closed = True
        self._spread(None)

    async def stream(self) -> AsyncIterator[bytes]:
        self._loop = asyncio.get_running_loop()
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(_MAX_WAITING)
        self._queues.add(queue)
        try:
            yield b"retry: 2000\n\n"
            while not self._is_closed:
                try:
                    data = await asyncio.wait_for(queue.get(), _HEARTBEAT_SECONDS)
                except TimeoutError:
                    data = b": still here\n\n"
                if data is None:
                    return
                yield data
        finally:
            self._queues.discard(queue)

    def _spread(self, data: bytes | None) -> None:
        for queue in self._queues:
            if queue.full():
                queue.get_nowait()
            queue.put_nowait(data)
