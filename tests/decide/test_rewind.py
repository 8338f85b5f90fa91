"""Where a conversation goes on after a rewind."""

import builders as b
import pytest

from everturn.decide.rewind import RewindPlan, find_end_of_kept, plan_rewind
from everturn.history.edits import Compacted, Pinned
from everturn.history.log import Log
from everturn.history.records import Record

TALK = [
    b.user("Begin.", uuid="first-1", parent=""),
    b.assistant("I look.", id="m1", uuid="reply-1", parent="first-1"),
    b.assistant(b.call("c1"), b.call("c2"), id="m1", uuid="reply-2", parent="reply-1"),
    b.result("c1", "one", uuid="result-1", parent="reply-2"),
    b.result("c2", "two", uuid="result-2", parent="result-1"),
    b.user([b.say("Now this."), b.say(""), b.say("And that.")], uuid="second-1", parent="result-2"),
    b.assistant("Done.", id="m2", uuid="final-reply", parent="second-1"),
    b.summary("In short.", uuid="summary-1"),
    b.system(uuid="duration-1"),
]


def named(uuid: str) -> Record:
    return next(each for each in TALK if each.uuid == uuid)


@pytest.mark.parametrize(
    ("uuid", "last", "text"),
    [
        pytest.param("second-1", "result-2", "Now this.\n\nAnd that.", id="a message is taken back"),
        pytest.param("second", "result-2", "Now this.\n\nAnd that.", id="six letters are enough"),
        pytest.param("final-reply", "final-reply", "", id="a reply stays"),
        pytest.param("reply-1", "result-2", "", id="a reply stays with all its pieces and results"),
        pytest.param("reply-2", "result-2", "", id="any piece stands for the reply"),
    ],
)
def test_the_conversation_continues_from_the_end_of_what_stays(uuid, last, text):
    assert plan_rewind(TALK, uuid) == RewindPlan(named(last), text)


def test_before_the_first_message_there_is_nothing():
    assert plan_rewind(TALK, "first-1") == RewindPlan(None, "Begin.")


def test_replies_without_an_id_are_not_one_reply():
    one, two = (b.assistant("A.", id="", uuid=name) for name in ("answer-1", "answer-2"))
    assert plan_rewind([one, two], "answer-1") == RewindPlan(one)


@pytest.mark.parametrize(
    ("uuid", "reason"),
    [
        ("nobody", "The session has no record 'nobody'. Name a message by its uuid."),
        ("secon", "The session has no record 'secon'. Name a message by its uuid."),
        ("reply-", "The session has more than one record 'reply-'. Name a message by its uuid."),
        (
            "summary-1",
            "That is a summary. To see what it replaced, undo the compaction, or name a message before it.",
        ),
        ("result-1", "result-1 is not a message of the user or the model. Name one that is."),
        ("duration-1", "duration-1 is not a message of the user or the model. Name one that is."),
    ],
)
def test_what_cannot_be_gone_back_to_is_answered_with_the_reason(uuid, reason):
    assert plan_rewind(TALK, uuid) == reason


def test_results_of_other_calls_do_not_belong_to_a_reply():
    asked = b.assistant("Yes.", b.call("c1"), id="m1", uuid="reply-1", parent="first-1")
    records = [
        b.user("Begin.", uuid="first-1"),
        asked,
        b.result("c1", "one", uuid="result-1", parent="reply-1"),
        b.user([{"type": "tool_result", "content": "nobody's"}], uuid="stray-1", parent="result-1"),
    ]
    assert plan_rewind(records, "reply-1") == RewindPlan(records[2])


def test_a_compaction_without_a_summary_is_not_returned_to():
    """The process ended while the summary was written, and everything is still in view."""
    begin = b.user("Begin.", uuid="u1", parent="")
    reply = b.assistant("One.", id="m1", uuid="a1", parent="u1")
    pin = b.edited(Pinned("Use tabs."), "pin", parent="a1")
    boundary = b.edited(Compacted(logical_parent="pin"), "boundary", parent="")
    hook = b.attachment("The build is red.", uuid="hook", parent="boundary")
    summary = b.summary("In short.", uuid="summary", parent="hook")
    notice = b.system(uuid="notice", parent="summary")
    log = Log([b.user("Again.", uuid="u2", parent="")])
    half, whole = [begin, reply, pin, boundary, hook], [begin, reply, pin, boundary, hook, summary, notice]
    assert [find_end_of_kept(log, reply, left) for left in (half, whole)] == [pin, notice]
