"""A door to PostgreSQL that can be slow, closed or deaf: a socket that passes bytes on, in a thread."""

import asyncio
import tempfile
import threading
from pathlib import Path
from typing import Literal

# open: everything passes. stalled: connections stay, and nothing passes. closed: nobody is let in. deaf: what
# the server answers is lost, with its connection. slow: everything passes late.
Mode = Literal["open", "stalled", "closed", "deaf", "slow"]
SOCKET = ".s.PGSQL.5432"
LATE = 0.02


class Proxy:
    def __init__(self, server: Path, folder: Path | None = None) -> None:
        """`folder` is where its socket is; by default a new one."""
        self._server = server
        self._mode: Mode = "open"
        self._made = None if folder else tempfile.TemporaryDirectory(prefix="everturn-proxy-")
        self.host = str(folder) if self._made is None else self._made.name
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._call(self._listen())

    def set(self, mode: Mode) -> None:
        async def change() -> None:
            self._mode = mode

        self._call(change())

    def drop(self) -> None:
        """End every connection in the middle of whatever it does."""
        self._call(self._drop())

    def close(self) -> None:
        async def end() -> None:
            self._door.close()
            await self._drop()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        self._call(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        if self._made is not None:
            self._made.cleanup()

    def _call(self, act) -> None:
        asyncio.run_coroutine_threadsafe(act, self._loop).result(10)

    async def _listen(self) -> None:
        self._door = await asyncio.start_unix_server(self._serve, Path(self.host) / SOCKET)

    async def _drop(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            if self._mode == "closed":
                return
            there, back = await asyncio.open_unix_connection(self._server / SOCKET)
            self._writers.add(back)
            try:
                await asyncio.gather(self._pass(reader, back, False), self._pass(there, writer, True))
            finally:
                self._writers.discard(back)
                back.transport.abort()
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_answer: bool
    ) -> None:
        while data := await reader.read(65536):
            while self._mode == "stalled":
                await asyncio.sleep(0.01)
            if self._mode == "slow":
                await asyncio.sleep(LATE)
            if self._mode == "deaf" and is_answer:
                raise ConnectionResetError
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError
