"""Strategies by name, their own model, and autonomous work, as a conversation is given them."""

import builders as b
import pytest
from engine.alone import Alone, summary
from engine.working import told

from everturn.decide.compact.settings import CompactSettings
from everturn.decide.compact.values import Compaction, CompactionRequest
from everturn.decide.effects import ModelAnswer
from everturn.decide.events import CompactionDone
from everturn.decide.notes.document import Notes, NotesState
from everturn.history.blocks import block_from_fields
from everturn.history.records import Usage

TALK = [
    b.user("Mend the parser. " * 2_000, uuid="u"),
    b.assistant("Done so far.", id="m", uuid="a"),
]
BY_HAND = CompactionRequest(trigger="manual")
AUTONOMOUS = "You are running autonomously"


def compacted(scene: Alone, asked: CompactionRequest = BY_HAND) -> Compaction:
    scene.conversation.notes = Notes("# Current state\n" + "The parser is mended. " * 9, NotesState("a"))
    made = scene.run(scene.conversation.compact(asked, scene.now, scene.new_id))
    assert isinstance(made, Compaction), made
    return made


def scene(way: str, **options: object) -> Alone:
    compact = CompactSettings(strategies=(way,), **options)  # type: ignore[arg-type]
    return Alone(TALK, model="claude-opus-4-6", compact=compact, answers=[summary()])


@pytest.mark.spec("CP-35")
@pytest.mark.parametrize("name", ["extract", "extractive"])
def test_the_summary_without_a_model_has_two_names_and_is_told_by_one(name):
    made = scene(name)
    assert compacted(made).attempts[-1].strategy == "extractive"
    (event,) = [each for each in made.events if isinstance(each, CompactionDone)]
    assert event.way == "extractive"


@pytest.mark.spec("CP-35")
def test_the_provider_compacts_where_it_is_named():
    made = scene("provider")
    signed = block_from_fields({"type": "compaction", "content": "All is well.", "signature": "s"})
    made.answers = [ModelAnswer((signed,), "end_turn", Usage(10, 0, 0, 5))]
    assert compacted(made).summary.blocks == (signed,)
    assert made.asked[0].request.settings["compaction"] == {"type": "summarize"}


@pytest.mark.spec("CP-6")
@pytest.mark.parametrize(("way", "asked"), [("direct", "claude-haiku-4-5"), ("fork", "claude-opus-4-6")])
def test_another_model_summarizes_by_a_direct_call_only(way, asked):
    """A fork shares the cache of its parent, which belongs to one model."""
    made = scene(way, summary_model="claude-haiku-4-5")
    compacted(made)
    assert [effect.request.model for effect in made.asked] == [asked]


@pytest.mark.spec("CP-11")
@pytest.mark.parametrize("way", ["notes", "fork", "direct", "extractive"])
@pytest.mark.parametrize("trigger", ["manual", "auto"])
def test_an_autonomous_conversation_is_told_to_go_on_whichever_strategy_wrote_the_summary(way, trigger):
    asked = CompactionRequest(trigger=trigger)
    assert AUTONOMOUS in told(compacted(scene(way, autonomous=True), asked))
    assert AUTONOMOUS not in told(compacted(scene(way), asked))
