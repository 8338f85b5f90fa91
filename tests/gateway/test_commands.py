"""`everturn gateway` and `everturn run`, as a person starts them."""

import fcntl
import http.client
import json
import os
import pty
import resource
import signal
import socket
import subprocess
import sys
import termios
import time
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner
from gateway.lab import Connection, RawUpstream, Seen, events

from everturn.cli import main
from everturn.errors import UsageError
from everturn.gateway.server import open_listener
from everturn.gateway.start import describe_costs
from everturn.session.store.migrations import Migration
from everturn.session.store.places import open_stores
from everturn.session.store.postgres.schema import MIGRATIONS
from everturn.session.store.postgres.stores import PostgresStores

ASK = b'{"model":"claude-haiku-4-5","max_tokens":50,"messages":[{"role":"user","content":"Hello"}]}'
CALL = (
    "import os, sys, urllib.request\n"
    "url = os.environ['ANTHROPIC_BASE_URL'] + '/v1/messages'\n"
    "request = urllib.request.Request(url, sys.argv[1].encode(),\n"
    "    {'content-type': 'application/json', 'x-api-key': os.environ['ANTHROPIC_API_KEY'],\n"
    "     'anthropic-version': '2023-06-01'})\n"
    "print(urllib.request.urlopen(request).status)\n"
    "sys.exit(3)\n"
)


@contextmanager
def started(folder: Path, *words: str) -> Generator["subprocess.Popen[str]", None, None]:
    env = {**os.environ, "XDG_DATA_HOME": str(folder)}
    command = [sys.executable, "-m", "everturn", *words]
    with subprocess.Popen(
        command, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


@pytest.mark.spec("GW-1")
@pytest.mark.skipif(not (is_free(8377) and is_free(8378)), reason="the gateway's default ports are in use")
def test_the_gateway_starts_without_options_and_prints_the_line_a_user_needs(tmp_path: Path):
    with started(tmp_path, "gateway") as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline() == "export ANTHROPIC_BASE_URL=http://127.0.0.1:8377\n"
        assert process.stderr.readline() == (
            "observe mode; upstream: https://api.anthropic.com; metrics: http://127.0.0.1:8378/metrics\n"
        )
        assert urllib.request.urlopen("http://127.0.0.1:8378/readyz").read() == b"ok\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0


@pytest.mark.spec("GW-1", "GW-21")
def test_it_can_be_tried_with_a_twin_inside_and_keeps_transcripts_and_an_access_log(tmp_path: Path):
    log = tmp_path / "access.log"
    words = ("--upstream", "twin", "--port", "0", "--operator-port", "0", "--access-log", str(log))
    with started(tmp_path, "gateway", *words) as process:
        assert process.stdout
        url = process.stdout.readline().strip().removeprefix("export ANTHROPIC_BASE_URL=")
        headers = {"content-type": "application/json", "x-api-key": "any", "anthropic-version": "2023-06-01"}
        request = urllib.request.Request(f"{url}/v1/messages?x=secret", ASK, headers)
        with urllib.request.urlopen(request) as answer:
            session = answer.headers["x-everturn-session"]
            assert json.load(answer)["role"] == "assistant"
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
    [transcript] = (tmp_path / "everturn" / "gateway" / "local").glob("*.jsonl")
    assert transcript.stem.endswith(session)
    assert [json.loads(line)["type"] for line in transcript.read_text().splitlines()] == ["user", "assistant"]
    [line] = log.read_text().splitlines()
    entry = json.loads(line)
    assert {name: entry[name] for name in ("tenant", "session", "mode", "path", "status", "received")} == {
        "tenant": "local", "session": session, "mode": "observe", "path": "/v1/messages", "status": 200,
        "received": len(ASK),
    }  # fmt: skip
    assert "secret" not in line
    assert log.stat().st_mode & 0o777 == 0o600


@pytest.mark.spec("GW-2")
def test_run_passes_on_the_exit_status_and_prints_what_the_session_cost(tmp_path: Path):
    with started(
        tmp_path, "run", "--upstream", "twin", "--", sys.executable, "-c", CALL, ASK.decode()
    ) as process:
        output, errors = process.communicate(timeout=30)
    assert (process.returncode, output) == (3, "200\n")
    assert errors.startswith("everturn: 1 call, $0.00")
    assert "; saved $0.0000 (observed only; --mode manage lets everturn decide)\n" in errors


def test_what_a_twin_inside_has_answered_is_practice_and_in_no_total(tmp_path: Path):
    words = ("run", "--upstream", "twin", "--", sys.executable, "-c", CALL, ASK.decode())
    with started(tmp_path, *words) as process:
        process.communicate(timeout=30)
    [transcript] = (tmp_path / "everturn" / "gateway" / "local").glob("*.jsonl")
    told = json.loads(CliRunner().invoke(main, ["audit", str(transcript), "--json"]).stdout)
    assert [(each["practice"], each["calls"], each["dollars"]) for each in told["sessions"]] == [(1, 0, 0)]


@pytest.mark.spec("GW-2", "GW-24")
def test_run_says_at_the_end_what_was_passed_through_and_why(tmp_path: Path):
    body = {"model": "claude-haiku-4-5", "max_tokens": 0, "messages": [{"role": "user", "content": "Hello"}]}
    with started(
        tmp_path, "run", "--upstream", "twin", "--", sys.executable, "-c", CALL, json.dumps(body)
    ) as process:
        _, errors = process.communicate(timeout=30)
    assert errors.splitlines()[1:] == [
        "everturn: 1 request was passed through unchanged: it only warms the cache N"
    ]


@pytest.mark.spec("GW-2")
def test_run_passes_on_signals(tmp_path: Path):
    script = 'trap "exit 7" TERM; echo ready; while :; do sleep 0.05; done'
    with started(tmp_path, "run", "--upstream", "twin", "--", "sh", "-c", script) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 7
    with started(tmp_path, "run", "--upstream", "twin", "--", "sh", "-c", "kill -KILL $$") as process:
        assert process.wait(60) == 128 + signal.SIGKILL


# Not `print`: a signal that comes while it writes would end the command with "reentrant call".
COUNT_INTERRUPTS = (
    "import os, signal, sys, time\n"
    "signal.signal(signal.SIGINT, lambda *_: os.write(1, b'interrupted\\n'))\n"
    "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
    "os.write(1, b'ready\\n')\n"
    "while True: time.sleep(0.01)\n"
)


@pytest.mark.spec("GW-2")
@pytest.mark.parametrize("is_piped", [True, False])
def test_a_command_gets_each_ctrl_c_once_also_if_its_input_is_a_pipe(tmp_path: Path, is_piped: bool):
    """The terminal sends it to both processes, whatever their input is."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "everturn", "run", "--upstream", "twin", "--"]
    process = subprocess.Popen(
        [*command, sys.executable, "-c", COUNT_INTERRUPTS], text=True,
        env={**os.environ, "XDG_DATA_HOME": str(tmp_path)}, stdout=subprocess.PIPE, stderr=theirs,
        stdin=subprocess.PIPE if is_piped else theirs, start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(2, termios.TIOCSCTTY, 0),
    )  # fmt: skip
    os.close(theirs)
    with process, os.fdopen(ours, "wb", buffering=0) as terminal:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        for _ in range(12):
            terminal.write(b"\x03")
            assert process.stdout.readline() == "interrupted\n"
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert process.stdout.read() == ""


@pytest.mark.spec("GW-2")
@pytest.mark.parametrize("streams", [">&- 2>&-", "<&- >&- 2>&-", "2>&-", "2>/dev/full"])
def test_run_returns_the_status_of_its_command_whatever_its_own_streams_are(tmp_path: Path, streams: str):
    command = [sys.executable, "-m", "everturn", "run", "--upstream", "twin", "--", "sh", "-c", "exit 3"]
    found = subprocess.run(
        ["sh", "-c", f'exec "$@" {streams}', "sh", *command],
        env={**os.environ, "XDG_DATA_HOME": str(tmp_path)},
        timeout=60,
        check=False,
    )
    assert found.returncode == 3


def stream_slowly(connection: Connection, _: Seen) -> None:
    connection.begin_stream()
    for each in events("Hello. " * 10):
        connection.chunk(each)
        time.sleep(0.1)
    connection.end_stream()


STREAM = json.dumps({**json.loads(ASK), "stream": True}).encode()
# Reads a stream, and tells when it has begun.
READ = (
    "import os, sys, urllib.request\n"
    "url = os.environ['ANTHROPIC_BASE_URL'] + '/v1/messages'\n"
    "answer = urllib.request.urlopen(urllib.request.Request(url, sys.argv[1].encode()))\n"
    "os.write(1, answer.read(1))\n"
    "answer.read()\n"
)
# Leaves a child behind that does that, and ends.
LEAVE = (
    "import subprocess, sys\n"
    "child = subprocess.Popen([sys.executable, '-c', *sys.argv[1:]], stdout=subprocess.PIPE, stderr=-3)\n"
    "child.stdout.read(1)\n"
    "sys.exit(5)\n"
)
WAITING = (
    "everturn run: the command has ended, and 1 request is still running; waiting up to 30 s. "
    "Ctrl-C ends this now.\n"
)


@pytest.mark.spec("GW-2")
@pytest.mark.parametrize("is_ended", [False, True])
def test_run_says_what_it_waits_for_and_how_to_end_that_and_keeps_the_status(tmp_path: Path, is_ended: bool):
    upstream = RawUpstream(stream_slowly)
    command = (sys.executable, "-c", LEAVE, READ, STREAM.decode())
    with started(tmp_path, "run", "--upstream", upstream.url, "--", *command) as process:
        assert process.stderr
        assert process.stderr.readline() == WAITING
        if is_ended:
            process.send_signal(signal.SIGINT)
        assert process.wait(5 if is_ended else 30) == 5
        told = process.stderr.read()
    upstream.close()
    assert told.startswith("everturn: 1 call, $0.0001, ")
    assert told.count("\n") == 1
    folder = tmp_path / "everturn" / "gateway" / "local"
    assert [each.name for each in folder.rglob("partial-*")] == (["partial-msg_1.json"] if is_ended else [])
    assert list(folder.rglob("*.lock")) == []


@pytest.mark.spec("GW-16")
def test_a_second_ctrl_c_cuts_off_what_is_running_and_what_arrived_is_kept(tmp_path: Path):
    upstream = RawUpstream(stream_slowly)
    words = ("--port", "0", "--operator-port", "0", "--upstream", upstream.url)
    with started(tmp_path, "gateway", *words) as process:
        assert process.stdout
        assert process.stderr
        url = urlsplit(process.stdout.readline().strip().partition("=")[2])
        process.stderr.readline()
        connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=20)
        connection.request("POST", "/v1/messages", STREAM)
        answer = connection.getresponse()
        answer.read(1)
        process.send_signal(signal.SIGINT)
        # Until it waits for the stream.
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        assert process.wait(5) == 0
        assert process.stderr.read() == ""
        with pytest.raises(http.client.IncompleteRead):
            answer.read()
        connection.close()
    upstream.close()
    folder = tmp_path / "everturn" / "gateway" / "local"
    assert [each.name for each in folder.rglob("partial-*")] == ["partial-msg_1.json"]
    assert list(folder.rglob("*.lock")) == []


def test_an_access_log_on_a_full_disk_goes_on_when_there_is_room(tmp_path: Path):
    log = tmp_path / "access.log"
    words = ("--upstream", "twin", "--port", "0", "--operator-port", "0", "--access-log", str(log))
    with started(tmp_path, "gateway", *words) as process:
        assert process.stdout
        assert process.stderr
        url = process.stdout.readline().strip().removeprefix("export ANTHROPIC_BASE_URL=")
        metrics = process.stderr.readline().strip().rpartition("metrics: ")[2]

        def ask(name: str) -> None:
            # The gateway has no such path, so its answer needs no upstream.
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(f"{url}/{name}")

        ask("first")
        # The line is written when the answer has left.
        until = time.monotonic() + 10
        while not (first := log.read_text()) and time.monotonic() < until:
            time.sleep(0.01)
        # Room for a part of the second line.
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (len(first) + 20, resource.RLIM_INFINITY))
        ask("second")
        ask("third")
        assert process.stderr.readline() == (
            "Warning: the access log cannot be written: No space left on device. Requests are served and not "
            "logged until it can be written again.\n"
        )
        # Lines are written after the answers, in a thread.
        lost = b'everturn_gateway_degradations_total{reason="the access log cannot be written"} 2.0\n'
        while lost not in urllib.request.urlopen(metrics).read() and time.monotonic() < until:
            time.sleep(0.01)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        ask("fourth")
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
        told = process.stderr.read()
    assert told == "The access log is written again. Lines that are missing in it: 2.\n"
    whole, cut, last = log.read_text().splitlines()
    assert (json.loads(whole)["path"], len(cut), json.loads(last)["path"]) == ("/first", 20, "/fourth")


@pytest.mark.spec("GW-21")
def test_an_access_log_on_a_pipe_that_nobody_reads_stops_neither_requests_nor_the_end(tmp_path: Path):
    words = ("--upstream", "twin", "--port", "0", "--operator-port", "0", "--access-log", "-")
    with started(tmp_path, "gateway", *words) as process:
        assert process.stdout
        assert process.stderr
        url = process.stdout.readline().strip().removeprefix("export ANTHROPIC_BASE_URL=")
        # A pipe of one page is full after twenty requests.
        fcntl.fcntl(process.stderr, fcntl.F_SETPIPE_SZ, 4096)
        statuses: list[int] = []
        for _ in range(60):
            with pytest.raises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(f"{url}/none", timeout=10)
            with caught.value as answer:
                statuses.append(answer.code)
        assert statuses == [404] * 60
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0


def test_a_folder_that_cannot_be_made_is_refused_if_it_was_chosen_and_reported_if_not(tmp_path: Path):
    (tmp_path / "file").write_text("")
    chosen = tmp_path / "file" / "below"
    words = ["gateway", "--upstream", "twin", "--port", "0", "--operator-port", "0"]
    found = CliRunner().invoke(main, [*words, "--set", f"store.folder={chosen}"])
    assert (found.exit_code, found.output) == (
        1,
        f"Error: Conversations cannot be kept in {chosen}: Not a directory. Choose another folder with --set "
        "store.folder=PATH.\n",
    )
    with started(tmp_path / "file", *words) as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline().startswith("export ANTHROPIC_BASE_URL=")
        assert process.stderr.readline() == (
            f"Warning: Conversations cannot be kept in {tmp_path}/file/everturn/gateway: Not a directory. "
            "Until it answers, requests are relayed and not recorded.\n"
        )


def test_run_tells_what_a_client_saved_that_asked_for_the_other_mode():
    assert describe_costs(9, 1.0, 0.25, 0.5, "observe").endswith("; saved about $0.2500 net")
    assert describe_costs(9, 1.0, -0.25, 0.5, "observe").endswith(
        "; cost about $0.2500 more than unmanaged, net"
    )
    assert describe_costs(9, 1.0, 0.0, 0.5, "observe").endswith(
        "(observed only; --mode manage lets everturn decide)"
    )


def test_run_says_what_is_wrong_with_a_command(tmp_path: Path):
    found = CliRunner().invoke(main, ["run", "--upstream", "twin", "--", "no-such-program-anywhere"])
    assert (found.exit_code, found.output) == (
        127, "everturn run: 'no-such-program-anywhere' was not found. Check its name and the PATH.\n",
    )  # fmt: skip
    script = tmp_path / "agent.py"
    script.write_text("print()")
    closed = CliRunner().invoke(main, ["run", "--upstream", "twin", "--", str(script)])
    told = f"everturn run: '{script}' cannot be started: Permission denied."
    assert (closed.exit_code, closed.output.splitlines()[0]) == (126, told)
    mistyped = CliRunner().invoke(main, ["run", "--mod=manage", "--", "sh"])
    assert (mistyped.exit_code, mistyped.output.splitlines()[-1]) == (2, "Error: No such option '--mod'.")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--upstream", "api.anthropic.com"], "is not an address; use https://HOST, or 'twin'"),
        (["--upstream", "http://[::1"], "The upstream 'http://[::1' is not an address; use https://HOST"),
        (["--upstream", "https://host:99999"], "The upstream 'https://host:99999' is not an address"),
        (["--upstream", "https://host/?a=b"], "has a query or a fragment in it; use https://HOST/PATH"),
        (["--upstream", "https://user:secret@x"], "has a user name in it; use https://HOST/PATH"),
        (["--upstream", "https://user:secret@x:99999"], "has a user name in it; use https://HOST/PATH"),
        (["--limit", "body=1"], "There is no limit 'body'"),
        (["--limit", "messages"], "has no '='. Use NAME=VALUE."),
        (
            ["--tokens", "no-such-file"],
            "Cannot read the tokens in no-such-file: there is no such file. Make it with a first token: "
            "everturn gateway token TENANT --tokens no-such-file",
        ),
    ],
)
def test_the_gateway_says_what_is_wrong_with_its_options(words: list[str], told: str):
    found = CliRunner().invoke(main, ["gateway", "--port", "0", "--operator-port", "0", *words])
    assert found.exit_code in (1, 2)
    assert told in found.output
    assert "secret" not in found.output


def test_a_port_in_use_is_named_with_what_to_do():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        first = CliRunner().invoke(main, ["gateway", "--port", port])
        second = CliRunner().invoke(main, ["gateway", "--port", "0", "--operator-port", port])
    assert first.output == (
        f"Error: Cannot listen on 127.0.0.1 port {port}: Address already in use. Choose another with "
        "--port or --host.\n"
    )
    assert second.output == (
        f"Error: Cannot listen on 127.0.0.1 port {port} for /metrics; another gateway may be running. Choose "
        "another port with --operator-port, or 0 for a free one.\n"
    )


def test_one_port_for_clients_and_for_the_operator_is_refused():
    """Both were announced, and clients got 404 from the operator's."""
    with closing(open_listener("127.0.0.1", 0)) as clients:
        port = clients.getsockname()[1]
        with pytest.raises(UsageError, match=f"port {port}: Address already in use"):
            open_listener("127.0.0.1", port)


def test_a_store_that_does_not_answer_is_named_at_the_start_and_the_gateway_serves(tmp_path: Path):
    store = "store.url=postgresql://me:secret@127.0.0.1:9/none"
    words = ("--upstream", "twin", "--port", "0", "--operator-port", "0", "--set", store)
    with started(tmp_path, "gateway", *words) as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline().startswith("export ANTHROPIC_BASE_URL=http://127.0.0.1:")
        told = process.stderr.readline()
    assert told.startswith("Warning: PostgreSQL at 127.0.0.1:9/none cannot be used: ")
    assert told.endswith(
        "Check that the server runs, the address, and that it has connections left. Until it answers, "
        "requests are relayed and not recorded.\n"
    )
    assert "secret" not in told


def test_what_the_operator_has_to_change_about_a_store_ends_the_command_with_a_sentence(
    tmp_path: Path, new_database: str
):
    def start(url: str) -> str:
        words = ["gateway", "--upstream", "twin", "--port", "0", "--operator-port", "0"]
        found = CliRunner().invoke(main, [*words, "--set", f"store.url={url}"])
        assert found.exit_code == 1
        return found.output

    newer = Migration(9, 8, ("CREATE TABLE everturn.later (id int)",))
    PostgresStores(new_database, tmp_path, migrations=(*MIGRATIONS, newer)).close()
    assert start(new_database).endswith(
        "was written by a newer everturn: its schema has version 9 and needs a program that knows at least "
        "version 8; this one knows 1. Update everturn.\n"
    )
    path = tmp_path / "kept" / "one.sqlite"
    used = open_stores(f"sqlite:{path}")
    assert start(f"sqlite:{path}") == (
        f"Error: The store {path} is used by process {os.getpid()}. An SQLite store belongs to one process: "
        "end the other one, choose another file, or use PostgreSQL for several gateways.\n"
    )
    used.close()
    assert "redis: is not a kind of store." in start("redis://h/0")


def test_an_upstream_that_cannot_be_reached_is_named_with_what_to_do(tmp_path: Path):
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
    words = ("--upstream", f"http://127.0.0.1:{port}", "--port", "0", "--operator-port", "0")
    with started(tmp_path, "gateway", *words) as process:
        assert process.stdout
        url = process.stdout.readline().strip().removeprefix("export ANTHROPIC_BASE_URL=")
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(urllib.request.Request(f"{url}/v1/messages", ASK))
        with caught.value as answer:
            status, error = answer.code, json.load(answer)["error"]
    assert (status, error) == (
        502,
        {
            "type": "everturn_upstream_unreachable",
            "message": f"The upstream http://127.0.0.1:{port} cannot be reached (the connection was "
            "refused). Check the network, and the gateway's --upstream.",
        },
    )
