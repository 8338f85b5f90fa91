"""What a dry run promises is what a compaction then does (CP-29)."""

import builders as b
import pytest
from decide.conversations import text
from engine.alone import Alone, summary

from everturn.decide.compact.settings import CompactSettings
from everturn.decide.compact.values import Compaction, CompactionPlan, CompactionRequest
from everturn.decide.notes.document import Notes, NotesState
from everturn.measure.capabilities import PLAIN

BY_HAND = CompactionRequest(trigger="manual")
TALK = [
    b.user(text(40_000, "why"), uuid="u"),
    b.assistant("Because.", id="m", uuid="a"),
    b.user("Thanks.", uuid="u2"),
    b.assistant("Welcome.", id="m2", uuid="a2"),
]


def previewed(scene: Alone) -> CompactionPlan:
    plan = scene.conversation.dry_run(BY_HAND, scene.now)
    assert isinstance(plan, CompactionPlan)
    return plan


@pytest.mark.spec("CP-29")
def test_a_default_conversation_without_notes_is_priced_as_the_fork_that_it_will_be():
    scene = Alone(TALK, compact=CompactSettings(), answers=[summary()])
    plan = previewed(scene)
    assert plan.strategies == ("fork", "direct", "extractive")
    # Read at $0.30, written at $15 a million tokens.
    assert plan.expected_dollars == pytest.approx((plan.tokens_before * 0.3 + 6_000 * 15) / 1e6)
    made = scene.run(scene.conversation.compact(BY_HAND, scene.now, scene.new_id))
    assert isinstance(made, Compaction)
    assert made.attempts[-1].strategy == plan.strategies[0]


@pytest.mark.spec("CP-29")
def test_notes_that_can_be_used_cost_nothing():
    scene = Alone(TALK, compact=CompactSettings())
    scene.conversation.notes = Notes(
        "# Current state\nThe parser is mended, its tests pass.", NotesState("a")
    )
    plan = previewed(scene)
    assert (plan.strategies[0], plan.expected_dollars) == ("notes", 0.0)


@pytest.mark.spec("CP-29", "CP-6")
def test_a_direct_call_is_priced_by_the_model_that_is_paid():
    own = CompactSettings(strategies=("direct",))
    cheap = CompactSettings(strategies=("direct",), summary_model="claude-haiku-4-5")
    dear, less = (previewed(Alone(TALK, compact=each)).expected_dollars for each in (own, cheap))
    assert less == pytest.approx(dear / 3)


@pytest.mark.spec("CP-29", "CP-35")
def test_a_provider_that_cannot_compact_is_not_promised():
    compact = CompactSettings(strategies=("provider", "extractive"))
    can = previewed(Alone(TALK, compact=compact, model="claude-opus-4-6"))
    cannot = previewed(Alone(TALK, compact=compact, model="claude-opus-4-6", capabilities=PLAIN))
    assert (can.strategies, cannot.strategies) == (("provider", "extractive"), ("extractive",))
    assert can.expected_dollars > cannot.expected_dollars == 0
