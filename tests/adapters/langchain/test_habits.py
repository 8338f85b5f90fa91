"""How LangChain's agents spell their history, and what the middleware offers."""

import asyncio
import base64

import pytest
from adapters.framework_bench import asks_for_summary
from adapters.langchain.conftest import read_file
from langchain.agents.middleware import AgentMiddleware, ModelFallbackMiddleware
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_anthropic.middleware import AnthropicPromptCachingMiddleware
from langchain_core.messages import HumanMessage, SystemMessage, messages_from_dict, messages_to_dict
from pydantic import BaseModel
from surfaces.random_compactions import drop_replies

from everturn.decide.events import KeyChangesRepeated, SummaryUncached
from everturn.errors import UsageError
from everturn.history.edits import Undone

SMALL = {"window": 40_000}
LOG = "A long log line. " * 700
# The head of a picture with 1280 by 800 pixels.
PICTURE = base64.b64encode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\5\0\0\0\3\x20\x08\2\0\0\0").decode()


class Reminder(AgentMiddleware):
    """Adds a message to every request; the state does not get it."""

    def __init__(self):
        self.number = 0

    def wrap_model_call(self, request, handler):
        self.number += 1
        reminder = HumanMessage(f"Reminder {self.number}: never push to main.")
        return handler(request.override(messages=[*request.messages, reminder]))


@pytest.mark.spec("GW-11")
def test_a_reminder_of_another_middleware_does_not_fork(bench):
    everturn = bench.middleware(**SMALL)
    agent, messages = bench.agent(Reminder(), everturn, tools=[]), []
    for number in range(10):
        messages = agent.invoke({"messages": [*messages, ("user", f"Entry {number}: {LOG}")]})["messages"]
    (held,) = everturn.conversations
    assert held.compactions >= 1
    assert "Reminder" in str(bench.wire.bodies[-1])
    bench.check()


@pytest.mark.spec("GW-10")
def test_a_history_that_is_kept_as_json_is_the_same_conversation(bench):
    everturn = bench.middleware(**SMALL)
    agent, messages = bench.agent(everturn), []
    for number in range(6):
        messages = bench.talk(agent, range(number, number + 1), messages)
        messages = messages_from_dict(messages_to_dict(messages))
    (held,) = everturn.conversations
    assert held.compactions >= 1
    bench.check()


@pytest.mark.spec("CP-39")
def test_a_compaction_is_asked_for_and_undone_and_a_text_is_pinned(bench):
    everturn = bench.middleware()
    agent = bench.agent(everturn)
    messages = bench.talk(agent, range(3))
    everturn.pin("The deadline is Friday at noon.")
    everturn.compact()
    bench.talk(agent, range(3, 4), messages)
    assert everturn.conversations[0].compactions == 1
    assert "The deadline is Friday at noon." in str(bench.wire.bodies[-1])
    assert isinstance(everturn.undo(), Undone)
    assert everturn.rewind()[-1]["role"] == "assistant"
    bench.check()


@pytest.mark.spec("CP-37", "CP-39")
def test_a_tool_that_asks_for_a_compaction_gets_its_result_to_the_call_and_the_question(bench):
    everturn = bench.middleware()

    def tidy(path: str) -> str:
        """Compacts the conversation."""
        everturn.compact()
        drop_replies(bench.twin)
        bench.twin.script("The blue one is gone.")
        return "Tidied up."

    agent = bench.agent(everturn, tools=[read_file, tidy])
    messages = bench.talk(agent, range(3))
    call = {"type": "tool_use", "id": "toolu_tidy", "name": "tidy", "input": {"path": "feed"}}
    bench.twin.script({"content": [call]})
    agent.invoke({"messages": [*messages, ("user", "Tidy up. Delete only the blue one.")]})
    assert everturn.conversations[0].compactions == 1
    asked, called, answered = bench.wire.bodies[-1]["messages"][-3:]
    assert asked["role"] == "user"
    assert "Tidy up. Delete only the blue one." in str(asked)
    assert called == {"role": "assistant", "content": [call]}
    assert "Tidied up." in str(answered)
    bench.check()


@pytest.mark.spec("CP-39")
def test_a_rewind_gives_the_beginning_of_the_agents_own_messages_to_go_on_with(bench):
    everturn = bench.middleware()
    agent = bench.agent(everturn, tools=[])
    picture = {"type": "image", "base64": PICTURE, "mime_type": "image/png"}
    asked = HumanMessage([{"type": "text", "text": "What is this?"}, picture])
    messages = agent.invoke({"messages": [SystemMessage("You fix parsers."), asked]})["messages"]
    longer = bench.talk(agent, range(1), messages)
    back = everturn.rewind(messages=longer)
    assert [id(each) for each in back] == [id(each) for each in longer[:3]]
    agent.invoke({"messages": [*back, ("user", "And now?")]})
    first, _, last = bench.wire.bodies[-1]["messages"]
    assert [block["type"] for block in first["content"]] == ["text", "image"]
    assert "And now?" in str(last["content"])
    with pytest.raises(UsageError, match="not the list of the conversation"):
        everturn.rewind(messages=longer[2:])
    bench.check()


def test_the_recall_tool_is_given_to_the_agent_and_answers_its_calls(bench):
    everturn = bench.middleware(folder=bench.folder, recall={"enabled": True})
    agent = bench.agent(everturn)
    bench.twin.script("Noted.")
    messages = agent.invoke({"messages": [("user", "The code word is Otto.")]})["messages"]
    bench.twin.script(
        {"content": [{"type": "tool_use", "name": "recall", "input": {"query": "code word"}}]}, "It was Otto."
    )
    messages = agent.invoke({"messages": [*messages, ("user", "What was it?")]})["messages"]
    assert [message.name for message in messages if message.type == "tool"] == ["recall"]
    assert "Otto" in str([message for message in messages if message.type == "tool"])
    everturn.close()


def test_a_summary_is_asked_for_again_after_an_overloaded_moment(bench):
    everturn = bench.middleware()
    agent = bench.agent(everturn)
    messages = bench.talk(agent, range(3))
    everturn.compact()
    bench.twin.faults({"kind": "overloaded", "times": 2})
    before = len(bench.twin.ledger)
    agent.invoke({"messages": [*messages, ("user", "And now?")]})
    statuses = [entry["status"] for entry in bench.twin.ledger[before:]]
    assert statuses[:3] == [529, 529, 200]
    assert bench.twin.ledger[before + 2]["usage"]["cache_read_input_tokens"] > 0


class Verdict(BaseModel):
    """Whether the file is fine."""

    fine: bool


@pytest.mark.parametrize(
    ("strategy", "why"),
    [
        (
            ToolStrategy,
            "the conversation's requests force a tool call by tool_choice, and a summary must be text",
        ),
        (
            ProviderStrategy,
            "the conversation's requests ask for an output format, and a summary must be text",
        ),
    ],
)
def test_structured_output_leaves_tools_and_system_cached_and_says_why_messages_are_not(bench, strategy, why):
    agent = bench.agent(bench.middleware(window=40_000), response_format=strategy(Verdict))
    bench.talk(agent, range(6))
    bench.check()
    uncached = [event for event in bench.events if isinstance(event, SummaryUncached)]
    assert {event.why for event in uncached} == {why}
    (first, *_), (summary, *_) = bench.asked(), [body for body in bench.wire.bodies if asks_for_summary(body)]
    assert (summary["tools"], summary["system"]) == (first["tools"], first["system"])
    assert "tool_choice" not in summary
    assert "output_config" not in summary


@pytest.mark.moves_cache_prefix(reason="the system prompt is changed on purpose")
@pytest.mark.spec("CB-3")
def test_a_system_prompt_that_changes_with_each_run_is_told(bench):
    ours, messages = bench.middleware(), []
    for task in range(8):
        agent = bench.agent(
            ours, system_prompt=f"{'You maintain a feed parser. ' * 1000} It is {task} o'clock.", tools=[]
        )
        messages = bench.talk(agent, range(task, task + 1), messages)
    [event] = [event for event in bench.events if isinstance(event, KeyChangesRepeated)]
    assert (event.changed, event.parts) == (3, ("system",))
    assert event.what in ours.bill.notes[0]


@pytest.mark.parametrize("is_inside", [True, False])
def test_a_reply_of_another_model_that_a_fallback_has_asked_is_priced_as_its_own(bench, is_inside):
    ours, fallback = bench.middleware(), ModelFallbackMiddleware(bench.model("claude-haiku-4-5"))
    order = [ours, fallback] if is_inside else [fallback, ours]
    agent = bench.agent(*order, model=bench.model("claude-opus-4-5"))
    bench.twin.faults("overloaded")
    bench.talk(agent, range(1))
    assert "claude-haiku-4-5" in {entry["model"] for entry in bench.twin.ledger if entry["status"] == 200}
    paid = sum(entry["dollars"] for entry in bench.twin.ledger)
    assert float(ours.bill.dollars) == pytest.approx(paid)


@pytest.mark.parametrize("streaming", [False, True])
def test_what_is_written_for_an_hour_has_its_price_in_the_bill(bench, streaming):
    everturn, caching = bench.middleware(), AnthropicPromptCachingMiddleware(ttl="1h")
    agent = bench.agent(caching, everturn, model=bench.model(streaming=streaming), system_prompt=LOG * 3)
    bench.talk(agent, range(2))
    paid = sum(entry["dollars"] for entry in bench.twin.ledger)
    assert float(everturn.bill.dollars) == pytest.approx(paid)
    assert bench.twin.ledger[0]["usage"]["cache_creation"]["ephemeral_1h_input_tokens"] > 0
    bench.check()


@pytest.mark.parametrize("in_system", [2, 3, 4])
def test_own_breakpoints_leave_room_for_ours(bench, in_system):
    marker = {"cache_control": {"type": "ephemeral"}}
    system = [{"type": "text", "text": f"Rule {n}. {LOG}", **marker} for n in range(in_system)]
    system.append({"type": "text", "text": "Be brief."})
    agent = bench.agent(bench.middleware(), system_prompt=SystemMessage(system), tools=[])
    messages = []
    for number in range(4):
        asked = HumanMessage([{"type": "text", "text": f"Entry {number}: {LOG}", **marker}])
        messages = agent.invoke({"messages": [*messages, asked]})["messages"]
    assert [str(body).count("cache_control") for body in bench.asked()] == [4] * 4
    assert [message.content[0].get("cache_control") for message in messages[::2]] == [
        {"type": "ephemeral"}
    ] * 4
    bench.check()


def test_a_breakpoint_for_an_hour_in_a_message_does_not_stand_behind_a_shorter_one(bench):
    everturn, marker = bench.middleware(), {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    agent = bench.agent(everturn, tools=[], system_prompt=LOG * 3)
    agent.invoke({"messages": [HumanMessage([{"type": "text", "text": LOG, **marker}])]})
    (usage,) = [entry["usage"] for entry in bench.twin.ledger]
    assert usage["cache_creation"]["ephemeral_5m_input_tokens"] == 0
    assert usage["cache_creation"]["ephemeral_1h_input_tokens"] > 0
    bench.check()


LOST = "1 reply was closed or cut off before the usage arrived; what that has cost is not in the bill."


@pytest.mark.parametrize(("fault", "notes"), [("cut_stream", (LOST,)), ("overloaded", ())])
def test_a_call_that_breaks_before_its_usage_arrives_is_noted_beside_the_bill(bench, fault, notes):
    everturn = bench.middleware()
    agent = bench.agent(everturn, model=bench.model(streaming=True), tools=[])
    bench.twin.faults(fault)
    with pytest.raises(Exception, match=None if notes else "overloaded"):
        agent.invoke({"messages": [("user", "Look.")]})
    assert everturn.bill.notes == notes


async def test_a_run_that_is_cancelled_while_the_model_answers_is_noted_beside_the_bill(bench):
    everturn, began = bench.middleware(), asyncio.Event()

    class Waits(AgentMiddleware):
        async def awrap_model_call(self, request, handler):
            began.set()
            await asyncio.sleep(60)

    run = asyncio.create_task(bench.agent(everturn, Waits()).ainvoke({"messages": [("user", "Look.")]}))
    await began.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert everturn.bill.notes == (LOST,)


def test_a_reply_to_a_request_that_is_sent_unchanged_is_in_the_bill(bench, monkeypatch):
    everturn = bench.middleware()

    def fail(*given, **more):
        raise RuntimeError("broken")

    monkeypatch.setattr(everturn.tracker, "read", fail)
    bench.talk(bench.agent(everturn), range(2))
    assert float(everturn.bill.dollars) == pytest.approx(sum(each["dollars"] for each in bench.twin.ledger))


def test_a_summary_that_breaks_before_its_usage_arrives_is_noted_beside_the_bill(bench):
    everturn = bench.middleware()
    agent, messages = bench.agent(everturn, model=bench.model(streaming=True), tools=[]), []
    for number in range(4):
        messages = agent.invoke({"messages": [*messages, ("user", f"Entry {number}: {LOG}")]})["messages"]
    everturn.compact()
    bench.twin.faults("cut_stream")
    agent.invoke({"messages": [*messages, ("user", "And now?")]})
    assert [each.compactions for each in everturn.conversations] == [1]
    assert everturn.bill.notes == (LOST,)
