"""What a reset is expected to cost by the first strategy that can be tried, and how a pause is held where the
usual hold cannot be sent (EC-2 to EC-5)."""

from datetime import timedelta

import msgspec
import pytest
from engine.alone import NOON, Alone, summary
from engine.test_economy import HELD, LARGE, SMALL, economic, replied, waiting
from presets import preset

from everturn.decide.cache_breaks import Diagnosis
from everturn.decide.compact.settings import CompactSettings
from everturn.decide.compact.values import CompactionRequest
from everturn.decide.economy.holds import decide_hold
from everturn.decide.economy.prices import RelativePrices
from everturn.decide.economy.settings import SUMMARY_TOKENS
from everturn.engine.economy import NOTHING_READ
from everturn.engine.holds import PlannedHold
from everturn.engine.wire import AnthropicWire
from everturn.history.records import Usage
from everturn.measure.capabilities import ANTHROPIC
from everturn.view.requests import build_request

OPUS, HAIKU = "claude-opus-4-6", "claude-haiku-4-5"


def weighed(*strategies: str, summary_model: str = "", has_notes: bool = False) -> tuple[float, float, int]:
    """The price of a reset in dollars, what it is compared with, and the tokens of the next prompt."""
    compact = CompactSettings(strategies=strategies, summary_model=summary_model)  # type: ignore[arg-type]
    scene = Alone(LARGE, under=preset("economic"), model=OPUS, compact=compact, answers=[summary()])
    economy = scene.conversation.economy
    due = economy._conversation
    settings = scene.conversation.setting
    parameters = due.cache.latch(settings).parameters
    _, prediction = due.cache.look_ahead(due.tracker, settings, parameters, scene.now)
    found = economy._weigh_reset(settings, prediction, has_notes=has_notes, now=scene.now)
    return found.cost, found.against, prediction.total


@pytest.mark.spec("EC-4")
def test_a_reset_has_the_price_of_the_first_strategy_that_can_be_tried():
    free, _, total = weighed("extractive")
    # 16,000 tokens are written at 6.25 dollars per million.
    assert free == pytest.approx(0.1)
    assert weighed("notes", "fork", has_notes=True)[0] == weighed()[0] == free
    # A fork reads what is cached, here nothing, and is paid like the conversation: 5 dollars, 25 for output.
    fork = free + (total * 5 + SUMMARY_TOKENS * 25) / 1e6
    for strategies in (("fork",), ("provider",), ("notes", "fork")):
        assert weighed(*strategies)[0] == pytest.approx(fork)
    assert weighed("direct")[0] == pytest.approx(fork)
    # Haiku 4.5 takes 1 dollar, and 5 for output.
    cheap = free + (total * 1 + SUMMARY_TOKENS * 5) / 1e6
    assert weighed("direct", summary_model=HAIKU)[0] == pytest.approx(cheap)


@pytest.mark.spec("EC-2")
def test_a_hold_that_the_api_would_refuse_is_planned_with_its_price_and_is_not_sent():
    scene = economic(SMALL)
    scene.conversation.setting = msgspec.structs.replace(
        scene.conversation.setting, fields={"tool_choice": {"type": "any"}}
    )
    replied(scene, Usage(cache_creation_input_tokens=60_000, output_tokens=100))
    planned = scene.conversation.plan_hold(scene.now + timedelta(seconds=290))
    assert planned is not None
    worth = decide_hold(planned.given)
    assert planned.decision == worth.refused("a call of a tool is asked for")
    assert planned.prediction == NOTHING_READ


@pytest.mark.spec("EC-3")
def test_where_nobody_may_place_breakpoints_the_last_request_is_repeated():
    scene = economic(SMALL)
    able = msgspec.structs.replace(ANTHROPIC, max_breakpoints=0)
    scene.conversation.setting = msgspec.structs.replace(scene.conversation.setting, capabilities=able)
    replied(scene, Usage(cache_creation_input_tokens=60_000, output_tokens=100))
    planned = scene.conversation.plan_hold(scene.now + timedelta(seconds=290))
    assert planned is not None
    assert (planned.given.form, planned.given.least_output) == ("repeat", 1)


def test_without_a_cache_there_is_nothing_to_hold():
    scene = economic(SMALL)
    able = msgspec.structs.replace(ANTHROPIC, caching=False)
    scene.conversation.setting = msgspec.structs.replace(scene.conversation.setting, capabilities=able)
    replied(scene, Usage(input_tokens=60_000))
    assert scene.conversation.plan_hold(scene.now + timedelta(seconds=290)) is None


def test_the_next_hold_of_a_pause_is_decided_with_what_the_last_one_cost():
    scene = waiting()
    planned = scene.conversation.plan_hold(scene.now + timedelta(seconds=290))
    assert planned is not None
    given = planned.given.after_hold(HELD)
    assert planned.renewed(HELD) == PlannedHold(
        given, decide_hold(given), planned.captured, planned.prediction
    )
    assert planned.request() == build_request(planned.captured, planned.captured.breakpoints)


@pytest.mark.spec("EC-8")
def test_a_compaction_is_booked_at_the_price_of_the_model_that_wrote_it():
    compact = CompactSettings(strategies=("direct",), summary_model=HAIKU)
    scene = Alone(LARGE, under=preset("economic"), model=OPUS, compact=compact, answers=[summary()])
    asked = CompactionRequest(trigger="manual")
    made = scene.run(scene.conversation.compact(asked, scene.now, scene.new_id))
    state = scene.conversation.economy.state
    # 1,000 tokens of input and 300 of output by Haiku 4.5.
    assert state.spent == pytest.approx(0.001 + 0.0015)
    assert (state.base, state.surplus) == (made.tokens_after, made.tokens_before - made.tokens_after)
    own = Alone(LARGE, under=preset("economic"), model=OPUS, compact=CompactSettings(strategies=("fork",)),
                answers=[summary()])  # fmt: skip
    own.run(own.conversation.compact(asked, own.now, own.new_id))
    assert own.conversation.economy.state.spent == pytest.approx(0.005 + 0.0075)


def test_relative_prices_are_those_of_the_day_and_the_size():
    conversation = economic(SMALL).conversation
    found = conversation.economy.prices(conversation.setting, NOON, 1_000)
    assert found == RelativePrices(0.1, 1.25, 2.0, 5.0, 5e-6, "5m")


def test_a_conversation_tells_its_notes_its_last_reply_and_its_provider():
    scene = economic(SMALL)
    assert (scene.conversation.notes, scene.conversation.last_reply) == (None, None)
    replied(scene, Usage(input_tokens=10))
    assert scene.conversation.last_reply == NOON
    assert AnthropicWire(ANTHROPIC).capabilities is ANTHROPIC


def test_a_reply_without_diagnostics_and_one_of_an_unknown_shape_are_read_alike():
    body = b'{"id":"m","type":"message","role":"assistant","model":"x","content":[],"usage":{}%s}'
    wire = AnthropicWire(ANTHROPIC)
    reason = b',"diagnostics":{"cache_miss_reason":{"type":"ttl","cache_missed_input_tokens":7}}'
    assert wire.parse_reply(body % reason).diagnosis == Diagnosis("ttl", 7)
    for more in (b"", b',"diagnostics":7', b',"diagnostics":null', b',"diagnostics":{}'):
        assert (wire.parse_reply(body % more).diagnosis, wire.parse_reply(body % more).applied) == (None, ())
