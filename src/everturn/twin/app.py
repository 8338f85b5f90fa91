"""The twin on a socket: an ASGI application, and the server that runs it.

`routes.py` routes the requests. Delays in a response (a slow first byte, a slow stream) are waited for on a
real clock; a virtual clock is moved forward instead.
"""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Collection, Generator, MutableMapping
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import parse_qsl

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from everturn.twin.access import check_access
from everturn.twin.clock import VirtualClock
from everturn.twin.routes import HttpRequest, dispatch, find_body_limit, too_large
from everturn.twin.service import Twin
from everturn.twin.sockets import bind_socket, url_of
from everturn.twin.values import ApiError, HttpResponse

AsgiMessage = MutableMapping[str, Any]
AsgiReceive = Callable[[], Awaitable[AsgiMessage]]
AsgiSend = Callable[[AsgiMessage], Awaitable[None]]
AsgiApp = Callable[[AsgiMessage, AsgiReceive, AsgiSend], Awaitable[None]]

# A request body above the limit is read to its end and discarded, so that the client can read the response.
# Above this size the connection is answered at once.
MAX_DRAINED_BYTES: Final = 256 * 1024 * 1024
# How long open connections may delay the shutdown.
SHUTDOWN_SECONDS: Final = 1


def make_app(twin: Twin, *, allowed_hosts: Collection[str] = ()) -> AsgiApp:
    """The twin as an ASGI application. It answers to localhost, IP addresses and `allowed_hosts`."""
    hosts = frozenset(name.lower() for name in allowed_hosts)

    async def serve(scope: AsgiMessage, receive: AsgiReceive, send: AsgiSend) -> None:
        if scope["type"] != "http":
            return
        try:
            response = await _handle(twin, scope, receive, hosts)
        except _ClientDisconnected:
            return
        await _send(twin, response, receive, send)

    return serve


class _ClientDisconnected(Exception):
    """The client disconnected before its request was complete, so there is nobody to answer."""


async def _handle(
    twin: Twin, scope: AsgiMessage, receive: AsgiReceive, allowed_hosts: Collection[str]
) -> HttpResponse:
    method, path, headers = scope["method"], scope["path"], _headers(scope["headers"])
    try:
        body = await _body(twin, receive, limit=find_body_limit(twin, path))
        check_access(method, headers, has_body=bool(body), allowed_hosts=allowed_hosts)
    except ApiError as error:
        return twin.error_response(error)
    query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
    return dispatch(twin, HttpRequest(method, path, headers, body, query))


def _headers(raw: list[tuple[bytes, bytes]]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in raw:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        headers[key] = f"{headers[key]},{text}" if key in headers else text
    return headers


async def _body(twin: Twin, receive: AsgiReceive, *, limit: int) -> bytes:
    parts: list[bytes] = []
    size, more = 0, True
    while more and size <= MAX_DRAINED_BYTES:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _ClientDisconnected
        more = message.get("more_body", False)
        part = message.get("body", b"")
        size += len(part)
        if size <= limit:
            parts.append(part)
    if size > limit:
        raise too_large(twin)
    return b"".join(parts)


# ── sending ──────────────────────────────────────────────────────────────────────────────────────


async def _send(twin: Twin, response: HttpResponse, receive: AsgiReceive, send: AsgiSend) -> None:
    if response.on_abandoned is not None and (cycle := getattr(send, "__self__", None)) is not None:
        cycle.on_abandoned = response.on_abandoned
    await _wait(twin, response.delay)
    if response.hangs_up and response.stream is None and not response.body:
        await _hang_up(receive, send)
        return
    if response.on_first_byte is not None:
        response.on_first_byte()
    headers = dict(response.headers)
    if response.stream is None and not response.hangs_up:
        headers["content-length"] = str(len(response.body))
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": response.status, "headers": raw})
    for chunk in response.chunks():
        await _wait(twin, chunk.wait)
        # Without a last message the server closes the connection in the middle of the response.
        more = response.hangs_up or not chunk.is_last
        await send({"type": "http.response.body", "body": chunk.data, "more_body": more})


async def _wait(twin: Twin, seconds: float) -> None:
    if seconds <= 0:
        return
    if isinstance(twin.clock, VirtualClock):
        twin.clock.advance(seconds)
    else:
        await asyncio.sleep(seconds)


async def _hang_up(receive: AsgiReceive, send: AsgiSend) -> None:
    """Close without a response. ASGI has no message for this, so we abort uvicorn's transport."""
    transport = getattr(getattr(send, "__self__", None), "transport", None)
    if transport is not None:
        transport.abort()
        while (await receive())["type"] != "http.disconnect":
            pass


# ── serving ──────────────────────────────────────────────────────────────────────────────────────


class _WatchedProtocol(AutoHTTPProtocol):
    """uvicorn's HTTP protocol, which also tells a response that its client is gone.

    ASGI reports this only until the last byte is sent, and a short stream is sent at once. If the client
    closes a connection from which it has not read everything, the system resets the connection; after
    everything was read, it is closed without an error.
    """

    def connection_lost(self, exc: Exception | None) -> None:
        cycle = getattr(self, "cycle", None)
        abandoned: Callable[[], None] | None = getattr(cycle, "on_abandoned", None)
        if abandoned is not None and (exc is not None or not getattr(cycle, "response_complete", True)):
            abandoned()
        super().connection_lost(exc)


class TwinServer(uvicorn.Server):
    """A uvicorn server without log output that reports when it is ready."""

    def __init__(
        self, twin: Twin, on_ready: Callable[[], None], *, allowed_hosts: Collection[str] = ()
    ) -> None:
        super().__init__(
            uvicorn.Config(
                make_app(twin, allowed_hosts=allowed_hosts),
                http=_WatchedProtocol,
                log_level="critical",
                access_log=False,
                lifespan="off",
                ws="none",
                server_header=False,
                timeout_graceful_shutdown=SHUTDOWN_SECONDS,
            )
        )
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self._on_ready()


@contextmanager
def serve_twin(twin: Twin, host: str = "127.0.0.1", port: int = 0) -> Generator[str, None, None]:
    """Serve the twin during a `with` block; yields its URL."""
    listener = bind_socket(host, port)
    ready = threading.Event()
    server = TwinServer(twin, ready.set)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        ready.wait(timeout=10)
        yield url_of(listener)
    finally:
        server.should_exit = True
        thread.join(timeout=10)
        listener.close()
