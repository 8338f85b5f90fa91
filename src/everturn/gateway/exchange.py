"""One request and its response on the gateway's side of the connection."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping, Sequence
from typing import Any, Final

from everturn.gateway.bodies import EVENT_STREAM
from everturn.gateway.failures import ClientGone, GatewayError
from everturn.gateway.headers import RawHeaders, find_header, make_own_headers
from everturn.gateway.limits import Limits
from everturn.gateway.values import Mode, Tenant

AsgiMessage = MutableMapping[str, Any]
AsgiReceive = Callable[[], Awaitable[AsgiMessage]]
AsgiSend = Callable[[AsgiMessage], Awaitable[None]]

_JSON: Final = (b"content-type", b"application/json")
_ENDS_OF_EVENTS: Final = (b"\n\n", b"\r\n\r\n")


class Deadline:
    """`asyncio.timeout` in fewer steps: every request needs two. Raises `TimeoutError`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._is_over = False

    def __enter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None, "a deadline is for a task"
        self._task, self._cancelling = task, task.cancelling()
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._end)

    def _end(self) -> None:
        self._is_over = True
        self._task.cancel()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._timer.cancel()
        # Somebody else may have cancelled the task too.
        if self._is_over and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from None


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
        self._body_read: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._receive, self._send = receive, send
        self.is_complete = False
        # The headers that were sent, and the last bytes of the body that were.
        self._sent_headers: RawHeaders = ()
        self._tail = b""

    # ── the request ──────────────────────────────────────────────────────────────────────────────

    async def read_body(self, limit: int) -> bytes:
        """All of the body; raises above the limit, and if it takes too long."""
        self._check_length(limit)
        pieces: list[bytes] = []
        more = True
        try:
            with Deadline(self.limits.request_seconds):
                while more:
                    piece, more = await self._read_piece(limit)
                    if piece:
                        pieces.append(piece)
        except TimeoutError:
            raise self._too_slow() from None
        self._note_body_read()
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def stream_body(self, limit: int) -> AsyncGenerator[bytes, None]:
        """The body in pieces, with the same limits."""
        self._check_length(limit)
        more = True
        try:
            async with asyncio.timeout(self.limits.request_seconds):
                while more:
                    piece, more = await self._read_piece(limit)
                    if piece:
                        yield piece
        except TimeoutError:
            raise self._too_slow() from None
        self._note_body_read()

    def _note_body_read(self) -> None:
        # Who waits for it may have given up: an upload can be answered before its end.
        if not self._body_read.done():
            self._body_read.set_result(None)

    def _check_length(self, limit: int) -> None:
        length = find_header(self.headers, b"content-length")
        if length.isdigit() and int(length) > limit:
            raise self._too_large(limit)

    async def _read_piece(self, limit: int) -> tuple[bytes, bool]:
        """The next piece of the body, and whether there are more."""
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        piece: bytes = message.get("body", b"")
        self.received += len(piece)
        if self.received > limit:
            raise self._too_large(limit)
        return piece, message.get("more_body", False)

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

    def _too_slow(self) -> GatewayError:
        seconds = self.limits.request_seconds
        return GatewayError(
            408, "request_timeout", f"The request was not complete after {seconds:.0f} s. Send it again."
        )

    def abort_on_disconnect(self) -> "_AbortOnDisconnect":
        """Cancel what runs in the block when the client disconnects; raises `ClientGone` then. This begins
        when the body has been read."""
        return _AbortOnDisconnect(self)

    async def wait_for_disconnect(self) -> None:
        await self._body_read
        while (await self._receive())["type"] != "http.disconnect":
            pass

    # ── the response ─────────────────────────────────────────────────────────────────────────────

    @property
    def is_started(self) -> bool:
        return self.status != 0

    async def start(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        self.status = status
        self._sent_headers = headers
        own = make_own_headers(self.session, self.mode, self.notes)
        await self._send({"type": "http.response.start", "status": status, "headers": [*headers, *own]})

    async def write(self, piece: bytes) -> None:
        """Returns when there is room for more: a slow reader slows whoever writes."""
        self.sent += len(piece)
        await self._send({"type": "http.response.body", "body": piece, "more_body": True})
        # Afterwards: whoever gives up before has not sent it.
        self._tail = piece if len(piece) > 3 else self._tail[-3:] + piece

    async def finish(self, piece: bytes = b"") -> None:
        self.sent += len(piece)
        self.is_complete = True
        await self._send({"type": "http.response.body", "body": piece, "more_body": False})

    async def fail(self, error: GatewayError) -> None:
        """Answer with an error of the gateway; as an event if a stream has begun. Any other response that has
        begun stays without its end, and the server closes the connection."""
        if self.is_started:
            if self._can_add_event():
                await self.finish(error.event)
            return
        body = error.body
        headers = [_JSON, (b"content-length", str(len(body)).encode())]
        if error.status in (429, 503):
            headers.append((b"retry-after", b"1"))
        await self.start(error.status, headers)
        await self.finish(b"" if self.method == "HEAD" else body)

    def _can_add_event(self) -> bool:
        """Whether a reader of the stream would find an event behind what was sent."""
        headers = self._sent_headers
        return (
            find_header(headers, b"content-type").lower().startswith(EVENT_STREAM.encode())
            and not find_header(headers, b"content-encoding")
            and not find_header(headers, b"content-length")
            and (not self._tail or self._tail.endswith(_ENDS_OF_EVENTS))
        )


class _AbortOnDisconnect:
    """A class, because every request needs one: a generator costs more."""

    def __init__(self, exchange: HttpExchange) -> None:
        self._exchange = exchange
        self._is_gone = False

    async def __aenter__(self) -> None:
        self._task = asyncio.current_task()
        self._watcher = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        await self._exchange.wait_for_disconnect()
        if not self._exchange.is_complete and self._task is not None:
            self._is_gone = True
            self._task.cancel()

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._watcher.cancel()
        if kind is asyncio.CancelledError and self._is_gone and self._task is not None:
            self._task.uncancel()
            raise ClientGone from None
