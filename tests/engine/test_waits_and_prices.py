"""When a hold is due and entries expire, holds without an answer, and models whose price is not known."""

from dataclasses import replace
from datetime import timedelta

import builders as b
import msgspec
import pytest
from decide.compact.test_flow_limits import Scene
from engine.alone import NOON, Alone
from engine.test_economy import EXTRACT, LARGE, MIDDLE, REPLY, SMALL, answered, economic, replied, waiting
from presets import preset

from everturn.decide.compact.settings import CompactSettings
from everturn.decide.compact.values import CompactionFailed, CompactionRequest, CompactionSkipped
from everturn.decide.economy.decisions import EconomicDecision
from everturn.decide.economy.state import EconomyState
from everturn.decide.economy.trust import HoldCheck
from everturn.decide.effects import HookOutcome, ModelAnswer
from everturn.decide.notes.document import Notes
from everturn.history.blocks import text_block
from everturn.history.records import Usage
from everturn.measure.capabilities import ANTHROPIC, PLAIN
from everturn.view.breakpoints import Breakpoints
from everturn.view.key_parameters import KeyParameters, TtlChoice

HOUR = KeyParameters(TtlChoice("1h", "a test"))


def hourly() -> Alone:
    scene = Alone(SMALL, under=preset("economic"), model="claude-opus-4-6", compact=EXTRACT, parameters=HOUR)
    replied(scene, Usage(cache_creation_input_tokens=60_000))
    return scene


def test_before_a_call_nothing_expires_and_the_first_hold_is_a_whole_wait_away():
    economy = economic(SMALL).conversation.economy
    assert economy.expires_at is None
    assert economy.wait_from(NOON) == economy.first_wait == timedelta(seconds=290)


@pytest.mark.parametrize(("seconds", "left"), [(0, 290), (10, 280), (290, 0), (900, 0), (-20, 290)])
def test_the_wait_for_a_hold_begins_with_the_call(seconds: int, left: int):
    economy = waiting().conversation.economy
    assert economy.wait_from(NOON + timedelta(seconds=seconds)) == timedelta(seconds=left)
    assert economy.expires_at == NOON + timedelta(minutes=5)


def test_entries_of_an_hour_expire_and_are_held_later():
    economy = hourly().conversation.economy
    assert economy.expires_at == NOON + timedelta(hours=1)
    assert timedelta(minutes=50) < economy.first_wait < timedelta(hours=1)
    assert economy.wait_from(NOON + timedelta(minutes=1)) == economy.first_wait - timedelta(minutes=1)


def test_a_hold_without_an_answer_costs_and_keeps_nothing():
    scene = waiting()
    at = scene.now + timedelta(seconds=290)
    planned = scene.conversation.plan_hold(at)
    assert planned is not None
    economy = scene.conversation.economy
    before = economy.state
    economy.record_lost_hold(planned, "no answer came", at)
    cost = planned.decision.cost
    assert cost > 0
    assert economy.state == before.after_late_hold(cost)
    assert economy.decisions == (
        EconomicDecision(
            at=at,
            kind="hold",
            done=False,
            why="no answer came",
            cost=cost,
            expected=planned.decision.expected,
        ),
    )
    assert scene.conversation.cache.held_at is None


def test_a_summary_model_without_a_price_is_told_once():
    compact = CompactSettings(strategies=("direct", "extractive"), summary_model="my-model")
    scene = Alone(SMALL, under=preset("economic"), model="claude-opus-4-6", compact=compact)
    economy = scene.conversation.economy
    why = (
        "no price is known for 'my-model', which writes summaries: they are reckoned as dear as those of "
        "'claude-opus-4-6'; give it one in the configuration, under `models`"
    )
    assert economy.missing_price(NOON) == why
    assert economy.missing_price(NOON) == ""
    assert economy.state.unpriced == "my-model"
    assert economy.decisions == (
        EconomicDecision(at=NOON, kind="price", done=False, why=why, cost=0.0, expected=0.0),
    )


@pytest.mark.parametrize(
    ("strategies", "named"),
    [(("direct",), ""), (("direct",), "claude-haiku-4-5"), (("fork", "extractive"), "my-model")],
)
def test_a_summary_model_that_is_known_or_never_asked_is_not_told(strategies, named):
    compact = CompactSettings(strategies=strategies, summary_model=named)
    scene = Alone(SMALL, under=preset("economic"), model="claude-opus-4-6", compact=compact)
    assert scene.conversation.economy.missing_price(NOON) == ""
    assert scene.conversation.economy.decisions == ()


def test_a_model_without_a_price_is_told_once_and_nothing_is_decided_by_price():
    conversation = economic(LARGE).conversation
    mine = replace(conversation.setting.model, id="unpriced")
    conversation.setting = msgspec.structs.replace(conversation.setting, model=mine)
    economy = conversation.economy
    why = (
        "no price is known for 'unpriced', so only the thresholds decide; give it one in the configuration, "
        "under `models`"
    )
    assert not economy.is_on
    assert economy.missing_price(NOON) == why
    assert economy.missing_price(NOON) == ""
    assert economy.decisions == (
        EconomicDecision(at=NOON, kind="reset", done=False, why=why, cost=0.0, expected=0.0),
    )
    assert economic(LARGE, enabled=False).conversation.economy.missing_price(NOON) == ""


FOREIGN = msgspec.structs.replace(ANTHROPIC, max_breakpoints=0)


COLD = "cold reset: 66,217 of 66,217 tokens would be"
WARM = "carrying 60,217 tokens has cost $0.048 since the last reset, a reset and what it forgets cost $0.572"


@pytest.mark.parametrize(
    ("able", "minutes", "cached", "why"),
    [
        pytest.param(FOREIGN, 4, 80_000, WARM, id="alive"),
        pytest.param(FOREIGN, 5, 80_000, WARM, id="just alive"),
        pytest.param(
            FOREIGN, 6, 80_000, f"{COLD} written again for $0.414, a reset costs $0.100", id="expired"
        ),
        pytest.param(
            FOREIGN, 4, 0, f"{COLD} written again for $0.414, a reset costs $0.100", id="nothing was cached"
        ),
        pytest.param(
            PLAIN,
            4,
            80_000,
            f"{COLD} sent again at the full price for $0.331, a reset costs $0.080",
            id="no cache",
        ),
        pytest.param(ANTHROPIC, 4, 80_000, WARM, id="breakpoints of ours"),
    ],
)
def test_what_a_call_with_breakpoints_of_others_has_cached_is_read_while_it_lives(able, minutes, cached, why):
    """The price of the next prompt, which has 66,217 tokens."""
    scene = Alone(
        LARGE, under=preset("economic"), model="claude-opus-4-6", compact=EXTRACT, capabilities=able
    )
    economy = scene.conversation.economy
    # No reset before the first call.
    economy.state = EconomyState(quiet_below=10**9)
    replied(scene, Usage(1_000, 20_000, cached) if cached else Usage(101_000))
    economy.state = msgspec.structs.replace(economy.state, quiet_below=0)
    scene.conversation.add(b.user("on", uuid="u9"))
    scene.turn(timedelta(minutes=minutes))
    assert economy.decisions[-1].why == why


def test_a_pause_is_counted_from_the_call_and_not_from_its_reply():
    scene = economic(SMALL)
    scene.turn()
    later = scene.now + timedelta(seconds=40)
    scene.conversation.record_reply([REPLY], Usage(cache_creation_input_tokens=60_000), later)
    economy = scene.conversation.economy
    assert economy.state.called_at == NOON.timestamp()
    assert economy.wait_from(later) == timedelta(seconds=250)


def test_a_reply_to_a_call_of_another_process_is_counted_from_when_it_came():
    scene = economic(SMALL)
    later = scene.now + timedelta(seconds=40)
    scene.conversation.record_reply([REPLY], Usage(cache_creation_input_tokens=60_000), later)
    assert scene.conversation.economy.state.called_at == later.timestamp()


@pytest.mark.parametrize("enabled", [True, False])
def test_summaries_that_were_paid_and_not_used_are_booked(enabled: bool):
    short = ModelAnswer((text_block("Too short."),), "end_turn", Usage(1_000, 0, 0, 100))
    options = preset("economic")
    economy = msgspec.structs.replace(options.economy, enabled=enabled)
    scene = Alone(
        LARGE,
        under=msgspec.structs.replace(options, economy=economy),
        model="claude-opus-4-6",
        compact=CompactSettings(strategies=("fork",)),
        answers=[short],
    )
    asked = CompactionRequest(trigger="manual")
    made = scene.run(scene.conversation.compact(asked, scene.now, scene.new_id))
    assert isinstance(made, CompactionFailed)
    (attempt,) = made.attempts
    assert attempt.usage == Usage(2_000, 0, 0, 200)
    # 5 dollars per million of input, 25 of output.
    spent = (2_000 * 5 + 200 * 25) / 1e6 if enabled else 0.0
    assert scene.conversation.economy.state == EconomyState(spent=pytest.approx(spent))


def test_a_conversation_has_the_notes_that_it_was_given():
    conversation = economic(SMALL).conversation
    assert conversation.notes is None
    conversation.notes = Notes("# Current state\nAll is well.")
    assert conversation.notes == Notes("# Current state\nAll is well.")


def test_records_of_another_process_leave_no_breakpoints_of_ours():
    scene = waiting()
    cache = scene.conversation.cache
    assert cache.breakpoints.places
    assert cache.breakpoints == cache.answered_breakpoints
    scene.conversation.add_from_elsewhere([b.user("And now?", uuid="u5")], {})
    assert (cache.breakpoints, cache.answered_breakpoints) == (Breakpoints(), Breakpoints())


@pytest.mark.parametrize("observed", [False, True])
def test_replies_are_counted_while_a_breaker_is_open(observed: bool):
    conversation = economic(SMALL).conversation
    breaker = conversation.compaction_state.breaker
    for _ in range(3):
        breaker = breaker.after_failure("why", NOON)
    conversation.compaction_state.breaker = breaker
    before = conversation.compaction_state.breaker
    usage = Usage(input_tokens=9)
    if observed:
        conversation.observe(NOON)
        conversation.record_observed_reply([REPLY], usage, NOON)
    else:
        conversation.record_reply([REPLY], usage, NOON)
    assert conversation.compaction_state.breaker == before.after_reply()
    assert conversation.compaction_state.breaker != before


def test_a_summary_that_was_paid_and_would_not_make_the_context_smaller_is_booked():
    told = HookOutcome(context=("Remember the rules. " * 2_000,))
    scene = Scene("fork", hooks={"SessionStart": told}, under=preset("economic"), model="claude-opus-4-6")
    made = scene.compact()
    assert isinstance(made, CompactionSkipped)
    usage = made.attempts[0].usage
    assert usage == Usage(1_000, 0, 0, 300)
    spent = (1_000 * 5 + 300 * 25) / 1e6
    assert scene.conversation.economy.state == EconomyState(spent=pytest.approx(spent))


def held_for(seconds: int, reply_after: int) -> HoldCheck | None:
    """A hold, the next call so many seconds later, and its reply again later."""
    scene = economic(MIDDLE)
    answered(scene, REPLY)
    at = scene.now + timedelta(seconds=290)
    planned = scene.conversation.plan_hold(at)
    assert planned is not None
    held = planned.prediction
    scene.conversation.record_hold(planned, Usage(0, held.total - held.read, held.read), at)
    scene.conversation.add(b.user("Back again.", uuid="u8"))
    scene.now = at
    prediction = scene.turn(timedelta(seconds=seconds)).prediction
    usage = Usage(cache_read_input_tokens=prediction.read, input_tokens=prediction.total - prediction.read)
    again = b.assistant("Yes.", id="m8", uuid="a8")
    return scene.conversation.record_reply(
        [again], usage, scene.now + timedelta(seconds=reply_after)
    ).hold_check


def test_a_hold_is_checked_by_when_the_next_call_began_and_not_by_its_reply():
    checked = held_for(3_590, reply_after=60)
    assert checked is not None
    assert (checked.kept, checked.seconds) == (True, 3_590.0)
    assert held_for(290, reply_after=60) is None


def test_that_an_hour_is_kept_is_told_once():
    scene = economic(MIDDLE)
    answered(scene, REPLY)
    told = []
    for number in range(2):
        at = scene.now + timedelta(seconds=290)
        planned = scene.conversation.plan_hold(at)
        assert planned is not None
        held = planned.prediction
        scene.conversation.record_hold(planned, Usage(0, held.total - held.read, held.read), at)
        scene.now += timedelta(minutes=40)
        scene.conversation.add(b.user("Back again.", uuid=f"v{number}"))
        told.append(answered(scene, b.assistant("Yes.", id=f"n{number}", uuid=f"b{number}")).hold_check)
    assert [check is not None and check.kept for check in told] == [True, False]
    assert told[1] is None


def test_a_hold_at_the_moment_of_the_last_call_is_one_of_this_pause():
    scene = waiting()
    planned = scene.conversation.plan_hold(scene.now + timedelta(seconds=290))
    assert planned is not None
    scene.conversation.record_hold(planned, Usage(cache_read_input_tokens=60_000), scene.now)
    assert scene.conversation.economy.state.holds == 1


def test_a_hold_of_an_hour_keeps_the_cache_for_an_hour_and_a_refresh_for_five_minutes():
    scene = waiting()
    cache = scene.conversation.cache
    planned = scene.conversation.plan_hold(scene.now + timedelta(seconds=290))
    assert planned is not None
    usage = Usage(cache_read_input_tokens=60_000)
    cache.settle_hold(usage, scene.now)
    hour, minutes = timedelta(hours=1), timedelta(minutes=5)
    second = timedelta(seconds=1)
    assert [cache.is_held(scene.now + after) for after in (hour, hour + second)] == [True, False]
    cache.settle_hold(usage, scene.now, lasts="5m")
    assert [cache.is_held(scene.now + after) for after in (minutes, minutes + second)] == [True, False]
