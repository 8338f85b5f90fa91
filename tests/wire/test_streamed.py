"""A stream says what the plain body says, and half a stream says nothing."""

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everturn.twin.stream import build_events, encode_sse, error_event
from everturn.wire.streamed import StreamedReply

USAGE = {"input_tokens": 3, "output_tokens": 9, "cache_read_input_tokens": 5, "cache_creation": {"x": 1}}
BLOCKS = [
    {"type": "thinking", "thinking": "Let me see. One, two.", "signature": "c2ln"},
    {"type": "redacted_thinking", "data": "eA=="},
    {
        "type": "text",
        "text": "It rains, often.",
        "citations": [
            {"type": "char_location", "cited_text": "rain"},
            {"type": "char_location", "cited_text": "often"},
        ],
    },
    {
        "type": "tool_use",
        "id": "toolu_1",
        "name": "read",
        "input": {"path": "é.py", "n": 1.0},
        "caller": {"type": "direct"},
    },
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"url": "u"}]},
    {"type": "something_new", "of": [1, None]},
]
BODY = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": BLOCKS,
    "stop_reason": "tool_use", "stop_sequence": None, "usage": USAGE,
}  # fmt: skip


def streamed(body):
    return b"".join(encode_sse(build_events(body)))


def read_stream(data):
    reply = StreamedReply()
    reply.feed(data)
    return reply


def test_a_stream_is_put_together_to_the_plain_body():
    reply = read_stream(streamed(BODY))
    assert (reply.is_whole, reply.problem) == (True, "")
    assert msgspec.json.decode(reply.body) == BODY


@given(st.lists(st.sampled_from(BLOCKS), max_size=4), st.data())
def test_it_is_the_same_in_any_pieces(blocks, data):
    written = streamed({**BODY, "content": blocks})
    cuts = sorted(data.draw(st.lists(st.integers(0, len(written)), max_size=8)))
    reply = StreamedReply()
    edges = [0, *cuts, len(written)]
    for start, stop in itertools.pairwise(edges):
        reply.feed(written[start:stop])
    assert msgspec.json.decode(reply.body)["content"] == blocks
    assert reply.is_whole


def test_a_stream_that_is_cut_anywhere_is_not_whole():
    written = streamed({**BODY, "content": BLOCKS[2:4]})
    for at in range(len(written)):
        assert not read_stream(written[:at]).is_whole


def frame(**fields):
    return b"data: " + msgspec.json.encode(fields) + b"\n\n"


START = frame(type="message_start", message={"id": "msg_1", "content": [], "usage": {}})
HALF = {"type": "input_json_delta", "partial_json": '{"a'}
CALL = {"type": "tool_use", "id": "t", "name": "n", "input": {}}
STOP = frame(type="message_stop")


@pytest.mark.parametrize(
    "middle",
    [
        error_event("overloaded_error", "Overloaded"),
        frame(type="content_block_delta", index=7, delta={"type": "text_delta", "text": "x"}),
        b"data: <html>\n\n",
        b"data: 7\n\n",
        frame(type="content_block_start", index=0, content_block={"type": "text", "text": ""})
        + frame(type="content_block_delta", index=0, delta={"type": "odour_delta", "odour": "rose"}),
        frame(type="content_block_start", index=0, content_block=CALL)
        + frame(
            type="content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": '{"a'}
        ),
    ],
    ids=["an error", "no block", "no JSON", "no object", "an unknown delta", "an input that was cut"],
)
def test_what_cannot_be_added_up_is_no_reply(middle):
    reply = read_stream(START + middle + STOP)
    assert not reply.is_whole
    assert reply.problem


def test_events_that_mean_nothing_to_us_are_passed_over():
    assert read_stream(START + frame(type="weather", sky="blue") + STOP).is_whole


def events(*fields: dict) -> bytes:
    return b"".join(
        b"event: %s\ndata: %s\n\n" % (each["type"].encode(), msgspec.json.encode(each)) for each in fields
    )


def test_a_compaction_and_what_the_api_cleared_are_part_of_the_body():
    start = {"type": "message_start", "message": {"id": "msg_1", "content": [], "usage": {"input_tokens": 3}}}
    made = {"type": "compaction_delta", "content": "In short.", "signature": "c2ln"}
    reply = read_stream(
        events(
            start,
            {"type": "content_block_start", "index": 0, "content_block": {"type": "compaction"}},
            {"type": "content_block_delta", "index": 0, "delta": made},
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta",
                "delta": {"stop_reason": "compaction"},
                "usage": {"output_tokens": 9, "input_tokens": None},
                "context_management": {"applied_edits": []},
            },
            {"type": "message_stop"},
        )
    )
    assert (reply.is_whole, reply.problem) == (True, "")
    assert msgspec.json.decode(reply.body) == {
        "id": "msg_1",
        "content": [{"type": "compaction", "content": "In short.", "signature": "c2ln"}],
        "stop_reason": "compaction",
        "usage": {"input_tokens": 3, "output_tokens": 9},
        "context_management": {"applied_edits": []},
    }


TEXT = frame(type="content_block_start", index=0, content_block={"type": "text"})


@pytest.mark.parametrize(
    ("middle", "problem"),
    [
        (
            frame(type="error", error={"type": "overloaded_error"}),
            "the stream ended with an error: {'type': 'overloaded_error'}",
        ),
        (frame(type="error"), "the stream ended with an error: None"),
        (
            TEXT + frame(type="content_block_delta", index=0, delta={"type": "odour_delta"}),
            "unknown delta type: 'odour_delta'",
        ),
        (
            b"event: content_block_start\ndata: {}\n\n",
            "the event 'content_block_start' has an unexpected shape: KeyError('content_block')",
        ),
        (
            frame(type="content_block_delta", index=3, delta={}),
            "the event '' has an unexpected shape: KeyError(3)",
        ),
    ],
)
def test_a_stream_that_cannot_be_put_together_says_why_and_takes_nothing_more(middle, problem):
    reply = read_stream(START + middle + frame(type="error", error="later") + STOP)
    assert (reply.is_whole, reply.problem) == (False, problem)


def test_what_comes_behind_the_end_of_a_message_changes_nothing():
    reply = read_stream(START + TEXT + STOP)
    body = reply.body
    reply.feed(frame(type="error", error="late") + frame(type="message_delta", delta={"stop_reason": "x"}))
    assert (reply.is_whole, reply.problem, reply.body) == (True, "", body)


def test_deltas_are_added_to_what_a_block_has_and_to_what_it_lacks():
    def delta(index, **fields):
        return frame(type="content_block_delta", index=index, delta=fields)

    opened = [
        {"type": "text"},
        {"type": "text", "text": "So: ", "citations": None},
        {"type": "thinking"},
        {"type": "thinking", "thinking": "Hm. ", "signature": ""},
        {"type": "tool_use", "id": "t", "input": {}},
        {"type": "tool_use", "id": "u", "input": {"kept": 1}},
    ]
    # The blocks may be opened in any order.
    starts = [
        frame(type="content_block_start", index=at, content_block=each) for at, each in enumerate(opened)
    ]
    said = [
        delta(0, type="text_delta", text="It "),
        delta(0, type="text_delta", text="rains."),
        delta(1, type="text_delta", text="yes."),
        delta(1, type="citations_delta", citation={"n": 1}),
        delta(1, type="citations_delta", citation={"n": 2}),
        delta(2, type="thinking_delta", thinking="Well."),
        delta(3, type="thinking_delta", thinking="Now."),
        delta(3, type="signature_delta", signature="c2ln"),
        delta(4, type="input_json_delta", partial_json='{"n": 1.'),
        delta(4, type="input_json_delta", partial_json="00}"),
        delta(5, type="input_json_delta", partial_json=" "),
    ]
    reply = read_stream(START + b"".join([*reversed(starts), *said]) + STOP)
    assert (reply.is_whole, reply.problem) == (True, "")
    assert b'"input":{"n": 1.00}' in reply.body
    assert msgspec.json.decode(reply.body)["content"] == [
        {"type": "text", "text": "It rains."},
        {"type": "text", "text": "So: yes.", "citations": [{"n": 1}, {"n": 2}]},
        {"type": "thinking", "thinking": "Well."},
        {"type": "thinking", "thinking": "Hm. Now.", "signature": "c2ln"},
        {"type": "tool_use", "id": "t", "input": {"n": 1.0}},
        {"type": "tool_use", "id": "u", "input": {"kept": 1}},
    ]


@pytest.mark.parametrize(
    ("closing", "changed"),
    [
        ({}, {}),
        ({"delta": None, "usage": None, "context_management": None}, {}),
        ({"delta": {"stop_reason": "end_turn"}}, {"stop_reason": "end_turn"}),
        ({"usage": {"output_tokens": 0}}, {"usage": {"input_tokens": 3, "output_tokens": 0}}),
        ({"usage": {"input_tokens": 4}}, {"usage": {"input_tokens": 4}}),
        ({"usage": {"input_tokens": None}}, {}),
        ({"context_management": {}}, {"context_management": {}}),
    ],
)
def test_the_end_of_a_message_replaces_what_it_says_and_leaves_the_rest(closing, changed):
    opening = {"id": "msg_1", "content": [], "usage": {"input_tokens": 3}}
    start = frame(type="message_start", message=opening)
    reply = read_stream(start + frame(type="message_delta", **closing) + STOP)
    assert msgspec.json.decode(reply.body) == {**opening, **changed}


def test_usage_that_the_beginning_did_not_have_is_that_of_the_end():
    start = frame(type="message_start", message={"id": "m", "usage": None})
    reply = read_stream(start + frame(type="message_delta", usage={"output_tokens": 2}) + STOP)
    assert msgspec.json.decode(reply.body) == {"id": "m", "usage": {"output_tokens": 2}, "content": []}
