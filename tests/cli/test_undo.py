"""`everturn undo`, called as people call it."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from small_session import compacted

from everturn.cli import main
from everturn.session.recorded import open_session
from everturn.session.store import JsonlStore


@pytest.fixture
def session(tmp_path: Path) -> Path:
    (tmp_path / "session.jsonl").write_bytes(compacted().to_bytes())
    return tmp_path / "session.jsonl"


def run(*args: object) -> Result:
    env = {"COLUMNS": "60", "NO_COLOR": None, "FORCE_COLOR": None, "ANTHROPIC_API_KEY": None}
    return CliRunner(env=env).invoke(main, ["undo", *map(str, args)])


@pytest.mark.spec("CP-30")
def test_the_last_compaction_is_taken_back_by_one_line_more(session):
    before = session.read_bytes()
    boundary = open_session(session).view.boundary
    assert boundary is not None
    done = run(session)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Compaction {boundary.uuid} no longer")
    after = session.read_bytes()
    assert after.startswith(before)
    assert after.count(b"\n") - before.count(b"\n") == 1
    assert open_session(session).view.boundary is None


def test_what_does_not_fit_any_more_is_said(session):
    over = "The context is above the threshold again"
    longer = session.with_name("longer.jsonl")
    longer.write_bytes(compacted().human("and now this " * 5_000).to_bytes())
    assert over not in run(session).stdout
    assert over in run(longer).stdout


def test_nothing_to_take_back_is_one_sentence(session):
    assert json.loads(run(session, "--json").stdout).keys() == {"boundary", "tokens_before", "tokens_after"}
    done = run(session)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: No compaction found to undo")


def test_a_session_that_is_being_written_is_left_alone(session):
    with JsonlStore.open(session):
        done = run(session)
    assert done.exit_code == 1
    assert "is being written by process" in done.stderr
