"""Deferred tools: found by the API's tool search or by the client, and counted where they are found."""

import pytest
from twin.asking import FIVE, Desk, assistant, result, text, tool, user

SEARCH = {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}
LOUD = tool("get_noise", defer_loading=True)
QUIET = tool("get_weather", defer_loading=True)
ACTING = tool("delete_weather", defer_loading=True)
CALLS = {"messages": [user("How is the weather?")], "thinking": {"type": "disabled"}}


def referring(name):
    return {"type": "tool_reference", "tool_name": name}


@pytest.mark.spec("TW-8")
@pytest.mark.parametrize(
    "search", [SEARCH, {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}]
)
def test_the_agent_finds_deferred_tools_that_read_and_calls_one_of_them(search):
    told = Desk().ask(tools=[search, LOUD, QUIET, ACTING], **CALLS)
    call, found, *used = told["content"]
    separator = "|" if search is SEARCH else " "
    assert (call["type"], call["name"], call["input"]) == (
        "server_tool_use",
        search["name"],
        {"query": separator.join(["get_weather", "get_noise"])},
    )
    assert found == {
        "type": "tool_search_tool_result",
        "tool_use_id": call["id"],
        "content": {
            "type": "tool_search_tool_search_result",
            "tool_references": [referring("get_weather"), referring("get_noise")],
        },
    }
    assert {block["name"] for block in used} <= {"get_weather", "get_noise"}
    assert told["stop_reason"] == "tool_use"
    assert told["usage"]["server_tool_use"] == {"tool_search_requests": 1}


def test_the_conversation_goes_on_after_a_search():
    desk = Desk()
    told = desk.ask(tools=[SEARCH, QUIET], **CALLS)
    calls = [block["id"] for block in told["content"] if block["type"] == "tool_use"]
    messages = [*CALLS["messages"], assistant(*told["content"]), user(*(result(id, "sun") for id in calls))]
    again = desk.ask(messages=messages, tools=[SEARCH, QUIET], thinking={"type": "disabled"})
    assert "server_tool_use" not in [block["type"] for block in again["content"]]


def test_without_a_search_tool_a_deferred_tool_is_called_only_after_a_reference():
    tools = [tool("other_thing"), QUIET]
    told = Desk().ask(tools=tools, **CALLS)
    assert [block["type"] for block in told["content"]] == ["text"]
    reference = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [referring("get_weather")]}
    call = {"type": "tool_use", "id": "toolu_1", "name": "other_thing", "input": {}}
    messages = [user("find a tool"), assistant(call), user(reference, "How is the weather?")]
    told = Desk().ask(messages=messages, tools=tools, thinking={"type": "disabled"})
    assert "get_weather" in [block.get("name") for block in told["content"]]


@pytest.mark.spec("TW-2")
def test_a_deferred_tool_counts_where_it_is_first_found_and_keeps_the_prefix_cached():
    desk = Desk()
    large = tool("get_weather", defer_loading=True) | {"description": "d" * 5000}
    tools = [tool("look", cache_control=FIVE), large]
    before = desk.ask(messages=[user("hi")], tools=tools)["usage"]
    assert before["input_tokens"] + before["cache_creation_input_tokens"] < 1000
    call = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
    found = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [referring("get_weather")] * 2}
    after = desk.ask(messages=[user("hi"), assistant(call), user(found)], tools=tools)["usage"]
    assert after["cache_read_input_tokens"] == before["cache_creation_input_tokens"]
    assert 2000 < after["input_tokens"] < 4000


@pytest.mark.spec("TW-6")
def test_a_reference_to_a_tool_that_is_not_offered_is_refused():
    call = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
    found = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [text("x"), referring("gone")]}
    messages = [user("hi"), assistant(call), user(found)]
    assert Desk().refused(messages=messages, tools=[tool("look")]) == (
        "Tool reference 'gone' not found in available tools"
    )
