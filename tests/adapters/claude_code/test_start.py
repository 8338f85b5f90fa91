"""What Claude Code starts again and again loads nothing that is slow to load, and never breaks."""

import json
import os
import subprocess
import sys

import pytest

# All that a Python without any of them would not have loaded by itself.
SLOW = {
    "click",
    "msgspec",
    "rich",
    "typing",
    "json",
    "re",
    "pathlib",
    "dataclasses",
    "datetime",
    "everturn.cli",
}
# Runs what the `everturn` command runs, and tells on stderr what was loaded by then.
PROGRAM = """
import sys
from everturn.__main__ import main
code = main()
sys.stderr.write("\\n" + " ".join(sys.modules))
sys.exit(code)
"""


def started(*arguments: str, given: str, env: dict[str, str] | None = None) -> tuple[int, str, set[str]]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        input=given.encode(),
        capture_output=True,
        env=os.environ | (env or {}),
    )
    return done.returncode, done.stdout.decode(), set(done.stderr.decode().split())


@pytest.fixture(scope="module")
def payload(tmp_path_factory) -> str:
    """One that makes the status line read a transcript too."""
    path = tmp_path_factory.mktemp("start") / "session.jsonl"
    usage = {"input_tokens": 1, "cache_read_input_tokens": 9}
    line = {"type": "assistant", "timestamp": "2026-01-05T10:00:00Z", "message": {"usage": usage}}
    path.write_text(json.dumps(line) + "\n")
    return json.dumps({"transcript_path": str(path), "model": {"display_name": "Opus"}, "cost": {}})


def test_a_status_line_loads_nothing_slow(payload):
    code, line, loaded = started("statusline", given=payload, env={"NO_COLOR": "1"})
    assert (code, line) == (0, "Opus · context 0k · cache hit 90% · cold\n")
    assert "everturn.adapters.claude_code.statusline" in loaded
    assert loaded & SLOW == set()


@pytest.mark.parametrize(
    "arguments", [["Notification"], ["PostToolUse"], ["PostToolUse", "--shrink", "9000"]]
)
def test_a_hook_with_nothing_to_do_loads_nothing_slow(payload, arguments):
    code, answer, loaded = started("hook", *arguments, given=payload)
    assert (code, answer) == (0, "")
    assert loaded & SLOW == set()


def test_a_hook_with_something_to_do_loads_what_it_needs():
    code, _, loaded = started("hook", "SessionStart", given='{"source": "compact"}')
    assert (code, {"msgspec", "typing", "re"} <= loaded) == (1, True)


@pytest.mark.parametrize(
    "given", ["", "no json", "[]", "null", '{"model": 3}', "{" * 2_000, '{"a": NaN}', "\ufeff{}"]
)
def test_whatever_comes_in_a_status_line_ends_well(given):
    code, line, loaded = started("statusline", given=given, env={"NO_COLOR": "1"})
    assert (code, line.count("\n"), "Traceback" in loaded) == (0, 1, False)


def test_bytes_that_are_no_text_end_well():
    done = subprocess.run(
        [sys.executable, "-m", "everturn", "statusline"], input=b"\xff\xfe{}", capture_output=True
    )
    assert (done.returncode, done.stdout) == (0, b"everturn: no status, the input is not valid JSON\n")


@pytest.mark.parametrize("given", [b'{"model": {"id"', b'{"model": "Op', b"{"])
def test_truncated_json_is_one_line_for_the_status_line_and_for_a_hook(given):
    call = [sys.executable, "-m", "everturn"]
    line = subprocess.run([*call, "statusline"], input=given, capture_output=True)
    hook = subprocess.run([*call, "hook", "PreCompact"], input=given, capture_output=True)
    assert (line.returncode, line.stdout, line.stderr) == (
        0,
        b"everturn: no status, the input is not valid JSON\n",
        b"",
    )
    assert (hook.returncode, hook.stdout, hook.stderr.count(b"\n")) == (1, b"", 1)
    assert hook.stderr.startswith(b"everturn hook: the input is not valid JSON (")


def test_a_terminal_without_unicode_gets_plain_signs():
    given = json.dumps({"model": {"display_name": "Opus é"}, "cost": {"total_cost_usd": 1}})
    env = {"PYTHONIOENCODING": "ascii", "NO_COLOR": "1"}
    code, line, _ = started("statusline", given=given, env=env)
    assert (code, line) == (0, "Opus ? | $1.00\n")


@pytest.mark.parametrize("name", ["statusline", "hook"])
def test_help_is_there_as_for_every_command(name):
    done = subprocess.run([sys.executable, "-m", "everturn", name, "--help"], capture_output=True, text=True)
    assert (done.returncode, done.stdout.startswith(f"Usage: everturn {name}")) == (0, True)
