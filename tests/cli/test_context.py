"""`everturn context`, called as people call it."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from small_session import SmallSession, reading, text

from everturn.cli import main
from everturn.cli.context import _progress

PEOPLE_SEE = {"COLUMNS": "80", "NO_COLOR": None, "FORCE_COLOR": None}


@pytest.fixture
def session(tmp_path: Path) -> Path:
    side = SmallSession(agent="abc1").human("Look.").reply("s1", text("Found."), plain=5_000)
    (tmp_path / "session.jsonl").write_bytes(reading().to_bytes() + side.to_bytes())
    return tmp_path / "session.jsonl"


def run(*args: object, stdin: bytes = b"") -> Result:
    return CliRunner(env=PEOPLE_SEE).invoke(main, ["context", *map(str, args)], input=stdin)


def test_a_session_is_shown(session):
    done = run(session)
    assert done.exit_code == 0
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0].startswith("Why does the parser fail?")
    assert lines[1].endswith("session.jsonl")
    assert lines[2:4] == [
        "Claude Opus 4.5: 40,100 of 200,000 tokens (20%)",
        "76% left until automatic compaction at 167k",
    ]
    assert "\x1b" not in done.stdout


def test_a_dash_reads_standard_input(session):
    from_file, from_stdin = run(session), run("-", stdin=session.read_bytes())
    assert from_stdin.exit_code == 0
    assert from_stdin.stdout.splitlines()[1] == "standard input"
    assert from_stdin.stdout.splitlines()[2:] == from_file.stdout.splitlines()[2:]


def test_json_is_one_complete_object(session):
    done = run(session, "--json")
    report = json.loads(done.stdout)
    assert (report["source"], report["size"]["tokens"], report["cache"]["calls"]) == (str(session), 40_100, 5)


def test_one_sub_agent_can_be_shown(session):
    done = run(session, "--agent", "abc", "--json")
    report = json.loads(done.stdout)
    assert (report["agent"], report["size"]["reported"]) == ("abc1", 5_000)


def test_the_window_can_be_given(session):
    done = run(session, "--window", "1000000")
    assert done.stdout.splitlines()[2] == "Claude Opus 4.5: 40,100 of 1,000,000 tokens (4%)"


def test_an_empty_session_is_no_error(tmp_path):
    (tmp_path / "new.jsonl").touch()
    done = run(tmp_path / "new.jsonl")
    assert (done.exit_code, done.stdout.splitlines()[1:]) == (0, ["The session is empty."])


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("missing.jsonl", [], "No file "),
        (".", [], "is a directory"),
        ("notes.txt", [], "looks like plain text"),
        ("session.jsonl", ["--agent", "x"], "No sub-agent 'x' found"),
    ],
)
def test_input_that_cannot_be_used_is_one_sentence_and_exit_1(session, name, options, says):
    (session.parent / "notes.txt").write_text("Dear diary,\n")
    done = run(session.parent / name, *options)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: ")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("args", [["a", "b"], ["a", "--window", "0"], ["a", "--window", "x"], ["a", "--wat"]])
def test_a_wrong_call_is_exit_2(args):
    done = run(*args)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "Usage: " in done.stderr


def outside(*args: object, **environment: str) -> subprocess.CompletedProcess[bytes]:
    env = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")} | environment
    command = [sys.executable, "-c", "from everturn.cli import main; main()", "context", *map(str, args)]
    return subprocess.run(command, env=env, capture_output=True)


def test_a_locale_without_unicode_gets_letters_and_json_in_utf8(tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_bytes(reading().to_bytes().replace(b"/home/me/parser.py", "/home/me/größe.py".encode()))
    plain = {
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
        "PYTHONIOENCODING": "ascii",
        "COLUMNS": "60",
    }
    shown = outside(path, **plain)
    assert (shown.returncode, shown.stderr) == (0, b"")
    assert b"S System prompt, tools" in shown.stdout
    assert b"/home/me/gr??e.py" in shown.stdout
    written = outside(path, "--json", **plain)
    assert json.loads(written.stdout)["duplicate_reads"][0]["path"] == "/home/me/größe.py"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_large_files_are_announced_in_megabytes_and_small_ones_are_left_in_peace(session, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with _progress(str(session)) as tell:
        assert tell is None
    monkeypatch.setattr("everturn.cli.context.MIN_BYTES_FOR_PROGRESS", 1)
    with _progress(str(session)) as tell:
        assert tell is not None
        tell(50 << 20, 100 << 20)
    assert "50/100" in sys.stderr.getvalue()


def test_the_cost_says_what_is_in_files_of_sub_agents_so_that_it_meets_the_figure_of_audit(tmp_path):
    file = tmp_path / "s1.jsonl"
    file.write_bytes(reading().to_bytes())
    alone = run(file).stdout
    for name, tokens in (("abc1", 5_000), ("abc2", 7_000)):
        side = SmallSession(agent=name).human("Look.").reply(f"{name}m", text("Found."), plain=tokens)
        other = tmp_path / "s1" / "subagents" / f"agent-{name}.jsonl"
        other.parent.mkdir(parents=True, exist_ok=True)
        other.write_bytes(side.to_bytes())
    # By hand: 12,000 tokens at 5 dollars a million.
    said = (
        "Not in this file: 2 calls of sub-agents, $0.0600, in 2 files of their own. With\n"
        "them it is $0.3649, as in audit.\n"
    )
    shown = run(file).stdout
    assert shown.replace(said, "") == alone
    cost = json.loads(run(file, "--json").stdout)["cost"]
    assert cost["agent_files"] == {"files": 2, "calls": 2, "dollars": 0.06}
    audited = CliRunner(env=PEOPLE_SEE).invoke(main, ["audit", str(file), "--json"])
    assert cost["dollars"] + 0.06 == pytest.approx(json.loads(audited.stdout)["total"]["dollars"])
    # A sub-agent's own file, and one conversation of a session, are shown alone.
    assert "Not in this file" not in run(other).stdout
