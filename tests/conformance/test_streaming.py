"""The events of a stream: their order, their fields, and what a plain answer to the same request says."""

import json
from itertools import groupby

import pytest
from conformance.api import COMPACT_AT, EDITING, FIVE, Api, Json, long, text, tool, user

SAID = {"content": [{"type": "text", "text": "One two three four five six seven eight nine ten."}]}
pytestmark = pytest.mark.spec("TW-1")


def stream(api: Api, *messages: object, **fields: object) -> list[Json]:
    answer = api.ask(*messages, stream=True, **fields)
    assert answer.status == 200, answer.data
    return answer.events


def without_pings(events: list[Json]) -> list[Json]:
    return [e for e in events if e["type"] != "ping"]


def order(events: list[Json]) -> list[str]:
    """The types of the events, equal neighbours once, without pings."""
    return [name for name, _ in groupby(e["type"] for e in without_pings(events))]


def deltas(events: list[Json], index: int) -> list[Json]:
    return [e["delta"] for e in events if e["type"] == "content_block_delta" and e["index"] == index]


BLOCK = ["content_block_start", "content_block_delta", "content_block_stop"]


def test_a_text_answer_streams_in_the_documented_order(api: Api):
    api.script(SAID)
    assert order(stream(api, "hi")) == ["message_start", *BLOCK, "message_delta", "message_stop"]


def test_a_stream_contains_a_ping(api: Api):
    api.script(SAID)
    assert {"type": "ping"} in stream(api, "hi")


def test_message_start_is_an_empty_message_with_full_usage(api: Api):
    api.script(SAID)
    message = stream(api, user(long("a", marker=FIVE)))[0]["message"]
    usage = message.pop("usage")
    assert message.pop("id").startswith("msg_")
    assert message == {
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-5",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "stop_details": None,
        "diagnostics": None,
    }
    assert usage["cache_creation"]["ephemeral_5m_input_tokens"] == usage["cache_creation_input_tokens"] > 0
    assert 1 <= usage["output_tokens"] <= 3
    assert usage["service_tier"] == "standard"


def test_message_delta_has_cumulative_usage_without_the_breakdown(api: Api):
    api.script(SAID)
    events = stream(api, user(long("a", marker=FIVE)))
    start, last = events[0]["message"]["usage"], events[-2]
    assert last["type"] == "message_delta"
    assert last["delta"]["stop_reason"] == "end_turn"
    assert last["delta"]["stop_sequence"] is None
    assert "cache_creation" not in last["usage"]
    for field in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"):
        assert last["usage"][field] == start[field]
    assert last["usage"]["output_tokens"] > start["output_tokens"]


def test_text_deltas_make_up_the_text(api: Api):
    api.script(SAID)
    events = stream(api, "hi")
    parts = deltas(events, 0)
    assert {p["type"] for p in parts} == {"text_delta"}
    assert "".join(p["text"] for p in parts) == SAID["content"][0]["text"]
    assert len(parts) > 1


def test_a_text_block_starts_empty(api: Api):
    api.script(SAID)
    starts = [e for e in stream(api, "hi") if e["type"] == "content_block_start"]
    assert starts == [
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    ]


def test_a_tool_call_starts_with_an_empty_input_and_streams_its_json(api: Api):
    wanted = {"path": "src/größe.py", "lines": [1, 2, 3], "deep": {"a": None, "b": True}}
    api.script({"content": [{"type": "tool_use", "id": "toolu_1", "name": "look", "input": wanted}]})
    events = stream(api, "hi", tools=[tool()])
    start = next(e for e in events if e["type"] == "content_block_start")
    assert start["content_block"] == {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
    parts = deltas(events, 0)
    assert {p["type"] for p in parts} == {"input_json_delta"}
    assert json.loads("".join(p["partial_json"] for p in parts)) == wanted
    assert events[-2]["delta"]["stop_reason"] == "tool_use"


def test_a_tool_call_without_input_still_streams_an_object(api: Api):
    api.script({"content": [{"type": "tool_use", "name": "look", "input": {}}]})
    parts = deltas(stream(api, "hi", tools=[tool()]), 0)
    assert json.loads("".join(p["partial_json"] for p in parts) or "{}") == {}


def test_thinking_streams_its_words_and_then_one_signature(api: Api):
    api.script({"content": [{"type": "thinking", "thinking": "Let me see about that."}, text("Yes.")]})
    events = stream(api, "hi", thinking={"type": "adaptive", "display": "summarized"})
    start = next(e for e in events if e["type"] == "content_block_start")
    assert start["content_block"] == {"type": "thinking", "thinking": "", "signature": ""}
    kinds = [p["type"] for p in deltas(events, 0)]
    assert kinds == ["thinking_delta"] * (len(kinds) - 1) + ["signature_delta"]
    words = "".join(p["thinking"] for p in deltas(events, 0)[:-1])
    assert words == "Let me see about that."
    assert order(events) == ["message_start", *BLOCK, *BLOCK, "message_delta", "message_stop"]


def test_omitted_thinking_streams_only_its_signature(api: Api):
    api.script({"content": [{"type": "thinking", "thinking": "Let me see."}, text("Yes.")]})
    events = stream(api, "hi", thinking={"type": "adaptive", "display": "omitted"})
    (only,) = deltas(events, 0)
    assert only["type"] == "signature_delta"
    assert only["signature"]


def test_redacted_thinking_comes_whole(api: Api):
    api.script({"content": [{"type": "redacted_thinking", "data": "abcd"}, text("Yes.")]})
    events = stream(api, "hi")
    start = next(e for e in events if e["type"] == "content_block_start")
    assert start["content_block"]["type"] == "redacted_thinking"
    assert start["content_block"]["data"]
    assert deltas(events, 0) == []


def test_blocks_are_numbered_and_never_interleave(api: Api):
    api.script({"content": [text("a b c"), text("d e f"), {"type": "tool_use", "name": "look", "input": {}}]})
    events = without_pings(stream(api, "hi", tools=[tool()]))[1:-2]
    assert [i for i, _ in groupby(e["index"] for e in events)] == [0, 1, 2]


def test_a_stream_says_what_a_plain_answer_says(api: Api):
    content = [
        text("Some words to say."),
        {"type": "tool_use", "id": "toolu_9", "name": "look", "input": {"a": 1}},
    ]
    api.script({"content": content}, {"content": content})
    plain = api.reply("hi", tools=[tool()])
    events = stream(api, "hi", tools=[tool()])
    assert plain["content"] == content
    assert events[-2]["usage"]["output_tokens"] == plain["usage"]["output_tokens"]
    assert events[0]["message"]["usage"]["input_tokens"] == plain["usage"]["input_tokens"]


def test_a_stop_sequence_is_named_in_the_delta(api: Api):
    api.script({"content": [text("one STOP two")]})
    events = stream(api, "hi", stop_sequences=["STOP"])
    assert events[-2]["delta"]["stop_reason"] == "stop_sequence"
    assert events[-2]["delta"]["stop_sequence"] == "STOP"
    assert "".join(p["text"] for p in deltas(events, 0)) == "one "


def test_max_tokens_cuts_the_answer(api: Api):
    api.script({"content": [text("word " * 500)]})
    events = stream(api, "hi", max_tokens=20)
    assert events[-2]["delta"]["stop_reason"] == "max_tokens"
    assert events[-2]["usage"]["output_tokens"] == 20


def test_context_edits_are_reported_on_the_last_delta(api: Api):
    edits = {"edits": [{"type": "clear_tool_uses_20250919"}]}
    events = stream(api, "hi", context_management=edits, betas=EDITING)
    assert events[-2]["context_management"] == {"applied_edits": []}
    assert "context_management" not in events[-2]["delta"]


def test_a_threshold_compaction_starts_empty_and_has_one_delta(api: Api):
    fields = {
        "context_management": {
            "edits": [{"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 50_000}}]
        },
        "betas": COMPACT_AT,
    }
    events = stream(api, user(long("a", 150_000)), **fields)
    start = next(e for e in events if e["type"] == "content_block_start")
    assert start["content_block"]["type"] == "compaction"
    assert start["content_block"]["content"] is None
    (delta,) = deltas(events, 0)
    assert delta["type"] == "compaction_delta"
    assert delta["content"]
    assert [i["type"] for i in events[-2]["usage"]["iterations"]] == ["compaction", "message"]


def test_a_stream_that_is_refused_is_a_plain_error(api: Api):
    answer = api.ask("hi", stream=True, model="claude-nope")
    assert answer.status == 404
    assert answer.headers["content-type"].startswith("application/json")


@pytest.mark.spec("TW-10")
def test_an_error_event_ends_a_stream_that_began_well(api: Api):
    api.script(SAID)
    api.fault("stream_error")
    events = stream(api, "hi")
    assert events[0]["type"] == "message_start"
    assert events[-1] == {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    assert "message_stop" not in order(events)
