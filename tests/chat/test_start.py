"""`everturn chat` as programs call it, with what they get wrong."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import warm_command
from click.testing import CliRunner

from everturn.chat.model_connection import TWIN_CHOSEN, TWIN_WITHOUT_KEY
from everturn.chat.start import scale_reserves
from everturn.cli import main
from everturn.decide.options import Options
from everturn.measure.thresholds import ThresholdSettings, compute_thresholds
from everturn.session.recorded import open_session
from everturn.session.store import JsonlStore


class Shell:
    """A folder, a home, and nothing else of this machine but the way to Python."""

    def __init__(self, folder: Path) -> None:
        self.project, self.data = folder / "project", folder / "data"
        for each in (self.project, folder / "home"):
            each.mkdir()
        (self.project / "app.py").write_text("def login():\n    return None\n")
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder / "home"),
            "XDG_DATA_HOME": str(self.data),
            "LANG": "C.UTF-8",
            "COLUMNS": "80",
        }

    def run(self, *options: str, typed: bytes = b"", **more: str) -> subprocess.CompletedProcess[bytes]:
        environment = self.environment | more
        if "LC_ALL" in more:
            # Python looks at the locale when it starts.
            command = [sys.executable, "-m", "everturn", "chat", *options]
            return subprocess.run(
                command, input=typed, capture_output=True, cwd=self.project, env=environment, timeout=30
            )
        return warm_command.run("chat", *options, cwd=self.project, env=environment, given=typed)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.mark.spec("CF-5")
def test_set_and_config_configure_the_chat_and_a_flag_wins(shell: Shell):
    elsewhere = shell.project.parent / "mine.toml"
    elsewhere.write_text('model = "claude-haiku-4-5"\nwindow = 100000\n')
    (shell.project / "everturn.toml").write_text("window = 70000\n")
    typed = b"Hello.\n/context\n"
    read = shell.run("--config", "../mine.toml", typed=typed).stdout.decode()
    assert "Claude Haiku 4.5: " in read
    assert " of 100,000 tokens" in read
    put = shell.run("--config", "../mine.toml", "--set", "window=80000", typed=typed).stdout.decode()
    assert " of 80,000 tokens" in put
    flag = shell.run("--window", "90000", "--set", "window=80000", typed=typed).stdout.decode()
    assert " of 90,000 tokens" in flag
    wrong = shell.run("--set", "windoe=1", typed=typed)
    assert (wrong.returncode, b"Did you mean window?" in wrong.stderr) == (1, True)


def test_a_pipe_is_read_and_answered_without_prompt_status_or_colours(shell: Shell):
    done = shell.run(typed=b"Read app.py\n\n/permissions\n")
    out = done.stdout.decode()
    assert done.returncode == 0
    assert "● Read app.py  2 lines\n" in out
    assert "  mode        ask\n" in out
    assert not any(sign in out for sign in ("\x1b", "›", "context ", "claude-opus"))
    assert done.stderr.decode() == TWIN_WITHOUT_KEY + "\n"


def test_what_needs_permission_is_refused_where_nobody_can_be_asked(shell: Shell):
    done = shell.run("--twin", typed=b"Replace None with True in app.py\n")
    assert "return None" in (shell.project / "app.py").read_text()
    assert "the user said no" in done.stdout.decode()
    assert done.stderr.decode() == TWIN_CHOSEN + "\n"


def test_only_the_last_answer_is_printed(shell: Shell):
    done = shell.run("-p", "Read app.py")
    assert done.returncode == 0
    assert "app.py" in done.stdout.decode()
    assert "●" not in done.stdout.decode()
    assert "● Read app.py  2 lines" in done.stderr.decode()


def test_a_command_is_printed_where_answers_are(shell: Shell):
    done = shell.run("--twin", "-p", "/permissions")
    assert done.stdout.decode().splitlines()[0] == "  mode        ask"
    assert (done.returncode, list(shell.data.rglob("*.jsonl"))) == (0, [])


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (
            ["-p", "Hello", "--model", "claude-unheard-of"],
            1,
            "Model not found, or not available for this key.",
        ),
        (["-p", " "], 1, "-p needs a prompt; it was empty."),
        (["--resume"], 1, "No earlier conversation found in this folder."),
        (["--policy", "nope"], 1, "policy = 'nope', allowed is one of"),
        (["--session", "app.py"], 1, "app.py is not a session file"),
        (["nowhere"], 2, "Directory 'nowhere' does not exist."),
        (["--session", "a.jsonl", "--resume", "b"], 2, "Give --session or --resume, not both."),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    shell: Shell, options: list[str], code: int, says: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(shell.project)
    without = {"ANTHROPIC_API_KEY": None, "ANTHROPIC_AUTH_TOKEN": None, "ANTHROPIC_MODEL": None}
    done = CliRunner(env={**shell.environment, **without}).invoke(main, ["chat", *options])
    assert (done.exit_code, done.stdout) == (code, "")
    assert says in done.stderr
    assert isinstance(done.exception, SystemExit)


def test_a_key_that_cannot_be_one_is_told_and_the_words_are_kept(shell: Shell):
    done = shell.run(typed=b"Hello\n", ANTHROPIC_API_KEY="sk two words")
    assert done.returncode == 0
    assert done.stdout.decode().startswith(
        "The value of ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN is not a valid key"
    )
    (kept,) = shell.data.rglob("*.jsonl")
    assert b'"Hello"' in kept.read_bytes()


def test_a_locale_without_shapes_gets_letters_and_wrong_bytes_end_nothing(shell: Shell):
    done = shell.run(typed="Read app.py, Müller “now”\n".encode() + b"\xff\xfe\n", LC_ALL="C")
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False)
    assert done.stdout.isascii()
    assert b"* Read app.py  2 lines\n" in done.stdout


def test_a_program_that_has_no_standard_input_is_at_its_end(shell: Shell):
    command = f"exec {sys.executable} -m everturn chat <&-"
    done = subprocess.run(
        ["sh", "-c", command], env=shell.environment, cwd=shell.project, capture_output=True
    )
    assert (done.returncode, done.stdout, done.stderr.decode()) == (0, b"", TWIN_WITHOUT_KEY + "\n")


def test_a_conversation_is_continued_by_resume_and_belongs_to_its_folder(shell: Shell):
    shell.run(typed=b"The word is pineapple\n")
    done = shell.run("--resume", typed=b"/recall pineapple\n")
    assert "pineapple" in done.stdout.decode()
    again = shell.run("--resume", typed=b"Read app.py\n")
    assert "mended" not in again.stdout.decode()
    (kept,) = shell.data.rglob("*.jsonl")
    replies = [record.message_id for record in open_session(kept).thread.records if record.message_id]
    assert len(set(replies)) == len(replies) > 2
    (shell.project / "inner").mkdir()
    elsewhere = shell.run("inner", "--resume")
    assert "No earlier conversation found" in elsewhere.stderr.decode()


def test_a_conversation_that_somebody_else_holds_is_not_opened_twice(shell: Shell):
    shell.run(typed=b"The word is pineapple\n")
    (kept,) = shell.data.rglob("*.jsonl")
    with JsonlStore.open(kept):
        done = shell.run("--resume")
    assert (done.returncode, done.stdout) == (1, b"")
    assert f"is being written by process {os.getpid()}" in done.stderr.decode()


def test_words_that_were_not_answered_say_how_to_go_on(shell: Shell):
    done = shell.run("--twin", "--model", "claude-9", "-p", "Hello")
    (kept,) = (path.stem for path in shell.data.rglob("*.jsonl"))
    assert (done.returncode, done.stdout) == (1, b"")
    assert (
        done.stderr.decode().splitlines()[-1]
        == f"The conversation is saved: `everturn chat --resume {kept}` continues it."
    )


@pytest.mark.parametrize(
    ("options", "mark"),
    [
        (Options(window=30_000), 25_050),
        (Options(window=150_000), 125_250),
        (Options(window=200_000), 167_000),
        (Options(), 967_000),
        # The model may be as small as that, and its answers need the room.
        (Options(window=30_000, model="of-somebody-else"), 7_500),
        (Options(window=30_000, thresholds=ThresholdSettings(auto_margin=1_000)), 14_000),
        # Only reserves count as set, not a switch beside them.
        (Options(window=30_000, thresholds=ThresholdSettings(auto_compaction=False)), 25_050),
    ],
)
def test_a_small_window_on_a_large_model_has_small_reserves(options: Options, mark: int):
    window = options.window or 1_000_000
    assert compute_thresholds(window, 64_000, scale_reserves(options).thresholds).auto == mark


def settings_with_hook(file: Path, ran: Path) -> None:
    """A settings file whose hook writes a line for every prompt."""
    hook = {"type": "command", "command": f"echo ran >> {ran}"}
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps({"hooks": {"UserPromptSubmit": [{"hooks": [hook]}]}}))


@pytest.mark.spec("HK-2")
def test_the_hooks_of_a_project_run_when_their_digest_is_trusted(shell: Shell):
    ran = shell.project / "ran.txt"
    settings_with_hook(shell.project / ".claude" / "settings.json", ran)
    told = shell.run("--twin", "-p", "Hello.").stderr.decode()
    digest = re.search(r"1 hooks do not run, .* hooks\.trusted: ([0-9a-f]{64})$", told, re.MULTILINE)
    assert digest is not None
    assert not ran.exists()
    told = shell.run("--twin", "-p", "Hello.", EVERTURN_HOOKS_TRUSTED=digest[1]).stderr.decode()
    assert "are not run" not in told
    assert ran.read_text() == "ran\n"


@pytest.mark.spec("HK-2")
def test_a_hook_of_a_named_file_runs_once_for_each_prompt(shell: Shell):
    named, ran = shell.project / "hooks.json", shell.project / "ran.txt"
    settings_with_hook(named, ran)
    shell.run("--twin", "-p", "Hello.", EVERTURN_HOOKS_FILES=str(named))
    assert ran.read_text() == "ran\n"
