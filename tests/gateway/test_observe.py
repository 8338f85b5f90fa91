"""Observe mode: what arrives is what was sent, byte for byte, and as soon as it was sent."""

import gzip
import json
import socket
import threading
import time

import pytest
from click.testing import CliRunner
from gateway.lab import (
    KEY,
    MODEL,
    Connection,
    OpenLab,
    RawUpstream,
    Reply,
    Seen,
    events,
    message,
    reply,
    wait_until,
)

from everturn.cli import main

# Whitespace, key order, number spellings, escapes and unknown fields that a JSON library would change.
ODD = (
    b' {"zzz" :1.0e0, "model":"%b",\n"max_tokens": 100,  "messages": [{"content":"caf\\u00e9 \\/ \xc3\xa9",'
    b'"role":"user","future":null}], "temperature": 1.000, "big": 12345678901234567890123, "a":{"b":[ ]}}\n'
) % MODEL.encode()
ASK = {"model": MODEL, "max_tokens": 100, "messages": [{"role": "user", "content": "Hello"}]}
HOP_BY_HOP = {
    "connection",
    "keep-alive",
    "te",
    "proxy-authorization",
    "x-named-in-connection",
    "transfer-encoding",
}


@pytest.mark.spec("GW-3", "GW-4")
def test_a_request_arrives_upstream_as_it_was_sent(lab: OpenLab):
    upstream = RawUpstream()
    headers = {
        "anthropic-version": "2023-06-01",
        "anthropic-beta": "a-1,b-2, future-3",
        "anthropic-unknown-thing": "kept  as it is",
        "authorization": "Bearer of-the-client",
        "user-agent": "agent/1",
        "accept-encoding": "gzip, deflate",
        "x-claude-code-session-id": "s1",
    }
    lost = {
        "te": "trailers", "proxy-authorization": "Basic x", "connection": "keep-alive, x-named-in-connection",
        "keep-alive": "timeout=5", "x-named-in-connection": "1", "x-everturn-mode": "observe",
    }  # fmt: skip
    lab(upstream).ask(ODD, path="/v1/messages?beta=true&x=%2F+y", headers={**headers, **lost})
    seen = upstream.seen[0]
    assert seen.line == "POST /v1/messages?beta=true&x=%2F+y HTTP/1.1"
    assert seen.body == ODD
    got = {name.lower(): value for name, value in seen.headers}
    assert got == {
        **headers,
        "host": upstream.url.removeprefix("http://"),
        "x-api-key": KEY,
        "content-type": "application/json",
        "content-length": str(len(ODD)),
    }


@pytest.mark.spec("GW-3", "GW-6")
@pytest.mark.parametrize(
    ("status", "body"),
    [
        ("200 OK", b'{ "id":"msg_1" , "x":1.0e0,"content" : [ ] }\n'),
        ("400 Bad Request", b'{"type":"error","error":{"type":"a_b","message":"prompt is too long"}}'),
        ("429 Too Many Requests", b'{"type":"error", "error":{"type":"rate_limit_error","message":"slow"}}'),
        ("529 Overloaded", b"<html>not JSON</html>"),
        ("302 Found", b""),
    ],
)  # fmt: skip
def test_a_response_arrives_as_it_was_sent(lab: OpenLab, status: str, body: bytes):
    headers = (
        "request-id: req_9",
        "retry-after: 7",
        "location: http://127.0.0.1:1/",
        "anthropic-new: ü",
        "x-a: 1",
    )
    upstream = RawUpstream(reply(body, status, *headers))
    found = lab(upstream).ask(ASK)
    assert (found.status, found.body) == (int(status[:3]), body)
    kept = {"request-id": "req_9", "retry-after": "7", "location": "http://127.0.0.1:1/", "x-a": "1"}
    assert {name: found.headers[name] for name in kept} == kept
    assert "server" not in found.headers
    assert len(upstream.seen) == 1


@pytest.mark.spec("GW-9")
def test_every_response_names_its_session_and_mode(lab: OpenLab):
    running = lab(RawUpstream())
    said = [
        *ASK["messages"],
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "Go on"},
    ]
    found = [
        running.ask(ASK),
        running.ask({**ASK, "messages": said}, headers={"x-everturn-mode": "manage"}),
        running.ask(b"no JSON"),
    ]
    assert [each.headers["x-everturn-mode"] for each in found] == ["observe", "manage", "observe"]
    assert found[0].headers["x-everturn-session"] == found[1].headers["x-everturn-session"] != "none"
    assert [each.headers.get("x-everturn-note") for each in found] == [
        None,
        None,
        "not tracked: it is not JSON",
    ]
    wrong = running.ask(ASK, headers={"x-everturn-mode": "both"})
    assert (wrong.status, json.loads(wrong.body)["error"]["type"]) == (400, "everturn_invalid_mode")
    assert wrong.headers["x-everturn-session"] == "none"


OTHERS = [
    ("POST", "/v1/messages/count_tokens?beta=true", b'{ "model": 1 }'),
    ("GET", "/v1/models?limit=1000", b""),
    ("DELETE", "/v1/files/file_1", b""),
    ("PUT", "/v1/something/new%2Fer", b"\x00\xffbinary"),
    ("HEAD", "/", b""),
    ("HEAD", "/api/hello", b""),
]


@pytest.mark.spec("GW-4")
def test_other_endpoints_are_relayed_as_they_are(lab: OpenLab):
    def answer(connection: Connection, seen: Seen) -> None:
        body = b"" if seen.line.startswith("HEAD") else b'{ "x" : 1.0 }'
        connection.send(reply(body, "200 OK", "anthropic-new: 1"))

    upstream = RawUpstream(answer)
    running = lab(upstream)
    for method, path, body in OTHERS:
        found = running.ask(body, method=method, path=path)
        assert (found.status, found.headers["anthropic-new"]) == (200, "1")
        assert found.body == (b"" if method == "HEAD" else b'{ "x" : 1.0 }')
        assert (upstream.seen[-1].line, upstream.seen[-1].body) == (f"{method} {path} HTTP/1.1", body)


def test_a_body_in_chunks_arrives_upstream(lab: OpenLab):
    upstream = RawUpstream()
    running = lab(upstream)
    for path in ("/v1/messages", "/v1/files"):
        head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n".encode()
        sock = running.raw(head + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
        assert sock.recv(100).startswith(b"HTTP/1.1 200")
        sock.close()
    assert [each.body for each in upstream.seen] == [b"abcde", b"abcde"]


def read_chunks(sock: socket.socket) -> bytes:
    """The body of a chunked response."""
    with sock, sock.makefile("rb") as file:
        while file.readline() not in (b"\r\n", b""):
            pass
        body = b""
        while (size := int(file.readline() or b"0", 16)) > 0:
            body += file.read(size)
            file.readline()
        return body


@pytest.mark.spec("GW-3", "GW-5")
def test_a_stream_cut_at_every_byte_arrives_as_it_was_sent(lab: OpenLab):
    stream = b": a comment\n\n" + b"".join(events("é\r\n")) + b"event: future\ndata: {}\n\n"

    def answer_cut_at(at: int):
        def answer(connection: Connection, _: Seen) -> None:
            connection.begin_stream()
            connection.chunk(stream[:at])
            connection.chunk(stream[at:])
            connection.end_stream()

        return answer

    cuts = range(1, len(stream), 7)
    running = lab(RawUpstream(*map(answer_cut_at, cuts)))
    for at in cuts:
        body = json.dumps({**ASK, "stream": True, "messages": [{"role": "user", "content": f"cut {at}"}]})
        assert read_chunks(running.post(body.encode())) == stream
    running.settle()
    assert running.metric("degradations_total", reason="a record is late") in range(len(cuts))
    assert running.gateway.metrics.calls == len(cuts)


@pytest.mark.spec("GW-5")
def test_each_event_leaves_when_it_arrives(lab: OpenLab):
    arrived = threading.Semaphore(0)
    sent = events("Hello")

    def answer(connection: Connection, _: Seen) -> None:
        connection.begin_stream()
        for each in sent:
            connection.chunk(each)
            assert arrived.acquire(timeout=5), "the event before did not arrive"
        connection.end_stream()

    sock = lab(RawUpstream(answer)).post(json.dumps({**ASK, "stream": True}).encode())
    got = b""
    for at in range(len(sent)):
        while not got.endswith(sent[at] + b"\r\n"):
            piece = sock.recv(65536)
            assert piece
            got += piece
        arrived.release()
    assert sock.recv(100) == b"0\r\n\r\n"
    sock.close()


@pytest.mark.spec("GW-7")
def test_a_client_that_disconnects_ends_the_call_upstream_and_what_arrived_is_kept(lab: OpenLab):
    closed: list[float] = []

    def answer(connection: Connection, _: Seen) -> None:
        connection.begin_stream()
        for each in events("Half a reply")[:6]:
            connection.chunk(each)
        began = time.monotonic()
        if connection.is_closed_within(5):
            closed.append(time.monotonic() - began)

    running = lab(RawUpstream(answer))
    sock = running.post(json.dumps({**ASK, "stream": True}).encode())
    got = b""
    while b'"l"' not in got:
        got += sock.recv(4096)
    sock.close()
    wait_until(lambda: bool(closed))
    assert closed[0] < 1
    running.settle()
    [partial] = running.folder.rglob("partial-msg_1.json")
    assert json.loads(partial.read_bytes())["content"] == [{"type": "text", "text": "Hal"}]
    assert running.gateway.tenants.bill.total.calls == 1
    told = json.loads(CliRunner().invoke(main, ["audit", str(running.folder), "--json"]).stdout)
    [row] = told["sessions"]
    assert row["path"] == str(partial).removesuffix(f".files/{partial.name}")
    assert told["asides"]["cut_off"]["dollars"] == float(running.gateway.tenants.bill.dollars) > 0


@pytest.mark.spec("GW-7")
def test_a_client_that_disconnects_before_the_first_byte_ends_the_call_upstream(lab: OpenLab):
    closed = threading.Event()
    asked = threading.Event()

    def answer(connection: Connection, _: Seen) -> None:
        asked.set()
        if connection.is_closed_within(5):
            closed.set()

    running = lab(RawUpstream(answer))
    sock = running.post(json.dumps(ASK).encode())
    assert asked.wait(5)
    sock.close()
    assert closed.wait(1)
    running.settle()


@pytest.mark.spec("GW-7")
def test_a_slow_reader_slows_its_own_upstream_and_nobody_else(lab: OpenLab):
    sent = 0

    def answer(connection: Connection, seen: Seen) -> None:
        nonlocal sent
        if b"slow" not in seen.body:
            connection.send(reply(json.dumps(message()).encode()))
            return
        connection.begin_stream()
        while True:
            connection.chunk(b"x" * 65536)
            sent += 65536

    running = lab(RawUpstream(answer))
    slow = running.post(
        json.dumps({**ASK, "stream": True, "messages": [{"role": "user", "content": "slow"}]}).encode()
    )
    wait_until(lambda: sent > 0)
    before = -1
    while before != sent:
        before = sent
        time.sleep(0.2)
    assert sent < 32 << 20
    assert running.ask(ASK).status == 200
    slow.close()
    running.settle()


def test_a_stream_that_the_upstream_cuts_off_is_cut_off(lab: OpenLab):
    def answer(connection: Connection, _: Seen) -> None:
        connection.begin_stream()
        connection.chunk(b"".join(events())[:300])
        connection.sock.shutdown(socket.SHUT_RDWR)

    sock = lab(RawUpstream(answer)).post(json.dumps({**ASK, "stream": True}).encode())
    with sock:
        got = b""
        while piece := sock.recv(65536):
            got += piece
    assert got.endswith(b"\r\n")
    assert not got.endswith(b"0\r\n\r\n")


@pytest.mark.spec("GW-6")
def test_an_upstream_that_is_not_there_is_an_error_that_helps(lab: OpenLab):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    found = lab(f"http://127.0.0.1:{port}").ask(ASK)
    error = json.loads(found.body)
    assert (found.status, error["type"]) == (502, "error")
    assert error["error"]["type"] == "everturn_upstream_unreachable"
    assert "--upstream" in error["error"]["message"]


def test_a_compressed_reply_is_relayed_compressed_and_recorded(lab: OpenLab):
    body = gzip.compress(json.dumps(message()).encode())
    running = lab(RawUpstream(reply(body, "200 OK", "content-encoding: gzip")))
    found: Reply = running.ask(ASK, headers={"accept-encoding": "gzip, br"})
    assert (found.body, found.headers["content-encoding"]) == (body, "gzip")
    running.settle()
    assert running.gateway.tenants.bill.total.output == 5


def test_encodings_that_cannot_be_read_are_not_asked_for(lab: OpenLab):
    upstream = RawUpstream()
    lab(upstream).ask(ASK, headers={"accept-encoding": "br, gzip;q=0.8, zstd"})
    assert upstream.seen[0].header("accept-encoding") == "gzip;q=0.8"


@pytest.mark.spec("GW-9")
def test_a_reply_that_cannot_be_recorded_is_relayed_and_told_with_the_next(lab: OpenLab):
    broken = reply(b'{"id": "msg_1", "content": [', "200 OK")
    running = lab(RawUpstream(broken, reply(json.dumps(message()).encode())))
    assert running.ask(ASK).body.endswith(b'"content": [')
    running.settle()
    assert running.ask(ASK).headers["x-everturn-note"].startswith("before this: a reply was not recorded")
    assert running.gateway.metrics.degradations == {"a reply was not recorded: it is not JSON": 1}


def test_an_error_inside_a_stream_is_relayed_and_is_not_a_reply(lab: OpenLab):
    error = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"x"}}\n\n'

    def answer(connection: Connection, _: Seen) -> None:
        connection.begin_stream()
        connection.chunk(events()[0] + error)
        connection.end_stream()

    running = lab(RawUpstream(answer))
    assert read_chunks(running.post(json.dumps({**ASK, "stream": True}).encode())) == events()[0] + error
    running.settle()
    assert list(running.folder.rglob("partial-msg_1.json"))


@pytest.mark.spec("GW-7", "GW-21")
def test_a_stream_whose_client_closes_it_behind_its_last_event_is_a_reply(lab: OpenLab):
    def answer(connection: Connection, _: Seen) -> None:
        connection.begin_stream("Text/Event-Stream")
        connection.chunk(b"".join(events()))
        connection.is_closed_within(5)

    running = lab(RawUpstream(answer))
    sock = running.post(json.dumps({**ASK, "stream": True}).encode())
    got = b""
    while b"message_stop" not in got:
        got += sock.recv(4096)
    sock.close()
    running.settle()
    assert list(running.folder.rglob("partial-*.json")) == []
    [transcript] = running.transcripts()
    assert '"text":"Hello."' in transcript.read_text()


@pytest.mark.spec("GW-7")
def test_a_client_that_disconnects_ends_all_its_pipelined_calls_upstream(lab: OpenLab):
    """The server told the newest request only, and the one that was running went on without a reader."""
    asked, closed = threading.Event(), threading.Event()

    def answer(connection: Connection, _: Seen) -> None:
        asked.set()
        if connection.is_closed_within(5):
            closed.set()

    running = lab(RawUpstream(answer))
    body = json.dumps(ASK).encode()
    head = f"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    sock = running.raw((head + body) * 3)
    assert asked.wait(5)
    sock.close()
    assert closed.wait(1)
    running.settle()
    assert running.gateway.metrics.degradations == {}
