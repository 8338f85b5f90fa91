"""A gateway between sockets: an upstream that shows the bytes it got and sends the bytes it is told to."""

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from everturn.adapters.tracking import make_parts
from everturn.gateway import app
from everturn.gateway.server import serve_gateway
from everturn.gateway.values import GatewaySettings, Timing

MODEL = "claude-opus-5-5"
KEY = "sk-ant-api03-CANARY-key-of-the-client"
SSE = "text/event-stream; charset=utf-8"


class Seen(NamedTuple):
    """A request as the upstream got it."""

    line: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for each, value in self.headers if each.lower() == name), None)


class Connection:
    """The upstream's side of one request."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def chunk(self, data: bytes) -> None:
        self.send(b"%x\r\n%b\r\n" % (len(data), data))

    def begin_stream(self, content_type: str = SSE) -> None:
        head = f"HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\nrequest-id: req_1\r\n"
        self.send(head.encode() + b"transfer-encoding: chunked\r\n\r\n")

    def end_stream(self) -> None:
        self.send(b"0\r\n\r\n")

    def is_closed_within(self, seconds: float) -> bool:
        self.sock.settimeout(seconds)
        try:
            return self.sock.recv(1) == b""
        except TimeoutError:
            return False
        except OSError:
            return True


Answer = bytes | Callable[[Connection, Seen], None]


def reply(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", *headers]
    if not any(each.lower().startswith("content-type") for each in headers):
        lines.append("content-type: application/json")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def message(text: str = "Hello.", id: str = "msg_1", **usage: int) -> dict[str, Any]:
    counts = {"input_tokens": 10, "output_tokens": 5, **usage}
    return {
        "id": id, "type": "message", "role": "assistant", "model": MODEL,
        "content": [{"type": "text", "text": text}], "stop_reason": "end_turn", "stop_sequence": None,
        "usage": counts,
    }  # fmt: skip


def events(text: str = "Hello.", id: str = "msg_1") -> list[bytes]:
    """The events of a streamed reply."""
    whole = message(text, id)
    start = {**whole, "content": [], "stop_reason": None}
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    ends = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}}
    deltas = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": letter}}
        for letter in text
    ]
    found = [
        {"type": "message_start", "message": start}, block, {"type": "ping"}, *deltas,
        {"type": "content_block_stop", "index": 0}, ends, {"type": "message_stop"},
    ]  # fmt: skip
    return [f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode() for each in found]


class RawUpstream:
    """A server on a socket. `answers` are used in turn; the last one is repeated."""

    def __init__(self, *answers: Answer) -> None:
        self.answers: list[Answer] = list(answers) or [reply(json.dumps(message()).encode())]
        self.seen: list[Seen] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        with sock, sock.makefile("rb") as file:
            while (seen := _read_request(file)) is not None:
                self.seen.append(seen)
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                try:
                    if isinstance(answer, bytes):
                        sock.sendall(answer)
                    else:
                        answer(Connection(sock), seen)
                except OSError:
                    return


def _read_request(file: Any) -> Seen | None:
    line = file.readline().decode("latin-1").rstrip("\r\n")
    if not line:
        return None
    headers: list[tuple[str, str]] = []
    while (header := file.readline().decode("latin-1").rstrip("\r\n")) != "":
        name, _, value = header.partition(": ")
        headers.append((name, value))
    named = {name.lower(): value for name, value in headers}
    if named.get("transfer-encoding") == "chunked":
        body = b""
        while (size := int(file.readline(), 16)) > 0:
            body += file.read(size)
            file.readline()
        file.readline()
    else:
        body = file.read(int(named.get("content-length", 0)))
    return Seen(line, headers, body)


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


class Lab:
    """A running gateway and what is around it."""

    def __init__(self, gateway: app.Gateway, url: str, operator: str, folder: Path) -> None:
        self.gateway, self.url, self.operator, self.folder = gateway, url, operator, folder
        parts = urlsplit(url)
        assert parts.hostname
        assert parts.port
        self.address = (parts.hostname, parts.port)

    def ask(
        self,
        body: bytes | dict[str, Any] = b"",
        *,
        method: str = "POST",
        path: str = "/v1/messages",
        headers: dict[str, str] | None = None,
        address: str = "",
    ) -> Reply:
        where = urlsplit(address or self.url)
        connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=20)
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        sent = {"x-api-key": KEY, "content-type": "application/json", **(headers or {})}
        try:
            connection.request(method, path, data or None, sent)
            found = connection.getresponse()
            return Reply(
                found.status, {name.lower(): value for name, value in found.getheaders()}, found.read()
            )
        finally:
            connection.close()

    def raw(self, data: bytes) -> socket.socket:
        sock = socket.create_connection(self.address, timeout=20)
        sock.sendall(data)
        return sock

    def post(self, body: bytes, *headers: str) -> socket.socket:
        """A request for messages on a socket of its own."""
        lines = ["POST /v1/messages HTTP/1.1", "host: localhost", f"content-length: {len(body)}", *headers]
        return self.raw("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    def metric(self, name: str, **labels: str) -> float:
        return self.gateway.metrics.registry.get_sample_value(f"everturn_gateway_{name}", labels) or 0.0

    def settle(self) -> None:
        """Until no request is running and all replies are recorded."""
        wait_until(lambda: not self.metric("open_requests") and not self.gateway.recorder.is_busy)

    def transcripts(self) -> list[Path]:
        return sorted(self.folder.rglob("*.jsonl"))


def wait_until(is_so: Callable[[], bool], seconds: float = 5.0) -> None:
    ends = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < ends, "it did not happen in time"
        time.sleep(0.005)


@contextmanager
def open_lab(
    upstream: str,
    folder: Path,
    *,
    overrides: dict[str, Any] | None = None,
    operator_port: int | None = None,
    **settings: Any,
) -> Generator[Lab, None, None]:
    own = {name: settings.pop(name) for name in ("tokens", "log_request", "warn") if name in settings}
    parts = make_parts(None, config=None, folder=folder, **(overrides or {}))
    settings.setdefault("timing", PATIENT)
    gateway = app.make_gateway(GatewaySettings(parts=parts, upstream=upstream, **settings), **own)
    with serve_gateway(gateway, operator_port=operator_port, shutdown_seconds=1) as (url, operator):
        yield Lab(gateway, url, operator, folder)


# A loaded machine must not look like a slow store.
PATIENT = Timing(session=10.0, prepare=60.0, count=60.0, record=10.0)

OpenLab = Callable[..., Lab]


def opener(folder: Path) -> Iterator[OpenLab]:
    """A function that opens labs, each until the end of the test."""
    with ExitStack() as stack:

        def open_one(upstream: Any, name: str = "transcripts", **settings: Any) -> Lab:
            if isinstance(upstream, RawUpstream):
                stack.callback(upstream.close)
            url = upstream.url if isinstance(upstream, RawUpstream) else upstream
            return stack.enter_context(open_lab(url, folder / name, **settings))

        yield open_one
