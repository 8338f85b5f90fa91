"""Notes that a session keeps about itself (SM)."""

import re
import time
from pathlib import Path

import pytest
from surfaces.desk import call, texts, tool, words

from everturn.decide.notes.settings import NotesSettings
from everturn.view.fragments.notes import SECTIONS

STRING = {"type": "string"}
EDIT = tool("Edit", lambda given: "done", file_path=STRING, old_string=STRING, new_string=STRING)
TITLES = [
    "Session title",
    "Current state",
    "Task specification",
    "Files and functions",
    "Workflow",
    "Errors and corrections",
    "Codebase and system documentation",
    "Learnings",
    "Key results",
    "Worklog",
]
ASKS = "Bring the notes of this session up to date"


def eager(**more):
    return NotesSettings(**{"enabled": True, "first": 1_000, "growth": 500, "tool_calls": 1, **more})


def asked(desk):
    """The requests for notes."""
    return [body for body in desk.bodies if ASKS in words(body)]


def edit_of(desk, old, new):
    path = f"{desk.path}.notes.md"
    return [call("toolu_n", "Edit", file_path=path, old_string=old, new_string=new)]


def noting(desk, noted):
    """What the fork does that writes these words into the section on the current state."""
    old = f"{SECTIONS[1].heading}\n{SECTIONS[1].description}\n"
    return edit_of(desk, old, f"{old}{noted}\n")


def take(desk, session, said):
    """A turn after which notes are taken, and one more in which they are taken over."""
    before = len(asked(desk))
    desk.twin.script("The token is awaited now.", {"content": said, "when": ASKS})
    session.send("Fix the login test. " * 300)
    answered = time.monotonic() + 10
    while len(asked(desk)) == before and time.monotonic() < answered:
        time.sleep(0.01)
    desk.twin.script("Yes.")
    session.compact()
    session.undo()


def template(desk):
    """The lines of the notes as the fork is shown them."""
    prompt = texts(asked(desk)[-1]["messages"][-1])[-1]
    body = prompt.partition("<notes>\n")[2].partition("\n</notes>")[0]
    return [line for line in body.splitlines() if line.strip()]


@pytest.mark.spec("SM-1")
def test_the_notes_have_ten_sections_each_with_an_italic_line(desk):
    with desk.open(tools=[EDIT], notes=eager()) as session:
        take(desk, session, "Nothing to note.")
    lines = template(desk)
    assert [line.removeprefix("# ") for line in lines[::2]] == TITLES
    assert all(line.startswith("_") and line.endswith("_") for line in lines[1::2])


@pytest.mark.spec("SM-1")
def test_an_update_that_removes_an_italic_line_is_refused(desk):
    with desk.open(tools=[EDIT], notes=eager()) as session:
        take(desk, session, edit_of(desk, "# Workflow\n", ""))
    assert len(desk.heard("NotesRejected")) == 1
    assert not (desk.folder / "session.jsonl.notes.md").exists()


@pytest.mark.spec("SM-2")
@pytest.mark.parametrize(
    ("settings", "turns", "times"),
    [
        ({"first": 100_000}, 2, 0),
        ({"first": 1_000, "growth": 100_000}, 3, 1),
        ({"first": 1_000, "growth": 500}, 3, 3),
    ],
)
def test_notes_are_taken_after_a_first_size_and_then_after_so_much_growth(desk, settings, turns, times):
    with desk.open(tools=[EDIT], notes=eager(**settings)) as session:
        for turn in range(turns):
            before = len(desk.bodies)
            desk.twin.script({"content": noting(desk, f"Note {turn}."), "when": ASKS}, "Done.")
            session.send(f"Fix the login test, part {turn}. " * 100)
            answered = time.monotonic() + (5 if times == turns else 0.2)
            while len(desk.bodies) < before + 2 and time.monotonic() < answered:
                time.sleep(0.01)
    assert len(asked(desk)) == times


@pytest.mark.spec("SM-4")
def test_a_section_that_has_grown_too_long_is_named_in_the_next_request(desk):
    with desk.open(tools=[EDIT], notes=eager(section=50, whole=5_000)) as session:
        take(desk, session, noting(desk, "The token is awaited in auth.py. " * 40))
        take(desk, session, "Nothing to note.")
    rules = texts(asked(desk)[-1]["messages"][-1])[-1].partition("</notes>")[2]
    assert "50" in rules
    assert "Current state" in rules


@pytest.mark.spec("SM-5")
def test_the_record_that_the_notes_cover_is_stored_with_them(desk):
    with desk.open(tools=[EDIT], notes=eager()) as session:
        take(desk, session, noting(desk, "The token is awaited in auth.py."))
    file = (desk.folder / "session.jsonl.notes.md").read_text()
    assert "The token is awaited in auth.py." in file
    [event] = desk.heard("NotesTaken")
    assert event.covers == desk.lines()[0]["uuid"]
    assert event.covers in file


@pytest.mark.spec("SM-7")
def test_a_section_of_the_summary_is_cut_and_points_to_the_file_that_has_the_rest(desk):
    line = "The token is awaited in auth.py, line 12, since the test needs it.\n"
    with desk.open(tools=[EDIT], notes=eager(section=100), ways=("notes",)) as session:
        take(desk, session, noting(desk, line * 40))
        session.compact()
    [event] = desk.heard("CompactionDone")[-1:]
    assert event.way == "notes"
    made = [line for line in desk.lines() if line.get("isCompactSummary")][-1]["message"]["content"]
    made = made if isinstance(made, str) else made[0]["text"]
    file = f"{desk.path}.notes.md"
    # 67 characters each: six lines are 100 tokens.
    assert made.count(line.strip()) == 400 // len(line)
    assert f"[The rest of this section is in {file}; read it there if you need it]" in made
    assert Path(file).read_text().count(line) == 40


@pytest.mark.spec("SM-7", "TL-1")
@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (1_400, r"the result has 3\d,\d{3} tokens, at or over the threshold of 32,400"),
        (2_000, r"it is not smaller \(4\d,\d{3} tokens\) than what it replaces \(4\d,\d{3}\)"),
    ],
)
def test_notes_that_would_fill_the_context_again_are_rejected_and_the_next_strategy_is_used(desk, lines, why):
    line = "The token is awaited in auth.py, line 12, since the test needs it.\n"
    limits = {"section": 40_000, "whole": 50_000, "keep_tokens": 1, "keep_messages": 1}
    with desk.open(tools=[EDIT]) as session:
        desk.talk(session, 7, size=400)
    with desk.open(tools=[EDIT], notes=eager(**limits)) as session:
        take(desk, session, noting(desk, line))
    file = Path(f"{desk.path}.notes.md")
    # One reply could not write so much; many of them can.
    file.write_text(file.read_text().replace(line, line * lines))
    desk.events.clear()
    desk.twin.script("Well.")
    late = {"notes": eager(**limits, growth=1_000_000), "thresholds": {"auto_percent": 18}}
    with desk.open(tools=[EDIT], **late, ways=("notes", "extract")) as session:
        session.send("And now?")
    [done] = desk.heard("CompactionDone")
    assert done.way == "extractive"
    [rejected] = desk.heard("NotesRejected")
    assert re.fullmatch(why, rejected.why)
    assert rejected.moment.session == done.moment.session != ""
