"""Tools that the provider runs (web search, code, search for tools) beside those of the caller.

While one of them is under way, a request may have results of the caller's tools behind it, but no words of
the user: they end it, and the API refuses a call without a result.
"""

import json

import anthropic
import pytest

from everturn.decide.events import CompactionDone

SEARCH = {"type": "web_search_20250305", "name": "web_search"}
FINDER = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
READ = {"name": "read_file", "description": "Reads.", "input_schema": {"type": "object", "properties": {}}}
OPUS = "claude-opus-4-8"
# Thinking is demanded at the start of a turn here, and there is no role "system".
ENABLED = {
    "model": "claude-opus-4-5",
    "max_tokens": 4_000,
    "thinking": {"type": "enabled", "budget_tokens": 2_000},
}
LONG = "One row of many. " * 700


def user(content):
    return {"role": "user", "content": content}


def searches(number):
    given = {"id": f"srvtoolu_{number}", "name": "web_search", "input": {"query": "rows"}}
    return {"type": "server_tool_use", **given}


def found(number):
    page = {"url": "https://example.com", "title": "Rows", "page_age": None, "encrypted_content": "42"}
    content = [{"type": "web_search_result", **page}]
    return {"type": "web_search_tool_result", "tool_use_id": f"srvtoolu_{number}", "content": content}


def reads(number):
    return {"type": "tool_use", "id": f"toolu_{number}", "name": "read_file", "input": {}}


def answer(number, words=LONG):
    return user([{"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": words}])


def say(bench, history, *blocks, **request):
    """The list with what the model says to it."""
    calls = any(block["type"] == "tool_use" for block in blocks)
    bench.twin.script({"content": list(blocks), "stop_reason": "tool_use" if calls else "end_turn"})
    asked = {"model": OPUS, "tools": [READ, SEARCH], **request}
    made = bench.ask(history, **asked)
    return [*history, {"role": "assistant", "content": [each.to_dict() for each in made.content]}]


def refusals(bench):
    return [entry["error"]["message"] for entry in bench.twin.ledger if entry["status"] == 400]


def strategies(bench):
    return [event.way for event in bench.events if isinstance(event, CompactionDone)]


@pytest.mark.spec("CP-38")
@pytest.mark.parametrize("replies", [1, 2])
@pytest.mark.parametrize("strategy", ["fork", "direct"])
def test_a_summary_is_asked_for_while_a_search_waits_for_results(benches, strategy, replies):
    bench = benches(options="claude-code", compact={"strategies": [strategy, "extractive"]})
    history = say(bench, [user("Begin. " + LONG)], {"type": "text", "text": "Begun."})
    history = say(bench, [*history, user("Look it up.")], searches(1), reads(1))
    for number in range(1, replies):
        history = say(bench, [*history, answer(number)], reads(number + 1))
    bench.middleware.compact()
    say(bench, [*history, answer(replies)], found(1), {"type": "text", "text": "It is 42."})
    assert refusals(bench) == []
    bench.check()
    assert strategies(bench) == [strategy]


def test_a_call_that_the_model_gives_up_is_ended_where_the_user_speaks(bench):
    """A search that waits for results over two replies, and a model that answers without what it found."""
    history = say(bench, [user("Look it up.")], searches(1), reads(1))
    history = say(bench, [*history, answer(1, "one")], reads(2))
    # What it found was lost: the caller's own list would be refused from here on.
    history = [*history, answer(2, "two"), {"role": "assistant", "content": "I stop here."}]
    say(bench, [*history, user("Why?")], {"type": "text", "text": "It took too long."})
    bench.check()
    assert [block["type"] for block in bench.sent[-1]["messages"][-2]["content"]] == [
        "text",
        "web_search_tool_result",
    ]


@pytest.mark.spec("CP-38")
@pytest.mark.parametrize("is_over", [False, True])
def test_a_loop_that_is_told_as_text_ends_the_search_in_it(benches, is_over):
    """It loses the thinking that it began with to a compaction: calls and results are told as text."""
    bench = benches(options="claude-code")
    thought = {"type": "thinking", "thinking": "Hm."}
    history = say(bench, [user("Look it up.")], thought, reads(1), **ENABLED)
    history = say(bench, [*history, answer(1, LONG * 4)], searches(1), reads(2), **ENABLED)
    if is_over:
        history = say(bench, [*history, answer(2, "two")], found(1), reads(3), **ENABLED)
    newest = "the newest result " * 20
    history = [*history, answer(2 + is_over, newest)]
    bench.twin.faults({"kind": "overloaded", "times": 3})
    with pytest.raises(anthropic.APIStatusError):
        bench.ask(history, tools=[READ, SEARCH], **ENABLED)
    bench.middleware.compact()
    say(bench, history, {"type": "text", "text": "Done."}, **ENABLED)
    assert refusals(bench) == []
    bench.check()
    sent = bench.sent[-1]["messages"]
    assert newest in json.dumps(sent[-1])
    kinds = [block["type"] for block in sent[1]["content"]]
    assert kinds[-3:] == ["server_tool_use", "web_search_tool_result", "text"]
    # What the search has found is kept, behind its call.
    assert ("https://example.com" in json.dumps(sent[1])) == is_over


@pytest.mark.spec("GW-10")
def test_system_messages_beside_results_of_a_search_become_reminders_in_the_last_result(bench):
    """For a model that refuses the role: a text beside the results would end the search."""
    history = say(bench, [user("Look it up.")], searches(1), reads(1))
    told = [*history, answer(1, "one"), {"role": "system", "content": "Be brief."}]
    told = say(bench, told, found(1), {"type": "text", "text": "It is 42."})
    history = [message for message in told if message["role"] != "system"]
    say(bench, [*history, user("And now?")], {"type": "text", "text": "Done."}, **ENABLED)
    bench.check()
    (result,) = bench.sent[-1]["messages"][2]["content"]
    assert [part["text"] for part in result["content"]] == [
        "one",
        "<system-reminder>\nBe brief.\n</system-reminder>",
    ]


@pytest.mark.spec("CP-38")
def test_a_summary_for_a_model_that_refuses_system_messages_repeats_them_as_reminders(benches):
    """The caller leaves them out with the request in which the compaction is due."""
    bench, history = benches(options="claude-code"), []
    for number in range(3):
        asked = [user(f"Part {number}. {LONG}"), {"role": "system", "content": f"Mode {number}."}]
        words = f"Done with {number}. " + "It is fine. " * 20
        history = say(bench, [*history, *asked], {"type": "text", "text": words})
    history = [message for message in history if message["role"] != "system"]
    bench.middleware.compact()
    say(bench, [*history, user("And now?")], {"type": "text", "text": "Yes."}, **ENABLED)
    assert refusals(bench) == []
    bench.check()
    assert strategies(bench) == ["fork"]


@pytest.mark.spec("CP-2")
def test_a_summary_of_a_search_for_tools_names_them_as_text(benches):
    """A separate summary request declares no tools, and the API refuses a reference to one of them."""
    bench = benches(options="claude-code", compact={"strategies": ["direct", "extractive"]})
    hidden = {**READ, "name": "hidden_tool", "defer_loading": True}
    tools = {"tools": [READ, FINDER, hidden]}
    search = {
        "type": "server_tool_use",
        "id": "srvtoolu_1",
        "name": "tool_search_tool_bm25",
        "input": {"query": "rows"},
    }
    references = [{"type": "tool_reference", "tool_name": "hidden_tool"}]
    content = {"type": "tool_search_tool_search_result", "tool_references": references}
    found = {"type": "tool_search_tool_result", "tool_use_id": "srvtoolu_1", "content": content}
    call = {"type": "tool_use", "id": "toolu_1", "name": "hidden_tool", "input": {}}
    history = say(bench, [user("Find the rows. " + LONG)], search, found, call, **tools)
    history = say(bench, [*history, answer(1)], {"type": "text", "text": "Found."}, **tools)
    bench.middleware.compact()
    say(bench, [*history, user("And now?")], {"type": "text", "text": "Yes."}, **tools)
    assert refusals(bench) == []
    bench.check()
    assert strategies(bench) == ["direct"]
    asked = next(body for body in bench.sent if not body.get("tools"))
    assert [block.get("text") for block in asked["messages"][1]["content"]][:2] == [
        "[searched for tools: rows]",
        "[tools found: hidden_tool]",
    ]
