"""Rolling restarts, with a real process: SIGTERM loses no reply that a client got (GW-16)."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from gateway.lab import MODEL, Connection, RawUpstream, Seen, events, wait_until
from postgres_server import sql

ASK = json.dumps(
    {
        "model": MODEL,
        "max_tokens": 50,
        "stream": True,
        "messages": [{"role": "user", "content": "Hello, how are you?"}],
    }
).encode()


class Started(NamedTuple):
    process: "subprocess.Popen[str]"
    address: tuple[str, int]
    operator: str

    def post(self, token: str) -> socket.socket:
        sock = socket.create_connection(self.address, timeout=20)
        head = f"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\nx-everturn-token: {token}\r\n"
        sock.sendall(head.encode() + b"content-length: %d\r\n\r\n" % len(ASK) + ASK)
        return sock

    def readiness(self) -> int:
        try:
            return urllib.request.urlopen(f"{self.operator}/readyz", timeout=5).status
        except urllib.error.HTTPError as problem:
            return problem.code


@contextmanager
def started(
    folder: Path, *words: str, environment: dict[str, str] | None = None
) -> Generator[Started, None, None]:
    command = [sys.executable, "-m", "everturn", "gateway", "--port", "0", "--operator-port", "0", *words]
    with subprocess.Popen(
        command,
        env={**os.environ, "XDG_DATA_HOME": str(folder), **(environment or {})},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    ) as process:
        try:
            assert process.stdout
            assert process.stderr
            host, _, port = process.stdout.readline().strip().rpartition("/")[2].rpartition(":")
            told = process.stderr.readline()
            yield Started(process, (host, int(port)), told.rpartition("metrics: ")[2].rpartition("/")[0])
        finally:
            process.kill()


class SlowUpstream(RawUpstream):
    """Sends the events of a reply one by one, the second half when it is told to."""

    def __init__(self) -> None:
        self.half, self.go = threading.Event(), threading.Event()
        super().__init__(self._answer)

    def _answer(self, connection: Connection, _: Seen) -> None:
        pieces = events("Hello, fine.", "msg_slow")
        connection.begin_stream()
        for piece in pieces[:5]:
            connection.chunk(piece)
        self.half.set()
        self.go.wait(20)
        for piece in pieces[5:]:
            connection.chunk(piece)
        connection.end_stream()


@pytest.fixture
def upstream() -> Iterator[SlowUpstream]:
    made = SlowUpstream()
    yield made
    made.go.set()
    made.close()


def make_token(folder: Path, tenant: str) -> tuple[str, list[str]]:
    """A token of the tenant, and the options for it."""
    from everturn.gateway.tokens import add_token

    return add_token(folder / "tokens.json", tenant, "manage", "x" * 43), [
        "--tokens",
        f"{folder}/tokens.json",
    ]


def read_all(sock: socket.socket) -> bytes:
    got = b""
    with sock:
        while piece := sock.recv(65536):
            got += piece
    return got


@pytest.mark.spec("GW-16")
def test_sigterm_lets_a_stream_end_records_it_and_releases_its_conversation(
    tmp_path: Path, postgres_url: str, tenant: str, upstream: SlowUpstream
):
    token, options = make_token(tmp_path, tenant)
    words = ("--upstream", upstream.url, "--set", f"store.url={postgres_url}", *options)
    with started(tmp_path, *words) as running:
        sock = running.post(token)
        assert upstream.half.wait(10)
        assert running.readiness() == 200
        running.process.send_signal(signal.SIGTERM)
        # It accepts nothing more, and says so, while the stream goes on.
        wait_until(lambda: not can_connect(running.address))
        assert running.readiness() == 503
        assert running.process.poll() is None
        upstream.go.set()
        got = read_all(sock)
        assert got.endswith(b"0\r\n\r\n")
        assert b"message_stop" in got
        assert running.process.wait(15) == 0
    lines = sql(postgres_url, "SELECT data FROM everturn.line WHERE tenant = $1 ORDER BY at", tenant)
    said = [json.loads(bytes(line))["message"]["content"] for (line,) in lines]
    assert [block[0]["text"] for block in said] == ["Hello, how are you?", "Hello, fine."]
    held = "SELECT holder, lease_until = '-infinity' FROM everturn.conversation WHERE tenant = $1"
    assert sql(postgres_url, held, tenant) == [("", True)]


@pytest.mark.spec("GW-16")
def test_a_stream_that_does_not_end_in_time_is_cut_off_and_kept_as_partial(
    tmp_path: Path, upstream: SlowUpstream
):
    token, options = make_token(tmp_path, "team")
    with started(tmp_path, "--upstream", upstream.url, "--shutdown-seconds", "1", *options) as running:
        sock = running.post(token)
        assert upstream.half.wait(10)
        began = time.monotonic()
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(15) == 0
        assert 0.9 < time.monotonic() - began < 8
        assert not read_all(sock).endswith(b"0\r\n\r\n")
    [partial] = (tmp_path / "everturn" / "gateway" / "team").rglob("partial-msg_slow.json")
    assert json.loads(partial.read_bytes())["content"] == [{"type": "text", "text": "He"}]


@pytest.mark.spec("GW-6", "GW-16")
@pytest.mark.parametrize("mode", ["observe", "manage"])
def test_a_request_that_is_not_answered_when_the_gateway_ends_is_told_so(tmp_path: Path, mode: str):
    asked, go = threading.Event(), threading.Event()

    def say_nothing(_: Connection, __: Seen) -> None:
        asked.set()
        go.wait(20)

    upstream = RawUpstream(say_nothing)
    words = ("--upstream", upstream.url, "--shutdown-seconds", "1", "--mode", mode)
    with started(tmp_path, *words) as running:
        waiting = running.post("none")
        # Its body is not complete.
        arriving = socket.create_connection(running.address, timeout=20)
        arriving.sendall(b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{")
        assert asked.wait(10)
        running.process.send_signal(signal.SIGTERM)
        answers = [read_all(each) for each in (waiting, arriving)]
        assert running.process.wait(15) == 0
    go.set()
    upstream.close()
    for answer in answers:
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 ")
        assert b"\r\nretry-after: 1\r\n" in head
        assert json.loads(body)["error"]["type"] == "everturn_ending"


def can_connect(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, timeout=1).close()
    except OSError:
        return False
    return True
