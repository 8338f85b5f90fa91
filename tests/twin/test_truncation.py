"""What is left of a reply that is longer than its limit, as a message and as a stream."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twin.asking import Desk, call, text, tool, user

from everturn.twin.partial_json import parse_partial_json
from everturn.twin.testing import TwinForTests

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
INPUT = {"path": "src/app.py", "lines": [1, 2, 3], "text": "x" * 4000, "last": True}
THINKING_COUNT = "thinking-token-count-2026-05-13"


def partial_texts(events):
    deltas = [data["delta"] for data in events if data["type"] == "content_block_delta"]
    return "".join(delta.get("partial_json", "") for delta in deltas)


def events_of(response):
    lines = b"".join(chunk for _, chunk in response.stream).decode().splitlines()
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("", {}),
        ("{", {}),
        ('{"a', {}),
        ('{"a"', {}),
        ('{"a":', {}),
        ('{"a": "x', {}),
        ('{"a": "x"', {"a": "x"}),
        ('{"a": "x\\"', {}),
        ('{"a": 12', {}),
        ('{"a": 12,', {"a": 12}),
        ('{"a": [1, {"b": tr', {"a": [1, {}]}),
        ('{"a": [1, {"b": true}', {"a": [1, {"b": True}]}),
        ('{"a": {}, "b', {"a": {}}),
        ('{"a": 1}', {"a": 1}),
    ],
)
def test_the_complete_part_of_cut_json_is_kept(written, value):
    assert parse_partial_json(written) == value


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=5), st.integers(0, 400))
def test_any_cut_of_an_object_is_an_object_and_the_whole_is_itself(value, cut):
    written = json.dumps(value, ensure_ascii=False)
    assert isinstance(parse_partial_json(written[:cut]), dict)
    assert parse_partial_json(written) == value


@pytest.mark.spec("TW-6")
def test_a_tool_call_cut_by_max_tokens_arrives_with_the_complete_part_of_its_input():
    desk = Desk()
    fields = {"messages": [user("go")], "tools": [tool("write")], "max_tokens": 100}
    desk.script([text("Now."), call("toolu_1", "write", **INPUT)])
    told = desk.ask(**fields)
    assert told["content"] == [
        text("Now."),
        call("toolu_1", "write", path="src/app.py", lines=[1, 2, 3]),
    ]
    assert (told["stop_reason"], told["usage"]["output_tokens"]) == ("max_tokens", 100)


def test_the_stream_of_a_cut_tool_call_sends_the_beginning_of_its_json():
    desk = Desk()
    desk.script([call("toolu_1", "write", **INPUT)])
    response = desk.send(messages=[user("go")], tools=[tool("write")], max_tokens=100, stream=True)
    told = events_of(response)
    partial = partial_texts(told)
    assert json.dumps(INPUT, separators=(",", ":")).startswith(partial)
    assert 100 < len(partial) < 400
    assert told[-2]["delta"]["stop_reason"] == "max_tokens"
    assert [data["type"] for data in told if data["type"].startswith("content")][-1] == "content_block_stop"


def test_the_sdk_makes_the_same_input_of_the_stream_as_of_the_message():
    twin = TwinForTests()
    reply = {"content": [{"type": "tool_use", "id": "toolu_1", "name": "write", "input": INPUT}]}
    fields = {
        "model": "claude-opus-5",
        "max_tokens": 100,
        "messages": [user("go")],
        "tools": [tool("write")],
        "thinking": {"type": "disabled"},
    }
    twin.script(reply, reply)
    plain = twin.client().messages.create(**fields)
    with twin.client().messages.stream(**fields) as stream:
        streamed = stream.get_final_message()
    twin.close()
    assert streamed.content == plain.content
    assert plain.content[0].input == {"path": "src/app.py", "lines": [1, 2, 3]}


@pytest.mark.parametrize("max_tokens", range(1, 60))
def test_whatever_the_limit_a_cut_reply_can_be_sent_back(max_tokens):
    desk = Desk()
    desk.script([text("I will write the file now."), call("toolu_1", "write", **INPUT)])
    messages = [user("go")]
    fields = {"tools": [tool("write")], "thinking": {"type": "disabled"}}
    told = desk.ask(messages=messages, max_tokens=max_tokens, **fields)
    calls = [block for block in told["content"] if block["type"] == "tool_use"]
    results = [{"type": "tool_result", "tool_use_id": block["id"], "content": "cut"} for block in calls]
    if told["content"]:
        messages += [{"role": "assistant", "content": told["content"]}, user(*results, "go on")]
        assert desk.ask(messages=messages, **fields)["type"] == "message"


# ── thinking in streams ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("betas", "display", "counts"),
    [
        (THINKING_COUNT, "omitted", None),
        (THINKING_COUNT, "summarized", [None]),
        ("", "omitted", []),
        ("", "summarized", ["missing"]),
    ],
)
def test_thinking_deltas_report_estimated_tokens_with_the_beta_header(betas, display, counts):
    desk = Desk()
    thoughts = "x" * 2310 if display == "omitted" else "thought"
    desk.script([{"type": "thinking", "thinking": thoughts}, text("a")])
    thinking = {"type": "adaptive", "display": display}
    told = events_of(desk.send(messages=[user("q")], thinking=thinking, betas=betas, stream=True))
    deltas = [data["delta"] for data in told if data["type"] == "content_block_delta"]
    found = [delta for delta in deltas if delta["type"] == "thinking_delta"]
    if display == "omitted" and betas:
        assert {delta["thinking"] for delta in found} == {""}
        total = told[-2]["usage"]["output_tokens_details"]["thinking_tokens"]
        estimates = [delta["estimated_tokens"] for delta in found]
        assert len(estimates) <= 20
        assert all(estimate % 50 == 0 for estimate in estimates)
        assert total - 50 < sum(estimates) <= total
    else:
        assert [delta.get("estimated_tokens", "missing") for delta in found] == counts
