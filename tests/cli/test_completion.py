"""Completion, by a real bash; suggestions for typos; Ctrl-C."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from small_session import SmallSession, text

from everturn.catalog.names import short_id
from everturn.cli import main

PROGRAM = '#!/bin/sh\nexec {python} -m everturn "$@"\n'
# What bash does when somebody presses Tab after these words.
PRESS = """
eval "$(everturn completion bash)"
while read -r line; do
    COMP_WORDS=($line) COMPREPLY=()
    [[ $line == *' .' ]] && COMP_WORDS[-1]=
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _everturn_completion everturn
    echo "${COMPREPLY[@]}"
done
"""


def test_bash_completes_commands_options_values_sessions_and_policies(tmp_path):
    (tmp_path / "everturn").write_text(PROGRAM.format(python=sys.executable))
    (tmp_path / "everturn").chmod(0o755)
    folder = tmp_path / ".claude" / "projects" / str(tmp_path).replace("/", "-").replace("_", "-")
    folder.mkdir(parents=True)
    session = folder / "one.jsonl"
    session.write_bytes(SmallSession().human("Hi.").reply("m1", text("Ho."), written=9).to_bytes())
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    lines = [
        "everturn comp",
        "everturn audit --by w",
        "everturn audit --wa",
        "everturn context .",
        "everturn replay --policy none,sli",
        "everturn compact --set compact.strat",
    ]
    done = subprocess.run(
        ["bash", "--norc", "-c", PRESS], input="\n".join(lines) + "\n", env=env, cwd=tmp_path,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "compact completion",
        "week",
        "--watch",
        f"{short_id(str(session))} everturn",
        "none,sliding-window",
        "compact.strategies=",
    ]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_a_script_that_asks_the_program_itself(shell):
    done = CliRunner().invoke(main, ["completion", shell])
    assert (done.exit_code, done.stderr) == (0, "")
    assert f"_EVERTURN_COMPLETE={shell}_complete" in done.stdout


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["adit"], "No such command 'adit'. Did you mean 'audit'?"),
        (["zzzz"], "No such command 'zzzz'. See the list: everturn --help"),
        (["audit", "--sinc", "7d"], "--since"),
        (["replay", "--policy", "claud-code", __file__], "Did you mean 'claude-code'?"),
        (["audit", "--timezone", "Europe/Berln"], "Did you mean Europe/Berlin?"),
        (["audit", "--since", "lately"], "'lately' is not a time. Use a date (2026-01-31)"),
        (["completion", "--help"], "everturn completion fish | source"),
    ],
)
def test_a_typo_is_answered_with_what_was_probably_meant(args, says):
    done = CliRunner(env={"COLUMNS": "200"}).invoke(main, args)
    assert says in done.output


def test_ctrl_c_ends_a_long_job_at_once_with_130_and_without_a_traceback(tmp_path):
    os.mkfifo(tmp_path / "never")
    # A job that takes for ever: it waits for somebody to write.
    code = (
        "import everturn.replay.sessions as s, sys\n"
        "s.read_file = lambda *a, **k: open(sys.argv[2]).read()\n"
        "print('begun', flush=True)\n"
        "from everturn.__main__ import main; sys.exit(main())"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, "audit", str(tmp_path / "never")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "HOME": str(tmp_path)},
    )  # fmt: skip
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "Traceback" not in errors


def test_help_begins_with_what_to_do_first():
    lines = CliRunner(env={"COLUMNS": "80"}).invoke(main, ["--help"]).output.splitlines()
    first_screen = "\n".join(lines[:24])
    for command in ("audit", "context", "replay", "dashboard"):
        assert f"everturn {command} " in first_screen


def test_a_home_is_not_needed_for_help(tmp_path: Path):
    command = [sys.executable, "-m", "everturn", "audit", "--help"]
    done = subprocess.run(command, env={"HOME": str(tmp_path / "none")}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
