"""`everturn twin` as a process: the line it prints, what its options bring, and how it ends."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conformance.api import Api, call, result, text, tool, user

Start = Callable[..., tuple[subprocess.Popen[str], Api]]


@pytest.fixture
def start() -> Iterator[Start]:
    running: list[subprocess.Popen[str]] = []

    def begin(*options: str) -> tuple[subprocess.Popen[str], Api]:
        command = [str(Path(sys.executable).with_name("everturn")), "twin", "--port", "0", *options]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        running.append(process)
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        assert line.startswith("everturn twin listening on http://127.0.0.1:"), line
        return process, Api(line.split()[4])

    yield begin
    for process in running:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@pytest.mark.spec("TW-1", "TW-7", "TW-8", "TW-10")
def test_the_command_serves_with_script_faults_and_extension(start: Start, tmp_path: Path):
    (tmp_path / "script.json").write_text(json.dumps({"replies": ["scripted"]}))
    (tmp_path / "faults.json").write_text(json.dumps({"faults": [{"kind": "overloaded"}]}))
    process, api = start(
        "--script",
        str(tmp_path / "script.json"),
        "--faults",
        str(tmp_path / "faults.json"),
        "--extensions",
        "cache_edits",
    )
    assert api.ask("hi").status == 529
    assert api.reply("hi")["content"] == [text("scripted")]
    referred = [
        user("a"),
        {"role": "assistant", "content": [call("t1")]},
        user(result("t1", cache_reference="t1")),
    ]
    assert api.usage(*referred, tools=[tool()])["cache_deleted_input_tokens"] == 0
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=10) == 0


@pytest.mark.spec("TW-9")
def test_a_real_clock_cannot_be_moved(start: Start):
    process, api = start("--clock", "real")
    clock = api.send("GET", "/twin/clock").json
    assert clock["clock"] == "real"
    assert api.send("POST", "/twin/clock", {"advance_s": 300}).status == 400
    assert api.ask("hi").status == 200
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=10) == 0
