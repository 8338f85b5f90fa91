"""What a compaction is told beside the records, and why a summary call read little from the cache."""

from datetime import timedelta

import builders as b
import msgspec
import pytest
from engine.alone import NOON, Alone
from engine.held import model_of
from engine.test_economy import LARGE, economic

from everturn.engine.capture import capture_request
from everturn.history.blocks import text_of
from everturn.history.records import Usage
from everturn.view.breakpoints import Breakpoints
from everturn.wire.queued_messages import QueuedMessage


@pytest.mark.parametrize("is_told", [True, False])
def test_what_was_typed_meanwhile_is_in_the_summary(is_told: bool):
    scene = economic(LARGE)
    if is_told:
        scene.conversation.take_queued([QueuedMessage("Also mend the tests, please.", "waiting")])
    appended = scene.turn().appended
    [summary] = [record for record in appended if record.compact_summary]
    said = "\n".join(text_of(block) for block in summary.blocks)
    assert ("Also mend the tests, please." in said) == is_told


def test_without_a_request_of_this_key_nothing_is_known_to_be_written():
    alone = Alone([b.user("Hi.", uuid="u1")])
    conversation = alone.conversation
    tracker, cache = conversation._state.tracker, conversation.cache
    assert cache.written_breakpoints(tracker, conversation.setting, 0) == Breakpoints(
        why=("no request with this key is known",)
    )
    alone.turn()
    assert cache.written_breakpoints(tracker, conversation.setting, 1).why != (
        "no request with this key is known",
    )


def in_a_tool_loop(model: str) -> Alone:
    alone = Alone([b.user("Hi.", uuid="u1")], model=model)
    for number in (1, 2):
        alone.turn()
        blocks = [b.think("Well."), b.call(f"c{number}", "Read", file_path="a.py")]
        reply = b.assistant(*blocks[number - 1 :], id=f"m{number}", uuid=f"a{number}")
        alone.conversation.record_reply([reply], Usage(10, 0, 0, 5), NOON)
        alone.conversation.add(b.result(f"c{number}", "def a(): ...", uuid=f"r{number}"))
    return alone


def explain(alone: Alone, seconds: float = 0.0) -> str:
    """What is said of a summary call that sends the conversation after this time and reads little."""
    conversation = alone.conversation
    setting, messages = conversation.setting, tuple(conversation._state.tracker.outline.messages)
    parent = capture_request(setting, setting.parameters, messages, Breakpoints())
    now = NOON + timedelta(seconds=seconds)
    return conversation._compactor._explain_uncached(conversation._state, parent, now)


SHORT_LIVED, KEEPING = "claude-sonnet-4-5", "claude-opus-4-6"


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (SHORT_LIVED, "claude-sonnet-4-5 keeps the thinking of a tool loop only until the next question"),
        (KEEPING, "the provider no longer had the entries of the last request"),
    ],
)
def test_thinking_that_a_question_ends_is_why_a_summary_reads_little(model: str, why: str):
    alone = in_a_tool_loop(model)
    assert explain(alone) == why
    assert (
        explain(alone, 412.4)
        == "the cache had probably expired: the last known call that shares it was 412 s ago"
    )
    setting = alone.conversation.setting
    alone.conversation.setting = msgspec.structs.replace(setting, model=model_of("claude-haiku-4-5"))
    assert explain(alone) == "claude-haiku-4-5 has not seen this conversation before"


def test_messages_that_were_never_sent_are_why_a_summary_reads_little():
    alone = Alone([b.user("Hi.", uuid="u1")], model=SHORT_LIVED)
    assert explain(alone) == "the messages in view have not been sent in this form before"
