"""`everturn compact` and `everturn demo compact`, called as people call them."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from rich.cells import cell_len
from small_session import SmallSession, text

from everturn.cli import main
from everturn.session.recorded import open_session


def long_session() -> SmallSession:
    made = SmallSession()
    for at in range(6):
        made.human(f"Question {at}: why does the login test fail? " + "Look closely. " * 80)
        made.reply(
            f"m{at}",
            text(f"Answer {at}. " + "It waits for the token. " * 80),
            plain=1_000 * (at + 1),
            out=400,
        )
    return made


@pytest.fixture
def session(tmp_path: Path) -> Path:
    (tmp_path / "session.jsonl").write_bytes(long_session().to_bytes())
    return tmp_path / "session.jsonl"


def run(*args: object, command: str = "compact", columns: int = 60) -> Result:
    env = {"COLUMNS": str(columns), "NO_COLOR": None, "FORCE_COLOR": None, "ANTHROPIC_API_KEY": None}
    return CliRunner(env=env).invoke(main, [*command.split(), *map(str, args)])


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.spec("CP-27")
def test_a_session_is_compacted_without_a_key_and_that_is_said(session):
    before = session.read_bytes()
    done = run(session)
    assert (done.exit_code, done.stderr) == (0, "")
    assert "no model: put together from the session" in " ".join(done.stdout.split())
    assert "6,400 before" in done.stdout
    assert max(map(cell_len, done.stdout.splitlines())) <= 60
    assert "\x1b" not in done.stdout
    assert session.read_bytes().startswith(before)
    assert len(open_session(session).views_before) == 1
    assert names(session.parent) == ["session.jsonl", "session.jsonl.state.json"]


def test_of_a_file_that_begins_in_the_middle_the_size_afterwards_says_what_it_lacks(session):
    def tokens() -> str:
        shown = " ".join(run(session).stdout.split())
        return shown.partition("tokens ")[2].partition(" summary by")[0]

    lines = session.read_bytes().splitlines(keepends=True)
    assert re.fullmatch(r"6,400 before, [0-9,]+ after", tokens())
    session.write_bytes(b"".join(lines[2:]))
    lacks = "without system prompt and tools: the file does not tell their size"
    assert re.fullmatch(rf"6,400 before, [0-9,]+ after, {lacks}", tokens())
    said = " ".join(run(session, command="context").stdout.split())
    basis = (
        "All numbers are estimates, without system prompt and tools: the file reports no usage for the "
        "current context, and does not show how large these are."
    )
    assert basis in said


def test_a_compaction_that_gains_nothing_names_the_size_that_context_shows(session):
    small = SmallSession().human("Look. " * 20).reply("m1", text("Seen. " * 20), plain=500, out=20)
    session.write_bytes(small.human("And the other one? " * 10).reply("m2", text("Too.")).to_bytes())
    shown = json.loads(run(session, "--json", command="context").stdout)["size"]["tokens"]
    done = run(session)
    assert (done.exit_code, done.stdout) == (1, "")
    assert re.search(rf"from {shown:,} to at least|it has {shown:,} tokens", done.stderr), done.stderr


@pytest.mark.spec("CP-29")
def test_a_dry_run_shows_the_plan_and_changes_nothing(session):
    before = session.read_bytes()
    done = run(session, "--dry-run", "--up-to", "u8")
    said = done.stdout.splitlines()
    assert (done.exit_code, done.stderr) == (0, "")
    assert [line.split()[0] for line in said if not line.startswith(" ")][1:] == [
        "summarizes", "by", "cut", "keeps", "tokens", "price", "why",
    ]  # fmt: skip
    assert "cut         before u8" in said
    assert any(
        line.startswith("tokens      6,400 before, about ") and line.endswith(" after") for line in said
    )
    assert (session.read_bytes(), names(session.parent)) == (before, ["session.jsonl"])


def test_json_is_one_complete_object(session):
    plan = json.loads(run(session, "--dry-run", "--from", "u6", "--json").stdout)
    assert (plan["form"], plan["kept"], plan["ways"]) == (
        "from",
        [f"u{at}" for at in range(6)],
        ["extractive"],
    )
    made = json.loads(run(session, "--json").stdout)
    assert (made["way"], made["tokens_before"], made["dollars"], made["problems"]) == (
        "extractive",
        6_400,
        0,
        [],
    )
    assert made["receipt"]["recoverable"] == [f"11 summarized messages in {session}"]


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["--up-to", "nope"], 1, "The view has no record 'nope'"),
        (["--from", "u2", "--up-to", "u4"], 2, "Give --from or --up-to, not both."),
    ],
)
def test_what_cannot_be_done_is_one_sentence(session, args, code, says):
    before = session.read_bytes()
    done = run(session, *args)
    assert (done.exit_code, done.stdout) == (code, "")
    assert says in done.stderr
    assert session.read_bytes() == before


def test_a_file_that_is_not_there_or_no_session_is_one_sentence(tmp_path):
    done = run(tmp_path / "gone.jsonl")
    assert (done.exit_code, names(tmp_path)) == (1, [])
    assert "No file " in done.stderr
    (tmp_path / "page.html").write_text("<html>")
    assert "is not a session file" in run(tmp_path / "page.html").stderr


def test_a_session_without_messages_is_not_compacted(tmp_path):
    (tmp_path / "empty.jsonl").touch()
    done = run(tmp_path / "empty.jsonl")
    assert done.exit_code == 1
    assert "There is nothing to compact" in done.stderr


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("DISABLE_COMPACT", "1", "compact.enabled = false, as DISABLE_COMPACT sets it"),
        ("EVERTURN_ENABLED", "false", "enabled = false"),
    ],
)
def test_where_compaction_is_off_the_command_says_which_key_did_it(
    session, monkeypatch, variable, value, says
):
    monkeypatch.setenv(variable, value)
    done = run(session)
    assert done.exit_code == 1
    assert f"never compacted: {says} (`everturn config` says where)" in done.output


def test_the_demo_goes_through_its_compactions_in_sixty_columns():
    done = run("--compactions", "1", command="demo compact")
    lines = done.stdout.splitlines()
    assert done.exit_code == 0
    assert [line.split(":")[0] for line in lines if line.startswith("compaction")] == ["compaction 1 by fork"]
    assert any("word for word" in line for line in lines)
    assert lines[-1].startswith("total")
    assert max(map(cell_len, lines)) <= 60
    assert "\x1b" not in done.stdout
