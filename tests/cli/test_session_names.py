"""Sessions by no name, by id, by title and by file, as people name them in every command."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from small_session import SmallSession, compacted, text

from everturn.catalog.names import short_id
from everturn.catalog.remembered import load_remembered, remember
from everturn.cli import main

Run = Callable[..., Result]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a project folder `work`, in which the test stands."""
    for name in ("CLAUDE_CONFIG_DIR", "XDG_DATA_HOME", "CLAUDE_CODE_SESSION_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "work" / "deep").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


def run(*args: object, columns: int = 80) -> Result:
    env = {"COLUMNS": str(columns), "NO_COLOR": None, "FORCE_COLOR": None}
    return CliRunner(env=env).invoke(main, [*map(str, args)])


def keep(home: Path, name: str, session: SmallSession, *, age: int = 0, project: str = "work") -> Path:
    """The session as Claude Code would keep it; `age` seconds older than one of age 0."""
    folder = home / ".claude" / "projects" / str(home / project).replace("/", "-").replace("_", "-")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.jsonl"
    path.write_bytes(session.to_bytes())
    os.utime(path, (1_790_000_000 - age, 1_790_000_000 - age))
    return path


def told(words: str, message: str = "m1", written: int = 3_000) -> SmallSession:
    return SmallSession().human(words).reply(message, text("Done."), written=written)


def test_without_a_name_it_is_the_newest_session_of_the_folder_or_of_one_above(home, monkeypatch):
    keep(home, "old", told("The old one."), age=100)
    new = keep(home, "new", told("The new one."))
    keep(home, "other", told("Elsewhere."), project="elsewhere")
    # An agent creates its file before anything is said.
    keep(home, "begun", SmallSession(), age=-10).write_text('{"type":"summary"}\n')
    for folder in (home / "work", home / "work" / "deep"):
        monkeypatch.chdir(folder)
        done = run("context", "--json")
        assert json.loads(done.stdout)["source"] == str(new)
    lines = run("context").stdout.splitlines()
    assert (lines[0], lines[1].split()[0]) == ("The new one.", short_id(str(new)))


def test_the_session_of_the_running_agent_comes_first(home, monkeypatch):
    keep(home, "new", told("The new one."))
    mine = keep(home, "mine", told("Mine."), age=100, project="elsewhere")
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "mine")
    assert json.loads(run("context", "--json").stdout)["source"] == str(mine)


def test_an_id_of_digits_only_is_a_session_and_not_the_number_of_a_compaction(home):
    folder = keep(home, "other", told("Something else."), age=5).parent
    name = next(n for n in map(str, count()) if short_id(str(folder / f"{n}.jsonl")).isdecimal())
    found = keep(home, name, compacted())
    assert run("expand", short_id(str(found))).stdout.splitlines()[1].split()[0] == "1"


@pytest.mark.parametrize("name", ["id", "file", "title"])
def test_every_command_takes_an_id_a_file_name_and_a_part_of_the_title(home, name):
    found = keep(home, "0a1b2c3d-uuid", compacted())
    keep(home, "other", told("Something else."), age=5)
    named = {"id": short_id(str(found)), "file": "0a1b2c3d", "title": "BUILD it"}[name]
    assert json.loads(run("context", named, "--json").stdout)["source"] == str(found)
    assert run("expand", named).stdout.splitlines()[1].split()[0] == "1"
    assert json.loads(run("recall", "--session", named, "make", "--json").stdout)["hits"]
    assert json.loads(run("audit", named, "--json").stdout)["sessions"][0]["path"] == str(found)
    assert json.loads(run("undo", named, "--json").stdout)["boundary"]


def test_a_name_that_fits_several_is_answered_with_a_list_and_nothing_is_changed(home):
    paths = [keep(home, f"s{number}", told(f"Fix part {number}."), age=number) for number in range(3)]
    before = [path.read_bytes() for path in paths]
    done = run("compact", "fix part", columns=60)
    assert done.exit_code == 1
    assert done.stderr.splitlines() == [
        "Error: 3 sessions fit 'fix part'. Name one by its id or path:",
        *(f"  {short_id(str(paths[n]))}  2026-09-21 14:13  Fix part {n}." for n in range(3)),
    ]
    assert [path.read_bytes() for path in paths] == before


def test_a_command_that_changes_something_never_guesses_between_several(home, monkeypatch):
    one = keep(home, "one", compacted())
    keep(home, "two", told("Another."), age=5)
    asked = run("undo")
    assert asked.exit_code == 1
    assert asked.stderr.startswith("Error: This command changes a session. Name it by its id, one of:\n")
    monkeypatch.chdir(home / "work" / "deep")
    (one.parent / "two.jsonl").unlink()
    # Only one, but of another folder.
    assert run("undo").exit_code == 1
    monkeypatch.chdir(home / "work")
    assert run("undo").exit_code == 0


def test_an_id_that_was_shown_for_a_file_anywhere_is_understood_afterwards(home):
    paths = [home / "work" / "deep" / f"{name}.jsonl" for name in "ab"]
    for path in paths:
        path.write_bytes(told(f"Session {path.stem}.", path.stem).to_bytes())
    shown = run("audit", home / "work" / "deep", "--by", "session").stdout
    assert short_id(str(paths[0])) in shown
    assert json.loads(run("context", short_id(str(paths[0])), "--json").stdout)["source"] == str(paths[0])
    (kept,) = (home / "cache" / "everturn").glob("*.json")
    assert (kept.stat().st_mode & 0o777, json.loads(kept.read_text())) == (
        0o600,
        [str(path) for path in paths],
    )


def test_a_machine_without_sessions_says_where_it_looked_and_what_to_do(home):
    audit = run("audit")
    assert (audit.exit_code, audit.stdout) == (1, "")
    assert f"No session was found in {home}/.claude/projects or {home}/.local/share/everturn." in audit.stderr
    assert "everturn audit PATH" in audit.stderr
    for command in (["context"], ["recall", "x"], ["replay"], ["undo"], ["compact"]):
        done = run(*command)
        assert (done.exit_code, done.stdout) == (1, "")
        assert done.stderr.startswith(f"Error: No session of {home}/work was found in ")


def test_an_unknown_name_is_answered_with_what_is_near_and_what_is_there(home):
    keep(home, "one", told("Fix the login."))
    Path("notes.jsonl").write_bytes(b"")
    done = run("context", "note.jsonl")
    assert done.exit_code == 1
    assert "no session this id or title. Did you mean notes.jsonl?" in done.stderr
    assert "Fix the login." in done.stderr
    assert "Did you mean notes.jsonl?" in run("audit", "./note.jsonl").stderr


def test_titles_and_file_names_cannot_control_the_terminal_and_are_cut_by_their_width(home):
    keep(home, "x\x1b[31m", told("\x1b]0;owned\x07 \u202eevil " + "長い" * 60))
    keep(home, "y", told("Plain.", "m2"), age=5)
    for done in (run("undo", columns=60), run("context", "zzz", columns=60), run("audit", columns=60)):
        shown = done.stdout + done.stderr
        assert not {"\x1b", "\x07", "\u202e"} & set(shown)
        assert "Plain." in shown
    lines = run("undo", columns=60).stderr.splitlines()
    # A Japanese letter is two columns wide.
    assert max(len(line) + sum(letter > "\u3000" for letter in line) for line in lines[1:]) <= 60


def test_a_hit_of_recall_is_opened_whole(home):
    long = "The answer is " + "very " * 400 + "long."
    keep(home, "one", SmallSession().human("Where is it?").reply("m1", text(long), written=3_000))
    found = run("recall", "answer")
    assert found.stdout.splitlines()[-1] == "Whole: everturn recall --open u1"
    opened = run("recall", "--open", "u1", columns=4_000)
    assert opened.stdout.splitlines() == ["assistant  2026-01-05 10:01", long]
    missing = run("recall", "--open", "zz")
    assert (missing.exit_code, missing.stderr.splitlines()[-1]) == (
        1, "Error: This session has no record 'zz'. A search shows the ids of its hits.",
    )  # fmt: skip


def test_a_folder_that_was_deleted_is_said_in_one_line(home):
    gone = home / "gone"
    gone.mkdir()
    code = "import os, sys; os.rmdir(os.getcwd()); from everturn.__main__ import main; main()"
    command = [sys.executable, "-c", code, "context"]
    done = subprocess.run(command, cwd=gone, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (
        1, "Error: The current folder no longer exists. Change to another one.\n",
    )  # fmt: skip


def test_a_path_that_is_not_utf8_keeps_no_other_from_being_remembered(tmp_path):
    remember(tmp_path, [Path("na\udce4me.jsonl"), Path("one.jsonl"), Path("two.jsonl")])
    assert load_remembered(tmp_path) == [Path("one.jsonl"), Path("two.jsonl")]
