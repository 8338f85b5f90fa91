"""How pydantic-ai's agents spell their history, and what the capability offers."""

import asyncio

import pytest
from adapters.pydantic_ai.conftest import HAIKU, read_file
from pydantic import BaseModel
from pydantic_ai import BinaryContent
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelMessagesTypeAdapter, UserPromptPart
from pydantic_ai.models.fallback import FallbackModel
from surfaces.random_compactions import drop_replies
from surfaces.test_open_calls import behind_the_summary

from everturn.decide.events import KeyChangesRepeated
from everturn.errors import UsageError
from everturn.history.edits import Undone

LOG = " A long log line." * 700
SMALL = {"window": 60_000}
# The head of a picture with 1280 by 800 pixels.
PICTURE = BinaryContent(
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\5\0\0\0\3\x20\x08\2\0\0\0", media_type="image/png"
)


class Finding(BaseModel):
    name: str
    ok: bool


def task(number):
    return f"Task {number}: look at feed/part_{number}.py and fix it.{LOG}"


async def cost_of(bench, agent, tasks=10, history=None, run=None):
    """What these tasks cost, each in a run of its own that gets the history so far."""
    before = sum(entry["dollars"] for entry in bench.twin.ledger)
    calls = len(bench.twin.ledger)
    for number in range(tasks):
        if run is None:
            history = (await agent.run(task(number), message_history=history)).all_messages()
        else:
            history = await run(agent, task(number), history)
    bench.check()
    spent = sum(entry["dollars"] for entry in bench.twin.ledger) - before
    return spent / (len(bench.twin.ledger) - calls)


async def streamed(agent, asked, history):
    async with agent.run_stream(asked, message_history=history) as result:
        async for _ in result.stream_text():
            pass
        return result.all_messages()


async def reloaded(agent, asked, history):
    """A history that is kept as JSON between runs."""
    found = (await agent.run(asked, message_history=history)).all_messages()
    return ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(found))


@pytest.mark.spec("GW-10")
@pytest.mark.parametrize("kind", ["structured", "streamed", "reloaded"])
async def test_a_history_is_one_conversation_however_a_run_ended(bench, kind):
    plain = bench.capability(**SMALL)
    alone = await cost_of(bench, bench.agent(plain))
    everturn = bench.capability(**SMALL)
    more = {"output_type": Finding} if kind == "structured" else {}
    run = {"streamed": streamed, "reloaded": reloaded}.get(kind)
    cost = await cost_of(bench, bench.agent(everturn, **more), run=run)
    (held,) = everturn.conversations
    assert held.compactions >= 1
    # A streamed run ends with its first text, so its calls are fewer and larger.
    assert cost < 1.3 * alone or kind == "streamed"


class Reminder(AbstractCapability):
    """Adds a text to the newest message of every request; the history does not get it."""

    async def before_model_request(self, ctx, request_context):
        *earlier, last = request_context.messages
        reminder = UserPromptPart(f"Reminder {ctx.run_step}: never push to main.")
        request_context.messages = [*earlier, type(last)(parts=[*last.parts, reminder])]
        return request_context


@pytest.mark.spec("GW-11")
async def test_a_reminder_of_another_capability_does_not_fork(bench):
    everturn = bench.capability(**SMALL)
    await cost_of(bench, bench.agent(Reminder(), everturn, tools=[]))
    (held,) = everturn.conversations
    assert held.compactions >= 1
    assert "Reminder" in str(bench.wire.bodies[-1])


@pytest.mark.spec("CP-37", "CP-39")
async def test_a_tool_that_asks_for_a_compaction_gets_its_result_to_the_call_and_the_question(bench):
    everturn = bench.capability()

    def tidy(path: str) -> str:
        """Compacts the conversation."""
        everturn.compact()
        drop_replies(bench.twin)
        bench.twin.script("The blue one is gone.")
        return "Tidied up."

    agent = bench.agent(everturn, tools=[read_file, tidy])
    messages = await bench.talk(agent, range(3))
    call = {"type": "tool_use", "id": "toolu_tidy", "name": "tidy", "input": {"path": "feed"}}
    bench.twin.script({"content": [call]})
    await agent.run("Tidy up. Delete only the blue one.", message_history=messages)
    assert everturn.conversations[0].compactions == 1
    asked, called, answered, *_ = behind_the_summary(bench.wire.bodies[-1])[-3:]
    assert [asked, called] == [
        {"role": "user", "content": [{"type": "text", "text": "Tidy up. Delete only the blue one."}]},
        {"role": "assistant", "content": [call]},
    ]
    assert "Tidied up." in str(answered)
    bench.check()


@pytest.mark.spec("CP-39")
async def test_a_compaction_is_asked_for_and_undone_and_a_text_is_pinned(bench):
    everturn = bench.capability()
    agent = bench.agent(everturn)
    history = await bench.talk(agent, range(3))
    everturn.pin("The deadline is Friday at noon.")
    everturn.compact()
    history = await bench.talk(agent, range(3, 4), history)
    assert everturn.conversations[0].compactions == 1
    assert "The deadline is Friday at noon." in str(bench.wire.bodies[-1])
    assert isinstance(everturn.undo(), Undone)
    assert everturn.rewind()[-1]["role"] == "assistant"
    bench.check()


@pytest.mark.spec("CP-39")
async def test_a_rewind_gives_the_beginning_of_the_agents_own_history_to_go_on_with(bench):
    everturn = bench.capability()
    agent = bench.agent(everturn, tools=[])
    history = (await agent.run(["What is this?", PICTURE])).all_messages()
    longer = await bench.talk(agent, range(1), history)
    back = everturn.rewind(messages=longer)
    assert [id(each) for each in back] == [id(each) for each in longer[:2]]
    await agent.run("And now?", message_history=back)
    first, _, last = bench.wire.bodies[-1]["messages"]
    assert [block["type"] for block in first["content"]] == ["text", "image"]
    assert last["content"][0]["text"] == "And now?"
    with pytest.raises(UsageError, match="not the list of the conversation"):
        everturn.rewind(messages=longer[1:])
    bench.check()


async def test_the_recall_tool_is_given_to_the_agent_and_answers_its_calls(bench):
    everturn = bench.capability(folder=bench.folder, recall={"enabled": True})
    agent = bench.agent(everturn)
    bench.twin.script("Noted.")
    history = (await agent.run("The code word is Otto.")).all_messages()
    bench.twin.script(
        {"content": [{"type": "tool_use", "name": "recall", "input": {"query": "code word"}}]}, "It was Otto."
    )
    await agent.run("What was it?", message_history=history)
    results = [
        block for block in bench.wire.bodies[-1]["messages"][-1]["content"] if block["type"] == "tool_result"
    ]
    assert "Otto" in str(results)
    everturn.close()


async def test_a_summary_is_asked_for_again_after_an_overloaded_moment(bench):
    everturn = bench.capability()
    agent = bench.agent(everturn, model=bench.model(HAIKU))
    history = await bench.talk(agent, range(3))
    everturn.compact()
    bench.twin.faults({"kind": "overloaded", "times": 2})
    before = len(bench.twin.ledger)
    await agent.run("And now?", message_history=history)
    statuses = [entry["status"] for entry in bench.twin.ledger[before:]]
    assert statuses[:3] == [529, 529, 200]
    assert bench.twin.ledger[before + 2]["usage"]["cache_read_input_tokens"] > 0


@pytest.mark.moves_cache_prefix(reason="the instructions are changed on purpose")
@pytest.mark.spec("CB-3")
async def test_instructions_that_change_with_each_run_are_told(bench):
    ours, messages = bench.capability(), None
    for task in range(8):
        instructions = f"{'You maintain a feed parser. ' * 1000} It is {task} o'clock."
        settings = {
            "max_tokens": 2000,
            "anthropic_cache_instructions": True,
            "anthropic_cache_messages": True,
        }
        agent = bench.agent(ours, instructions=instructions, tools=[], model_settings=settings)
        messages = await bench.talk(agent, range(task, task + 1), messages)
    [event] = [event for event in bench.events if isinstance(event, KeyChangesRepeated)]
    assert (event.changed, event.parts) == (3, ("system",))
    assert event.what in ours.bill.notes[0]


async def test_a_reply_of_another_model_that_a_fallback_has_asked_is_priced_as_its_own(bench):
    ours = bench.capability()
    model = FallbackModel(bench.model("claude-opus-4-5"), bench.model("claude-haiku-4-5"))
    bench.twin.faults("overloaded")
    await bench.talk(bench.agent(ours, model=model), range(2))
    models = {entry["model"] for entry in bench.twin.ledger if entry["status"] == 200}
    assert models == {"claude-opus-4-5", "claude-haiku-4-5"}
    paid = sum(entry["dollars"] for entry in bench.twin.ledger)
    assert float(ours.bill.dollars) == pytest.approx(paid)


async def test_summaries_of_models_with_a_fallback_are_in_the_bill(bench):
    ours = bench.capability(**SMALL)
    model = FallbackModel(bench.model("claude-opus-4-5"), bench.model("claude-haiku-4-5"))
    await bench.talk(bench.agent(ours, model=model), range(12))
    assert ours.bill.parts["compact"].calls >= 1
    assert ours.bill.total.unpriced == 0
    assert float(ours.bill.dollars) == pytest.approx(sum(entry["dollars"] for entry in bench.twin.ledger))


async def test_what_is_written_for_an_hour_has_its_price_in_the_bill(bench):
    everturn = bench.capability()
    agent = bench.agent(everturn, model_settings={"max_tokens": 2000, "anthropic_cache": "1h"})
    await bench.talk(agent, range(2))
    paid = sum(entry["dollars"] for entry in bench.twin.ledger)
    assert float(everturn.bill.dollars) == pytest.approx(paid)
    assert (
        sum(entry["usage"]["cache_creation"]["ephemeral_1h_input_tokens"] for entry in bench.twin.ledger) > 0
    )
    bench.check()


LOST = "1 reply was closed or cut off before the usage arrived; what that has cost is not in the bill."


@pytest.mark.parametrize(("fault", "notes"), [("cut_stream", (LOST,)), ("overloaded", ())])
async def test_a_stream_that_breaks_before_its_usage_arrives_is_noted_beside_the_bill(bench, fault, notes):
    everturn = bench.capability()
    agent = bench.agent(everturn, tools=[])
    bench.twin.faults(fault)
    with pytest.raises(Exception, match=None if notes else "overloaded"):
        await streamed(agent, "Look.", None)
    assert everturn.bill.notes == notes


async def test_a_run_that_is_cancelled_while_the_model_answers_is_noted_beside_the_bill(bench, monkeypatch):
    everturn, began, model = bench.capability(), asyncio.Event(), bench.model()

    async def wait(*given, **more):
        began.set()
        await asyncio.sleep(60)

    monkeypatch.setattr(model, "request", wait)
    run = asyncio.create_task(bench.agent(everturn, model=model).run("Look."))
    await began.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert everturn.bill.notes == (LOST,)


@pytest.mark.parametrize("run", [None, streamed], ids=["run", "streamed"])
async def test_a_reply_to_a_request_that_is_sent_unchanged_is_in_the_bill(bench, monkeypatch, run):
    everturn = bench.capability()

    def fail(*given, **more):
        raise RuntimeError("broken")

    monkeypatch.setattr(everturn.tracker, "read", fail)
    agent = bench.agent(everturn)
    await (agent.run("Look.") if run is None else run(agent, "Look.", None))
    assert float(everturn.bill.dollars) == pytest.approx(sum(each["dollars"] for each in bench.twin.ledger))
