"""Where HTTP has corners: upgrades, lengths without a body, ends of streams, bytes in headers."""

import asyncio
import json
import socket
import time
import zlib
from typing import Any

import pytest
import uvicorn
from gateway.lab import MODEL, Connection, Lab, OpenLab, RawUpstream, Seen, events, message, reply, wait_until
from uvicorn.server import ServerState

from everturn.gateway.limits import Limits
from everturn.gateway.server import LimitedProtocol
from everturn.gateway.values import Timing

ASK = json.dumps(
    {"model": MODEL, "max_tokens": 100, "messages": [{"role": "user", "content": "Hello"}]}
).encode()
# A body that is a request of its own, for who reads it as one.
INNER = b"DELETE /v1/files/secret HTTP/1.1\r\nhost: localhost\r\n\r\n"
GET = b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"
UPGRADES = {
    "h2c": b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAA\r\n",
    "websocket": b"upgrade: websocket\r\nconnection: keep-alive, upgrade\r\nsec-websocket-version: 13\r\n",
    "twice": b"Upgrade: TLS/1.2\r\nConnection: UPGRADE\r\nUpgrade: x/1\r\nConnection: upgrade\r\n",
}
FRAMES = {
    "length": b"content-length: %d\r\n\r\n%b" % (len(INNER), INNER),
    "chunks": b"transfer-encoding: chunked\r\n\r\n5\r\n%b\r\n%x\r\n%b\r\n0\r\n\r\n"
    % (INNER[:5], len(INNER) - 5, INNER[5:]),
    "trailers": b"transfer-encoding: chunked\r\n\r\n%x\r\n%b\r\n" % (len(INNER), INNER)
    + b"0\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n",
}


def read_all(sock: socket.socket) -> bytes:
    received = b""
    with sock:
        while piece := sock.recv(65536):
            received += piece
    return received


def requests_of(upstream: RawUpstream) -> list[tuple[str, bytes]]:
    return [(each.line, each.body) for each in upstream.seen]


# ── upgrades ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
@pytest.mark.parametrize("upgrade", UPGRADES.values(), ids=UPGRADES)
@pytest.mark.parametrize("is_in_bytes", [False, True])
def test_a_request_to_upgrade_the_connection_is_served_with_its_body_and_so_is_the_next(
    lab: OpenLab, upgrade: bytes, frame: bytes, is_in_bytes: bool
):
    upstream = RawUpstream(OK)
    data = b"POST /v1/files?a=b HTTP/1.1\r\nhost: localhost\r\n" + upgrade + frame + GET
    with lab(upstream).raw(b"") as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start in range(0, len(data), 1 if is_in_bytes else len(data)):
            sock.sendall(data[start : start + 1] if is_in_bytes else data)
            time.sleep(0.0005)
        answer = read_all(sock)
    assert requests_of(upstream) == [
        ("POST /v1/files?a=b HTTP/1.1", INNER),
        ("GET /v1/models HTTP/1.1", b""),
    ]
    assert answer.count(b"HTTP/1.1 200 OK\r\n") == 2
    names = {name.lower() for name, _ in upstream.seen[0].headers}
    assert names & {"upgrade", "connection", "http2-settings"} == set()


class Wire(asyncio.Transport):
    """A transport to nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self.is_closed = False

    def write(self, data: Any) -> None:
        pass

    def close(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
@pytest.mark.parametrize("upgrade", UPGRADES.values(), ids=UPGRADES)
async def test_an_upgrade_is_ignored_wherever_the_pieces_are_split(upgrade: bytes, frame: bytes):
    served: list[tuple[str, str, bytes]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message["body"], message["more_body"]
        served.append((scope["method"], scope["path"], body))
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    config = uvicorn.Config(app, ws="none", lifespan="off", log_config=None, interface="asgi3")
    one = b"POST /v1/files HTTP/1.1\r\nhost: localhost\r\n" + upgrade + frame
    data = one + one + GET
    for split in range(1, len(data)):
        served.clear()
        state, wire = ServerState(), Wire()
        protocol = LimitedProtocol(config, state, {}, asyncio.get_running_loop())
        protocol.connection_made(wire)
        for piece in (data[:split], data[split:]):
            protocol.data_received(piece)
            while state.tasks and not protocol.cycle.more_body:
                await asyncio.sleep(0)
        protocol.connection_lost(None)
        assert served == [("POST", "/v1/files", INNER)] * 2 + [("GET", "/v1/models", b"")], split


@pytest.mark.parametrize("rest", [b"content-length: %d\r\n" % len(INNER), b""])
def test_nothing_that_follows_a_connect_is_read_as_a_request(lab: OpenLab, rest: bytes):
    upstream = RawUpstream(OK)
    logged: list[tuple[str, int]] = []
    running = lab(upstream, log_request=lambda exchange: logged.append((exchange.method, exchange.status)))
    sock = running.raw(b"CONNECT /v1/x HTTP/1.1\r\nhost: localhost\r\n" + rest + b"\r\n" + INNER)
    assert read_all(sock).startswith(b"HTTP/1.1 405 Method Not Allowed\r\n")
    running.settle()
    assert (logged, upstream.seen) == ([("CONNECT", 405)], [])


# ── ends of streams ──────────────────────────────────────────────────────────────────────────────────


def half_an_event(connection: Connection, _: Seen) -> None:
    connection.begin_stream()
    connection.chunk(events()[0])
    connection.chunk(events()[1][:60])
    time.sleep(2)


def compressed_events(connection: Connection, _: Seen) -> None:
    packer = zlib.compressobj(wbits=31)
    connection.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\n")
    connection.send(b"transfer-encoding: chunked\r\n\r\n")
    connection.chunk(packer.compress(events()[0]) + packer.flush(zlib.Z_SYNC_FLUSH))
    time.sleep(2)


def events_of_known_length(connection: Connection, _: Seen) -> None:
    connection.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 5000\r\n\r\n")
    connection.send(events()[0])
    time.sleep(2)


@pytest.mark.spec("GW-6")
@pytest.mark.parametrize(
    "settings", [{"timing": Timing(silence=0.3, session=10.0)}, {"limits": Limits(stream_seconds=1)}]
)
@pytest.mark.parametrize("answer", [half_an_event, compressed_events, events_of_known_length])
def test_a_stream_to_which_no_event_can_be_added_is_cut(lab: OpenLab, answer: Any, settings: Any):
    told: list[str] = []
    received = read_all(lab(RawUpstream(answer), warn=told.append, **settings).post(ASK))
    assert (b"everturn_upstream_silent" in received, b"everturn_stream_too_long" in received) == (
        False,
        False,
    )
    assert (received.endswith(b"0\r\n\r\n"), told) == (False, [])


@pytest.mark.spec("GW-6")
@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n"])
def test_an_error_is_added_behind_an_event_whose_end_came_in_pieces(lab: OpenLab, end: bytes):
    def answer(connection: Connection, _: Seen) -> None:
        connection.begin_stream()
        connection.chunk(b"event: ping")
        for byte in end:
            time.sleep(0.05)
            connection.chunk(bytes([byte]))
        time.sleep(2)

    running = lab(RawUpstream(answer), timing=Timing(silence=0.5, session=10.0))
    told = (
        b'event: error\ndata: {"type":"error","error":{"type":"everturn_upstream_silent","message":"The '
        b"upstream sent nothing for 0.5 s, so the response is not complete. Send the request again."
        b'"}}\n\n'
    )
    assert running.ask(ASK).body == b"event: ping" + end + told


# ── headers ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("method", "status", "kept"),
    [
        (b"GET", b"304 Not Modified", b""),
        (b"HEAD", b"304 Not Modified", b"content-length: 10\r\n"),
        (b"GET", b"204 No Content", b""),
        (b"HEAD", b"204 No Content", b""),
    ],
)
def test_a_length_without_a_body_is_no_defect(lab: OpenLab, method: bytes, status: bytes, kept: bytes):
    told: list[str] = []
    head = b"HTTP/1.1 " + status + b"\r\n"
    running = lab(RawUpstream(head + b"content-length: 10\r\netag: x\r\n\r\n"), warn=told.append)
    asked = method + b" /v1/models HTTP/1.1\r\nhost: localhost\r\n"
    # The connection goes on: there are two answers.
    received = read_all(running.raw(asked + b"\r\n" + asked + b"connection: close\r\n\r\n"))
    own = b"etag: x\r\nx-everturn-session: none\r\nx-everturn-mode: observe\r\n"
    answer = head + kept + own
    assert (received, told) == (answer + b"\r\n" + answer + b"connection: close\r\n\r\n", [])


@pytest.mark.spec("GW-6")
@pytest.mark.parametrize("value", [b"a\x01b", b"a\x7fb"])
def test_a_control_character_in_a_header_of_the_upstream_is_a_bad_gateway(lab: OpenLab, value: bytes):
    upstream = RawUpstream(b"HTTP/1.1 200 OK\r\nx-a: " + value + b"\r\ncontent-length: 2\r\n\r\n{}")
    told: list[str] = []
    running = lab(upstream, warn=told.append)
    message = (
        f"The upstream {upstream.url} answered with a control character in a header. Check the gateway's "
        "--upstream."
    )
    error = {"type": "error", "error": {"type": "everturn_upstream_invalid", "message": message}}
    for found in (running.ask(ASK), running.ask(method="GET", path="/v1/models")):
        assert (found.status, json.loads(found.body)) == (502, error)
    assert told == []


@pytest.mark.spec("GW-4")
@pytest.mark.parametrize(
    "line", ["GET /v1/models", "DELETE /v1/files/a", "POST /v1/files", "POST /v1/messages"]
)
def test_header_values_of_requests_without_a_body_arrive_byte_for_byte(lab: OpenLab, line: str):
    upstream = RawUpstream(OK)
    sent = b"x-latin: caf\xe9 \xff\r\nx-utf: caf\xc3\xa9\r\nx-ascii: cafe\r\n"
    head = f"{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n".encode()
    read_all(lab(upstream).raw(head + sent + b"\r\n"))
    [seen] = upstream.seen
    assert [(name, value.encode("latin-1")) for name, value in seen.headers if name.startswith("x-")] == [
        ("x-latin", b"caf\xe9 \xff"),
        ("x-utf", b"caf\xc3\xa9"),
        ("x-ascii", b"cafe"),
    ]


# ── refusals ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("junk", [b"\x00\x01junk\r\n\r\n", b"GET / HTTP/1.1\r\nx: " + b"a" * 70_000])
@pytest.mark.parametrize("has_begun", [True, False])
def test_a_refusal_is_not_written_where_another_answer_is_due(lab: OpenLab, junk: bytes, has_begun: bool):
    def answer(connection: Connection, _: Seen) -> None:
        if has_begun:
            connection.begin_stream()
            connection.chunk(events()[0])
        time.sleep(2)

    upstream = RawUpstream(answer)
    running: Lab = lab(upstream)
    with running.post(ASK) as sock:
        wait_until(lambda: bool(upstream.seen))
        received = sock.recv(65536) if has_begun else b""
        while has_begun and not received.endswith(events()[0] + b"\r\n"):
            received += sock.recv(65536)
        sock.sendall(junk)
        try:
            rest = read_all(sock)
        except ConnectionResetError:
            # Closed with some of the junk unread.
            rest = b""
    assert rest == b""


def close_at_once(connection: Connection, _: Seen) -> None:
    connection.sock.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    ("answer", "kind", "told"),
    [
        (
            b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello!",
            "everturn_upstream_invalid",
            "answered with something that is not valid HTTP. Check the gateway's --upstream.",
        ),
        (
            b"SSH-2.0-OpenSSH\r\n",
            "everturn_upstream_invalid",
            "answered with something that is not valid HTTP. Check the gateway's --upstream.",
        ),
        (
            close_at_once,
            "everturn_upstream_unreachable",
            "cannot be reached (it closed the connection before it answered). Check the network, and the "
            "gateway's --upstream.",
        ),
    ],
)
def test_an_upstream_that_does_not_speak_http_is_told_from_one_that_cannot_be_reached(
    lab: OpenLab, answer: Any, kind: str, told: str
):
    upstream = RawUpstream(answer)
    found = lab(upstream).ask(ASK)
    error = {"type": "error", "error": {"type": kind, "message": f"The upstream {upstream.url} {told}"}}
    assert (found.status, json.loads(found.body)) == (502, error)


@pytest.mark.spec("GW-9")
def test_a_gateway_behind_another_one_leaves_its_session_and_mode_to_that_one(lab: OpenLab):
    behind = lab(RawUpstream(), "behind", mode="manage")
    asked = {**json.loads(ASK), "stream": "no boolean"}
    with lab(behind.url, "front").post(json.dumps(asked).encode()) as sock:
        head = sock.recv(65536).partition(b"\r\n\r\n")[0].decode().split("\r\n")
    own = [each.partition(": ") for each in head if each.startswith("x-everturn-")]
    assert [(name, value) for name, _, value in own if name != "x-everturn-session"] == [
        ("x-everturn-note", "not tracked: its stream is not a boolean"),
        ("x-everturn-mode", "observe"),
    ]
    assert sum(name == "x-everturn-session" for name, _, _ in own) == 1


@pytest.mark.parametrize("mode", ["observe", "manage"])
@pytest.mark.parametrize("is_kept", [True, False])
def test_a_client_of_http_1_0_gets_no_chunks(lab: OpenLab, mode: str, is_kept: bool):
    """It would take their sizes for content (RFC 9112 6.1)."""
    stream = b"".join(events())

    def answer(connection: Connection, _: Seen) -> None:
        connection.begin_stream()
        for each in events():
            connection.chunk(each)
        connection.end_stream()

    running = lab(RawUpstream(answer), mode=mode)
    body = ASK[:-1] + b', "stream": true}'
    lines = ["POST /v1/messages HTTP/1.0", "host: localhost", f"content-length: {len(body)}"]
    lines += ["connection: keep-alive"] * is_kept
    with running.raw("\r\n".join(lines).encode() + b"\r\n\r\n" + body) as sock:
        head, _, got = read_all(sock).partition(b"\r\n\r\n")
    assert got == stream
    assert b"transfer-encoding" not in head
    assert b"connection: close" in head


def test_a_client_of_http_1_0_gets_a_body_with_a_length_and_errors_as_any_other(lab: OpenLab):
    whole = json.dumps(message()).encode()
    running = lab(RawUpstream(reply(whole)))
    got: list[bytes] = []
    for path in (b"/v1/messages", b"/nowhere"):
        head = b"POST %b HTTP/1.0\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % (path, len(ASK))
        with running.raw(head + ASK) as sock:
            got.append(read_all(sock))
    assert got[0].endswith(b"\r\n\r\n" + whole)
    assert b"content-length: %d\r\n" % len(whole) in got[0]
    assert got[1].startswith(b"HTTP/1.1 404 ")


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/models"])
@pytest.mark.parametrize(
    "codings",
    [
        b"transfer-encoding: gzip, chunked\r\n",
        b"transfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n",
        b"transfer-encoding: gzip\r\n",
    ],
)
def test_an_answer_with_a_transfer_coding_that_would_be_passed_on_without_its_name_is_refused(
    lab: OpenLab, codings: bytes, path: str
):
    body = zlib.compress(json.dumps(message()).encode(), wbits=31)
    framed = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if b"chunked" in codings else body

    def answer(connection: Connection, _: Seen) -> None:
        connection.send(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n" + codings + b"\r\n" + framed)
        connection.sock.shutdown(socket.SHUT_WR)

    upstream = RawUpstream(answer)
    found = lab(upstream).ask(ASK, path=path)
    assert (found.status, json.loads(found.body)["error"]) == (
        502,
        {
            "type": "everturn_upstream_invalid",
            "message": f"The upstream {upstream.url} answered with a transfer coding other than 'chunked'. "
            "Check the gateway's --upstream.",
        },
    )
