"""What a compaction is told beside the records, and why a summary call read little from the cache."""

import builders as b
import msgspec
import pytest
from engine.alone import NOON, Alone
from engine.held import model_of
from engine.test_economy import LARGE, economic

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
    alone.turn()
    reply = b.assistant(b.think("Well."), b.call("c1", "Read", file_path="a.py"), id="m1", uuid="a1")
    alone.conversation.record_reply([reply], Usage(10, 0, 0, 5), NOON)
    alone.conversation.add(b.result("c1", "def a(): ...", uuid="r1"))
    return alone


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
    explain = alone.conversation._compactor._explain_uncached
    assert explain(None) == why
    assert explain(412.4) == "the cache had expired: nothing was sent for 412 s"
    setting = alone.conversation.setting
    alone.conversation.setting = msgspec.structs.replace(setting, model=model_of("claude-haiku-4-5"))
    assert explain(None) == "claude-haiku-4-5 has not seen this conversation before"


def test_messages_that_were_never_sent_are_why_a_summary_reads_little():
    alone = Alone([b.user("Hi.", uuid="u1")], model=SHORT_LIVED)
    explain = alone.conversation._compactor._explain_uncached
    assert explain(None) == "the messages in view have not been sent in this form before"
