"""`everturn expand`, called as people call it."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from rich.cells import cell_len
from small_session import SmallSession, compacted, text

from everturn.cli import main


@pytest.fixture
def session(tmp_path: Path) -> Path:
    (tmp_path / "session.jsonl").write_bytes(compacted().to_bytes())
    return tmp_path / "session.jsonl"


def run(*args: object, columns: int = 60) -> Result:
    env = {"COLUMNS": str(columns), "NO_COLOR": None, "FORCE_COLOR": None}
    return CliRunner(env=env).invoke(main, ["expand", *map(str, args)])


@pytest.mark.spec("BY-4")
def test_the_compactions_of_a_session_are_listed(session):
    done = run(session)
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        "no.  boundary  time              tokens  replaced  state",
        "  1  u5        2026-01-05 10:05    160k         5",
    ]


@pytest.mark.spec("BY-4")
@pytest.mark.parametrize("name", ["1", "u5"])
def test_one_is_expanded_into_the_messages_it_replaced(session, name):
    done = run(session, name)
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "Compaction 1 (u5) replaced 5 records:"
    heads = [line for line in lines if "2026-01-05" in line]
    assert heads == [
        "user  2026-01-05 10:00",
        "assistant  2026-01-05 10:01",
        "user  2026-01-05 10:02",
        "call of Bash  2026-01-05 10:03",
        "result of Bash  2026-01-05 10:04",
        "summary  2026-01-05 10:06",
    ]
    assert "(1,996 lines more)" in lines
    assert max(map(cell_len, lines)) <= 60
    assert "\x1b" not in done.stdout


def test_full_prints_every_word_in_as_many_lines_as_it_takes(session):
    done = run(session, "1", "--full")
    assert done.stdout.count("Done.") == 100
    assert done.stdout.splitlines().count("ok") == 2_000
    assert max(map(cell_len, done.stdout.splitlines())) <= 60


def test_what_a_session_says_cannot_steer_the_terminal(tmp_path):
    made = SmallSession().human("\x1b[2Jgone \u202e reversed 解析器" * 20).reply("m1", text("x"))
    path = tmp_path / "s.jsonl"
    path.write_bytes(made.boundary(1_000).summary("short").to_bytes())
    for more in ((), ("--full",)):
        shown = run(path, "1", *more).stdout
        assert "\x1b" not in shown
        assert "\u202e" not in shown
        assert max(map(cell_len, shown.splitlines())) <= 60


def test_a_session_without_compactions_says_so(tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_bytes(SmallSession().human("hi").to_bytes())
    assert run(path).stdout == "This session was never compacted.\n"
    done = run(path, "1")
    assert (done.exit_code, done.stderr) == (
        1,
        "Error: This session was never compacted: there is nothing to expand.\n",
    )


def test_the_old_name_of_the_command_still_works_and_says_the_new_one(session):
    old = CliRunner().invoke(main, ["unfold", str(session)])
    new = CliRunner().invoke(main, ["expand", str(session)])
    assert (old.exit_code, old.stdout) == (0, new.stdout)
    assert old.stderr == "`everturn unfold` is now `everturn expand`.\n"
