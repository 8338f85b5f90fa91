"""`everturn dashboard` as a process: what it finds, prints and serves, and how quickly it sees a change."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest
from click.testing import CliRunner
from small_session import SmallSession, text
from web_dashboard.client import text_of
from web_dashboard.conftest import MakeDashboard, paused, write

from everturn.cli import main
from everturn.web_dashboard.server import bind
from everturn.web_dashboard.values import FileSummary

# Other tests run at the same time; alone it takes a tenth of this.
PATIENCE = 60


def everturn(home: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "everturn", "dashboard", "--no-browser", *arguments]
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "TZ": "UTC"}
    return subprocess.Popen(
        command, env=environment, cwd=home, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


class Running:
    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self.process = process
        self._base, _, key = address.partition("/?key=")
        self._cookie = {"cookie": f"everturn_key={key}"}

    def open(self, path: str) -> IO[bytes]:
        return urllib.request.urlopen(
            urllib.request.Request(self._base + path, headers=self._cookie), timeout=PATIENCE
        )

    def said(self, path: str) -> str:
        with self.open(path) as answer:
            return text_of(answer.read().decode())

    def wait(self, path: str, is_there: Callable[[str], bool]) -> float:
        """How long it takes until the page says so, in seconds."""
        start = time.monotonic()
        while not is_there(said := self.said(path)):
            assert time.monotonic() - start < PATIENCE, said
            time.sleep(0.02)
        return time.monotonic() - start


@contextmanager
def running(home: Path, *arguments: str) -> Iterator[Running]:
    process = everturn(home, "--port", "0", *arguments)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("everturn dashboard: http://127.0.0.1:"), process.communicate(timeout=5)
        yield Running(process, line.split()[-1])
    finally:
        process.kill()
        process.communicate()


@pytest.mark.spec("DB-1", "DB-5")
def test_it_finds_the_sessions_follows_them_and_ends_with_the_signal(tmp_path: Path):
    file = write(tmp_path / ".claude" / "projects" / "parser" / "a.jsonl", paused())
    with running(tmp_path) as found:
        found.wait("/sessions", lambda said: "Why does the parser fail?" in said)
        with found.open("/events") as events:
            assert events.readline() == b"retry: 2000\n"
            more = SmallSession().human("x").reply("m9", text("More."), read=60_000, written=5_000, out=10)
            line = more.lines[-1] | {"uuid": "u9", "parentUuid": "u3", "timestamp": "2026-01-05T10:34:00Z"}
            with open(file, "a") as out:
                out.write(json.dumps(line) + "\n")
            names = iter(events.readline, b"")
            assert any(each == b"event: changed\n" for each in names)
        assert found.wait("/sessions", lambda said: "65k of 200k" in said) < PATIENCE
        # A new session, and a folder that disappears.
        write(tmp_path / ".claude" / "projects" / "other" / "b.jsonl", paused())
        found.wait("/sessions", lambda said: "2 sessions" in said)
        file.unlink()
        file.parent.rmdir()
        found.wait("/sessions", lambda said: "1 session" in said and "2 sessions" not in said)
        found.process.send_signal(signal.SIGINT)
        assert found.process.communicate(timeout=PATIENCE)[1] == ""
        assert found.process.returncode == 0


@pytest.mark.spec("DB-1")
def test_the_first_page_does_not_wait_for_the_sessions(tmp_path: Path, make_dashboard: MakeDashboard):
    """A thousand sessions on disk, and not one of them read: the page is there, with the progress."""
    for number in range(1_000):
        path = tmp_path / "many" / f"p{number % 20}" / f"s{number}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}\n")
    seen: list[str] = []

    def summarize(path: str) -> FileSummary:
        start = time.process_time()
        seen.append(text_of(client.page("/")))
        assert time.process_time() - start < 0.5
        if len(seen) == 3:
            client.dashboard.indexer.stop()
        return FileSummary(path)

    client = make_dashboard(tmp_path / "many", read=False, summarize=summarize)
    client.dashboard.indexer.update()
    assert ["Reading sessions: 2 of 1,000" in said for said in seen] == [False, False, True]


@pytest.mark.spec("DB-1")
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system has no /proc")
def test_from_the_start_of_the_process_the_first_page_takes_less_than_a_second(tmp_path: Path):
    """In processor time, because other tests run beside it; alone that is also the time on the clock."""
    for number in range(1_000):
        path = tmp_path / ".claude" / "projects" / f"p{number % 20}" / f"s{number}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}\n")
    with running(tmp_path) as found:
        assert "everturn" in found.said("/")
        fields = Path(f"/proc/{found.process.pid}/stat").read_text().rpartition(")")[2].split()
        seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    assert seconds < 1


def test_the_first_page_imports_nothing_that_reads_or_replays_sessions():
    code = (
        "import sys, everturn.web_dashboard.server; "
        "print(*sorted(name for name in sys.modules if name.startswith('everturn.')))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    late = (
        "everturn.engine",
        "everturn.replay.compare",
        "everturn.replay.parallel",
        "everturn.session.session",
    )
    assert [
        name for name in loaded if name.startswith((*late, "everturn.twin.app", "everturn.twin.service"))
    ] == []


def test_a_port_that_is_taken_is_said_or_avoided():
    with bind(None) as first:
        first.listen()
        with bind(None) as second:
            assert first.getsockname()[1] != second.getsockname()[1]
        port = first.getsockname()[1]
        done = CliRunner().invoke(main, ["dashboard", "--port", str(port)])
        why = f"Error: Cannot listen on 127.0.0.1 port {port}: Address already in use."
        assert (done.exit_code, done.output.startswith(why)) == (1, True)


def test_it_listens_on_the_loopback_address_only():
    with bind(0) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["/nowhere/at/all"], "does not exist"),
        (["--timezone", "Mars/Olympus"], "'Mars/Olympus' is not a known time zone."),
        (["--timezone", "../../etc/passwd"], "is not a known time zone."),
    ],
)
def test_wrong_usage_is_explained(arguments: list[str], why: str):
    done = CliRunner().invoke(main, ["dashboard", *arguments])
    assert (done.exit_code, why in " ".join(done.output.replace("│", " ").split())) == (2, True)
