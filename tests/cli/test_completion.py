"""Completion, by a real bash, zsh and fish; suggestions for typos; Ctrl-C."""

import os
import pty
import re
import select
import shutil
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


@pytest.fixture
def shell_home(tmp_path: Path) -> tuple[Path, dict[str, str], str]:
    """A home with the program and a session; the environment of a shell there, and the session's id."""
    (tmp_path / "everturn").write_text(PROGRAM.format(python=sys.executable))
    (tmp_path / "everturn").chmod(0o755)
    folder = tmp_path / ".claude" / "projects" / str(tmp_path).replace("/", "-").replace("_", "-")
    folder.mkdir(parents=True)
    session = folder / "one.jsonl"
    session.write_bytes(SmallSession().human("Hi, you.").reply("m1", text("Ho."), written=9).to_bytes())
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path), "TERM": "xterm"}
    return tmp_path, env, short_id(str(session))


def test_bash_completes_commands_options_values_sessions_and_policies(shell_home):
    home, env, session = shell_home
    lines = [
        "everturn comp",
        "everturn audit --by w",
        "everturn audit --wa",
        "everturn context .",
        "everturn replay --policy none,sli",
        "everturn compact --set compact.strat",
    ]
    done = subprocess.run(
        ["bash", "--norc", "-c", PRESS], input="\n".join(lines) + "\n", env=env, cwd=home,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "compact completion",
        "week",
        "--watch",
        f"{session} everturn",
        "none,sliding-window",
        "compact.strategies=",
    ]


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes_commands_values_sessions_and_policies(shell_home):
    home, env, session = shell_home
    asked = [
        "everturn comp",
        "everturn audit --by w",
        "everturn context ",
        "everturn replay --policy none,sli",
    ]
    script = "everturn completion fish | source\n" + "".join(
        f"complete -C '{line}'; echo -\n" for line in asked
    )
    done = subprocess.run(
        ["fish", "--no-config"], input=script, env=env, cwd=home, capture_output=True, text=True
    )
    found = [part.split("\n") for part in done.stdout.split("\n-\n")[:-1]]
    words = [[line.partition("\t")[0] for line in lines] for lines in found]
    # fish sorts them, and the id of a session comes from its path.
    names = sorted([session, "everturn"])
    assert words == [["compact", "completion"], ["week"], names, ["none,sliding-window"]]
    assert f"{session}\tHi, you." in found[2]


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_completes_commands_values_and_sessions(shell_home):
    home, env, session = shell_home
    (home / ".zshrc").write_text(
        "PS1='ready> '; autoload -U compinit; compinit -u; eval \"$(everturn completion zsh)\"\n"
    )
    typed = {"everturn compl": "everturn completion ", "everturn audit --by w": "everturn audit --by week ",
             f"everturn context {session[:3]}": f"everturn context {session} "}  # fmt: skip
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(home)
        os.execvpe("zsh", ["zsh", "-i"], env)
    try:
        read_until(terminal, "ready> ")
        for line, completed in typed.items():
            os.write(terminal, f"{line}\t".encode())
            assert completed in read_until(terminal, completed)
            os.write(terminal, b"\x15")
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        os.close(terminal)


def read_until(terminal: int, wanted: str, seconds: float = 30) -> str:
    """What a program showed until it showed this; escape sequences are left out."""
    shown, end = b"", time.monotonic() + seconds
    while time.monotonic() < end:
        if select.select([terminal], [], [], 0.2)[0]:
            shown += os.read(terminal, 65_536)
        plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]", "", shown.decode(errors="replace"))
        if wanted in plain:
            return plain
    return plain


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
        "s.read_file = lambda *a, **k: (print('begun', flush=True), open(sys.argv[2]).read())\n"
        "from everturn.__main__ import main; sys.exit(main())"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, "audit", str(tmp_path / "never")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "HOME": str(tmp_path)},
    )  # fmt: skip
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(0.1)
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
