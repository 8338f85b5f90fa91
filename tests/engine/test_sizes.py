"""The size of a conversation: what the usage told of system prompt and tools, and when that is known."""

from typing import Any

import builders as b
import msgspec
import pytest
from engine.alone import NOON, Alone
from engine.held import head

from everturn.history.edits import Cleared
from everturn.history.records import Record, Usage
from everturn.measure.calibration import MIN_SAMPLES
from everturn.measure.thresholds import check_thresholds
from everturn.measure.tokens import TokenCounter

MODEL = "claude-opus-4-6"
FIRST = b.user("Look at the parser. " * 20, uuid="u1")
CONTINUED = b.user("Look at the parser. " * 20, uuid="u1", parent="u0")


def replied(context: int, *, id: str = "m1", uuid: str = "a1", **more: Any) -> Record:
    return b.assistant("Well.", id=id, uuid=uuid, usage=told(context), **more)


def told(context: int) -> dict[str, int]:
    return {"input_tokens": context, "output_tokens": 5}


def rough(*records: Record) -> int:
    counts = TokenCounter()
    return sum(counts.of(each).whole.total for each in records)


@pytest.mark.parametrize(
    ("records", "is_known"),
    [
        ((FIRST, replied(9_000)), True),
        ((FIRST, replied(9_000, model="claude-haiku-4-5")), False),
        ((FIRST,), False),
        # Parts of a conversation: what came before is in the usage and not in the log.
        ((CONTINUED, replied(9_000)), False),
        ((b.boundary("b1"), b.summary(uuid="s1", parent="b1"), replied(9_000)), False),
    ],
)
def test_the_first_usage_tells_the_size_of_system_prompt_and_tools_if_the_log_is_whole(
    records: tuple[Record, ...], is_known: bool
):
    conversation = Alone(records, model=MODEL, preamble=head()).conversation
    state, setting = conversation._state, conversation.setting
    assert conversation.size.tokens > 0
    counted = state.tracker.outline.preamble_tokens
    beyond = 9_000 - rough(FIRST)
    assert beyond != counted > 0
    assert state.preamble_tokens(setting) == (beyond if is_known else counted)


def test_another_system_prompt_than_the_one_that_was_sent_is_counted():
    scene = Alone([FIRST, replied(9_000)], model=MODEL, preamble=head())
    scene.turn()
    state, setting = scene.conversation._state, scene.conversation.setting
    beyond = 9_000 - rough(FIRST)
    equal = msgspec.structs.replace(setting, preamble=msgspec.structs.replace(setting.preamble))
    assert [state.preamble_tokens(each) for each in (setting, equal)] == [beyond, beyond]
    other = msgspec.structs.replace(setting, preamble=head("Another prompt."))
    state.size(other)
    assert state.preamble_tokens(other) == state.tracker.outline.preamble_tokens != beyond


def test_a_compacted_view_takes_what_the_first_usage_told_of_system_prompt_and_tools():
    scene = Alone([FIRST, replied(9_000)], model=MODEL, preamble=head())
    conversation = scene.conversation
    for record in (b.boundary("b1"), b.summary(uuid="s1", parent="b1")):
        conversation.add(record)
    size, tail = conversation.size, rough(b.summary())
    assert (size.basis, size.anchor, size.reported, size.rough_tail) == (
        "estimate",
        "",
        9_000 - rough(FIRST),
        tail,
    )


def test_a_size_follows_each_record_and_each_setting():
    scene = Alone([FIRST], model=MODEL, preamble=head())
    conversation, state = scene.conversation, scene.conversation._state
    before = conversation.size
    assert state.size(conversation.setting) is before
    small = msgspec.structs.replace(conversation.setting, preamble=head("Short."))
    assert state.size(small).tokens < before.tokens
    assert conversation.size == before
    conversation.add(b.user("More of it. " * 50, uuid="u2"))
    assert conversation.size.rough_tail == before.rough_tail + rough(b.user("More of it. " * 50))
    conversation.add_observed(b.user("Even more. " * 50, uuid="u3"))
    assert conversation.size.rough_tail == rough(*conversation.log.records) + (
        before.rough_tail - rough(FIRST)
    )


@pytest.mark.parametrize("asked", ["metrics", "last_reply", "repairs", "calibration", "size"])
def test_whatever_is_asked_of_an_observed_conversation_has_all_of_its_records(asked: str):
    records = [
        FIRST,
        replied(9_000, timestamp="2026-11-15T12:00:00.000Z"),
        b.user("On.", uuid="u2"),
        b.assistant(b.call("c1", path="a.py"), id="m2", uuid="a2", usage=told(9_006)),
        b.user("Never mind.", uuid="u3"),
    ]
    observed = Alone(model=MODEL).conversation
    for record in records:
        observed.add_observed(record)
    found = getattr(observed, asked)
    assert found == getattr(Alone(records, model=MODEL).conversation, asked)
    assert found != getattr(Alone(model=MODEL).conversation, asked)


def grown(pairs: int, **tokens: Any) -> Alone:
    """So many calls, of which each has 1,000 tokens more than was said since the one before."""
    records, context = [FIRST], 5_000
    for at in range(pairs + 1):
        reply = replied(context, id=f"m{at}", uuid=f"a{at}")
        more = b.user("Go on, and look at the lexer as well. " * 40, uuid=f"more {at}")
        context += 2 * rough(reply, more)
        records += [reply, more]
    scene = Alone(records, model=MODEL)
    setting = scene.conversation.setting
    options = msgspec.structs.replace(
        setting.options, tokens=msgspec.structs.replace(setting.options.tokens, **tokens)
    )
    scene.conversation.setting = msgspec.structs.replace(setting, options=options)
    return scene


@pytest.mark.spec("TOK-7")
@pytest.mark.parametrize(
    ("pairs", "calibrate", "ratio"),
    [(MIN_SAMPLES, True, 2), (MIN_SAMPLES - 1, True, 1), (MIN_SAMPLES, False, 1)],
)
def test_estimates_are_corrected_by_what_enough_calls_of_the_session_have_shown(
    pairs: int, calibrate: bool, ratio: int
):
    conversation = grown(pairs, calibrate=calibrate).conversation
    assert conversation.calibration.samples == pairs
    said = [FIRST, b.user("And the tests.", uuid="u9")]
    assert conversation.estimate_tokens(said) == ratio * rough(*said)
    size = conversation.size
    is_padded = ratio == 1
    assert (size.estimated_tail == ratio * size.rough_tail) == (not is_padded)


@pytest.mark.spec("MC-5")
def test_after_a_clearing_there_is_no_warning_until_the_next_usage():
    records = [
        FIRST,
        b.assistant(b.call("c1", path="a.py"), id="m1", uuid="a1", usage=told(150_000)),
        b.result("c1", "def a(): ... " * 9_000, uuid="r1"),
        b.assistant("Seen.", id="m2", uuid="a2", usage=told(199_000)),
    ]
    conversation = Alone(records, model="claude-sonnet-4-5").conversation
    settings = conversation.setting.options.effective_thresholds

    def levels(*, warns: bool) -> Any:
        size = conversation.size.next_request
        return check_thresholds(size, conversation.thresholds, settings, warns=warns)

    assert conversation.levels == levels(warns=True)
    assert conversation.levels.above_warning
    conversation.add(b.edited(Cleared(("c1",), tokens_saved=10, why="it is old"), "e1"))
    assert conversation.size.freed > 0
    assert (conversation.levels, conversation.levels.above_warning) == (levels(warns=False), False)
    conversation.record_reply([replied(198_000, id="m3", uuid="a3")], Usage(198_000, 0, 0, 5), NOON)
    assert conversation.levels == levels(warns=True)
