"""Limits of requests, and raw bytes that are not HTTP."""

import gzip
import json
import re
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from gateway.lab import MODEL, Connection, OpenLab, RawUpstream, Seen, events, message, reply, wait_until

from everturn.errors import UsageError
from everturn.gateway import relay
from everturn.gateway.bodies import UnreadableBody, decompress
from everturn.gateway.limits import CapSettings, Limits, change_limits
from everturn.gateway.start import load_settings

ASK = {"model": MODEL, "max_tokens": 100, "messages": [{"role": "user", "content": "Hello"}]}

POST = b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\n"


def body_of(size: int) -> bytes:
    return (
        json.dumps({**ASK, "x": ""}).encode()[:-2] + b"y" * (size - len(json.dumps({**ASK, "x": ""}))) + b'"}'
    )


@pytest.mark.parametrize(("size", "status"), [(999, 200), (1000, 200), (1001, 413)])
def test_the_body_has_a_limit_with_a_length_and_in_chunks(lab: OpenLab, size: int, status: int):
    upstream = RawUpstream()
    running = lab(upstream, limits=Limits(body_bytes=1000, upload_bytes=1000))
    body = body_of(size)
    assert len(body) == size
    assert running.ask(body).status == status
    for path in ("/v1/messages", "/v1/files"):
        head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
        with running.raw(head.encode() + b"%x\r\n%b\r\n0\r\n\r\n" % (size, body)) as sock:
            assert sock.recv(100).startswith(f"HTTP/1.1 {status}".encode())


@pytest.mark.parametrize(("size", "status"), [(9_999, 200), (10_000, 200), (10_001, 413)])
def test_a_compressed_body_has_a_limit_for_its_content(lab: OpenLab, size: int, status: int):
    upstream = RawUpstream()
    running = lab(upstream, limits=Limits(decompressed_bytes=10_000))
    sent = gzip.compress(body_of(size))
    found = running.ask(sent, headers={"content-encoding": "gzip"})
    assert found.status == status
    assert [each.body for each in upstream.seen] == ([sent] if status == 200 else [])
    if status == 200:
        assert (upstream.seen[0].header("content-encoding"), found.headers.get("x-everturn-note")) == (
            "gzip",
            None,
        )


def test_the_headers_have_a_limit_for_their_size_and_number(lab: OpenLab):
    running = lab(RawUpstream(), limits=Limits(header_bytes=4000, headers=20))
    line = "GET /v1/models HTTP/1.1\r\nhost: localhost\r\n"
    cases = {"x: " + "y" * 3800: 200, "x: " + "y" * 4000: 431, "\r\n".join(["x: y"] * 19): 200,
             "\r\n".join(["x: y"] * 20): 431}  # fmt: skip
    for headers, status in cases.items():
        with running.raw(f"{line}{headers}\r\n\r\n".encode()) as sock:
            assert sock.recv(100).startswith(f"HTTP/1.1 {status}".encode()), headers[:20]
    # Headers that never end are refused as soon as they are too large.
    with running.raw(f"{line}x: {'y' * 10_000}".encode()) as sock:
        assert sock.recv(100).startswith(b"HTTP/1.1 431")


def test_a_request_that_arrives_too_slowly_is_ended(lab: OpenLab):
    running = lab(RawUpstream(), limits=Limits(request_seconds=1))
    began = time.monotonic()
    with (
        running.raw(b"GET /v1/models HTTP/1.1\r\nhost: loc") as headers,
        running.raw(b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{") as body,
    ):
        assert headers.recv(100) == b""
        assert body.recv(100).startswith(b"HTTP/1.1 408")
    assert time.monotonic() - began < 4


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}] * 3}, ""),
        ({"messages": [{"role": "user", "content": "x"}] * 7}, "it has more messages than the limit"),
        ({"deep": 0}, "its JSON is nested too deep"),
    ],
)
def test_long_lists_and_deep_values_are_relayed_and_not_read(
    lab: OpenLab, change: dict[str, Any], reason: str
):
    body = (
        json.dumps({**ASK, **change}).encode().replace(b'"deep": 0', b'"deep": ' + b"[" * 5000 + b"]" * 5000)
    )
    upstream = RawUpstream()
    running = lab(upstream, limits=Limits(messages=6))
    found = running.ask(body)
    assert (found.status, upstream.seen[0].body) == (200, body)
    assert found.headers.get("x-everturn-note", "").removeprefix("not tracked: ") == reason
    assert running.gateway.metrics.passed_through == ({reason: 1} if reason else {})


def test_a_stream_has_a_longest_time(lab: OpenLab):
    def answer(connection: Connection, _: Seen) -> None:
        connection.begin_stream()
        for _ in range(100):
            connection.chunk(events()[0])
            time.sleep(0.1)

    running = lab(RawUpstream(answer), limits=Limits(stream_seconds=1))
    found = running.ask({**ASK, "stream": True})
    last = found.body.rpartition(b"event: ")[2]
    assert last.startswith(b'error\ndata: {"type":"error","error":{"type":"everturn_stream_too_long"')


def test_a_tenant_has_a_number_of_running_requests(lab: OpenLab):
    go, waiting = threading.Event(), threading.Semaphore(0)

    def answer(connection: Connection, _: Seen) -> None:
        waiting.release()
        go.wait(5)
        connection.send(reply(json.dumps(message()).encode()))

    running = lab(RawUpstream(answer), limits=Limits(requests=2))
    open_ones = [running.post(json.dumps(ASK).encode()) for _ in range(2)]
    for _ in open_ones:
        assert waiting.acquire(timeout=5)
    refused = running.ask(ASK)
    assert (refused.status, refused.headers["retry-after"]) == (429, "1")
    assert json.loads(refused.body)["error"]["type"] == "everturn_too_many_requests"
    go.set()
    for each in open_ones:
        assert each.recv(100).startswith(b"HTTP/1.1 200")
        each.close()
    wait_until(lambda: running.ask(ASK).status == 200)


AMBIGUOUS = [
    POST + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    POST + b"content-length: 5\r\ncontent-length: 6\r\n\r\nhello",
    POST + b"transfer-encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n",
    POST + b"content-length: -5\r\n\r\nhello",
    b"GET /v1/models HTTP/1.1\nhost: localhost\n\n",
    b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\nx : y\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET /v1/mod\x00els HTTP/1.1\r\nhost: localhost\r\n\r\n",
]


def test_ambiguous_framing_is_refused_and_others_are_served(lab: OpenLab):
    upstream = RawUpstream()
    running = lab(upstream)
    for data in AMBIGUOUS:
        with running.raw(data) as sock:
            got = sock.recv(1000)
        assert got == b"" or got.startswith(b"HTTP/1.1 400"), data
        assert running.ask(ASK).status == 200
    assert len(upstream.seen) == len(AMBIGUOUS)


@pytest.mark.spec("GW-20")
def test_trailers_are_not_headers_and_what_is_around_a_body_has_a_limit(lab: OpenLab):
    upstream = RawUpstream()
    running = lab(upstream, limits=Limits(header_bytes=4000))
    body = json.dumps(ASK).encode()
    head = POST + b"transfer-encoding: chunked\r\n\r\n"
    trailers = b"x-everturn-mode: manage\r\nx-api-key: other\r\nx-trailer: 1\r\n"
    for pause in (0.0, 0.1):
        with running.raw(head + b"%x\r\n%b\r\n0\r\n" % (len(body), body)) as sock:
            time.sleep(pause)
            sock.sendall(trailers + b"\r\n")
            received = sock.recv(4000)
        assert received.startswith(b"HTTP/1.1 200")
        assert b"x-everturn-mode: observe" in received
        seen = upstream.seen.pop()
        assert (seen.body, seen.header("x-api-key"), seen.header("x-trailer")) == (body, None, None)
    # A chunk for every byte is no attack.
    chunks = b"".join(b"1\r\n%c\r\n" % each for each in body_of(3000))
    with running.raw(head + chunks + b"0\r\n\r\n") as sock:
        assert sock.recv(100).startswith(b"HTTP/1.1 200")
    whole = b"%x\r\n%b\r\n0\r\n" % (len(body), body)
    for begun in (head + b"%x;" % len(body), head + whole + b"x: "):
        with running.raw(begun) as sock:
            # Not in one piece with the headers, which are read first.
            time.sleep(0.1)
            sock.sendall(b"y" * 60_000)
            assert Connection(sock).is_closed_within(5)
    assert running.ask(ASK).status == 200


@pytest.mark.spec("GW-7", "GW-20")
@pytest.mark.parametrize("mode", ["observe", "manage"])
def test_a_client_that_stops_to_read_holds_no_request_beyond_the_time_of_a_stream(
    lab: OpenLab, monkeypatch: pytest.MonkeyPatch, mode: str
):
    monkeypatch.setattr(relay, "TELL_SECONDS", 0.3)
    is_closed = threading.Event()

    def answer(connection: Connection, _: Seen) -> None:
        connection.begin_stream()
        with suppress(OSError):
            while True:
                connection.chunk(b": " + b"x" * 60_000 + b"\n\n")
        is_closed.set()

    running = lab(RawUpstream(answer), limits=Limits(stream_seconds=1, requests=1))
    with running.post(json.dumps({**ASK, "stream": True}).encode(), f"x-everturn-mode: {mode}") as sock:
        assert sock.recv(100).startswith(b"HTTP/1.1 200")
        wait_until(lambda: running.metric("open_requests") == 0)
        assert is_closed.wait(5)


CODINGS = [
    (b"gzip, chunked",), (b"Deflate , Chunked",), (b"gzip", b"chunked"),
    (b"identity, chunked",), (b"x;a=b,chunked",),
]  # fmt: skip


@pytest.mark.parametrize("path", [b"/v1/messages", b"/v1/files", b"/v1/messages/count_tokens"])
def test_a_transfer_coding_that_would_be_passed_on_without_its_name_is_refused(lab: OpenLab, path: bytes):
    upstream = RawUpstream()
    running = lab(upstream)
    body = gzip.compress(json.dumps(ASK).encode())
    for codings in CODINGS:
        head = b"POST %b HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n" % path
        head += b"".join(b"transfer-encoding: %b\r\n" % coding for coding in codings)
        with running.raw(head + b"\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)) as sock:
            answer = sock.makefile("rb").read()
        assert answer.startswith(b"HTTP/1.1 501 Not Implemented\r\n"), codings
        error = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
        assert error["type"] == "everturn_unknown_transfer_coding"
        assert error["message"] == (
            "The request has a transfer coding other than 'chunked', which the gateway does not decode. Send "
            "the body without it, or name its compression in content-encoding."
        )
    assert upstream.seen == []
    plain = json.dumps(ASK).encode()
    head = b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\nTransfer-Encoding: \tChunked \r\n\r\n"
    with running.raw(head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(plain), plain)) as sock:
        assert sock.recv(100).startswith(b"HTTP/1.1 200")
    assert [each.body for each in upstream.seen] == [plain]


def test_a_request_with_two_hosts_is_refused(lab: OpenLab):
    running = lab(RawUpstream())
    with running.raw(POST + b"host: other.example\r\ncontent-length: 2\r\n\r\n{}") as sock:
        assert sock.recv(100).startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize("depth", [100, 400, 700, 950, 1100])
def test_content_that_is_nested_deep_is_relayed_and_no_failure(lab: OpenLab, depth: int):
    running = lab(RawUpstream())
    value = "[" * depth + "]" * depth
    empty = {"type": "tool_result", "tool_use_id": "toolu_1", "content": []}
    ask = {**ASK, "messages": [{"role": "user", "content": [empty]}]}
    body = json.dumps(ask).replace('"content": []', f'"content": {value}')
    note = running.ask(body.encode()).headers.get("x-everturn-note", "")
    assert note in ("", "not tracked: its JSON is nested too deep")
    assert not running.gateway.metrics.degradations


def test_content_that_is_compressed_in_parts_is_read_as_a_whole():
    body = json.dumps(ASK).encode()
    parts = [gzip.compress(body[:40]), gzip.compress(body[40:60]), gzip.compress(body[60:])]
    for pieces in (parts, [b"".join(parts)], [bytes([each]) for each in b"".join(parts)]):
        assert b"".join(decompress(pieces, "gzip", 1000)) == body
    with pytest.raises(UnreadableBody, match="too many parts"):
        list(decompress([gzip.compress(b"") * 100_000], "gzip", 1000))
    with pytest.raises(UnreadableBody, match="damaged"):
        list(decompress([gzip.compress(body) + b"more"], "gzip", 1000))


def test_limits_are_changed_by_name():
    limits, caps = change_limits({"messages": "5", "tenant_dollars": "1.5"})
    assert (limits, caps) == (Limits(messages=5), CapSettings(tenant_dollars=1.5))
    with pytest.raises(UsageError, match="There is no limit 'mesages'"):
        change_limits({"mesages": "5"})
    with pytest.raises(UsageError, match="is 'many'; give a whole number from 0 to "):
        change_limits({"messages": "many"})


@pytest.mark.spec("GW-20")
@pytest.mark.parametrize(("settings", "most"), [({}, 4096), ({"limits.conversations": "32"}, 32)])
def test_a_thousand_open_conversations_stay_in_memory_unless_the_operator_limits_them(
    settings: dict[str, str], most: int
):
    loaded = load_settings(upstream="", mode=None, settings=settings, config_path=None, limits={})
    assert (loaded.parts.options.limits.conversations, loaded.limits.memory_bytes) == (most, 384 << 20)


def test_every_limit_has_its_default_in_the_manual():
    page = (Path(__file__).parents[2] / "docs" / "gateway.md").read_text(encoding="utf-8")
    shown: dict[str, str] = {}
    for names, values in re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| ([^|]+) \|", page, re.MULTILINE):
        shown |= zip(re.findall(r"\w+", names), re.split(r", (?=\d)", values), strict=False)
    defaults = msgspec.to_builtins(Limits()) | msgspec.to_builtins(CapSettings())

    def spell(value: float) -> set[str]:
        return {f"{value:,.0f}", f"{value / (1 << 20):,.0f} MiB"}

    assert {name: shown.get(name, "") in spell(value) for name, value in defaults.items()} == dict.fromkeys(
        defaults, True
    )
