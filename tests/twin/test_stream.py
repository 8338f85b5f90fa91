import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everturn.twin.stream import build_events, encode_sse, error_event, split_text, stream_chunks

USAGE = {
    "input_tokens": 3,
    "cache_creation_input_tokens": 10,
    "cache_read_input_tokens": 20,
    "cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 0},
    "service_tier": "standard",
    "output_tokens": 40,
    "output_tokens_details": {"thinking_tokens": 5},
}


def message(*content, **more):
    body = {
        "id": "msg_01",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-5-5",
        "content": list(content),
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "diagnostics": None,
        "usage": USAGE,
    }
    return body | more


@pytest.mark.spec("TW-1")
def test_the_events_of_a_text_reply_have_the_order_of_the_api():
    told = list(build_events(message({"type": "text", "text": "One two three four five"})))
    assert told == [
        (
            "message_start",
            {
                "type": "message_start",
                "message": message()
                | {
                    "stop_reason": None,
                    "usage": {k: v for k, v in USAGE.items() if k != "output_tokens_details"}
                    | {"output_tokens": 1},
                },
            },
        ),
        (
            "content_block_start",
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        ),
        ("ping", {"type": "ping"}),
        _delta(0, type="text_delta", text="One"),
        _delta(0, type="text_delta", text=" two three four"),
        _delta(0, type="text_delta", text=" five"),
        ("content_block_stop", {"type": "content_block_stop", "index": 0}),
        (
            "message_delta",
            {
                "type": "message_delta",
                "delta": {"stop_reason": "end_turn", "stop_sequence": None},
                "usage": {
                    "input_tokens": 3,
                    "cache_creation_input_tokens": 10,
                    "cache_read_input_tokens": 20,
                    "output_tokens": 40,
                    "output_tokens_details": {"thinking_tokens": 5},
                },
            },
        ),
        ("message_stop", {"type": "message_stop"}),
    ]


def _delta(index, **delta):
    return ("content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta})


def _of_block(block):
    """The start of a block, its deltas, without the events around them."""
    told = list(build_events(message(block)))
    start = next(data["content_block"] for name, data in told if name == "content_block_start")
    return start, [data["delta"] for name, data in told if name == "content_block_delta"]


def test_thinking_starts_empty_and_is_signed_once_at_its_end():
    start, deltas = _of_block({"type": "thinking", "thinking": "Let me see", "signature": "c2ln"})
    assert start == {"type": "thinking", "thinking": "", "signature": ""}
    assert deltas == [
        {"type": "thinking_delta", "thinking": "Let"},
        {"type": "thinking_delta", "thinking": " me see"},
        {"type": "signature_delta", "signature": "c2ln"},
    ]


def test_omitted_thinking_sends_only_its_signature():
    _, deltas = _of_block({"type": "thinking", "thinking": "", "signature": "c2ln"})
    assert deltas == [{"type": "signature_delta", "signature": "c2ln"}]


def test_a_tool_call_starts_with_no_input_and_an_empty_delta():
    call = {
        "type": "tool_use",
        "id": "toolu_01",
        "name": "read",
        "input": {"path": "src/a/very/long/path.py"},
    }
    start, deltas = _of_block(call)
    assert start == call | {"input": {}}
    assert deltas[0] == {"type": "input_json_delta", "partial_json": ""}
    assert len(deltas) > 2
    assert json.loads("".join(delta["partial_json"] for delta in deltas)) == call["input"]


def test_a_compaction_by_threshold_is_one_delta_and_one_on_demand_is_none():
    start, deltas = _of_block({"type": "compaction", "content": "Summary."})
    assert start == {"type": "compaction", "content": None}
    assert deltas == [{"type": "compaction_delta", "content": "Summary.", "encrypted_content": None}]
    signed = {"type": "compaction", "content": "Summary.", "signature": "c2ln"}
    assert _of_block(signed) == (signed, [])


def test_redacted_thinking_has_no_deltas():
    block = {"type": "redacted_thinking", "data": "abc"}
    assert _of_block(block) == (block, [])


def test_citations_follow_the_text_they_belong_to():
    citation = {"type": "char_location", "cited_text": "x"}
    start, deltas = _of_block({"type": "text", "text": "Yes", "citations": [citation]})
    assert start == {"type": "text", "text": ""}
    assert deltas[1:] == [{"type": "citations_delta", "citation": citation}]


def test_applied_edits_are_reported_at_the_end_and_diagnostics_at_the_start():
    body = message(
        {"type": "text", "text": "x"},
        context_management={"applied_edits": []},
        diagnostics={"cache_miss_reason": None},
        usage=USAGE | {"iterations": [{"type": "message"}]},
    )
    told = list(build_events(body))
    start, end = told[0][1]["message"], told[-2][1]
    assert "context_management" not in start
    assert "iterations" not in start["usage"]
    assert start["diagnostics"] == {"cache_miss_reason": None}
    assert end["context_management"] == {"applied_edits": []}
    assert end["usage"]["iterations"] == [{"type": "message"}]
    assert "cache_creation" not in end["usage"]


def test_a_reply_without_content_still_pings():
    names = [name for name, _ in build_events(message())]
    assert names == ["message_start", "ping", "message_delta", "message_stop"]


@given(st.text(max_size=400))
def test_the_parts_of_a_text_join_to_the_text(text):
    assert "".join(split_text(text)) == text
    assert all(split_text(text))


def test_an_encoded_event_has_its_name_twice():
    assert list(encode_sse([("ping", {"type": "ping"})])) == [b'event: ping\ndata: {"type":"ping"}\n\n']
    assert error_event("overloaded_error", "Overloaded") == (
        b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n'
    )
    assert all(wait == 0 for wait, _ in stream_chunks(message()))
