"""Why a conversation did not compact, why a summary was not cached, what was repaired."""

from datetime import timedelta

import builders as b
import msgspec
import pytest
from engine.alone import Alone, summary
from engine.held import model_of

from everturn.decide.compact.settings import CompactSettings
from everturn.decide.compact.values import Compaction, CompactionRequest
from everturn.decide.events import SummaryUncached
from everturn.engine.values import compaction_disabled
from everturn.history.edits import Compacted, Undone
from everturn.history.records import Usage

TALK = [
    b.user("Mend the parser. " * 2_000, uuid="u1"),
    b.assistant("Done so far.", id="m1", uuid="a1"),
    b.user("And the lexer.", uuid="u2"),
]
BY_HAND = CompactionRequest(trigger="manual")
NOTHING_READ = Usage(input_tokens=12_000, output_tokens=300)


def compacted(scene: Alone) -> Compaction:
    made = scene.run(scene.conversation.compact(BY_HAND, scene.now, scene.new_id))
    assert isinstance(made, Compaction), made
    return made


def forking(usage: Usage = NOTHING_READ) -> Alone:
    scene = Alone(
        TALK,
        model="claude-opus-4-6",
        compact=CompactSettings(strategies=("fork",)),
        answers=[msgspec.structs.replace(summary(), usage=usage)],
    )
    scene.turn()
    scene.conversation.add(b.assistant("Both.", id="m2", uuid="a2", timestamp="2026-11-15T12:00:00.000Z"))
    return scene


def test_a_turn_of_a_conversation_that_may_not_compact_says_so():
    scene = Alone(TALK)
    assert scene.turn().compacted == compaction_disabled(scene.conversation.setting.options)


def uncached(scene: Alone) -> list[tuple[int, int, str]]:
    compacted(scene)
    return [(each.read, each.prompt, each.why) for each in scene.events if isinstance(each, SummaryUncached)]


@pytest.mark.spec("CP-5")
def test_a_summary_that_read_half_of_its_prompt_is_not_called_uncached():
    assert uncached(forking(Usage(input_tokens=6_000, cache_read_input_tokens=6_000))) == []
    assert uncached(forking(Usage(input_tokens=6_001, cache_read_input_tokens=5_999))) != []


def test_a_summary_without_the_cache_names_the_pause():
    scene = forking()
    scene.now += timedelta(seconds=400)
    why = "the cache had probably expired: the last known call that shares it was 400 s ago"
    assert uncached(scene) == [(0, 12_000, why)]


def test_a_summary_without_the_cache_names_the_other_model():
    scene = forking()
    setting = scene.conversation.setting
    scene.conversation.setting = msgspec.structs.replace(setting, model=model_of("claude-sonnet-4-5"))
    why = "claude-sonnet-4-5 has not seen this conversation before"
    assert uncached(scene) == [(0, 12_000, why)]


def test_a_summary_without_the_cache_and_without_a_cause_of_ours_names_the_provider():
    why = "the provider no longer had the entries of the last request"
    assert uncached(forking()) == [(0, 12_000, why)]


def test_a_boundary_after_an_undo_follows_the_end_of_the_log_and_not_of_the_view():
    """Otherwise the path back from it would leave the undo out, and bring back what was undone."""
    scene = forking()
    first = compacted(scene)
    scene.conversation.add(b.edited(Undone(first.boundary.uuid), "undo", parent=first.boundary.uuid))
    tip, last = scene.conversation.log.tip, scene.conversation.log.view.records[-1]
    edit = compacted(scene).boundary.edit
    assert isinstance(edit, Compacted)
    assert tip is not None
    assert edit.logical_parent == tip.uuid != last.uuid


def test_repairs_of_the_open_turn_are_told():
    scene = Alone([*TALK[:2], b.user("go", uuid="u3"), b.assistant(b.call("c1"), id="m3", uuid="a3")])
    scene.conversation.add(b.user("never mind", uuid="u4"))
    assert [(repair.kind, repair.where) for repair in scene.conversation.repairs] == [
        ("missing_result", "c1")
    ]


def test_a_conversation_that_may_not_compact_proposes_nothing():
    scene = Alone(TALK)
    scene.now += timedelta(days=1)
    assert scene.conversation.propose_compaction(scene.now) is None
