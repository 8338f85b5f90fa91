"""Runs the gateway's two listeners with uvicorn.

uvicorn's parser has no limit for headers, and waits for them without end, so the protocol here has both. It
also takes what follows an `upgrade` for another protocol, which the gateway never speaks.
"""

import asyncio
import ctypes
import gc
import signal
import socket
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from http import HTTPStatus
from types import FrameType
from typing import Any, Final

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from everturn.errors import UsageError
from everturn.gateway.app import Gateway
from everturn.gateway.failures import GatewayError
from everturn.gateway.limits import Limits
from everturn.gateway.operator import OperatorApp
from everturn.session.hold_timers import end_holds
from everturn.twin.sockets import bind_socket, url_of

# Claude Code and the SDKs reuse connections; uvicorn closes idle ones after 5 s by default.
KEEP_ALIVE_SECONDS: Final = 75
# How long running requests may go on after SIGTERM. Our choice: most replies end in that time.
SHUTDOWN_SECONDS: Final = 30
# Who waits for a gateway to end is told why after this time. Our choice.
WAITING_SECONDS: Final = 2
# What has been cut off is recorded in this time. Our choice: the deadline of a store is 5 s.
END_SECONDS: Final = 10


# A chunk of one byte has five others around it: its size and two ends of lines.
MAX_CHUNK_OVERHEAD: Final = 6

# Objects made between two looks for garbage. Python's 700 is reached several times in a request. Our choice.
GARBAGE_THRESHOLDS: Final = (5_000, 20, 20)


def look_for_garbage_less() -> None:
    """For a process that only serves, when it has loaded its code: what is there now stays, and is not looked
    at again. Saves a twentieth of the processor time of a recorded request."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)


# Larger blocks come from the system, and go back to it at once. Our choice: nearly all bodies are smaller.
MAX_REUSED_BYTES: Final = 8 << 20
# So much free memory at the end of the heap is kept. Our choice.
MAX_FREE_BYTES: Final = 32 << 20
# Options of glibc's mallopt (malloc.h): free memory that is kept, blocks from the system, and heaps. With one
# heap, what one thread has freed serves the others.
_MALLOC_OPTIONS: Final = ((-1, MAX_FREE_BYTES), (-3, MAX_REUSED_BYTES), (-8, 1))


def reuse_freed_memory() -> None:
    """For a process that only serves, before it has threads. Each copy of a body of 2 MB would get 500 new
    pages from the system and give them back, which is a quarter of the processor time of a request: glibc
    keeps blocks that are smaller than one that was freed before, and the bodies of a conversation grow. Does
    nothing where there is no glibc."""
    try:
        set_option: Any = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    for name, value in _MALLOC_OPTIONS:
        set_option(name, value)


class _AnyLength(int):
    """The rest of a body whose length nobody knows, where uvicorn compares it with what is sent."""

    def __lt__(self, _: int) -> bool:
        return False

    def __sub__(self, _: int) -> "_AnyLength":
        return self


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, with a limit for the size of headers and a deadline for their arrival. Requests to
    upgrade the connection are served as plain HTTP/1.1, which RFC 9110 7.8 allows."""

    limits = Limits()

    _header_bytes = 0
    _is_in_headers = True
    # Whether the headers of a request were complete in what was received last.
    _has_new_headers = False
    # Of the current request: the bytes of its body, and those that came with it and are none.
    _body_bytes = 0
    _other_bytes = 0
    _deadline: asyncio.TimerHandle | None = None
    # The headers of a request that asks for an upgrade, without that, while they are not read again.
    _plain_head = b""
    # What follows is not HTTP, so nothing of it may be read.
    _is_deaf = False
    # Requests before the newest one that are not answered (pipelining).
    _earlier: Sequence[Any] = ()

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        for cycle in self._earlier:
            if not cycle.response_complete:
                cycle.disconnected = True
            cycle.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._has_new_headers = False
        self._unset_keepalive_if_required()
        try:
            self._parse(data)
        except httptools.HttpParserError:
            self.send_400_response("")
            return
        if self._is_in_headers:
            self._header_bytes += len(data)
            if self._header_bytes > self.limits.header_bytes:
                self._refuse(
                    GatewayError(431, "headers_too_large", "The headers of the request are too large.")
                )
            return
        # Headers that came in one piece with the beginning of a body are checked where they are read.
        self._other_bytes = 0 if self._has_new_headers else self._other_bytes + len(data)
        # Each chunk has at least a byte of the body. Extensions of chunks, and trailers, have none.
        if self._other_bytes > 2 * self.limits.header_bytes + MAX_CHUNK_OVERHEAD * self._body_bytes:
            self.transport.close()

    def _parse(self, data: bytes) -> None:
        """The parser ends a request for an upgrade after its headers, and would read its body as the next
        request. So those headers are read again without the upgrade, and the body after them."""
        rest = memoryview(data)
        while not self._is_deaf:
            try:
                self.parser.feed_data(rest)
                return
            except httptools.HttpParserUpgrade as upgrade:
                head, self._plain_head = self._plain_head, b""
                if not head:
                    self._is_deaf = True
                    return
                rest = rest[upgrade.args[0] :]
                self.parser = httptools.HttpRequestParser(self)
                # As uvicorn sets it.
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
                self.parser.feed_data(head)

    def on_header(self, name: bytes, value: bytes) -> None:
        # Not trailers: they come after the headers were checked, and are no part of what is relayed.
        if self._is_in_headers:
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        self._other_bytes -= len(body)
        super().on_body(body)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_headers = True
        if self._deadline is None:
            self._expect_headers()

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade():
            method = self.parser.get_method()
            if method != b"CONNECT":
                self._plain_head = self._make_plain_head(method)
                return
        before: Any = self.cycle
        if before is not None:
            # uvicorn knows the newest request only, and others may be served or wait before it.
            self._earlier = [each for each in (*self._earlier, before) if not each.response_complete]
        self._is_in_headers, self._header_bytes = False, 0
        self._has_new_headers = True
        self._body_bytes = self._other_bytes = 0
        self._stop_waiting()
        super().on_headers_complete()
        if self.parser.get_http_version() == "1.0":
            # It knows no chunks (RFC 9112 6.1): a body without a length ends with its connection.
            self.cycle.chunked_encoding = False
            self.cycle.expected_content_length = _AnyLength()
        if self.parser.should_upgrade():
            # CONNECT is an upgrade without a header. It is answered, and then there is nothing to say.
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        if not self._plain_head:
            super().on_message_complete()

    def _make_plain_head(self, method: bytes) -> bytes:
        """The headers that were read; none of their names and values can have the end of a line in it."""
        version = self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (method, self.url, version)]
        lines += (b"%b: %b" % each for each in self.headers if each[0] != b"upgrade")
        return b"\r\n".join([*lines, b"", b""])

    def _expect_headers(self) -> None:
        self._deadline = self.loop.call_later(self.limits.request_seconds, self._give_up)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        if self._is_in_headers:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """In place of uvicorn's, which is plain text."""
        self._refuse(
            GatewayError(
                400,
                "invalid_http",
                "The request is not valid HTTP/1.1. Send URL paths in ASCII, with other characters as %XX.",
            )
        )

    def _refuse(self, error: GatewayError) -> None:
        if self._is_answering():
            self.transport.close()
            return
        head = b"HTTP/1.1 %d %b\r\n" % (error.status, HTTPStatus(error.status).phrase.encode())
        size = b"content-length: %d\r\nconnection: close\r\n\r\n" % len(error.body)
        self.transport.write(head + b"content-type: application/json\r\n" + size + error.body)
        self.transport.close()

    def _is_answering(self) -> bool:
        """Whether an answer to an earlier request is due or has begun: a refusal would be taken for it, or
        for a part of it."""
        cycle: Any = self.cycle
        if cycle is None or cycle.response_complete:
            return False
        return bool(self.pipeline) or cycle.response_started or not cycle.more_body


def open_listener(host: str, port: int) -> socket.socket:
    """A socket that listens already: several can be bound to one port as long as none does, and requests
    would reach only one of them."""
    listener = bind_socket(host, port)
    try:
        listener.listen()
    except OSError as problem:
        listener.close()
        raise UsageError(
            f"Cannot listen on {host} port {port}: {problem.strerror}. Choose another with --port or --host."
        ) from None
    return listener


def make_protocol(limits: Limits) -> type[asyncio.Protocol]:
    """uvicorn makes the protocols itself, from a class."""

    class Protocol(LimitedProtocol):
        pass

    Protocol.limits = limits
    return Protocol


class GatewayServer(uvicorn.Server):
    """Serves clients, and the operator's listener beside it, until it is told to stop."""

    def __init__(
        self,
        gateway: Gateway,
        on_ready: Callable[[], None],
        operator: socket.socket | None,
        shutdown_seconds: int = SHUTDOWN_SECONDS,
    ) -> None:
        limits = gateway.settings.limits
        super().__init__(
            uvicorn.Config(
                gateway.serve, http=make_protocol(limits), lifespan="on",
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=shutdown_seconds, **_QUIET,
            )
        )  # fmt: skip
        self._gateway = gateway
        self._on_ready = on_ready
        self._loop: asyncio.AbstractEventLoop | None = None
        self._operator_socket = operator
        app = OperatorApp(gateway, gateway.settings.allowed_hosts)
        self._operator = _OperatorServer(
            uvicorn.Config(
                app, http=make_protocol(limits), lifespan="off", timeout_graceful_shutdown=1, **_QUIET
            )
        )

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        operator = None
        if self._operator_socket is not None:
            operator = asyncio.create_task(self._operator.serve(sockets=[self._operator_socket]))
        try:
            await super().serve(sockets=sockets)
        finally:
            self._operator.should_exit = True
            if operator is not None:
                await operator

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting, let running requests end, cut off those that do not in time, record all of them,
        and release the conversations (GW-16)."""
        # A load balancer that asks sends nothing more, while streams end.
        self._gateway.is_ready = False
        await super().shutdown(sockets=sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets=sockets)
        self._on_ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Told to end: streams may go on for a while, holds may not. Told again with Ctrl-C: streams may not
        either. uvicorn would leave everything as it is then, and nothing would be recorded."""
        end_holds()
        if self.should_exit and sig == signal.SIGINT:
            self.cut_off()
        else:
            super().handle_exit(sig, frame)

    def cut_off(self) -> None:
        """End what is still running, as at the end of `shutdown_seconds`. From any thread, and from a signal
        handler."""
        if self._loop is not None:
            # Nothing is left to be cut off when the loop has ended.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._cancel_running)

    def _cancel_running(self) -> None:
        for task in self.server_state.tasks:
            task.cancel()


class _OperatorServer(uvicorn.Server):
    """Signals are for the other server, which stops this one."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


_QUIET: Final[dict[str, Any]] = {
    "log_config": None, "log_level": "critical", "access_log": False, "ws": "none", "server_header": False,
    "date_header": False, "interface": "asgi3", "proxy_headers": False,
}  # fmt: skip


@contextmanager
def serve_gateway(
    gateway: Gateway,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    operator_port: int | None = None,
    shutdown_seconds: int = SHUTDOWN_SECONDS,
    on_waiting: Callable[[], None] = lambda: None,
) -> Generator[tuple[str, str], None, None]:
    """Serve a gateway in a thread during a `with` block; yields its address and the operator's, or "".
    `on_waiting` is called once if requests keep it from ending; Ctrl-C cuts them off."""
    listener = bind_socket(host, port)
    operator = bind_socket("127.0.0.1", operator_port) if operator_port is not None else None
    addresses = url_of(listener), url_of(operator) if operator else ""
    # Python takes a thread for ended whose `join` was interrupted.
    ready, ended = threading.Event(), threading.Event()
    server = GatewayServer(gateway, ready.set, operator, shutdown_seconds)

    def run() -> None:
        try:
            server.run(sockets=[listener])
        finally:
            ended.set()

    threading.Thread(target=run, daemon=True).start()
    try:
        ready.wait(timeout=10)
        yield addresses
    finally:
        server.should_exit = True
        try:
            if not ended.wait(WAITING_SECONDS):
                on_waiting()
                ended.wait(shutdown_seconds + 5 - WAITING_SECONDS)
        except KeyboardInterrupt:
            server.cut_off()
            ended.wait(END_SECONDS)
            raise
        finally:
            for each in (listener, operator):
                if each is not None:
                    each.close()
