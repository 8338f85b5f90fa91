"""What the direct way sends (CP-2)."""

import builders as b
import pytest
from builders import compute_view
from hypothesis import given
from message_rules import find_message_problems
from random_logs import broken_logs

from everturn.decide.compact.prepare import prepare_messages, with_prompt
from everturn.decide.compact.settings import DEFAULTS
from everturn.history.blocks import fields_of, text_of
from everturn.history.edits import Cleared
from everturn.history.log import Log
from everturn.history.messages import Message
from everturn.history.records import Record
from everturn.view.fragments.unspoken import UNSPOKEN

PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
PAPER = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "long"}}


def ready(records: list[Record]) -> tuple[Message, ...]:
    return prepare_messages(compute_view(records), records, DEFAULTS)


def told(records: list[Record]) -> list[str]:
    return [text_of(block) for message in ready(records) for block in message.blocks]


@pytest.mark.spec("CP-2")
def test_pictures_and_documents_become_markers_also_inside_results():
    records = [
        b.user([b.say("look"), PICTURE, PAPER], uuid="u"),
        b.assistant(b.call("c1")),
        b.result("c1", [b.say("it shows"), PICTURE, PAPER], is_error=False),
    ]
    first, _, last = ready(records)
    assert [text_of(block) for block in first.blocks] == ["look", "[image]", "[document]"]
    assert fields_of(last.blocks[0])["content"] == [b.say("it shows"), b.say("[image]"), b.say("[document]")]
    assert (last.blocks[0].call, last.results) == ("c1", ("c1",))


@pytest.mark.spec("CP-2")
def test_attachments_that_come_back_anyway_are_left_out():
    gone = [
        b.record(b._envelope("attachment", f"x{at}", "", {"attachment": {"type": kind, "content": "gone"}}))
        for at, kind in enumerate(
            ("skill_listing", "deferred_tools_delta", "restored_file", "compaction_pins")
        )
    ]
    assert told([b.user("hi"), *gone, b.attachment("stays")]) == [
        "<system-reminder>\nstays\n</system-reminder>",
        "hi",
    ]


def test_thinking_is_not_sent_along():
    records = [
        b.user("hi"),
        b.assistant(b.think("hm"), "yes", id="m1"),
        b.user("and?"),
        b.assistant(b.think("h"), id="m2"),
    ]
    records.append(b.user("well?"))
    assert told(records) == ["hi", "yes", "and?", text_of(UNSPOKEN), "well?"]


def test_a_summary_of_the_provider_is_told_in_its_words():
    signed = {"type": "compaction", "content": "We built it.", "signature": "x"}
    assert told([b.user([signed], uuid="u"), b.assistant("yes")]) == ["We built it.", "yes"]


def test_what_is_cleared_stays_cleared():
    records = [
        b.user("hi"),
        b.assistant(b.call("c1")),
        b.result("c1", "secret"),
        b.edited(Cleared(("c1",)), "e"),
    ]
    log = Log(records)
    shown = prepare_messages(log.view, records[:3], DEFAULTS)
    assert text_of(shown[-1].blocks[0]) == "[Old tool result content cleared]"


def test_bytes_without_pictures_stay_as_they_are():
    records = [b.user("hi"), b.assistant(b.call("c1")), b.result("c1", "plain")]
    assert ready(records)[-1].blocks == records[-1].blocks


def test_the_prompt_joins_the_last_word_of_the_user():
    spoken = ready([b.user("hi")])
    assert [[text_of(x) for x in m.blocks] for m in with_prompt(spoken, "sum up")] == [["hi", "sum up"]]
    answered = ready([b.user("hi"), b.assistant("yes")])
    assert [m.role for m in with_prompt(answered, "sum up")] == ["user", "assistant", "user"]


@given(broken_logs(edits=True))
def test_what_is_sent_is_valid_whatever_was_recorded(records: list[Record]):
    log = Log(records)
    messages = with_prompt(prepare_messages(log.view, tuple(log.view.records), DEFAULTS), "sum up")
    assert find_message_problems(messages) == ()
