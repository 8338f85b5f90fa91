"""What a caller sends later of a message, and whose reply it is."""

import pytest
from builders import assistant, call, user

from everturn.adapters.tracking.caller_request import CallerRequest, read_request
from everturn.adapters.tracking.respelling import (
    align,
    is_identifying,
    is_pruned,
    is_reduced,
    is_same_reply,
    split_segments,
)

PICTURE = {"type": "image", "source": {"data": "x"}}
REMINDER = {"type": "text", "text": "<system-reminder>Be brief.</system-reminder>"}


def text(words):
    return {"type": "text", "text": words}


def result(content, name="t1"):
    return {"type": "tool_result", "tool_use_id": name, "content": content}


def said(*blocks, role="user"):
    return [(role, block) for block in blocks]


@pytest.mark.parametrize(
    ("sent", "now"),
    [
        (said(text("Fix it."), REMINDER), said(text("Fix it."))),
        (said(REMINDER, text("Fix it.")), said(text("Fix it."))),
        (said(text("Fix it.\n\nBe brief.")), said("Fix it.")),
        (said(text("Open files: a.py\n\nFix it.\n\nBe brief.")), said(text("Fix it."))),
        (said(text("Fix it."), text("Test it.")), said("Fix it.\n\nTest it.")),
        (said(text("Fix it. Test it.")), said(text("Fix it. "), text(" Test it."))),
        (said(result("lines\n\nBe brief.")), said(result([text("lines")]))),
        (said(result("a", "t1"), result("b", "t2"), REMINDER), said(result("a", "t1"), result("b", "t2"))),
        (said(text("Fix it."), REMINDER), ()),
        (
            [*said(text("Fix it.")), ("system", text("Be brief."))],
            said(REMINDER, text("Fix it.")),
        ),
    ],
    ids=[
        "a block behind", "a block in front", "text behind", "text around", "blocks joined", "a block split",
        "text in a result", "a block behind results", "the whole message", "a system message as a reminder",
    ],
)  # fmt: skip
def test_what_was_sent_and_is_left_out_now(sent, now):
    assert is_reduced(sent, now)


@pytest.mark.parametrize(
    ("sent", "now"),
    [
        (said(text("Fix it.")), said(text("Fix that."))),
        (said(text("Fix it.")), said(text("Fix it."), text("Test it."))),
        (said(text("Fix it.")), said(text("Fix it. Test it."))),
        (said(text("one two")), said(text("two"), text("one"))),
        (said(text("once")), said(text("once"), text("once"))),
        (said(result("a", "t1")), said(result("a", "t2"))),
        (said(result("a", "t1")), said({**result("a", "t1"), "is_error": True})),
        (said(PICTURE), said({**PICTURE, "source": {"data": "y"}})),
        (said(PICTURE), said(PICTURE, PICTURE)),
    ],
    ids=[
        "other words", "a new block", "words added", "another order", "said twice", "another call",
        "an error now", "another picture", "a picture twice",
    ],
)  # fmt: skip
def test_what_was_never_sent_is_something_new(sent, now):
    assert not is_reduced(sent, now)


GONE = {"type": "text", "text": "[A picture was here.]"}
PAGE = {"type": "document", "source": {"data": "p"}}
OTHER = {"type": "image", "source": {"data": "y"}}
LONG = "a line of the log\n" * 30


@pytest.mark.parametrize(
    ("sent", "now"),
    [
        (said(result([text("a"), PICTURE])), said(result([text("a")]))),
        (said(result([text("a"), PICTURE])), said(result("a"))),
        (said(result([PICTURE])), said(result([]))),
        (said(result([PICTURE])), said(result("[A picture was here.]"))),
        (said(result([PICTURE, text("a")])), said(result([GONE, text("a")]))),
        (said(result([PICTURE, OTHER, text("a")])), said(result([OTHER, text("a")]))),
        (said(result([PICTURE, OTHER])), said(result([GONE, GONE]))),
        (said(PICTURE, text("Look."), PAGE), said(text("Look."))),
        (said(result([PICTURE], "t1"), result([OTHER], "t2")), said(result([], "t1"), result([OTHER], "t2"))),
        (said(result(LONG)), said(result("[Cleared.]"))),
        (said(result([text(LONG), PICTURE])), said(result([text("[Cleared.]")]))),
        (said(result(LONG, "t1"), result(LONG, "t2")), said(result("", "t1"), result(LONG, "t2"))),
    ],
    ids=[
        "removed", "a string is left", "nothing is left", "a string instead", "a text instead",
        "the first of two", "a text for each", "in a message", "in one of two results",
        "a long result", "a result with a picture", "one of two long results",
    ],
)  # fmt: skip
def test_what_agents_drop_of_their_past(sent, now):
    assert is_pruned(sent, now)


@pytest.mark.parametrize(
    ("sent", "now"),
    [
        (said(result([text("a"), PICTURE])), said(result([text("b")]))),
        (said(result([text("a"), PICTURE])), said(result([PICTURE]))),
        (said(result([text("a"), PICTURE])), said(result([text("a"), OTHER]))),
        (said(result([PICTURE])), said(result([GONE, GONE]))),
        (said(result([PICTURE], "t1")), said(result([], "t2"))),
        (said(result([PICTURE])), said({**result([]), "is_error": True})),
        (said(result([PICTURE], "t1"), result("b", "t2")), said(result([], "t1"))),
        (said(text("Look.")), said(text("Look."), PICTURE)),
        (said(result(LONG)), said(result(LONG[:-1]))),
        (said(result("It is 41.")), said(result("It is 42."))),
        (said(result(LONG)), said({**result("[Cleared.]"), "is_error": True})),
        (said(text(LONG)), said(text("[Cleared.]"))),
    ],
    ids=[
        "other words", "words dropped", "another picture", "two texts for one", "another call",
        "an error now", "a result dropped", "a new picture",
        "a long text instead", "an edited result", "a cleared error", "words that were said",
    ],
)  # fmt: skip
def test_what_differs_in_more_than_that_is_something_else(sent, now):
    assert not is_pruned(sent, now)


def test_a_reply_may_come_back_joined_and_stripped_but_not_changed():
    use = {"type": "tool_use", "id": "t1", "name": "read", "input": {}}
    reply = said(
        {"type": "thinking", "thinking": "Hm."}, text("One. "), text("Two.\n"), use, role="assistant"
    )
    assert is_same_reply(reply, said(text("One. Two."), use, role="assistant"))
    assert not is_same_reply(reply, said(text("One."), use, role="assistant"))
    assert not is_same_reply(reply, said(text("One. Two."), role="assistant"))


def test_the_id_of_a_call_or_enough_text_tells_whose_conversation_it_is():
    assert is_identifying([assistant(call("toolu_1"))])
    assert is_identifying([assistant("word " * 30)])
    assert not is_identifying([assistant("Done.")])
    # A call that came with the caller's list may be anybody's.
    assert not is_identifying([assistant(call("toolu_1"), id="")])


def request(*messages) -> CallerRequest:
    roles = ("user", "assistant")
    listed = [{"role": roles[at % 2], "content": content} for at, content in enumerate(messages)]
    found = read_request({"model": "claude-haiku-4-5", "messages": listed})
    assert isinstance(found, CallerRequest)
    return found


def test_a_list_is_followed_as_far_as_it_agrees():
    records = [user("One. Be brief."), assistant("Yes."), user("Two. Be brief."), assistant("No.")]
    segments = split_segments(enumerate(records))
    whole = align(segments, request("One.", "Yes.", "Two.", "No.", "Three."), 0)
    assert (whole.links, whole.records, whole.segments, whole.is_respelled) == (4, [0, 1, 2, 3], 4, True)
    edited = align(segments, request("One.", "Yes.", "Other.", "No."), 0)
    assert (edited.links, edited.segments) == (2, 2)
    other_reply = align(segments, request("One.", "Maybe.", "Two."), 0)
    assert (other_reply.links, other_reply.segments) == (1, 1)


def test_the_last_message_without_an_answer_is_not_taken_for_a_longer_one():
    segments = split_segments(enumerate([user("One."), assistant("Yes."), user("Two. Be brief.")]))
    assert align(segments, request("One.", "Yes.", "Two."), 0).segments == 2
