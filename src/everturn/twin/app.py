"""The twin on a socket: an ASGI application and the server that runs it.

Routing is `routes.py`; here bytes come in and go out. Time in an answer (a slow first byte, a slow stream) is
waited for on a real clock, and stepped over on a virtual one.
"""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import parse_qsl

import uvicorn

from everturn.errors import UsageError
from everturn.twin.clock import VirtualClock
from everturn.twin.routes import HttpRequest, dispatch, too_large
from everturn.twin.service import Twin
from everturn.twin.values import ApiError, HttpResponse

AsgiMessage = MutableMapping[str, Any]
AsgiReceive = Callable[[], Awaitable[AsgiMessage]]
AsgiSend = Callable[[AsgiMessage], Awaitable[None]]
AsgiApp = Callable[[AsgiMessage, AsgiReceive, AsgiSend], Awaitable[None]]

# A body beyond the limit is read to its end, unkept, so that the client gets to see the answer; up to here.
MAX_DRAINED_BYTES: Final = 256 * 1024 * 1024
# How long open connections may delay the end of the server.
SHUTDOWN_SECONDS: Final = 1


def make_app(twin: Twin) -> AsgiApp:
    async def serve(scope: AsgiMessage, receive: AsgiReceive, send: AsgiSend) -> None:
        if scope["type"] != "http":
            return
        try:
            made = await _answer(twin, scope, receive)
        except _Gone:
            return
        await _send(twin, made, receive, send)

    return serve


class _Gone(Exception):
    """The client left before its request was whole: nobody asked anything, and nobody waits for an answer."""


async def _answer(twin: Twin, scope: AsgiMessage, receive: AsgiReceive) -> HttpResponse:
    try:
        body = await _body(twin, receive)
    except ApiError as refusal:
        return twin.refused(refusal)
    query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
    return dispatch(
        twin, HttpRequest(scope["method"], scope["path"], _headers(scope["headers"]), body, query)
    )


def _headers(raw: list[tuple[bytes, bytes]]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in raw:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        headers[key] = f"{headers[key]},{text}" if key in headers else text
    return headers


async def _body(twin: Twin, receive: AsgiReceive) -> bytes:
    parts: list[bytes] = []
    size, more = 0, True
    while more and size <= MAX_DRAINED_BYTES:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Gone
        more = message.get("more_body", False)
        part = message.get("body", b"")
        size += len(part)
        if size <= twin.options.max_body_bytes:
            parts.append(part)
    if size > twin.options.max_body_bytes:
        raise too_large(twin)
    return b"".join(parts)


# ── sending ──────────────────────────────────────────────────────────────────────────────────────


async def _send(twin: Twin, made: HttpResponse, receive: AsgiReceive, send: AsgiSend) -> None:
    await _wait(twin, made.delay)
    if made.hangs_up and made.stream is None and not made.body:
        await _hang_up(receive, send)
        return
    if made.begins is not None:
        made.begins()
    headers = dict(made.headers)
    if made.stream is None and not made.hangs_up:
        headers["content-length"] = str(len(made.body))
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": made.status, "headers": raw})
    for wait, part in made.stream or ():
        await _wait(twin, wait)
        await send({"type": "http.response.body", "body": part, "more_body": True})
    # Without this last message the server closes the connection in the middle of the response.
    await send({"type": "http.response.body", "body": made.body, "more_body": made.hangs_up})


async def _wait(twin: Twin, seconds: float) -> None:
    if seconds <= 0:
        return
    if isinstance(twin.clock, VirtualClock):
        twin.clock.advance(seconds)
    else:
        await asyncio.sleep(seconds)


async def _hang_up(receive: AsgiReceive, send: AsgiSend) -> None:
    """Close without a word. ASGI has no message for it, so we take uvicorn's own transport."""
    transport = getattr(getattr(send, "__self__", None), "transport", None)
    if transport is not None:
        transport.abort()
        while (await receive())["type"] != "http.disconnect":
            pass


# ── serving ──────────────────────────────────────────────────────────────────────────────────────


class TwinServer(uvicorn.Server):
    """uvicorn that says nothing but when it listens."""

    def __init__(self, twin: Twin, on_ready: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                make_app(twin),
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


def bind_socket(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP: asyncio switches Nagle's algorithm off only then, and with it on each answer costs 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as problem:
        listener.close()
        reason = problem.strerror or problem
        raise UsageError(
            f"Cannot listen on {host} port {port}: {reason}. Choose another with --port or --host."
        ) from None
    return listener


def url_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@contextmanager
def serve_twin(twin: Twin, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """The twin on a socket for the length of a `with` block; yields its URL."""
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
