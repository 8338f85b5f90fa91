"""The books of the economic policy: what resets, undos, rewinds and holds leave in them, as whole values."""

import dataclasses
from datetime import timedelta
from typing import Any

import builders as b
import msgspec
import pytest
from engine.alone import NOON, Alone, summary
from engine.held import head, model_of
from engine.test_economy import HELD, LARGE, MIDDLE, REPLY, SMALL, answered, economic, replied, waiting
from presets import preset

from everturn.decide.compact.settings import CompactSettings
from everturn.decide.compact.values import Compaction, CompactionRequest, CompactionSkipped
from everturn.decide.economy.decisions import EconomicDecision
from everturn.decide.economy.keeping import make_keep_rule
from everturn.decide.economy.pauses import HOUR
from everturn.decide.economy.resets import kept_beyond_usual
from everturn.decide.economy.settings import COLD_TOKENS, KEPT_TOKENS, WRITTEN_TOKENS
from everturn.decide.economy.state import EconomyState
from everturn.decide.events import PriceUnknown
from everturn.history.edits import Undone
from everturn.history.records import Usage
from everturn.measure.capabilities import ANTHROPIC
from everturn.view.key_parameters import KeyParameters, TtlChoice

BY_HAND = CompactionRequest(trigger="manual")
OPUS = "claude-opus-4-6"
UNPRICED = (
    "no price is known for 'my-model', so only the thresholds decide; "
    "give it one in the configuration, under `models`"
)


def unpriced() -> Alone:
    scene = economic(LARGE)
    model = dataclasses.replace(model_of(OPUS), id="my-model")
    scene.conversation.setting = msgspec.structs.replace(scene.conversation.setting, model=model)
    return scene


@pytest.mark.spec("EC-1")
def test_an_unknown_price_is_told_once_and_nothing_is_decided_by_price():
    scene = unpriced()
    assert isinstance(scene.turn().compacted, CompactionSkipped)
    scene.turn()
    economy = scene.conversation.economy
    told = EconomicDecision(at=NOON, kind="reset", done=False, why=UNPRICED, cost=0.0, expected=0.0)
    assert economy.decisions == (told,)
    assert [each.why for each in scene.events if isinstance(each, PriceUnknown)] == [UNPRICED]
    assert (economy.is_on, economy.missing_price(NOON)) == (False, "")
    assert economic(LARGE).conversation.economy.missing_price(NOON) == ""
    assert economic(LARGE, enabled=False).conversation.economy.missing_price(NOON) == ""


def test_a_hold_without_a_known_price_is_refused():
    scene = unpriced()
    replied(scene, Usage(cache_creation_input_tokens=60_000, output_tokens=100))
    planned = scene.conversation.plan_hold(scene.now + timedelta(seconds=290))
    assert planned is not None
    found = planned.decision
    assert (found.holds, found.why, found.refusal) == (False, UNPRICED, "request")
    assert (found.cost, found.expected, found.chance, planned.prediction.total) == (0.0, 0.0, 0.0, 0)


def test_a_hold_that_would_read_nothing_is_refused():
    scene = economic(LARGE)
    replied(scene, Usage(input_tokens=60_000, output_tokens=100))
    planned = scene.conversation.plan_hold(scene.now + timedelta(seconds=290))
    assert planned is not None
    found = planned.decision
    why = "nothing of the last prompt is in the cache"
    assert (found.holds, found.why.partition(" (")[0], found.refusal) == (False, why, "request")
    assert planned.prediction.total == 0


@pytest.mark.spec("EC-8")
def test_a_reset_leaves_its_boundary_its_saving_and_what_would_have_been_read():
    scene = economic(LARGE)
    economy = scene.conversation.economy
    economy.state = EconomyState(prompt=60_000, output=7, called_at=5.0, carry=3.0, surplus=11)
    before = economy.state
    unanswered = economy.unanswered(scene.conversation.setting)
    made = scene.turn().compacted
    assert isinstance(made, Compaction)
    expected = before.after_reset(
        made.boundary.uuid,
        made.tokens_before,
        made.tokens_after,
        0.0,
        read=0,
        kept=kept_beyond_usual(unanswered),
    )
    assert economy.state == expected
    assert (economy.state.share_before, economy.state.was_reset) == (0.0, True)


def test_a_compaction_by_hand_leaves_the_same_and_nobody_has_looked():
    scene = economic(LARGE)
    economy = scene.conversation.economy
    economy.state = EconomyState(prompt=60_000)
    made = scene.run(scene.conversation.compact(BY_HAND, NOON, scene.new_id))
    found = economy.state
    assert (found.share_before, found.boundary, found.base) == (None, made.boundary.uuid, made.tokens_after)


def test_a_large_message_that_nobody_has_answered_is_not_in_the_base_of_a_reset():
    told = {"input_tokens": 60_000, "output_tokens": 5}
    large = [
        b.user("Mend the parser. " * 9_000, uuid="u1"),
        b.assistant("Well.", id="m1", uuid="a1", usage=told, timestamp="2026-11-15T11:00:00.000Z"),
        b.user("Here it is: " + "it has many words in it. " * 5_000, uuid="u2"),
    ]
    scene = economic(large)
    economy = scene.conversation.economy
    unanswered = economy.unanswered(scene.conversation.setting)
    assert unanswered > WRITTEN_TOKENS
    made = scene.run(scene.conversation.compact(BY_HAND, NOON, scene.new_id))
    assert economy.state.base == max(0, made.tokens_after - (unanswered - KEPT_TOKENS))


@pytest.mark.parametrize("is_on", [True, False])
def test_a_compaction_that_is_undone_gives_its_saving_back_and_is_not_repeated_for_its_price(is_on: bool):
    scene = economic(LARGE, enabled=is_on)
    economy = scene.conversation.economy
    made = scene.run(scene.conversation.compact(BY_HAND, NOON, scene.new_id))
    reset = economy.state
    assert bool(reset.resets) == is_on
    scene.conversation.add(b.edited(Undone(made.boundary.uuid), "undo", parent=made.boundary.uuid))
    size = scene.conversation.size.next_request
    expected = reset.after_undo("", size) if is_on else EconomyState()
    assert economy.state == expected
    assert economy.state.quiet_below == (size + COLD_TOKENS if is_on else 0)


def test_a_refused_view_gives_its_saving_back():
    scene = economic(LARGE)
    economy = scene.conversation.economy
    scene.run(scene.conversation.compact(BY_HAND, NOON, scene.new_id))
    assert scene.run(scene.conversation.refused("invalid", NOON, scene.new_id))
    size = scene.conversation.size.next_request
    assert (economy.state.boundary, economy.state.quiet_below) == ("", size + COLD_TOKENS)


def test_a_rewind_leaves_what_was_held_and_looked_at():
    scene = economic(MIDDLE)
    answered(scene, REPLY)
    economy = scene.conversation.economy
    at = scene.now + timedelta(seconds=290)
    planned = scene.conversation.plan_hold(at)
    assert planned is not None
    scene.conversation.record_hold(planned, HELD, at)
    before = economy.state
    economy.record_rewind()
    assert economy.state == before.rewound(scene.conversation.size.next_request)
    scene.now += timedelta(minutes=40)
    scene.conversation.add(b.user("Back again.", uuid="u8"))
    again = b.assistant("Yes.", id="m8", uuid="a8", timestamp="2026-11-15T12:40:00.000Z")
    assert answered(scene, again).hold_check is None


@pytest.mark.spec("EC-5")
def test_a_failed_summary_is_booked_although_the_context_stays():
    scene = Alone(
        LARGE,
        under=preset("economic"),
        model=OPUS,
        compact=CompactSettings(strategies=("fork",)),
        answers=[summary("No.")],
    )
    made = scene.run(scene.conversation.compact(BY_HAND, NOON, scene.new_id))
    assert not isinstance(made, Compaction)
    paid = sum((each.usage.input_tokens * 5 + each.usage.output_tokens * 25) / 1e6 for each in made.attempts)
    assert paid > 0
    assert scene.conversation.economy.state == EconomyState(spent=pytest.approx(paid))


@pytest.mark.parametrize(("ttl", "wait"), [("5m", None), ("1h", timedelta(seconds=HOUR))])
def test_the_first_hold_comes_just_before_the_entries_expire(ttl: Any, wait: timedelta | None):
    scene = economic(SMALL)
    setting = scene.conversation.setting
    scene.conversation.setting = msgspec.structs.replace(
        setting, parameters=KeyParameters(TtlChoice(ttl, "the test says so"))
    )
    found = scene.conversation.economy.first_wait
    assert found == (wait or setting.options.economy.hold_after)


def test_what_a_compaction_keeps_by_price_is_measured_from_what_is_written_anyway():
    conversation = economic(SMALL).conversation
    conversation.setting = msgspec.structs.replace(conversation.setting, preamble=head())
    economy, setting = conversation.economy, conversation.setting
    assert conversation.size.tokens > 0
    options = setting.options.economy
    base = conversation._state.tracker.outline.preamble_tokens + WRITTEN_TOKENS
    prices = economy.prices(setting, NOON, base)
    rule = make_keep_rule(options.reuse_table, base, prices, options).within(conversation.thresholds.auto)
    assert economy.keep_rule(setting, NOON) == rule


def test_without_a_cache_every_token_has_its_full_price():
    conversation = economic(SMALL).conversation
    able = msgspec.structs.replace(ANTHROPIC, caching=False)
    setting = msgspec.structs.replace(conversation.setting, capabilities=able)
    found = conversation.economy.prices(setting, NOON, 1_000)
    assert (found.read, found.write, found.dollars) == (1.0, 1.0, 5e-6)


@pytest.mark.spec("EC-3")
@pytest.mark.parametrize(
    ("minutes", "is_reset", "is_checked"),
    [(40, False, True), (9, False, False), (70, False, False), (40, True, False)],
)
def test_the_return_after_a_hold_tells_something_within_its_hour_and_with_the_same_prompt(
    minutes: int, is_reset: bool, is_checked: bool
):
    scene = economic(MIDDLE)
    answered(scene, REPLY)
    economy, at = scene.conversation.economy, scene.now + timedelta(seconds=290)
    planned = scene.conversation.plan_hold(at)
    assert planned is not None
    held = planned.prediction
    usage = Usage(0, held.total - held.read, held.read, 0)
    scene.conversation.record_hold(planned, usage, at)
    if is_reset:
        economy.state = msgspec.structs.replace(economy.state, was_reset=True)
    scene.now += timedelta(minutes=minutes)
    scene.conversation.add(b.user("Back again.", uuid="u8"))
    again = b.assistant("Yes.", id="m8", uuid="a8")
    cost = economy.state.held
    checked = answered(scene, again).hold_check
    assert (checked is not None) == is_checked
    if checked is not None:
        seconds = minutes * 60 - 290
        assert (checked.held, checked.seconds, checked.kept) == (usage.context, seconds, True)
        # Read instead of written: 6.25 and 0.50 dollars per million.
        decision = economy.decisions[-1]
        assert decision == EconomicDecision(
            at=scene.now,
            kind="check",
            done=True,
            why=checked.why,
            cost=cost,
            expected=pytest.approx(checked.read * 5.75 / 1e6),
        )


def test_a_late_hold_and_one_of_five_minutes_are_not_checked():
    scene = waiting()
    planned = scene.conversation.plan_hold(scene.now + timedelta(seconds=290))
    assert planned is not None
    given = msgspec.structs.replace(planned.given, form="refresh")
    refreshed = msgspec.structs.replace(planned, given=given)
    at = scene.now + timedelta(seconds=290)
    scene.conversation.record_hold(refreshed, HELD, at)
    cache = scene.conversation.cache
    assert cache.held_at == at
    assert [cache.is_held(at + timedelta(seconds=each)) for each in (300, 301)] == [True, False]
    assert scene.conversation.economy._held is None
    scene.conversation.record_hold(planned, HELD, at)
    assert scene.conversation.economy._held == (at, HELD.context)
    assert cache.is_held(at + timedelta(seconds=3_600))


def test_tokens_that_the_provider_kept_anyway_count_for_doing_nothing():
    scene = waiting()
    economy = scene.conversation.economy
    economy.state = before = msgspec.structs.replace(economy.state, holds=1, held=0.03)
    economy.kept_anyway = 30_000
    later = scene.now + timedelta(hours=2)
    usage = Usage(cache_creation_input_tokens=61_000)
    scene.conversation.cache.called_at = later
    economy.record_reply(usage, later)
    setting = scene.conversation.setting
    prices = economy.prices(setting, later, usage.context)
    assert economy.state == before.within(setting.model.window, usage.context).after_reply(
        usage,
        prices,
        base=scene.conversation._state.preamble_tokens(setting) + KEPT_TOKENS,
        now=later.timestamp(),
        kept_anyway=30_000,
        head=scene.conversation._state.preamble_tokens(setting),
    )


@pytest.mark.parametrize("is_on", [True, False])
def test_the_books_follow_a_view_that_somebody_else_compacted(is_on: bool):
    scene = economic(LARGE, enabled=is_on)
    economy = scene.conversation.economy
    economy.state = before = EconomyState(prompt=60_000, carry=3.0, surplus=11)
    for record in (b.boundary("b1"), b.summary(uuid="s1", parent="b1")):
        scene.conversation.add(record)
    size = scene.conversation.size.next_request
    assert economy.state == (before.in_view("b1", size) if is_on else before)


def test_a_pause_is_counted_from_the_start_of_the_last_call():
    scene = economic(LARGE)
    scene.turn()
    later = scene.now + timedelta(seconds=40)
    usage = Usage(cache_creation_input_tokens=60_000, output_tokens=100)
    scene.conversation.record_reply([REPLY], usage, later)
    assert scene.conversation.economy.state.called_at == scene.now.timestamp()
