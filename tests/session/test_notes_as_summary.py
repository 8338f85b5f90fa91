"""Notes of a session that become its summary: no call of a model, and never a long wait for them."""

import threading
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from scripted_twin import scripted_options

from everturn import Session, Tool
from everturn.decide.compact.values import Compaction
from everturn.decide.events import CompactionDone, NotesTaken
from everturn.decide.notes.settings import NotesSettings
from everturn.history.records import Usage
from everturn.measure.thresholds import ThresholdSettings
from everturn.session.upstream import RawResponse
from everturn.twin.testing import TwinForTests
from everturn.twin.upstream import make_twin_send
from everturn.view.fragments.notes import SECTIONS

RULES = "Read a file before you change it, and say honestly what the tests have shown. " * 220
WORDS = "The token is awaited in auth.py, and the login test passes."
ASKS_FOR_NOTES = b"Bring the notes of this session up to date"
FIELDS = {name: {"type": "string"} for name in ("file_path", "old_string", "new_string")}
EDIT = {"name": "Edit", "description": "Edits.", "input_schema": {"type": "object", "properties": FIELDS}}


class Taken:
    """A session that keeps notes: its calls are told apart, and the fork for notes answers when it may."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "session.jsonl"
        self.box = TwinForTests(options=scripted_options())
        self.calls: list[str] = []
        self.heard: list[Any] = []
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.has_news = True
        self._ids = count(1)
        self._send = make_twin_send(self.box.twin)

    def send(self, body: bytes, betas: Sequence[str]) -> RawResponse:
        if ASKS_FOR_NOTES in body:
            self.calls.append("notes")
            self.may_answer.wait(20)
            return RawResponse(self._edit())
        self.calls.append("summary" if b"Write a summary of" in body else "turn")
        return self._send(body, betas)

    def _edit(self) -> bytes:
        old = f"{SECTIONS[1].heading}\n{SECTIONS[1].description}\n"
        given = {"file_path": f"{self.path}.notes.md", "old_string": old, "new_string": f"{old}{WORDS}\n"}
        call = {"type": "tool_use", "id": "toolu_n", "name": "Edit", "input": given}
        usage = {"input_tokens": 9, "cache_read_input_tokens": 900, "output_tokens": 50}
        said = [call] if self.has_news else [{"type": "text", "text": "Nothing to note."}]
        return msgspec.json.encode({"id": "msg_n", "model": "m", "content": said, "usage": usage})

    def open(self, percent: float | None = None, growth: int = 30_000) -> Session:
        return Session.open(
            self.path,
            model="claude-haiku-4-5",
            notes=NotesSettings(enabled=True, first=10_000, growth=growth, tool_calls=1),
            thresholds=ThresholdSettings(auto_percent=percent),
            system=RULES,
            tools=[Tool(EDIT, lambda given: "done")],
            send=self.send,
            clock=self.box.twin.clock.now,
            new_id=lambda: f"{next(self._ids):08d}",
            listen=self.heard.append,
            **{"store.fsync": "never"},
        )

    def talk(self, session: Session, turns: int) -> None:
        for turn in range(turns):
            self.box.script(f"Answer {turn}. " + "As far as the results show. " * 120)
            session.send(f"Question {turn}. " + "Look closely at the login test. " * 120)


@pytest.fixture
def taken(tmp_path: Path) -> Taken:
    return Taken(tmp_path)


@pytest.mark.spec("SM-6", "CP-21")
def test_notes_are_the_summary_and_no_model_is_asked_for_one(taken):
    with taken.open() as session:
        taken.talk(session, 16)
        made = session.compact()
        assert isinstance(made, Compaction)
        assert [(attempt.strategy, attempt.problem) for attempt in made.attempts] == [("notes", "")]
        assert taken.calls.count("summary") == 0
        (done,) = [event for event in taken.heard if isinstance(event, CompactionDone)]
        assert (done.way, done.usage) == ("notes", Usage())
        assert session.bill.parts["compact"].calls == 0
        # What the notes do not cover is kept word for word.
        assert made.kept is not None
        taken.box.script("Yes.")
        request = session.send("Is it fixed?").exchange.turn.request().to_bytes()
    assert WORDS.encode() in request
    assert b"Question 15." in request
    assert b"Question 2." not in request


@pytest.mark.spec("SM-6")
def test_notes_that_came_before_the_session_is_closed_are_kept_and_billed(taken):
    with taken.open() as session:
        notes = session._runtime.notes
        while notes._job is None:
            taken.talk(session, 1)
        assert notes._job.done.wait(20)
    billed = session.bill.parts["session_memory"]
    assert (taken.calls.count("notes"), billed.calls, billed.read, billed.output) == (1, 1, 900, 50)
    assert [type(event) for event in taken.heard if isinstance(event, NotesTaken)] == [NotesTaken]
    assert WORDS in Path(f"{taken.path}.notes.md").read_text(encoding="utf-8")
    with taken.open() as session:
        assert session.bill.parts["session_memory"] == billed


FACT = "The deploy key is in vault 7."


def compact_until_nothing_covered_is_in_view(taken: Taken, session: Session) -> None:
    taken.talk(session, 14)
    notes = session._runtime.notes
    assert notes is not None
    notes.settle("a while")
    while covered(session) in uuids_in_view(session):
        assert isinstance(session.compact(), Compaction)


def uuids_in_view(session: Session) -> set[str]:
    return {record.uuid for record in session.conversation.log.view.records}


def covered(session: Session) -> str:
    notes = session._runtime.notes
    assert notes is not None
    return notes.notes.state.covers


def sent_after(taken: Taken, session: Session) -> str:
    """The next request."""
    taken.box.script("Yes.")
    return session.send("Where were we?").exchange.turn.request().to_bytes().decode()


@pytest.mark.spec("SM-6")
@pytest.mark.parametrize("is_reopened", [False, True])
def test_words_said_after_the_notes_left_the_view_outlive_a_compaction_of_the_opened_session(
    taken, is_reopened
):
    session = taken.open()
    compact_until_nothing_covered_is_in_view(taken, session)
    taken.box.script("Noted.")
    session.send(FACT)
    taken.talk(session, 1)
    if is_reopened:
        session.close()
        session = taken.open()
    taken.talk(session, 3)
    made = session.compact()
    assert isinstance(made, Compaction)
    assert [(attempt.strategy, attempt.problem) for attempt in made.attempts] == [
        ("notes", "no usable notes found"),
        ("fork", ""),
    ]
    assert FACT in sent_after(taken, session)
    session.close()


@pytest.mark.spec("SM-6")
@pytest.mark.parametrize("is_reopened", [False, True])
def test_notes_of_a_branch_that_was_taken_back_are_not_the_summary_of_the_other_one(taken, is_reopened):
    session = taken.open()
    taken.box.script("Hello.")
    session.send("We begin.")
    while not taken.calls.count("notes"):
        taken.talk(session, 1)
    notes = session._runtime.notes
    assert notes is not None
    notes.settle("a while")
    session.rewind([each for each in session.conversation.log.records if each.kind == "user"][1].uuid)
    taken.has_news = False
    taken.box.script("Noted.")
    session.send(FACT)
    taken.talk(session, 6)
    if is_reopened:
        session.close()
        session = taken.open()
    taken.talk(session, 3)
    made = session.compact()
    assert isinstance(made, Compaction)
    assert [(attempt.strategy, attempt.problem) for attempt in made.attempts] == [
        ("notes", "no usable notes found"),
        ("fork", ""),
    ]
    request = sent_after(taken, session)
    assert (FACT in request, WORDS in request) == (True, False)
    session.close()


@pytest.mark.spec("SM-2")
def test_growth_since_a_compaction_counts_on_when_the_session_is_opened_again(taken):
    with taken.open(growth=5_000) as session:
        compact_until_nothing_covered_is_in_view(taken, session)
        size = session.context().size.tokens
    asked = taken.calls.count("notes")
    with taken.open(growth=5_000) as session:
        while session.context().size.tokens < size + 5_000:
            taken.talk(session, 1)
        notes = session._runtime.notes
        assert notes is not None
        notes.settle("a while")
        assert covered(session) in uuids_in_view(session)
    assert taken.calls.count("notes") == asked + 1


def recorded(taken: Taken) -> Path:
    """A session with notes that can be its summary, closed; returns the file of the notes."""
    with taken.open() as session:
        taken.talk(session, 8)
        notes = session._runtime.notes
        assert notes is not None
        notes.settle("a while")
    return Path(f"{taken.path}.notes.md")


def compacted_after_opening(taken: Taken) -> tuple[list[tuple[str, str]], list[str], str]:
    """The attempts of a compaction, what the session remarks, and the request after it."""
    with taken.open() as session:
        made = session.compact()
        assert isinstance(made, Compaction)
        attempts = [(attempt.strategy, attempt.problem) for attempt in made.attempts]
        return attempts, list(session.remarks), sent_after(taken, session)


OTHER = "The bicycle shop has moved its web site, and all of its orders are in the new place."
COVERS = '"covers":"00000005"'


@pytest.mark.spec("SM-5", "SM-6")
@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {COVERS: '"covers":"gone"', WORDS: OTHER},
            "the last record that the notes cover, 'gone', is not in this conversation; it was taken back, "
            "or the notes belong to another session",
        ),
        ({'"session":"session"': '"session":"shop"', WORDS: OTHER}, "it belongs to the session 'shop'"),
        ({COVERS: '"cXvers":"00000005"'}, "it does not say which record the notes cover"),
        (
            {"everturn: {": "everturn: "},
            "the line in front of the notes cannot be read: Expected `object`, got `str`",
        ),
        ({"everturn: ": "evertXrn: "}, "the lines in front of the notes are not ours"),
        ({"# Worklog": "# Worklo"}, 'the heading "Worklog" is there 0 times'),
        (
            {"# Worklog": "# Worklo", "# Workflow": "# Workflo"},
            'the heading "Workflow" is there 0 times, and 1 more of this kind',
        ),
    ],
)
def test_notes_of_another_session_and_damaged_notes_are_ignored_with_a_remark(taken, changes, problem):
    file = recorded(taken)
    text = file.read_text(encoding="utf-8")
    for old, new in changes.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    file.write_text(text, encoding="utf-8")
    attempts, remarks, request = compacted_after_opening(taken)
    assert attempts == [("notes", "no usable notes found"), ("fork", "")]
    assert remarks == [
        f"the notes in {file} are ignored: {problem}; new notes are taken and replace the file, so copy it "
        "first if you need it"
    ]
    assert (WORDS in request, OTHER in request) == (False, False)


@pytest.mark.spec("SM-5")
def test_a_file_that_cannot_be_read_as_notes_is_named_with_the_reason(taken):
    file = recorded(taken)
    file.unlink()
    file.mkdir()
    attempts, remarks, _ = compacted_after_opening(taken)
    assert attempts == [("notes", "no usable notes found"), ("fork", "")]
    assert remarks == [
        f"the notes in {file} are ignored: it cannot be read: it is a directory; new notes are taken and "
        "replace the file, so copy it first if you need it"
    ]


@pytest.mark.spec("SM-6")
def test_notes_that_a_person_has_changed_are_the_summary_and_the_session_says_so(taken):
    file = recorded(taken)
    file.write_text(file.read_text(encoding="utf-8").replace(WORDS, OTHER), encoding="utf-8")
    attempts, remarks, request = compacted_after_opening(taken)
    assert attempts == [("notes", "")]
    assert remarks == [
        f"the notes in {file} were changed after the session wrote them, and are used as they are now; if "
        "nobody meant to change them, delete the file, and new notes are taken"
    ]
    assert (WORDS in request, OTHER in request) == (False, True)


@pytest.mark.spec("SM-6")
def test_notes_of_an_earlier_version_are_the_summary_if_they_cover_a_record_in_view(taken):
    file = recorded(taken)
    body = file.read_text(encoding="utf-8").split("---\n", 2)[2]
    file.write_text(f'---\neverturn: {{{COVERS},"tokens":12004}}\n---\n{body}', encoding="utf-8")
    attempts, remarks, request = compacted_after_opening(taken)
    assert (attempts, remarks, WORDS in request) == ([("notes", "")], [], True)


@pytest.mark.spec("SM-5")
def test_new_notes_replace_those_of_another_session_and_have_none_of_their_words(taken):
    file = recorded(taken)
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace(COVERS, '"covers":"gone"').replace(WORDS, OTHER), encoding="utf-8")
    with taken.open() as session:
        taken.talk(session, 1)
        notes = session._runtime.notes
        assert notes is not None
        notes.settle("a while")
    written = file.read_text(encoding="utf-8")
    assert (WORDS in written, OTHER in written, '"covers":"gone"' in written) == (True, False, False)


class Virtual(threading.Event):
    """An event for which nobody waits: time passes at once, and something may happen meanwhile."""

    def __init__(self, now: list[float], meanwhile: Callable[[], None]) -> None:
        super().__init__()
        self.now, self.waited, self._meanwhile = now, list[float](), meanwhile

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.waited.append(timeout)
        self.now[0] += timeout
        self._meanwhile()
        return self.is_set()


def begun(taken: Taken, session: Session, meanwhile: Callable[[], None]) -> Virtual:
    """Talk until notes are being taken, which then wait for their answer in virtual time."""
    notes = session._runtime.notes
    assert notes is not None
    now = [100.0]
    notes._clock = lambda: now[0]
    taken.may_answer.clear()
    while notes._job is None:
        taken.talk(session, 1)
    assert notes._job is not None
    notes._job.done = done = Virtual(now, meanwhile)
    return done


@pytest.mark.spec("SM-3")
def test_a_compaction_waits_fifteen_seconds_for_notes_and_not_longer(taken):
    with taken.open() as session:
        done = begun(taken, session, lambda: None)
        taken.talk(session, 1)
        assert done.waited == []
        made = session.compact()
        assert done.waited == [15.0]
        assert isinstance(made, Compaction)
        assert made.attempts[-1].strategy == "fork"
        taken.may_answer.set()


@pytest.mark.spec("SM-3")
def test_a_compaction_by_itself_waits_too(taken):
    with taken.open(percent=18) as session:
        done = begun(taken, session, lambda: None)
        while not any(isinstance(event, CompactionDone) for event in taken.heard):
            taken.talk(session, 1)
        assert done.waited == [15.0]
        taken.may_answer.set()


@pytest.mark.spec("SM-3", "SM-6")
def test_notes_that_come_while_a_compaction_waits_are_its_summary(taken):
    with taken.open() as session:

        def answered() -> None:
            taken.may_answer.set()
            threading.Event.wait(done, 20)

        taken.talk(session, 14)
        notes = session._runtime.notes
        assert notes is not None
        notes.settle("a while")
        first = len([event for event in taken.heard if isinstance(event, NotesTaken)])
        done = begun(taken, session, answered)
        taken.talk(session, 4)
        made = session.compact()
        assert done.waited == [15.0]
        assert len([event for event in taken.heard if isinstance(event, NotesTaken)]) == first + 1
        assert isinstance(made, Compaction)
        assert made.attempts[-1].strategy == "notes"
    assert taken.calls.count("summary") == 0


def test_a_rewind_pays_for_notes_that_have_come_since_the_last_turn(taken):
    with taken.open() as session:
        notes = session._runtime.notes
        while notes._job is None:
            taken.talk(session, 1)
        assert notes._job.done.wait(20)
        questions = [each.uuid for each in session.conversation.log.records if each.kind == "user"]
        session.rewind(questions[-1])
        billed = session.bill.parts["session_memory"]
        assert (taken.calls.count("notes"), billed.calls, billed.read, billed.output) == (1, 1, 900, 50)
    with taken.open() as session:
        assert session.bill.parts["session_memory"] == billed
