"""Two spellings of one message have one link; two messages have two."""

import json

import msgspec
import pytest
from builders import assistant, call, user
from hypothesis import given
from hypothesis import strategies as st

from everturn.adapters.tracking.caller_list import read_caller_list
from everturn.adapters.tracking.caller_request import read_message_blocks
from everturn.adapters.tracking.chain import (
    START,
    append_end_link,
    append_links,
    common_prefix_length,
)
from everturn.adapters.tracking.list_memo import ListMemo
from everturn.history.records import Record
from everturn.wire.anthropic import without_cache_control

MARK = {"type": "ephemeral"}
RESULT = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "x"}]}


def build_chain(messages):
    links, positions, ends = [], [], []
    for at, message in enumerate(messages):
        if append_end_link(messages, at, ends, links, positions, START):
            ends[-1] += 1
        append_links(message, at, links, positions, START)
        ends.append(len(links))
    assert len(links) == len(positions)
    return links


def said(content, role="user"):
    return build_chain([{"role": role, "content": content}])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("hello", [{"type": "text", "text": "hello"}]),
        ([{"type": "text", "text": "a"}], [{"text": "a", "type": "text", "cache_control": MARK}]),
        ([{"type": "text", "text": "a", "citations": None}], "a"),
        ([RESULT], [{**RESULT, "content": [{**RESULT["content"][0], "cache_control": MARK}]}]),
    ],
    ids=["a string", "a marker", "a null", "a marker inside a result"],
)
def test_spelling_counts_for_nothing(one, other):
    assert said(one) == said(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("hello", "hello "),
        (["a", "b"], ["ab"]),
        (["a", "b"], ["b", "a"]),
        ([{"type": "image", "source": {"data": "x"}}], [{"type": "image", "source": {"data": "y"}}]),
    ],
)
def test_what_is_said_counts(one, other):
    assert said(one) != said(other)
    assert said(one, "assistant") != said(other, "assistant") or one == "hello"


def test_who_said_it_and_what_came_before_count():
    assert said("a") != said("a", "assistant")
    both = [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]
    assert build_chain(both)[1:] != said("b")


REPLY = [
    {"type": "thinking", "thinking": "hm", "signature": "s"},
    {"type": "text", "text": "Look.", "citations": [{"cited_text": "x"}]},
    {
        "type": "tool_use",
        "id": "t1",
        "name": "read",
        "input": {"cache_control": 1, "path": None},
        "caller": {},
    },
]


def test_an_echo_that_lost_its_thinking_is_still_that_reply():
    echo = [
        {"type": "text", "text": "Look."},
        {"type": "tool_use", "id": "t1", "name": "read", "input": {"path": None, "cache_control": 1}},
    ]
    assert said(echo, "assistant") == said(REPLY, "assistant")


@pytest.mark.parametrize("field", [("id", "t2"), ("name", "write"), ("input", {"path": "b"})])
def test_a_call_that_was_edited_is_another_reply(field):
    edited = [*REPLY[:2], {**REPLY[2], field[0]: field[1]}]
    assert said(edited, "assistant") != said(REPLY, "assistant")


def test_what_a_tool_is_called_with_is_no_block():
    assert without_cache_control(REPLY[2])["input"] == {"cache_control": 1, "path": None}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abt", max_size=2), inner, max_size=3)
    ),
    max_leaves=6,
)
blocks = st.dictionaries(st.sampled_from(["type", "text", "content", "input", "cache_control"]), json_values)
messages = st.builds(
    lambda role, content: {"role": role, "content": content},
    st.sampled_from(["user", "assistant"]),
    st.text("ab", max_size=3)
    | st.lists(blocks.map(lambda b: {**b, "type": "text" if "text" in b else "image"}), max_size=3),
)


@given(st.lists(messages, max_size=5))
def test_what_was_recorded_has_the_links_of_what_was_said(given_messages):
    try:
        records = [
            Record(kind=each["role"], uuid=str(at), blocks=read_message_blocks(each))
            for at, each in enumerate(given_messages)
        ]
    except msgspec.ValidationError:
        return  # A block that the API would refuse too: its id is no text, for instance.
    assert read_caller_list(records).chain == build_chain(json.loads(json.dumps(given_messages)))


def test_a_transcript_has_the_position_of_every_block():
    records = [user("a"), assistant("an example", call("t1"), id=""), user("b"), assistant(call("t2"))]
    assert read_caller_list(records).positions == [0, 1, 1, 2, 3]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["a", "b"], [["a", "b"]]),
        (["a", ["b", "c"]], [["a", "b"], "c"]),
        (["a", "", "b"], ["a", "b"]),
        ([[{**RESULT, "content": "x"}]], [[RESULT]]),
        ([[{**RESULT, "is_error": False}]], [[RESULT]]),
    ],
    ids=["joined", "divided elsewhere", "an empty message", "a result as a string", "no error"],
)
@pytest.mark.parametrize("role", ["user", "assistant"])
def test_messages_of_one_role_in_a_row_may_be_joined_or_divided(one, other, role):
    chains = [build_chain([{"role": role, "content": each} for each in said]) for said in (one, other)]
    assert chains[0] == chains[1]


@given(st.lists(st.booleans(), max_size=6), st.lists(st.booleans(), max_size=6))
def test_what_two_chains_share_is_their_common_beginning(one, other):
    chains = [build_chain([{"role": "user", "content": str(each)} for each in said]) for said in (one, other)]
    same = [a == b for a, b in zip(one, other, strict=False)]
    assert common_prefix_length(*chains) == (same.index(False) if False in same else len(same))


# ── thinking at the end of a reply ───────────────────────────────────────────────────────────────

HM = {"type": "thinking", "thinking": "Hm.", "signature": "one"}
OTHER = {"type": "thinking", "thinking": "Hm.", "signature": "two"}
HIDDEN = {"type": "redacted_thinking", "data": "three"}
WORDS = {"type": "text", "text": "Done."}
BLANK = {"type": "text", "text": ""}
ASKED, THEN = {"role": "user", "content": "What?"}, {"role": "user", "content": "Go on."}


def answered(*messages):
    """A list in which these contents were the reply, each as a message."""
    return [ASKED, *({"role": "assistant", "content": list(content)} for content in messages), THEN]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([[HM]], [[{**HM, "thinking": ""}]]),
        ([[HM]], [[HM, BLANK]]),
        ([[HM, HIDDEN]], [[HM], [HIDDEN]]),
        ([[WORDS, HM]], [[WORDS], [HM]]),
        ([[HM, WORDS]], [[HM], [WORDS]]),
        ([[HM, WORDS]], [[WORDS]]),
    ],
    ids=["its text left out", "an empty text", "divided", "behind a text", "before a text", "dropped"],
)
def test_a_reply_with_thinking_is_the_same_in_these_spellings(one, other):
    assert build_chain(answered(*one)) == build_chain(answered(*other))


@pytest.mark.parametrize("reply", [[[OTHER]], [[HIDDEN]], [[HM, HM]], [[HM, WORDS]], []])
def test_a_reply_that_is_only_thinking_is_not_another_reply_nor_none(reply):
    assert build_chain(answered([HM])) != build_chain(answered(*reply))


@pytest.mark.parametrize(
    ("reply", "links"),
    [([[HM]], 3), ([[HM], [HIDDEN]], 3), ([[WORDS], [HM]], 4), ([[HM], [WORDS]], 3), ([[BLANK]], 2)],
)
def test_records_and_messages_of_a_reply_that_ends_with_thinking_have_the_same_links(reply, links):
    messages = answered(*reply)
    records = [
        Record(kind=message["role"], uuid=str(at), blocks=read_message_blocks(message))
        for at, message in enumerate(messages)
    ]
    assert len(build_chain(messages)) == links
    assert read_caller_list(records).chain == build_chain(messages)


def test_a_list_is_read_alike_whatever_was_read_before_it():
    """Whether thinking has a link depends on what follows it."""
    whole = answered([WORDS], [HM])
    other = [*whole[:-1], {"role": "assistant", "content": [WORDS]}, THEN]
    memo = ListMemo()
    for messages in (whole, other, whole[:-1], whole):
        assert memo.read(messages).links == build_chain(messages)
