"""Notes that stand for a summary, with the settings of the conversation and after a restart (SM-6, SM-7)."""

import builders as b
import pytest
from decide.conversations import text
from engine.alone import Alone
from engine.working import told

from everturn.decide.compact.settings import CompactSettings
from everturn.decide.compact.values import Compaction, CompactionFailed, CompactionRequest
from everturn.decide.notes.document import Notes, NotesState
from everturn.decide.notes.settings import NotesSettings
from everturn.history.records import Record

BY_HAND = CompactionRequest(trigger="manual")
BY_NOTES = CompactSettings(strategies=("notes",))


def talk(turns: int) -> list[Record]:
    records: list[Record] = []
    for at in range(turns):
        records.append(b.user(text(1_000, f"question-{at}"), uuid=f"u{at}"))
        records.append(b.assistant(text(1_000, f"answer-{at}"), id=f"m{at}", uuid=f"a{at}"))
    return records


def compacted(
    scene: Alone, covers: str, body: str = "The parser is mended."
) -> Compaction | CompactionFailed:
    heading = "# Current state\n_What is being worked on now, and what comes next._\n"
    scene.conversation.notes = Notes(f"{heading}{body}", NotesState(covers))
    return scene.run(scene.conversation.compact(BY_HAND, scene.now, scene.new_id))


def begun(turns: int, **settings: int) -> Alone:
    notes = NotesSettings(enabled=True, **settings)
    scene = Alone(compact=BY_NOTES, notes=notes, transcript="s.jsonl")
    for record in talk(turns):
        scene.conversation.add(record)
    return scene


@pytest.mark.spec("SM-6")
@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({}, 10),
        ({"keep_tokens": 3_000, "keep_messages": 1}, 3),
        ({"keep_tokens": 1, "keep_messages": 7}, 7),
        ({"keep_at_most": 5_000}, 5),
    ],
)
def test_what_is_kept_behind_the_notes_follows_the_settings(settings, kept):
    made = compacted(begun(20, **settings), "a19")
    assert isinstance(made, Compaction)
    assert made.plan is not None
    assert made.plan.messages_kept == kept


@pytest.mark.spec("SM-7")
def test_a_section_is_cut_at_its_own_limit_and_points_to_the_notes_file():
    made = compacted(begun(20, section=50), "a19", body="one line of the notes\n" * 40)
    assert isinstance(made, Compaction)
    assert "[The rest of this section is in s.jsonl.notes.md; read it there if you need it]" in told(made)
    assert told(made).count("one line of the notes") == 6


@pytest.mark.spec("SM-6")
def test_notes_whose_last_record_left_the_view_are_no_summary_also_in_a_session_that_was_opened_again():
    resumed = Alone(talk(20), compact=BY_NOTES, notes=NotesSettings(enabled=True), transcript="s.jsonl")
    for scene in (resumed, begun(20)):
        made = compacted(scene, "a record from before an earlier compaction")
        assert isinstance(made, CompactionFailed)
        assert [(each.strategy, each.problem) for each in made.attempts] == [
            ("notes", "no usable notes found")
        ]
