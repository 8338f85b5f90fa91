"""`everturn recall`, called as people call it."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from small_session import SmallSession, compacted, text, thinking

from everturn.cli import main


@pytest.fixture
def session(tmp_path: Path) -> Path:
    (tmp_path / "session.jsonl").write_bytes(compacted().to_bytes())
    return tmp_path / "session.jsonl"


def run(*args: object, columns: int = 60) -> Result:
    env = {"COLUMNS": str(columns), "NO_COLOR": None, "FORCE_COLOR": None}
    return CliRunner(env=env).invoke(main, ["recall", *map(str, args)])


@pytest.mark.spec("BY-4")
def test_hits_are_shown_with_their_place_and_state(session):
    done = run(session, "now", "test")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines()[:2] == [
        "u2  user  summarized  2026-01-05 10:02",
        "  «Now» «test» it.",
    ]
    assert max(map(len, done.stdout.splitlines())) <= 60
    assert "\x1b" not in done.stdout


def test_the_file_can_also_follow_the_words_as_for_grep(session):
    assert run("now", "test", session).stdout == run(session, "now", "test").stdout


def test_json_is_one_complete_object(session):
    found = json.loads(run(session, "make", "--json", "--limit", "1").stdout)
    assert [(hit["record"], hit["tool"], hit["state"]) for hit in found["hits"]] == [
        ("u3", "Bash", "summarized")
    ]
    assert (found["remark"], found["notes"]) == ("", [])


def test_nothing_found_and_nothing_asked_are_both_said(session):
    assert run(session, "xylophone").stdout == "Nothing found.\n"
    done = run(session, " ")
    assert (done.exit_code, done.stderr) == (
        1,
        "Error: The query is empty; give one or more words.\n",
    )


def test_a_file_that_is_not_there_is_one_sentence(tmp_path):
    done = run(tmp_path / "gone.jsonl", "x")
    assert done.exit_code == 1
    assert "No file " in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_thinking_without_text_is_not_an_empty_heading(tmp_path):
    made = SmallSession().human("Hello").reply("m1", thinking(""), text("Hi."), written=10, out=5)
    path = tmp_path / "one.jsonl"
    path.write_bytes(made.to_bytes())
    lines = run("--session", path, "--open", "u1").output.splitlines()
    assert [line.partition("  ")[0] for line in lines if line] == [
        "thinking", "(The file has no text of it.)", "assistant", "Hi.",
    ]  # fmt: skip
