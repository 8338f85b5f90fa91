"""pydantic-ai's agents with the capability: what the model gets, what the history keeps, what goes wrong."""

import asyncio
import json
from dataclasses import replace

import pytest
from adapters.framework_bench import asks_for_summary
from adapters.pydantic_ai.conftest import HAIKU
from pydantic_ai import Tool
from pydantic_ai.capabilities import Caching
from pydantic_ai.exceptions import ModelContextWindowExceededError, ModelHTTPError
from pydantic_ai.messages import (
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import FunctionModel

from everturn.adapters.tracking import PassedThrough
from everturn.decide.events import CompactionNotDone
from everturn.history.blocks import text_of
from everturn.session.hooks.run import CallbackHook, Hooks

# A window that a few tasks fill: compactions happen all the time.
SMALL = 40_000
THINKS = {"max_tokens": 2000, "anthropic_thinking": {"type": "enabled", "budget_tokens": 1024}}


def pairs(messages):
    """The ids of calls, and those of results, in their order."""
    parts = [part for message in messages for part in message.parts]
    called = [part.tool_call_id for part in parts if isinstance(part, ToolCallPart)]
    return called, [part.tool_call_id for part in parts if isinstance(part, ToolReturnPart)]


def read(path: str) -> str:
    return path


def asked_for(words):
    return ModelRequest(parts=[UserPromptPart(words)])


def replied(words):
    return ModelResponse(parts=[TextPart(words)])


# ── what the model gets ──────────────────────────────────────────────────────────────────────────


async def test_untouched_messages_are_the_very_same_objects(bench):
    await bench.talk(bench.agent(bench.capability(), bench.spy), range(3))
    for shown, history in bench.spy.seen:
        assert [id(each) for each in shown] == [id(each) for each in history]
    bench.check()


async def test_a_summary_is_a_user_prompt_and_the_history_keeps_everything(bench):
    capability = bench.capability(window=SMALL)
    messages = await bench.talk(bench.agent(capability, bench.spy), range(8))
    (held,) = capability.conversations
    shown, _ = bench.spy.seen[-1]
    assert held.compactions >= 2
    assert held.messages == len(messages)
    assert isinstance(shown[1].parts[0], UserPromptPart)
    assert len(shown) < len(messages)
    assert pairs(shown)[0] == pairs(shown)[1]
    assert pairs(messages)[0] == pairs(messages)[1]
    bench.check()


async def test_the_system_prompt_outlives_a_compaction(bench):
    messages = await bench.talk(bench.agent(bench.capability(window=SMALL), bench.spy), range(6))
    shown, _ = bench.spy.seen[-1]
    assert shown[0] == ModelRequest(parts=[messages[0].parts[0]])
    assert bench.asked()[-1]["system"] == bench.asked()[0]["system"]
    bench.check()


async def test_a_cleared_result_is_the_same_part_with_other_words(bench):
    messages = await bench.talk(bench.agent(bench.capability(policy="masking"), bench.spy), range(12))
    shown, _ = bench.spy.seen[-1]
    changed = [(a, b) for a, b in zip(messages, shown, strict=False) if a is not b]
    assert changed != []
    for before, after in changed:
        assert after == replace(before, parts=after.parts)
        for old, new in zip(before.parts, after.parts, strict=True):
            assert new == replace(old, content=new.content)
    bench.check()


async def test_caching_is_turned_on_where_nobody_spoke_of_it(bench):
    await bench.talk(bench.agent(bench.capability()), range(2))
    assert bench.wire.bodies[-1]["cache_control"] == {"type": "ephemeral", "ttl": "5m"}
    assert bench.twin.ledger[-1]["usage"]["cache_read_input_tokens"] > 0


@pytest.mark.parametrize(("caching", "marker"), [(False, None), ("1h", {"type": "ephemeral", "ttl": "1h"})])
async def test_what_was_said_about_caching_holds(bench, caching, marker):
    await bench.talk(bench.agent(bench.capability(), Caching(caching)), range(2))
    assert bench.wire.bodies[-1].get("cache_control") == marker
    bench.check()


async def test_tools_and_instructions_are_part_of_the_conversation(bench):
    capability = bench.capability()
    await bench.talk(
        bench.agent(capability, system_prompt=(), instructions="Mind the feed. " * 4000), range(1)
    )
    (tracked,) = capability.tracker
    usage = bench.twin.ledger[-1]["usage"]
    counted = sum(usage[name] for name in usage if name.endswith("input_tokens"))
    assert [text_of(block) for block in tracked.preamble.system] == [("Mind the feed. " * 4000).strip()]
    assert [tool.tool for tool in tracked.preamble.tools] == ["read_file"]
    assert capability.conversations[0].tokens >= counted + usage["output_tokens"] > 10_000


@pytest.mark.parametrize("where", ["instructions", "tools"])
async def test_what_is_said_outside_of_messages_is_made_room_for(bench, where):
    large = "Mind the feed, and mind it well. " * 12_000
    history = [message(large[:40_000]) for _ in range(4) for message in (asked_for, replied)]
    more = {"instructions": large} if where == "instructions" else {"tools": [Tool(read, description=large)]}
    capability = bench.capability()
    await bench.agent(capability, **more).run("And now?", message_history=history)
    assert capability.conversations[0].compactions == 1
    assert bench.twin.ledger[-1]["status"] == 200


@pytest.mark.parametrize("of_the_model", [True, False])
async def test_thinking_stays_where_the_tool_loop_needs_it(bench, of_the_model):
    capability = bench.capability(window=SMALL, ways=("direct",))
    settings = {"model": bench.model(settings=THINKS)} if of_the_model else {"model_settings": THINKS}
    await bench.talk(bench.agent(capability, **settings), range(6))
    assert any('"signature"' in json.dumps(body) for body in bench.asked())
    summaries = [body for body in bench.wire.bodies if not body.get("tools")]
    assert [body.get("thinking") for body in summaries] == [None] * len(summaries) != []
    bench.check()


async def test_parallel_calls_keep_their_results(bench):
    names = ("toolu_a", "toolu_b")
    calls = [{"type": "tool_use", "id": n, "name": "read_file", "input": {"path": n}} for n in names]
    bench.twin.script({"content": calls, "stop_reason": "tool_use"}, "Read.")
    await bench.talk(bench.agent(bench.capability(), bench.spy), range(1))
    assert pairs(bench.spy.seen[-1][0]) == ([*names], [*names])
    bench.check()


async def test_any_other_model_will_do(bench):
    def answer(messages, _):
        return ModelResponse(parts=[TextPart(f"I have seen {len(messages)}.")])

    agent = bench.agent(bench.capability(), bench.spy, model=FunctionModel(answer))
    messages = await bench.talk(agent, range(2))
    assert [each.parts[-1].content for each in messages[1::2]] == ["I have seen 1.", "I have seen 3."]
    bench.check()


# ── how it is called ─────────────────────────────────────────────────────────────────────────────


async def test_a_stream_has_the_agents_words_and_none_of_a_summary(bench):
    heard = []

    async def listen(_, events):
        async for event in events:
            if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
                heard.append(event.part.content)
            elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
                heard.append(event.delta.content_delta)

    capability = bench.capability(window=SMALL)
    messages = await bench.talk(bench.agent(capability), range(5), event_stream_handler=listen)
    assert capability.conversations[0].compactions >= 1
    assert capability.conversations[0].messages == len(messages)
    parts = [part for message in messages for part in message.parts]
    assert "".join(heard) == "".join(part.content for part in parts if isinstance(part, TextPart))
    bench.check()


@pytest.mark.parametrize("kept", ["in a folder", "in memory"])
async def test_a_conversation_goes_on_from_stored_messages_in_a_new_process(bench, kept):
    folder = bench.folder if kept == "in a folder" else None
    before = bench.capability(window=SMALL, folder=folder)
    messages = await bench.talk(bench.agent(before), range(4))
    (held,) = before.conversations
    before.close()
    stored = ModelMessagesTypeAdapter.dump_json(messages)
    after = bench.capability(window=SMALL, folder=folder)
    found = await bench.talk(bench.agent(after), range(4, 5), ModelMessagesTypeAdapter.validate_json(stored))
    (now,) = after.conversations
    assert now.messages == len(found) > held.messages
    assert now.compactions >= (held.compactions if folder else 1) >= 1
    assert (now.id == held.id) == bool(folder)
    bench.check()


@pytest.mark.spec("CP-6")
@pytest.mark.parametrize("given", ["model", "name", "option", "both"])
async def test_a_direct_summary_is_asked_of_the_summary_model_without_tools(bench, given):
    named = "claude-sonnet-4-6"
    options = {
        "model": {"summary_model": bench.model(named)},
        "name": {"summary_model": named},
        "option": {"compact.summary_model": named},
        # The argument overrides the option.
        "both": {"summary_model": named, "compact": {"summary_model": "claude-opus-4-6"}},
    }[given]
    capability = bench.capability(window=SMALL, **{"compact.strategies": ("direct", "extractive")}, **options)
    await bench.talk(bench.agent(capability), range(5))
    summaries = [body for body in bench.wire.bodies if asks_for_summary(body)]
    assert {body["model"] for body in summaries} == {named}
    assert [body for body in summaries if body.get("tools") or body.get("tool_choice")] == []
    assert {body["model"] for body in bench.asked()} == {HAIKU}
    assert capability.tracker.parts.options.compact.summary_model == named
    bench.check()


async def test_a_fork_is_asked_of_the_agents_own_model_also_beside_a_summary_model(bench):
    capability = bench.capability(window=3 * SMALL, summary_model="claude-sonnet-4-6")
    await bench.talk(bench.agent(capability), range(12))
    summaries = [body for body in bench.wire.bodies if asks_for_summary(body)]
    assert {body["model"] for body in summaries} == {HAIKU}
    bench.check()


async def test_a_fork_reads_the_cache_that_the_agent_wrote(bench):
    capability = bench.capability(window=3 * SMALL, ways=("fork",))
    await bench.talk(bench.agent(capability), range(12))
    summaries = capability.bill.parts["compact"]
    assert summaries.calls >= 1
    assert summaries.read > 3 * (summaries.input + summaries.written)
    bench.check()


@pytest.mark.spec("HK-1")
async def test_an_async_hook_runs_on_the_agents_event_loop(bench):
    loops = []

    async def before(payload):
        loops.append(asyncio.get_running_loop())
        return "Keep the file names."

    hooks = Hooks((CallbackHook("PreCompact", before),))
    await bench.talk(bench.agent(bench.capability(window=SMALL, hooks=hooks)), range(5))
    assert set(loops) == {asyncio.get_running_loop()}
    summaries = [body for body in bench.wire.bodies if asks_for_summary(body)]
    assert "Keep the file names." in json.dumps(summaries[0]["messages"][-1])
    bench.check()


async def test_runs_side_by_side_know_nothing_of_each_other(bench):
    capability = bench.capability(window=SMALL)
    agent = bench.agent(capability)
    runs = await asyncio.gather(*(bench.talk(agent, range(4 * n, 4 * n + 4)) for n in range(3)))
    assert sorted(held.messages for held in capability.conversations) == sorted(map(len, runs))
    bench.check()


# ── when something goes wrong ────────────────────────────────────────────────────────────────────


async def test_too_long_is_withheld_and_room_is_made_once(bench):
    capability = bench.capability()
    messages = await bench.talk(bench.agent(capability), range(4))
    bench.twin.faults("prompt_too_long")
    await bench.talk(bench.agent(capability), range(4, 5), messages)
    assert capability.conversations[0].compactions == 1
    bench.check(refusals=1)


async def test_a_second_too_long_is_the_agents(bench):
    agent = bench.agent(bench.capability())
    messages = await bench.talk(agent, range(4))
    bench.twin.faults({"kind": "prompt_too_long", "times": 9})
    before = len(bench.asked())
    with pytest.raises(ModelContextWindowExceededError):
        await bench.talk(agent, range(4, 5), messages)
    assert len(bench.asked()) == before + 2


async def test_room_is_made_once_even_if_there_is_always_more(bench, monkeypatch):
    capability, tried = bench.capability(), []

    async def roomy(call, _):
        tried.append(call)
        return call

    monkeypatch.setattr(capability.tracker, "compact_after_overflow_async", roomy)
    bench.twin.faults({"kind": "prompt_too_long", "times": 9})
    with pytest.raises(ModelContextWindowExceededError):
        await bench.talk(bench.agent(capability), range(1))
    assert len(tried) == 1


async def test_another_error_is_the_agents(bench):
    bench.twin.faults("overloaded")
    with pytest.raises(ModelHTTPError, match="Overloaded"):
        await bench.talk(bench.agent(bench.capability()), range(1))
    assert len(bench.twin.ledger) == 1


@pytest.mark.parametrize("what", ["read", "prepare_async", "record_response_async"])
async def test_where_we_fail_the_agent_goes_on(bench, monkeypatch, what):
    capability = bench.capability()

    def broken(*_, **__):
        raise RuntimeError("broken on purpose")

    monkeypatch.setattr(capability.tracker, what, broken)
    messages = await bench.talk(bench.agent(capability), range(1))
    assert messages[-1].parts[-1].content != ""
    assert {type(event) for event in bench.events} == {PassedThrough}
    assert {entry["status"] for entry in bench.twin.ledger} == {200}


@pytest.mark.spec("CP-38")
async def test_a_compaction_that_the_api_refuses_is_undone_and_the_conversation_goes_on(bench):
    capability = bench.capability()
    messages = await bench.talk(bench.agent(capability), range(4))
    capability.compact()
    bench.wire.broken = 1
    messages = await bench.talk(bench.agent(capability), range(4, 5), messages)
    assert messages[-1].parts[-1].content != ""
    assert ["<session-summary>" in str(body) for body in bench.asked()].count(True) == 1
    assert [event.reason for event in bench.events if isinstance(event, CompactionNotDone)] == [
        "view_refused"
    ]
    bench.check(refusals=1)


async def test_where_our_request_is_refused_the_agents_own_is_sent(bench, monkeypatch):
    from everturn.adapters.pydantic_ai import call

    stray = ModelRequest(parts=[ToolReturnPart("read_file", "x", "nobody's")])
    monkeypatch.setattr(call, "build_messages", lambda *_: [stray])
    messages = await bench.talk(bench.agent(bench.capability()), range(1))
    assert messages[-1].parts[-1].content != ""
    assert bench.twin.ledger[0]["status"] == 400
    assert any(isinstance(event, PassedThrough) for event in bench.events)
