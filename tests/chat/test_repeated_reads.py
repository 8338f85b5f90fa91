"""A second read of a file: a note while the content is visible, else the content (MC-18, CP-19)."""

from datetime import timedelta
from pathlib import Path

import pytest

from everturn.chat.commands import run_slash_command
from everturn.chat.screen.input import SlashCommand
from everturn.decide.settings import MicroSettings, TimeSettings
from everturn.history.blocks import text_of
from everturn.session.recorded import open_session
from everturn.view.fragments.unchanged import unchanged_file

from .conftest import SUMMARY, Desk

LINES = [f"line_{number} = {number}" for number in range(1, 41)]
CONTENT = "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(LINES, 1))
NOTE = unchanged_file("long.py")
EDIT = {"file_path": "long.py", "old_string": "line_1 = 1\n", "new_string": "line_1 = 0\n"}


def results(path: Path) -> list[str]:
    """The tool results, as the transcript has them."""
    records = open_session(path).thread.records
    return [text_of(block) for each in records for block in each.blocks if block.is_result]


@pytest.fixture
def read(desk: Desk) -> dict:
    (desk.project / "long.py").write_text("\n".join(LINES) + "\n")
    return desk.call("Read", file_path="long.py")


@pytest.mark.spec("MC-18")
def test_a_second_read_of_an_unchanged_visible_file_is_a_note(desk: Desk, read):
    desk.twin.script(read, read, desk.call("Read", file_path=str(desk.project / "long.py")), "Read.")
    desk.agent().answer("Read it three times.")
    assert results(desk.path) == [CONTENT, NOTE, NOTE]
    assert desk.paper.lines[:2] == ["● Read long.py  40 lines", "● Read long.py  unchanged"]


@pytest.mark.spec("MC-18")
def test_other_lines_and_other_files_of_the_same_content_are_sent(desk: Desk, read):
    (desk.project / "copy.py").write_text("\n".join(LINES) + "\n")
    other = desk.call("Read", file_path="long.py", offset=2)
    desk.twin.script(read, other, desk.call("Read", file_path="copy.py"), "Read.")
    desk.agent().answer("Read them.")
    assert results(desk.path) == [CONTENT, CONTENT.partition("\n")[2], CONTENT]


@pytest.mark.spec("MC-18")
def test_a_file_that_changed_is_sent_again(desk: Desk, read):
    desk.twin.script(read, desk.call("Edit", **EDIT), read, "Read.")
    desk.agent("accept edits").answer("Change it.")
    first, _, second = results(desk.path)
    assert (first, second) == (CONTENT, CONTENT.replace("line_1 = 1\n", "line_1 = 0\n"))


@pytest.mark.spec("MC-18")
def test_a_file_that_is_shorter_than_the_note_is_sent_again(desk: Desk):
    read = desk.call("Read", file_path="app.py")
    desk.twin.script(read, read, "Read.")
    desk.agent().answer("Read it twice.")
    first, second = results(desk.path)
    assert first == second


@pytest.mark.spec("MC-4", "MC-18")
@pytest.mark.moves_cache_prefix(reason="old results are cleared between the reads")
def test_a_file_whose_result_was_cleared_is_sent_again(desk: Desk, read):
    other = desk.call("Read", file_path="app.py")
    desk.twin.script(read, other, read, "Read.")
    clearing = MicroSettings(time=TimeSettings(idle=timedelta(0), keep=1))
    desk.agent(micro=clearing).answer("Read them.")
    first, _, again = results(desk.path)
    assert (first, again) == (CONTENT, CONTENT)
    assert "Cleared 1 old result" in desk.paper.text


@pytest.mark.spec("MC-18")
def test_a_result_that_a_reopened_conversation_still_shows_is_a_note(desk: Desk, read):
    desk.twin.script(read, "Read.", read, "Read again.")
    agent = desk.agent()
    agent.answer("Read it.")
    agent.reopen()
    agent.answer("Read it again.")
    assert results(desk.path) == [CONTENT, NOTE]


@pytest.mark.spec("MC-18", "CP-19")
@pytest.mark.moves_cache_prefix(reason="a compaction is made by hand")
def test_after_a_compaction_a_file_is_sent_again_and_must_be_read_before_an_edit(desk: Desk, read):
    edit = desk.call("Edit", **EDIT)
    desk.twin.script(read, "Read. " * 100, SUMMARY, edit, read, edit, "Changed.")
    agent = desk.agent("accept edits")
    agent.answer("Read it. " * 100)
    agent.session.compact()
    agent.answer("Change it.")
    _, refused, again, changed = results(desk.path)
    assert refused == (
        "ToolError: long.py has not been read in this conversation, or not since its last compaction. "
        "Read it first."
    )
    assert again.startswith(CONTENT)
    assert changed == "long.py was changed (+1 -1)."


@pytest.mark.spec("CP-19")
def test_after_clear_a_file_must_be_read_again_before_an_edit(desk: Desk, read):
    desk.twin.script(read, "Read.", desk.call("Edit", **EDIT), "Not changed.")
    agent = desk.agent("accept edits")
    agent.answer("Read it.")
    list(run_slash_command(agent, SlashCommand("clear")))
    agent.answer("Change it.")
    (refused,) = results(Path(agent.session.path))
    assert "has not been read in this conversation" in refused
    assert (desk.project / "long.py").read_text() == "\n".join(LINES) + "\n"
