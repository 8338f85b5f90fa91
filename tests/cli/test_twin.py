import json
import os
import signal
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from everturn.catalog.practice import is_practice
from everturn.cli import main

ASK = {"model": "claude-opus-5-5", "max_tokens": 2000, "messages": [{"role": "user", "content": "Hello"}]}
RECORDED = Path(__file__).parents[1] / "twin" / "recorded_session.jsonl"


@contextmanager
def running(*arguments):
    """`everturn twin` on a free port: the process, and the address that it printed."""
    command = [
        sys.executable,
        "-c",
        "from everturn.cli import main; main()",
        "twin",
        "--port",
        "0",
        *arguments,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline()
            assert line.startswith("everturn twin listening on http://127.0.0.1:"), process.stderr.read()
            yield process, line.split()[4]
        finally:
            process.kill()


def call(url, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"x-api-key": "k", "anthropic-version": "2026-10-21", "content-type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url + path, data, headers), timeout=20) as response:
        return json.loads(response.read())


@pytest.mark.spec("TW-9")
@pytest.mark.skipif(os.name == "nt", reason="signals")
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_it_prints_one_line_serves_and_stops_cleanly(stop):
    with running() as (process, url):
        assert call(url, "/v1/messages", ASK)["type"] == "message"
        # Whoever records the answer sees by its id that nobody paid for it.
        (answered,) = call(url, "/twin/ledger")
        assert is_practice(answered["id"])
        assert call(url, "/twin/clock", {"advance_s": 60}) == {
            "now": "2026-11-15T00:01:00Z",
            "clock": "virtual",
        }
        process.send_signal(stop)
        rest, errors = process.communicate(timeout=20)
        assert (process.returncode, rest, errors) == (0, "", "")


@pytest.mark.spec("TW-8")
def test_scripts_faults_clock_and_seed_come_from_the_command_line(tmp_path):
    script, faults = tmp_path / "script.json", tmp_path / "faults.json"
    script.write_text(json.dumps({"replies": ["From a file."]}))
    faults.write_text(json.dumps({"faults": [{"kind": "garbage", "endpoint": "compaction"}]}))
    with running("--script", str(script), "--faults", str(faults), "--clock", "real", "--seed", "3") as (
        _,
        url,
    ):
        assert call(url, "/v1/messages", ASK)["content"] == [{"type": "text", "text": "From a file."}]
        assert call(url, "/twin/clock")["clock"] == "real"


@pytest.mark.spec("TW-8")
def test_a_recorded_session_is_played_back():
    with running("--script", str(RECORDED)) as (_, url):
        assert call(url, "/v1/messages", ASK)["content"][0]["name"] == "Read"
        assert call(url, "/v1/messages", ASK)["content"][0]["text"] == "It sets x to 1."


@pytest.mark.parametrize(
    ("option", "name", "content", "message"),
    [
        ("--script", "s.json", '{"replies": 5}', "is not a valid script: replies is 5; allowed: a list."),
        ("--script", "s.jsonl", "{}", "contains no assistant reply; use a recorded Claude Code session."),
        (
            "--faults",
            "f.json",
            '{"faults": [{}]}',
            "is not a valid faults file: faults[0].kind is missing;",
        ),
    ],
)
def test_a_wrong_file_is_told_by_name(tmp_path, option, name, content, message):
    file = tmp_path / name
    file.write_text(content)
    result = CliRunner().invoke(main, ["twin", option, str(file)])
    assert result.exit_code == 1
    assert f"Error: {file} {message}" in result.output
