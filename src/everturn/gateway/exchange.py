"""One request and its response on the gateway's side of the connection."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from everturn.gateway.failures import ClientGone, GatewayError
from everturn.gateway.headers import RawHeaders, find_header, make_own_headers
from everturn.gateway.limits import Limits
from everturn.gateway.values import Mode, Tenant

AsgiMessage = MutableMapping[str, Any]
AsgiReceive = Callable[[], Awaitable[AsgiMessage]]
AsgiSend = Callable[[AsgiMessage], Awaitable[None]]

_JSON: Final = (b"content-type", b"application/json")


class HttpExchange:
    """What is known about a request while it is served, and how its response is sent."""

    def __init__(self, scope: AsgiMessage, receive: AsgiReceive, send: AsgiSend, limits: Limits) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        query: bytes = scope["query_string"]
        raw_path: bytes = scope["raw_path"]
        self.target = (raw_path + b"?" + query if query else raw_path).decode("latin-1")
        self.headers: RawHeaders = scope["headers"]
        self.limits = limits
        self.tenant = Tenant("")
        self.mode: Mode = "observe"
        self.endpoint = ""
        self.session = ""
        # What was decided or went wrong, for `x-everturn-note`.
        self.notes: list[str] = []
        self.status = 0
        self.received = self.sent = 0
        self.began = time.perf_counter()
        # Why the body could not be read to its end, where that happened while it was sent on.
        self.body_problem: GatewayError | ClientGone | None = None
        self._body_read = asyncio.Event()
        self._receive, self._send = receive, send
        self._is_complete = False

    # ── the request ──────────────────────────────────────────────────────────────────────────────

    async def read_body(self, limit: int) -> bytes:
        pieces = [piece async for piece in self.stream_body(limit)]
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def stream_body(self, limit: int) -> AsyncGenerator[bytes, None]:
        """The body in pieces; raises above the limit, and if it takes too long."""
        length = find_header(self.headers, b"content-length")
        if length.isdigit() and int(length) > limit:
            raise self._too_large(limit)
        more = True
        async with _deadline(self.limits.request_seconds):
            while more:
                message = await self._receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone
                piece, more = message.get("body", b""), message.get("more_body", False)
                self.received += len(piece)
                if self.received > limit:
                    raise self._too_large(limit)
                if piece:
                    yield piece
        self._body_read.set()

    async def pass_on_body(self, limit: int) -> AsyncGenerator[bytes, None]:
        """`stream_body` for a client library, which would hide the problem behind its own."""
        try:
            async for piece in self.stream_body(limit):
                yield piece
        except (GatewayError, ClientGone) as problem:
            self.body_problem = problem
            raise

    def _too_large(self, limit: int) -> GatewayError:
        return GatewayError(
            413,
            "request_too_large",
            f"The body is larger than {limit:,} bytes. Send less, or let the operator raise the limit.",
        )

    @asynccontextmanager
    async def abort_on_disconnect(self) -> AsyncGenerator[None, None]:
        """Cancel what runs in the block when the client disconnects; raises `ClientGone` then. This begins
        when the body has been read."""
        task, is_gone = asyncio.current_task(), False

        async def watch() -> None:
            nonlocal is_gone
            await self._body_read.wait()
            while (await self._receive())["type"] != "http.disconnect":
                pass
            if not self._is_complete and task is not None:
                is_gone = True
                task.cancel()

        watcher = asyncio.create_task(watch())
        try:
            yield
        except asyncio.CancelledError:
            if is_gone and task is not None:
                task.uncancel()
                raise ClientGone from None
            raise
        finally:
            watcher.cancel()

    # ── the response ─────────────────────────────────────────────────────────────────────────────

    @property
    def is_started(self) -> bool:
        return self.status != 0

    async def start(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        self.status = status
        own = make_own_headers(self.session, self.mode, self.notes)
        await self._send({"type": "http.response.start", "status": status, "headers": [*headers, *own]})

    async def write(self, piece: bytes) -> None:
        """Returns when there is room for more: a slow reader slows whoever writes."""
        self.sent += len(piece)
        await self._send({"type": "http.response.body", "body": piece, "more_body": True})

    async def finish(self, piece: bytes = b"") -> None:
        self.sent += len(piece)
        self._is_complete = True
        await self._send({"type": "http.response.body", "body": piece, "more_body": False})

    async def fail(self, error: GatewayError) -> None:
        """Answer with an error of the gateway; as an event if a stream has begun."""
        if self.is_started:
            await self.finish(error.event)
            return
        body = error.body
        headers = [_JSON, (b"content-length", str(len(body)).encode())]
        if error.status in (429, 503):
            headers.append((b"retry-after", b"1"))
        await self.start(error.status, headers)
        await self.finish(b"" if self.method == "HEAD" else body)


@asynccontextmanager
async def _deadline(seconds: float) -> AsyncGenerator[None, None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise GatewayError(
            408, "request_timeout", f"The request was not complete after {seconds:.0f} s. Send it again."
        ) from None
