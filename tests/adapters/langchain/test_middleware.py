"""LangChain's agents with the middleware: what the model gets, what the state keeps, what goes wrong."""

import json

import pytest
from adapters.framework_bench import asks_for_summary
from adapters.langchain.conftest import HAIKU
from langchain_anthropic.middleware import AnthropicPromptCachingMiddleware
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ChatMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from everturn.adapters.tracking import PassedThrough
from everturn.decide.events import CompactionNotDone
from everturn.history.blocks import text_of

# A window that a few tasks fill: compactions happen all the time.
SMALL = 40_000
THINKS = {"type": "enabled", "budget_tokens": 1024}


def words(body):
    return json.dumps(body["messages"])


def read(path: str) -> str:
    return path


def pairs(messages):
    """The ids of calls, and those of results, in their order."""
    called = [call["id"] for each in messages if isinstance(each, AIMessage) for call in each.tool_calls]
    return called, [each.tool_call_id for each in messages if isinstance(each, ToolMessage)]


# ── what the model gets ──────────────────────────────────────────────────────────────────────────


def test_untouched_messages_are_the_very_same_objects(bench):
    bench.talk(bench.agent(bench.middleware(), bench.spy), range(3))
    for request in bench.spy.requests:
        assert [id(each) for each in request.messages] == [id(each) for each in request.state["messages"]]
    bench.check()


def test_a_summary_is_a_human_message_and_the_state_keeps_everything(bench):
    middleware = bench.middleware(window=SMALL)
    messages = bench.talk(bench.agent(middleware, bench.spy), range(8))
    (held,) = middleware.conversations
    shown = bench.spy.requests[-1].messages
    assert held.compactions >= 2
    assert held.messages == len(messages)
    assert isinstance(shown[0], HumanMessage)
    assert "Task 0" not in [each.text for each in shown]
    assert len(shown) < len(messages)
    assert pairs(shown)[0] == pairs(shown)[1]
    assert pairs(messages)[0] == pairs(messages)[1]
    bench.check()


def test_a_cleared_result_is_a_tool_message_with_the_same_ids(bench):
    messages = bench.talk(bench.agent(bench.middleware(policy="masking"), bench.spy), range(12))
    shown = bench.spy.requests[-1].messages
    changed = [(a, b) for a, b in zip(messages, shown, strict=False) if a is not b]
    assert changed != []
    for before, after in changed:
        assert after == before.model_copy(update={"content": after.content})
        assert len(after.content) < len(before.content)
    bench.check()


def test_the_system_prompt_and_the_end_are_marked_for_claude(bench):
    bench.talk(bench.agent(bench.middleware()), range(2))
    first, last = bench.wire.bodies[0], bench.wire.bodies[-1]
    marker = {"type": "ephemeral"}
    assert (last["cache_control"], last["system"][-1]["cache_control"]) == (marker, marker)
    assert last["messages"][: len(first["messages"])] == first["messages"]
    assert bench.twin.ledger[-1]["usage"]["cache_read_input_tokens"] > 0


def test_other_models_get_no_markers_and_unknown_kinds_pass(bench):
    replies = iter([AIMessage("Hello."), AIMessage("Yes.")])
    model = GenericFakeChatModel(messages=replies)
    agent = bench.agent(bench.middleware(), bench.spy, model=model, tools=[])
    strange = ChatMessage("From afar.", role="observer")
    said = agent.invoke({"messages": [HumanMessage("Hi."), strange]})["messages"]
    agent.invoke({"messages": [*said, SystemMessage("Be brief."), HumanMessage("Well?")]})
    request = bench.spy.requests[-1]
    assert [id(each) for each in request.messages] == [id(each) for each in request.state["messages"]]
    assert request.model_settings == {}
    bench.check()


@pytest.mark.parametrize("outside", [True, False])
def test_a_caching_middleware_beside_ours_does_no_harm(bench, outside):
    caching = AnthropicPromptCachingMiddleware()
    ours = bench.middleware(window=SMALL)
    order = [caching, ours] if outside else [ours, caching]
    bench.talk(bench.agent(*order), range(5))
    assert ours.conversations[0].compactions >= 1
    bench.check()


def test_leading_system_messages_outlive_a_compaction(bench):
    front = SystemMessage("The parser is called Otto.")
    agent = bench.agent(bench.middleware(window=SMALL), bench.spy, system_prompt=None)
    bench.talk(agent, range(6), [front])
    assert bench.spy.requests[-1].messages[0] is front
    assert bench.wire.bodies[-1]["system"] in (front.content, [{"type": "text", "text": front.content}])
    bench.check()


def test_tools_and_the_system_prompt_are_part_of_the_conversation(bench):
    middleware = bench.middleware()
    bench.talk(bench.agent(middleware, system_prompt="Mind the feed. " * 4000), range(1))
    (tracked,) = middleware.tracker
    usage = bench.twin.ledger[-1]["usage"]
    counted = sum(usage[name] for name in usage if name.endswith("input_tokens"))
    assert [text_of(block) for block in tracked.preamble.system] == ["Mind the feed. " * 4000]
    assert [tool.tool for tool in tracked.preamble.tools] == ["read_file"]
    assert middleware.conversations[0].tokens >= counted + usage["output_tokens"] > 10_000


@pytest.mark.parametrize("where", ["system_prompt", "tools"])
def test_what_is_said_outside_of_messages_is_made_room_for(bench, where):
    large = "Mind the feed, and mind it well. " * 12_000
    history = [kind(large[:40_000]) for _ in range(4) for kind in (HumanMessage, AIMessage)]
    more = {where: large if where == "system_prompt" else [tool(description=large)(read)]}
    middleware = bench.middleware()
    bench.agent(middleware, **more).invoke({"messages": [*history, HumanMessage("And now?")]})
    assert middleware.conversations[0].compactions == 1
    assert bench.twin.ledger[-1]["status"] == 200


def test_thinking_stays_where_the_tool_loop_needs_it(bench):
    model = bench.model(thinking=THINKS)
    bench.talk(bench.agent(bench.middleware(window=SMALL), model=model), range(6))
    assert any('"signature"' in words(body) for body in bench.asked())
    bench.check()


def test_parallel_calls_keep_their_results(bench):
    calls = [
        {"type": "tool_use", "id": f"toolu_{n}", "name": "read_file", "input": {"path": f"{n}.py"}}
        for n in "ab"
    ]
    bench.twin.script({"content": calls, "stop_reason": "tool_use"}, "Read.")
    bench.talk(bench.agent(bench.middleware(), bench.spy), range(1))
    assert pairs(bench.spy.requests[-1].messages) == (["toolu_a", "toolu_b"], ["toolu_a", "toolu_b"])
    assert [block["type"] for block in bench.wire.bodies[-1]["messages"][-1]["content"]] == [
        "tool_result"
    ] * 2
    bench.check()


# ── how it is called ─────────────────────────────────────────────────────────────────────────────


async def test_it_awaits_where_the_agent_does(bench):
    middleware, messages = bench.middleware(window=SMALL), []
    agent = bench.agent(middleware)
    for task in range(5):
        asked = ("user", f"Task {task}: look at feed/part_{task}.py and fix it.")
        messages = (await agent.ainvoke({"messages": [*messages, asked]}))["messages"]
    assert middleware.conversations[0].compactions >= 1
    assert middleware.conversations[0].messages == len(messages)
    bench.check()


def test_a_stream_has_the_agents_words_and_none_of_a_summary(bench):
    middleware, messages, heard = bench.middleware(window=SMALL), [], ""
    agent = bench.agent(middleware)
    for task in range(5):
        given = {"messages": [*messages, ("user", f"Task {task}: look at feed/part_{task}.py and fix it.")]}
        for kind, piece in agent.stream(given, stream_mode=["messages", "values"]):
            if kind == "values":
                messages = piece["messages"]
            elif isinstance(piece[0], AIMessage):
                heard += piece[0].text
    assert middleware.conversations[0].compactions >= 1
    assert heard == "".join(each.text for each in messages if isinstance(each, AIMessage))
    bench.check()


@pytest.mark.parametrize("kept", ["in a folder", "in memory"])
def test_a_conversation_goes_on_from_a_checkpoint_in_a_new_process(bench, kept):
    saver, config = InMemorySaver(), {"configurable": {"thread_id": "one"}}
    folder = bench.folder if kept == "in a folder" else None
    before = bench.middleware(window=SMALL, folder=folder)
    bench.talk(bench.agent(before, checkpointer=saver), range(4), **config)
    (held,) = before.conversations
    before.close()
    after = bench.middleware(window=SMALL, folder=folder)
    agent = bench.agent(after, checkpointer=saver)
    agent.invoke({"messages": [("user", "And now?")]}, config)
    (found,) = after.conversations
    assert found.messages == len(agent.get_state(config).values["messages"]) > held.messages
    assert found.compactions >= (held.compactions if folder else 1) >= 1
    assert (found.id == held.id) == bool(folder)
    bench.check()


@pytest.mark.spec("CP-6")
@pytest.mark.parametrize("given", ["model", "name", "option", "both"])
def test_a_direct_summary_is_asked_of_the_summary_model_without_tools(bench, given):
    named = "claude-sonnet-4-6"
    options = {
        "model": {"summary_model": bench.model(named)},
        "name": {"summary_model": named},
        "option": {"compact.summary_model": named},
        # The argument overrides the option.
        "both": {"summary_model": named, "compact": {"summary_model": "claude-opus-4-6"}},
    }[given]
    middleware = bench.middleware(window=SMALL, **{"compact.strategies": ("direct", "extractive")}, **options)
    bench.talk(bench.agent(middleware), range(5))
    summaries = [body for body in bench.wire.bodies if asks_for_summary(body)]
    assert {body["model"] for body in summaries} == {named}
    assert [body for body in summaries if "tools" in body or "tool_choice" in body] == []
    assert {body["model"] for body in bench.asked()} == {HAIKU}
    assert middleware.tracker.parts.options.compact.summary_model == named
    bench.check()


def test_a_fork_is_asked_of_the_agents_own_model_also_beside_a_summary_model(bench):
    bench.talk(bench.agent(bench.middleware(window=3 * SMALL, summary_model="claude-sonnet-4-6")), range(12))
    summaries = [body for body in bench.wire.bodies if asks_for_summary(body)]
    assert {body["model"] for body in summaries} == {HAIKU}
    bench.check()


def test_a_fork_reads_the_cache_that_the_agent_wrote(bench):
    middleware = bench.middleware(window=3 * SMALL, ways=("fork",))
    bench.talk(bench.agent(middleware), range(12))
    summaries = middleware.bill.parts["compact"]
    assert summaries.calls >= 1
    assert summaries.read > 3 * (summaries.input + summaries.written)
    bench.check()


# ── when something goes wrong ────────────────────────────────────────────────────────────────────


def test_too_long_is_withheld_and_room_is_made_once(bench):
    middleware = bench.middleware()
    messages = bench.talk(bench.agent(middleware), range(4))
    bench.twin.faults("prompt_too_long")
    bench.talk(bench.agent(middleware), range(4, 5), messages)
    assert middleware.conversations[0].compactions == 1
    bench.check(refusals=1)


def test_a_second_too_long_is_the_agents(bench):
    agent = bench.agent(bench.middleware())
    messages = bench.talk(agent, range(4))
    bench.twin.faults({"kind": "prompt_too_long", "times": 9})
    before = len(bench.asked())
    with pytest.raises(Exception, match="prompt is too long"):
        bench.talk(agent, range(4, 5), messages)
    assert len(bench.asked()) == before + 2


@pytest.mark.spec("CP-38")
def test_a_compaction_that_the_api_refuses_is_undone_and_the_conversation_goes_on(bench):
    middleware = bench.middleware()
    messages = bench.talk(bench.agent(middleware), range(4))
    middleware.compact()
    bench.wire.broken = 1
    messages = bench.talk(bench.agent(middleware), range(4, 5), messages)
    assert messages[-1].text != ""
    assert ["<session-summary>" in str(body) for body in bench.asked()].count(True) == 1
    assert [event.reason for event in bench.events if isinstance(event, CompactionNotDone)] == [
        "view_refused"
    ]
    bench.check(refusals=1)


def test_another_error_is_the_agents(bench):
    bench.twin.faults("overloaded")
    with pytest.raises(Exception, match="Overloaded"):
        bench.talk(bench.agent(bench.middleware()), range(1))
    assert len(bench.twin.ledger) == 1


@pytest.mark.parametrize("what", ["read", "prepare", "record_response"])
def test_where_we_fail_the_agent_goes_on(bench, monkeypatch, what):
    middleware = bench.middleware()

    def broken(*_, **__):
        raise RuntimeError("broken on purpose")

    monkeypatch.setattr(middleware.tracker, what, broken)
    middleware._sync = middleware._sync._replace(
        prepare=middleware.tracker.prepare, record_response=middleware.tracker.record_response
    )
    messages = bench.talk(bench.agent(middleware), range(1))
    assert messages[-1].text != ""
    assert {type(event) for event in bench.events} == {PassedThrough}
    assert {entry["status"] for entry in bench.twin.ledger} == {200}


def test_where_our_request_is_refused_the_agents_own_is_sent(bench, monkeypatch):
    from everturn.adapters.langchain import call

    monkeypatch.setattr(
        call, "build_messages", lambda *_: [AIMessage(""), ToolMessage("x", tool_call_id="nobody's")]
    )
    messages = bench.talk(bench.agent(bench.middleware()), range(1))
    assert messages[-1].text != ""
    assert bench.twin.ledger[0]["status"] == 400
    assert any(isinstance(event, PassedThrough) for event in bench.events)
