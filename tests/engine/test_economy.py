"""What a conversation decides by price, and the books it keeps for that (EC-1 to EC-6)."""

from datetime import timedelta
from typing import Any

import builders as b
import msgspec
import pytest
from engine.alone import NOON, Alone
from presets import preset

from everturn.decide.compact.settings import CompactSettings
from everturn.decide.compact.values import Compaction, CompactionSkipped
from everturn.decide.economy.state import EconomyState
from everturn.engine.values import ReplyAssessment
from everturn.history.records import Record, Usage

EXTRACT = CompactSettings(strategies=("extractive",))
LARGE = [
    b.user("Mend the parser. " + "It has many words in it. " * 9_000, uuid="u1"),
    b.assistant("Done so far.", id="m1", uuid="a1", timestamp="2026-11-15T11:00:00.000Z"),
    b.user("And the lexer.", uuid="u2"),
]
SMALL = [b.user("Mend the parser.", uuid="u1")]
REPLY = b.assistant("Both.", id="m2", uuid="a2", timestamp="2026-11-15T12:00:00.000Z")


def economic(records: list[Record], **economy: Any) -> Alone:
    options = preset("economic")
    changed = msgspec.structs.replace(options.economy, **{"hold_share": 1.0, **economy})
    return Alone(
        records,
        under=msgspec.structs.replace(options, economy=changed),
        model="claude-opus-4-6",
        compact=EXTRACT,
    )


def replied(scene: Alone, usage: Usage, reply: Record = REPLY) -> None:
    scene.turn()
    scene.conversation.record_reply([reply], usage, scene.now)


@pytest.mark.spec("EC-1", "EC-4")
def test_a_cold_context_is_compacted_and_the_reason_has_its_numbers():
    scene = economic(LARGE)
    made = scene.turn().compacted
    assert isinstance(made, Compaction)
    (decision,) = scene.conversation.economy.decisions
    assert (decision.kind, decision.done, decision.at) == ("reset", True, NOON)
    assert decision.why.startswith("cold reset: ")
    assert decision.why == made.plan.asked.economics
    assert 0 < decision.cost < decision.expected


@pytest.mark.spec("EC-4")
def test_below_the_size_of_an_undone_compaction_the_price_is_no_reason_for_another():
    scene = economic(LARGE)
    economy = scene.conversation.economy
    size = scene.conversation.size.next_request
    for quiet_below, is_quiet in ((size + 1, True), (size, False)):
        economy.state = EconomyState(quiet_below=quiet_below)
        made = scene.turn().compacted
        assert isinstance(made, CompactionSkipped if is_quiet else Compaction)
        decision = economy.decisions[-1]
        assert (decision.kind, decision.done, decision.at) == ("reset", not is_quiet, NOON)
        if is_quiet:
            why = f"a compaction was undone; not again for its price below {quiet_below:,} tokens"
            assert (decision.why, decision.cost, decision.expected) == (why, 0.0, 0.0)


def test_tokens_behind_the_last_reply_are_taken_for_none_until_a_reply_tells_its_size():
    scene = economic(SMALL)
    setting, economy = scene.conversation.setting, scene.conversation.economy
    assert economy.unanswered(setting) == 0
    told = b.assistant("Both.", id="m2", uuid="a2", usage={"input_tokens": 9_000, "output_tokens": 5})
    replied(scene, Usage(input_tokens=9_000), told)
    scene.conversation.add(b.user("And the lexer, with all that belongs to it.", uuid="u9"))
    assert economy.unanswered(setting) == scene.conversation.size.rough_tail > 0


def test_a_small_context_is_not_weighed():
    scene = economic(SMALL)
    assert not isinstance(scene.turn().compacted, Compaction)
    assert scene.conversation.economy.decisions == ()


@pytest.mark.parametrize("is_on", [True, False])
def test_the_policy_that_is_off_weighs_and_books_nothing(is_on):
    scene = economic(LARGE, enabled=is_on)
    assert isinstance(scene.turn().compacted, Compaction) == is_on
    scene.conversation.record_reply([REPLY], Usage(input_tokens=9_000), scene.now)
    economy = scene.conversation.economy
    assert (economy.state != EconomyState(), bool(economy.decisions)) == (is_on, is_on)
    assert (economy.keep_rule(scene.conversation.setting, scene.now) is not None) == is_on


@pytest.mark.spec("EC-5")
def test_a_reply_is_booked_with_its_price_and_what_doing_nothing_would_have_cost():
    scene = economic(SMALL)
    replied(scene, Usage(input_tokens=1_000, output_tokens=100))
    state = scene.conversation.economy.state
    # Opus 4.6: 5 dollars per million of input. Output costs the same in any case, and nothing was done yet.
    assert (state.spent, state.unmanaged) == pytest.approx((0.005, 0.005))
    assert not state.has_acted
    assert (state.prompt, state.output, state.called_at) == (1_000, 100, NOON.timestamp())


HELD = Usage(cache_read_input_tokens=60_000, cache_creation_input_tokens=100)


def waiting() -> Alone:
    """After a call of 60,000 tokens that wrote all of them to the cache."""
    scene = economic(SMALL)
    replied(scene, Usage(cache_creation_input_tokens=60_000, output_tokens=100))
    return scene


@pytest.mark.spec("EC-2")
def test_a_pause_is_planned_after_a_reply_and_not_before():
    scene = economic(SMALL)
    assert scene.conversation.plan_hold(scene.now) is None
    scene.turn()
    assert scene.conversation.plan_hold(scene.now) is None
    scene.conversation.record_reply([REPLY], Usage(cache_creation_input_tokens=60_000), scene.now)
    planned = scene.conversation.plan_hold(scene.now + timedelta(seconds=290))
    assert planned is not None
    assert (planned.decision.holds, planned.given.silence, planned.given.form) == (True, 290.0, "hour")
    scene.conversation.add(b.user("on", uuid="u9"))
    assert scene.conversation.plan_hold(scene.now) is None


@pytest.mark.spec("EC-1", "EC-2")
def test_an_answered_hold_is_booked_and_told_with_what_it_was_expected_to_save():
    scene = waiting()
    at = scene.now + timedelta(seconds=290)
    planned = scene.conversation.plan_hold(at)
    assert planned is not None
    before = scene.conversation.economy.state
    scene.conversation.record_hold(planned, HELD, at)
    economy = scene.conversation.economy
    # 60,000 tokens read at 0.50 and 100 written at 6.25 dollars per million (no lifetime was reported).
    cost = 0.03 + 0.000625
    assert economy.state.held == pytest.approx(cost)
    assert economy.state.spent == pytest.approx(before.spent + cost)
    (decision,) = economy.decisions
    assert (decision.kind, decision.done, decision.cost) == ("hold", True, pytest.approx(cost))
    assert decision.why.startswith("held for $0.031, expected saving $")
    assert decision.expected == planned.decision.expected


def test_a_hold_that_is_answered_after_the_next_call_only_costs():
    scene = waiting()
    planned = scene.conversation.plan_hold(scene.now + timedelta(seconds=290))
    assert planned is not None
    state = scene.conversation.economy.state
    scene.conversation.record_hold(planned, HELD, scene.now - timedelta(seconds=1))
    late = scene.conversation.economy.state
    assert (late.holds, late.held) == (state.holds, pytest.approx(0.030625))


def test_a_hold_that_is_not_sent_is_told_with_its_price():
    scene = waiting()
    planned = scene.conversation.plan_hold(scene.now + timedelta(seconds=290))
    assert planned is not None
    scene.conversation.economy.note_not_held(planned, scene.now)
    (decision,) = scene.conversation.economy.decisions
    assert (decision.kind, decision.done, decision.why) == ("hold", False, planned.decision.why)
    assert (decision.cost, decision.expected) == (planned.decision.cost, planned.decision.expected)


# Too small to be reset, and large enough for an entry of the cache.
MIDDLE = [b.user("It has many words in it. " * 2_000, uuid="u1")]


def answered(scene: Alone, reply: Record, *, reads: bool = True) -> ReplyAssessment:
    """A call whose usage is what was predicted, or one that reads nothing."""
    prediction = scene.turn().prediction
    read = prediction.read if reads else 0
    usage = Usage(cache_read_input_tokens=read, cache_creation_input_tokens=prediction.total - read)
    return scene.conversation.record_reply([reply], usage, scene.now)


@pytest.mark.spec("EC-3")
@pytest.mark.parametrize(("reads", "form"), [(True, "hour"), (False, "refresh")])
def test_the_first_return_after_a_hold_decides_how_the_next_pause_is_held(reads, form):
    scene = economic(MIDDLE)
    answered(scene, REPLY)
    at = scene.now + timedelta(seconds=290)
    planned = scene.conversation.plan_hold(at)
    assert planned is not None
    held = planned.prediction
    scene.conversation.record_hold(
        planned,
        Usage(
            cache_read_input_tokens=held.read,
            cache_creation_input_tokens=held.total - held.read,
        ),
        at,
    )
    scene.now += timedelta(minutes=40)
    scene.conversation.add(b.user("Back again.", uuid="u8"))
    again = b.assistant("Yes.", id="m8", uuid="a8", timestamp="2026-11-15T12:40:00.000Z")
    checked = answered(scene, again, reads=reads).hold_check
    assert checked is not None
    assert checked.kept == reads
    assert (scene.conversation.setting.model.id in scene.conversation.economy.lost_holds) == (not reads)
    decisions = [(each.kind, each.done) for each in scene.conversation.economy.decisions]
    assert decisions == [("hold", True), ("check", reads)]
    planned = scene.conversation.plan_hold(scene.now + timedelta(seconds=290))
    assert planned is not None
    assert planned.given.form == form
