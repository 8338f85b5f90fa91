"""Whatever opens a damaged transcript says what it lost: every command, tool and adapter."""

import logging
import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from reliability.callers import SURFACES, Caller, Step
from surfaces.desk import Desk, texts

import everturn
from everturn.cli import main
from everturn.decide.events import TranscriptDamaged
from everturn.mcp import results
from everturn.session.transcripts import open_own_transcript, open_transcript
from everturn.twin.testing import TwinForTests
from everturn.web_dashboard.summarize import summarize_file

LOST = "something was changed, lost, doubled or moved here"


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
    """A compacted session in whose file a digit has changed."""
    desk = Desk(tmp_path_factory.mktemp("damaged"), TwinForTests())
    with desk.open(compact={"strategies": ["extractive"]}) as session:
        desk.talk(session, turns=4, size=400)
        assert isinstance(session.compact(), everturn.Compaction)
        desk.talk(session, turns=1, size=400)
        path = session.path
    file = Path(path)
    file.write_bytes(file.read_bytes().replace(b"Question 1", b"Question 7", 1))
    return path


@pytest.fixture
def damaged_copy(damaged, tmp_path):
    path = tmp_path / "session.jsonl"
    path.write_bytes(Path(damaged).read_bytes())
    return str(path)


@pytest.mark.spec("TR-10")
@pytest.mark.parametrize(
    "words",
    [
        ["recall", "{}", "Question"],
        ["compact", "{}", "--dry-run"],
        ["compact", "{}"],
        ["undo", "{}"],
        ["expand", "{}"],
    ],
    ids=" ".join,
)
def test_a_command_says_on_stderr_what_the_file_has_lost(damaged_copy, words):
    done = CliRunner().invoke(main, [word.format(damaged_copy) for word in words])
    assert done.exit_code == 0, done.output
    assert f"Warning: {damaged_copy} is damaged: line " in done.stderr
    assert LOST in done.stderr


@pytest.mark.spec("TR-10")
@pytest.mark.parametrize("words", [["context", "{}"], ["audit", "{}"]], ids=" ".join)
def test_a_report_has_the_damage_among_its_findings(damaged, words):
    given = [word.format(damaged) for word in words]
    assert "line " in CliRunner().invoke(main, given).output
    assert LOST in CliRunner().invoke(main, [*given, "--json"]).output


@pytest.mark.parametrize(
    "tool",
    [
        results.context_usage,
        results.audit,
        lambda file: results.dry_run_compaction(file, ""),
        lambda file: results.recall(file, "Question", 3),
    ],
)
def test_a_tool_of_the_server_says_what_the_file_has_lost(damaged_copy, tool):
    assert LOST in tool(Path(damaged_copy))["file_is_damaged"][0]


@pytest.mark.spec("TR-9", "TR-10")
@pytest.mark.parametrize("key", [b'"parentUuyd":', b'"parentUuid":7,"was":'], ids=["another key", "a number"])
def test_a_line_whose_link_is_damaged_hides_nothing_that_came_before_it(desk, key):
    with desk.open() as session:
        desk.talk(session, turns=4, size=10)
        said = [record.uuid for record in session.conversation.log.view.records]
    lines = desk.path.read_bytes().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if b"Question 2" in line)
    lines[at] = lines[at].replace(b'"parentUuid":', key, 1)
    desk.path.write_bytes(b"".join(lines))
    with desk.open() as session:
        found = [record.uuid for record in session.conversation.log.view.records]
        remarks = session.remarks
        desk.twin.script("Well.")
        session.send("And now?")
    assert found == said
    name, before = said[4], said[3]
    assert f"{name} does not say what it continues; it is read behind {before}" in remarks
    spoken = [part for message in desk.bodies[-1]["messages"] for part in texts(message)]
    assert [part.split(":")[0].split(" about")[0] for part in spoken] == [
        *(f"{kind} {turn}" for turn in range(4) for kind in ("Question", "Answer")),
        "And now?",
    ]


def test_the_next_pin_says_which_earlier_one_cannot_be_read_any_more(tmp_path):
    path = tmp_path / "session.jsonl"
    kept = tmp_path / "session.jsonl.pins"
    results.pin(path, "Use tabs.")
    kept.write_bytes(kept.read_bytes().replace(b"tabs", b"\xe9abs"))
    why = f"a pin is lost: line 2 of {kept} cannot be read; pin the text again and remove what is damaged"
    assert results.pin(path, "Never push to main.") == {
        "pinned": ["Never push to main."],
        "kept_in": kept.name,
        "file_is_damaged": [why],
    }


@pytest.mark.spec("TR-10")
def test_a_lost_pin_is_noticed_in_a_session_that_has_nothing_else(tmp_path):
    desk = Desk(tmp_path, TwinForTests())
    with desk.open() as session:
        session.pin("Use tabs.")
        session.pin("Never push to main.")
    whole = desk.path.read_bytes()
    first = whole[: whole.index(b"\n") + 1]
    desk.path.write_bytes(first)
    sizes = f"it has {len(first):,} bytes, and had {len(whole):,} when its state was written"
    with desk.open() as session:
        assert session.remarks == [f"line 1: the end of the file is missing: {sizes}"]


@pytest.mark.parametrize("left", [b"", b'{"breaker":{"fail', b"\0" * 200, b"[]"])
def test_a_state_file_that_cannot_be_read_is_a_remark_once(tmp_path, left):
    desk = Desk(tmp_path, TwinForTests())
    with desk.open() as session:
        desk.talk(session, turns=1)
    state = tmp_path / "session.jsonl.state.json"
    state.write_bytes(left)
    with desk.open() as session:
        assert session.remarks == [
            f"{state} cannot be read: whether the end of the transcript is missing is not known, and what "
            "was known of breakers, cache and costs begins anew"
        ]
    with desk.open() as session:
        assert session.remarks == []


def say_between(monkeypatch, session):
    """Let this session say something when a reader has read its transcript or its state, and opens the other
    one. Returns what was opened."""
    names, opened, real = {session.path, f"{session.path}.state.json"}, list[str](), os.open

    def open_watched(name, flags, *more, **by_name):
        if os.fspath(name) in names - set(opened):
            opened.append(os.fspath(name))
            if len(opened) == len(names):
                session.send("And then?")
        return real(name, flags, *more, **by_name)

    monkeypatch.setattr(os, "open", open_watched)
    return opened


@pytest.mark.spec("TR-10")
@pytest.mark.parametrize(
    "read",
    [
        *(
            pytest.param(lambda path, words=words: run_command(words, path), id=" ".join(words))
            for words in (
                ["context", "{}", "--json"],
                ["audit", "{}", "--json"],
                ["recall", "{}", "Question"],
                ["expand", "{}"],
            )
        ),
        pytest.param(lambda path: str(results.context_usage(Path(path))), id="tool context_usage"),
        pytest.param(lambda path: str(results.audit(Path(path))), id="tool audit"),
        pytest.param(lambda path: str(results.recall(Path(path), "Question", 3)), id="tool recall"),
        pytest.param(lambda path: str(summarize_file(path)), id="dashboard"),
        pytest.param(lambda path: str(open_own_transcript(path).flaws), id="branches"),
    ],
)
def test_a_reader_beside_a_writer_takes_nothing_for_lost(desk, monkeypatch, read):
    with desk.open() as session:
        desk.talk(session, turns=2)
        opened = say_between(monkeypatch, session)
        said = read(session.path)
        monkeypatch.undo()
        assert sorted(opened) == [session.path, f"{session.path}.state.json"]
        assert open_transcript(session.path).flaws == ()
    assert [word for word in ("is missing", "damaged", "checksum") if word in said] == []


def run_command(words, path):
    done = CliRunner().invoke(main, [word.format(path) for word in words])
    assert done.exit_code == 0, done.output
    return done.output


def test_nothing_is_said_of_a_file_that_is_whole(tmp_path):
    desk = Desk(tmp_path, TwinForTests())
    with desk.open() as session:
        desk.talk(session, turns=1, size=10)
        path = session.path
    assert CliRunner().invoke(main, ["recall", path, "Question"]).stderr == ""


@pytest.mark.spec("TR-10")
@pytest.mark.parametrize("surface", SURFACES)
def test_an_adapter_that_opens_a_damaged_transcript_says_so_in_an_event_the_log_and_the_bill(
    surface, tmp_path, caplog
):
    caller, step = Caller(surface, tmp_path), Step(0.0, "go on", 0.0)
    caller.act(step)
    caller.surface.restart()
    (path,) = tmp_path.glob("*.jsonl")
    path.write_bytes(path.read_bytes().replace(b"matters", b"mutters", 1))
    with caplog.at_level(logging.WARNING, "everturn"):
        caller.act(step)
    told = [event for event in caller.events if isinstance(event, TranscriptDamaged)]
    # It was missing once in some ten thousand runs, and nobody knows why: the rest is said if it is again.
    assert len(told) == 1, (caller.events, sorted(tmp_path.iterdir()), caplog.text)
    (event,) = told
    assert (event.problems, event.path) == (1, str(path.resolve()))
    assert LOST in event.what
    assert f"the transcript {event.path} is damaged: {event.what}" in caplog.text
    assert event.what in caller.surface.bill.notes[0]
    caller.check()
