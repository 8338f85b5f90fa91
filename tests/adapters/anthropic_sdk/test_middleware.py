"""A caller that knows nothing of us: what leaves, what is recorded, and what it never notices."""

import asyncio
import json
import logging
import os
import stat

import anthropic
import httpx2
import msgspec
import pytest

import everturn
from everturn.adapters.tracking import PassedThrough
from everturn.decide.events import CompactionDone
from everturn.errors import UsageError
from everturn.history.records import Record
from everturn.wire.claude_code_reader import parse_session_file

LONG = "A long log line, as agents see them. " * 2000
SYSTEM = "You are terse. " * 2000


HAIKU = "claude-haiku-4-5"


def user(text):
    return {"role": "user", "content": text}


def records_of(bench, at=0) -> list[Record]:
    return list(parse_session_file((bench.folder / bench.transcripts[at]).read_bytes()).records)


def words(messages):
    """What is said in messages, markers and spelling aside."""
    plain = json.loads(json.dumps(messages, default=lambda each: each.to_dict()))
    return [(each["role"], _texts(each["content"])) for each in plain]


def _texts(content):
    return [content] if isinstance(content, str) else [block.get("text") for block in content]


def test_what_the_caller_says_is_what_is_sent(bench):
    messages = bench.talk([], "One?", "Two?", system=SYSTEM)
    assert words(bench.sent[1]["messages"]) == words(messages[:3])
    assert bench.sent[1]["system"][0]["text"] == SYSTEM
    read_again = bench.twin.ledger[1]["usage"]["cache_read_input_tokens"]
    assert read_again > 0
    bench.check()


def test_everything_beside_the_messages_passes_untouched(bench):
    tools = [{"name": name, "input_schema": {"type": "object"}} for name in ("b", "a")]
    more = {"metadata": {"user_id": "u-1"}, "stop_sequences": ["END"], "service_tier": "auto"}
    more |= {"tool_choice": {"type": "none"}, "max_tokens": 77}
    bench.ask([user("Hello.")], tools=tools, **more)
    (sent,) = bench.sent
    assert [{**tool, "cache_control": 0} for tool in sent.pop("tools")] == [
        {**tool, "cache_control": 0} for tool in tools
    ]
    del sent["messages"]
    assert sent == {**more, "model": HAIKU}
    bench.check()


def test_a_conversation_goes_on_beyond_its_window(bench):
    messages = bench.talk([], *(f"Question {n}: {LONG}" for n in range(14)), system=SYSTEM)
    assert len(messages) == 28
    (held,) = bench.middleware.conversations
    assert (held.messages, held.compactions) == (28, 2)
    assert held.tokens < held.window
    assert len(bench.sent[-1]["messages"]) < 28
    assert bench.middleware.bill.parts["compact"].calls == 2
    spent = sum(entry["dollars"] for entry in bench.twin.ledger)
    assert float(bench.middleware.bill.dollars) == pytest.approx(spent)
    bench.check()


def test_streams_pass_as_they_come_and_are_recorded_at_their_end(bench):
    bench.twin.script("One two three four five six seven.")
    seen = []
    with bench.client.messages.stream(model=HAIKU, max_tokens=99, messages=[user("Count.")]) as stream:
        for text in stream.text_stream:
            seen.append(len(records_of(bench)))
            assert text
        final = stream.get_final_message()
    assert set(seen) == {1}
    (_, reply) = records_of(bench)
    (block,) = reply.blocks
    assert msgspec.json.decode(block.raw) == {"type": "text", "text": final.content[0].text}
    assert (reply.reply.message_id, reply.reply.usage.output_tokens) == (final.id, final.usage.output_tokens)
    bench.check()


def test_an_abandoned_stream_leaves_nothing_and_the_next_request_tells(bench):
    bench.twin.script("One two three four five six seven.", "Go on.")
    with bench.client.messages.stream(model=HAIKU, max_tokens=99, messages=[user("Count.")]) as stream:
        heard = next(iter(stream.text_stream))
    bench.ask([user("Count."), {"role": "assistant", "content": heard.strip()}, user("Stop.")])
    kinds = [record.kind for record in records_of(bench)]
    assert kinds == ["user", "assistant", "user", "assistant"]
    assert len(bench.middleware.conversations) == 1
    bench.check()


@pytest.mark.parametrize("is_async", [False, True])
async def test_an_abandoned_stream_is_in_the_bill_when_it_is_closed(bench, is_async):
    more = {"model": HAIKU, "max_tokens": 99, "messages": [user("Count. " * 500)], "stream": True}
    if is_async:
        stream = await bench.async_client.messages.create(**more)
        started = await anext(aiter(stream))
        await stream.close()
    else:
        stream = bench.client.messages.create(**more)
        started = next(iter(stream))
        stream.close()
    (conversation,) = bench.middleware.conversations
    usage, total = started.message.usage, bench.middleware.bill.total
    assert (total.calls, total.input + total.written, total.output) == (
        1,
        usage.input_tokens + usage.cache_creation_input_tokens,
        usage.output_tokens,
    )
    assert conversation.bill.total == total
    bench.check()


def test_a_stream_that_is_cut_records_nothing(bench):
    bench.twin.faults({"kind": "cut_stream", "after_events": 5})
    with (
        pytest.raises((anthropic.APIError, httpx2.HTTPError)),
        bench.client.messages.stream(model=HAIKU, max_tokens=99, messages=[user("Hello.")]) as stream,
    ):
        stream.until_done()
    assert [record.kind for record in records_of(bench)] == ["user"]
    bench.ask([user("Hello.")])
    assert [record.kind for record in records_of(bench)] == ["user", "assistant"]
    assert bench.sent[1] == {key: value for key, value in bench.sent[0].items() if key != "stream"} | {
        "max_tokens": 500
    }
    bench.check()


def test_raw_and_streaming_responses_are_heard_too(bench):
    asked = {"model": HAIKU, "max_tokens": 99}
    raw = bench.client.messages.with_raw_response.create(messages=[user("Raw.")], **asked)
    assert raw.parse().content
    with bench.client.messages.with_streaming_response.create(messages=[user("Slow.")], **asked) as response:
        assert [len(records_of(bench, at)) for at in (0, 1)].count(1) == 1
        assert response.parse().content
    assert [len(records_of(bench, at)) for at in (0, 1)] == [2, 2]
    bench.check()


@pytest.mark.parametrize(
    "fault", ["rate_limit", "overloaded", "server_error", {"kind": "timeout", "hangs_up": True}], ids=str
)
def test_a_retry_sends_the_same_bytes_and_records_once(bench, fault):
    messages = bench.talk([], "One?", system=SYSTEM)
    bench.twin.faults(fault)
    bench.twin.advance(7200)
    bench.talk(messages, "Two?", system=SYSTEM)
    assert len(bench.sent) == 3
    assert bench.sent[1] == bench.sent[2]
    assert [record.kind for record in records_of(bench)] == ["user", "assistant", "user", "assistant"]
    bench.check()


def test_a_retry_hours_later_sends_the_same_bytes(bench):
    tools = [{"name": "Read", "input_schema": {"type": "object"}}]
    messages = [user("Look.")]
    for n in range(8):
        bench.twin.script(
            {"content": [{"type": "tool_use", "id": f"toolu_{n}", "name": "Read", "input": {}}]}
        )
        reply = bench.ask(messages, tools=tools)
        result = {"type": "tool_result", "tool_use_id": f"toolu_{n}", "content": "x " * 4000}
        messages += [{"role": "assistant", "content": reply.content}, {"role": "user", "content": [result]}]
    bench.twin.faults({"kind": "overloaded", "times": 3})
    with pytest.raises(anthropic.APIStatusError):
        bench.ask(messages, tools=tools)
    first = bench.sent[-1]
    bench.twin.advance(7200)
    bench.ask(messages, tools=tools)
    assert bench.sent[-1] == first
    bench.check()


def test_too_long_is_withheld_while_one_compaction_makes_room(bench):
    messages = bench.talk([], *(f"Question {n}: {LONG}" for n in range(4)))
    for vendor in ("anthropic", "bedrock", "vertex"):
        bench.twin.faults({"kind": "prompt_too_long", "vendor": vendor, "tokens": 210_000, "limit": 200_000})
        before = len(bench.sent)
        messages = bench.talk(messages, f"And now, {vendor}? {LONG}")
        assert len(bench.sent) - before == 3
        assert len(bench.sent[-1]["messages"]) < len(bench.sent[before]["messages"])
    bench.check()


def test_the_second_refusal_is_the_callers(bench):
    messages = bench.talk([], *(f"Question {n}: {LONG}" for n in range(4)))
    bench.twin.faults({"kind": "prompt_too_long"}, {"kind": "prompt_too_long", "after": 1})
    with pytest.raises(anthropic.BadRequestError, match="too long"):
        bench.talk(messages, "And now?")
    assert bench.middleware.conversations[0].compactions == 1


def test_a_summary_is_not_limited_by_what_limits_the_callers_answers(bench):
    messages = bench.talk([], *(f"Question {n}: {LONG}" for n in range(4)))
    bench.twin.faults({"kind": "prompt_too_long"})
    bench.talk(messages, "And now?", max_tokens=10, stop_sequences=["the"])
    summary = bench.sent[-2]
    assert (summary["max_tokens"], "stop_sequences" in summary, "stream" in summary) == (16_000, False, False)
    assert (bench.sent[-1]["max_tokens"], bench.sent[-1]["stop_sequences"]) == (10, ["the"])


# ── which conversation ───────────────────────────────────────────────────────────────────────────


def test_a_regeneration_is_a_fork_that_sends_what_its_parent_sent(bench):
    bench.twin.script("Hi.", "First.", "Second.", "Yes.")
    messages = bench.talk([], "One?", "Two?", system=SYSTEM)
    again = bench.talk(messages[:2], "Two?", system=SYSTEM)
    assert bench.sent[2] == bench.sent[1]
    assert len(bench.transcripts) == 2
    bench.talk(again, "Is that so?", system=SYSTEM)
    assert words(bench.sent[3]["messages"]) == words([*again, user("Is that so?")])
    bench.check()


@pytest.mark.parametrize("back", [1, 2, 3])
def test_a_rewind_is_a_fork(bench, back):
    messages = bench.talk([], "One?", "Two?", "Three?", "Four?")
    other = bench.talk(messages[: -2 * back], "Something else?")
    assert words(bench.sent[-1]["messages"]) == words(other[:-1])
    bench.talk(messages, "And five?")
    assert words(bench.sent[-1]["messages"]) == words([*messages, user("And five?")])
    assert len(bench.middleware.conversations) == 2
    bench.check()


def test_edited_history_is_sent_as_edited(bench):
    messages = bench.talk([], "One?", "Two?", "Three?")
    edited = [*messages[:2], user("Two, really?"), *messages[3:]]
    bench.talk(edited, "Four?")
    assert words(bench.sent[-1]["messages"]) == words([*edited, user("Four?")])
    rewritten = [messages[0], {"role": "assistant", "content": "I never said that."}, *messages[2:]]
    bench.talk(rewritten, "Four?")
    assert words(bench.sent[-1]["messages"]) == words([*rewritten, user("Four?")])
    bench.check()


def test_a_fork_of_a_compacted_conversation_is_compacted_too(bench):
    messages = bench.talk([], *(f"Question {n}: {LONG}" for n in range(14)))
    assert bench.middleware.conversations[0].compactions == 1
    sent = len(bench.sent[-1]["messages"])
    bench.talk(messages[:-2], "Something else?")
    assert len(bench.sent[-1]["messages"]) == sent
    bench.check()


def test_a_rewind_to_before_a_compaction_sees_what_was_there(bench):
    messages = bench.talk([], *(f"Question {n}: {LONG}" for n in range(14)))
    bench.talk(messages[:6], "Something else?")
    assert words(bench.sent[-1]["messages"]) == words([*messages[:6], user("Something else?")])
    bench.check()


def test_a_caller_that_trims_its_own_list_begins_anew(bench):
    messages = bench.talk([], "One?", "Two?", "Three?")
    bench.talk(messages[2:], "Four?")
    assert words(bench.sent[-1]["messages"]) == words([*messages[2:], user("Four?")])
    bench.check()


def test_two_sub_agents_with_the_same_task_are_not_mixed_up(bench):
    agents = {}
    for name in ("reviewer", "tester", "reviewer"):
        agents[name] = bench.talk(agents.get(name, []), "Look at the parser.", system=f"You are the {name}.")
    for name in ("tester", "reviewer"):
        agents[name] = bench.talk(agents[name], "And now?", system=f"You are the {name}.")
        assert bench.sent[-1]["system"][0]["text"] == f"You are the {name}."
        assert words(bench.sent[-1]["messages"]) == words(agents[name][:-1])
    assert len(bench.middleware.conversations) == 2
    bench.check()


def test_another_system_prompt_and_other_tools_are_the_same_conversation(bench):
    messages = bench.talk([], "One?", system="Today is Monday.")
    tools = [{"name": "read", "input_schema": {"type": "object"}}]
    bench.talk(messages, "Two?", system="Today is Tuesday.", tools=tools)
    assert bench.sent[-1]["system"][0]["text"] == "Today is Tuesday."
    assert len(bench.middleware.conversations) == 1
    bench.check()


def test_another_model_in_the_middle_of_a_tool_loop_is_sent_at_once(bench):
    tools = [{"name": "read", "input_schema": {"type": "object"}}]
    bench.twin.script(
        {
            "content": [
                {"type": "thinking", "thinking": "Hm."},
                {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}},
            ]
        }
    )
    messages = [user("Look.")]
    reply = bench.ask(messages, tools=tools, model="claude-opus-4-6", thinking={"type": "adaptive"})
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "x"}
    messages += [{"role": "assistant", "content": reply.content}, {"role": "user", "content": [result]}]
    bench.ask(messages, tools=tools, model="claude-sonnet-4-6", thinking={"type": "disabled"})
    assert (bench.sent[-1]["model"], bench.sent[-1]["thinking"]) == (
        "claude-sonnet-4-6",
        {"type": "disabled"},
    )
    bench.check()


async def test_twenty_conversations_at_once_stay_apart(bench):
    async def hold(number):
        messages = []
        for turn in range(3):
            messages.append(user(f"Question {turn} of {number if turn else 'all'}?"))
            reply = await bench.async_client.messages.create(model=HAIKU, max_tokens=99, messages=messages)
            messages.append({"role": "assistant", "content": reply.content})
        return messages

    held = await asyncio.gather(*map(hold, range(20)))
    asked = [words(body["messages"]) for body in bench.sent]
    for messages in held:
        assert words(messages[:5]) in asked
    assert len(bench.sent) == 60
    bench.check()


async def test_the_async_client_streams_compacts_and_recovers(bench):
    messages = []
    for number in range(14):
        if number == 8:
            bench.twin.faults({"kind": "prompt_too_long", "tokens": 210_000, "limit": 200_000})
        messages.append(user(f"Question {number}: {LONG}"))
        async with bench.async_client.messages.stream(
            model=HAIKU, max_tokens=99, messages=messages
        ) as stream:
            reply = await stream.get_final_message()
        messages.append({"role": "assistant", "content": reply.content})
    (held,) = bench.middleware.conversations
    assert (held.messages, held.compactions) == (28, 2)
    bench.check()


def test_a_restart_in_the_middle_goes_on_with_the_compacted_form(bench):
    messages = bench.talk([], *(f"Question {n}: {LONG}" for n in range(14)), system=SYSTEM)
    bench.restart()
    bench.talk(messages, "And now?", system=SYSTEM)
    assert len(bench.transcripts) == 1
    assert len(bench.sent[-1]["messages"]) < len(messages)
    last, before = bench.twin.ledger[-1]["usage"], bench.twin.ledger[-2]["usage"]
    assert last["cache_read_input_tokens"] >= before["cache_read_input_tokens"]
    assert bench.middleware.conversations[0].bill.parts["compact"].calls == 2
    bench.check()


def test_conversations_out_of_memory_come_back_from_their_files(benches):
    bench = benches(most=2)
    held = [bench.talk([], f"Hello, number {n}.", "Go on.") for n in range(4)]
    assert len(bench.middleware.conversations) == 2
    for messages in held:
        bench.talk(messages, "And now?")
        assert words(bench.sent[-1]["messages"]) == words([*messages, user("And now?")])
    assert len(bench.transcripts) == 4
    bench.check()


def test_a_conversation_that_another_process_holds_goes_on_in_a_file_of_its_own(benches):
    first, second = benches(), benches()
    messages = first.talk([], "One?", "Two?")
    second.talk(messages, "Three?")
    first.talk(messages, "Or three?")
    assert len(first.transcripts) == 2
    first.check()


# ── what is in a message ─────────────────────────────────────────────────────────────────────────

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="


def test_a_caller_with_its_own_markers_gets_ours_instead(bench):
    mark = {"type": "ephemeral"}
    messages = []
    for number in range(8):
        for message in messages:
            if isinstance(message["content"], list) and message["role"] == "user":
                message["content"][0].pop("cache_control", None)
        block = {"type": "text", "text": f"Question {number}?", "cache_control": mark}
        messages.append({"role": "user", "content": [block]})
        reply = bench.ask(messages, system=[{"type": "text", "text": SYSTEM, "cache_control": mark}])
        messages.append({"role": "assistant", "content": reply.content})
    assert json.dumps(bench.sent[-1]).count("cache_control") == 2
    assert len(bench.middleware.conversations) == 1
    bench.check()


def test_markers_can_be_left_to_the_caller(benches):
    bench = benches(breakpoints="caller")
    mark = {"type": "ephemeral"}
    system = [{"type": "text", "text": SYSTEM, "cache_control": mark}]
    messages = bench.talk([], "One?", system=system)
    assert json.dumps(bench.sent[-1]).count("cache_control") == 1
    marked = {"role": "user", "content": [{"type": "text", "text": "Two?", "cache_control": mark}]}
    bench.ask([*messages, marked], system=system)
    assert bench.sent[-1]["messages"][-1] == marked
    bench.check()


@pytest.mark.parametrize("mark", [{"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"}])
def test_a_caller_that_marks_its_newest_message_keeps_its_lifetime_and_pays_for_cached_summaries(
    benches, mark
):
    bench = benches(breakpoints="caller", window=40_000)
    history = []
    for number in range(12):
        said = {"type": "text", "text": f"Entry {number}: " + "A long log line. " * 700}
        reply = bench.ask([*history, {"role": "user", "content": [{**said, "cache_control": mark}]}])
        assert bench.sent[-1]["messages"][-1]["content"][-1] == {**said, "cache_control": mark}
        history += [{"role": "user", "content": [said]}, {"role": "assistant", "content": reply.content}]
    names = [type(event).__name__ for event in bench.events]
    assert names.count("CompactionDone") > 1
    assert names.count("SummaryUncached") == 0
    bench.check()


@pytest.mark.parametrize("model", ["claude-opus-4-6", "claude-opus-5-5", "claude-fable-5-2", HAIKU])
def test_thinking_stays_valid_in_tool_loops_forks_and_restarts(bench, model):
    thinking = {"type": "enabled", "budget_tokens": 1024} if "haiku" in model else {"type": "adaptive"}
    how = {
        "model": model,
        "max_tokens": 4000,
        "thinking": thinking,
        "tools": [{"name": "read", "input_schema": {"type": "object"}}],
    }
    think = {"type": "thinking", "thinking": "Let me see."}
    messages, marks = [], []
    for number in range(4):
        call = {"type": "tool_use", "id": f"toolu_{number}", "name": "read", "input": {}}
        bench.twin.script({"content": [think, call]}, {"content": [think, {"type": "text", "text": "Done."}]})
        messages.append(user(f"Look {number}."))
        first = bench.ask(messages, **how)
        result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": "x"}
        messages += [{"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
        if number == 2:
            bench.restart()
        second = bench.ask(messages, **how)
        messages.append({"role": "assistant", "content": second.content})
        marks.append(len(messages))
    bench.ask([*messages[: marks[1]], user("Something else?")], **how)
    bench.ask([*messages[: marks[2] - 1]], **how)
    bench.ask([*messages[: marks[2]], user("A new task.")], **how, system="Another prompt.")
    bench.check()


def test_pictures_documents_and_server_tools_leave_as_they_came(bench):
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    document = {
        "type": "document",
        "source": {"type": "text", "media_type": "text/plain", "data": "Words."},
        "title": "T",
    }
    search = {"type": "web_search_20250305", "name": "web_search"}
    found = {
        "type": "web_search_result",
        "url": "https://example.org",
        "title": "E",
        "encrypted_content": "ZQ==",
    }
    said = [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "rain"}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [found]},
        {"type": "text", "text": "It rains."},
    ]
    bench.twin.script({"content": said})
    messages = [{"role": "user", "content": [picture, document, {"type": "text", "text": "What is this?"}]}]
    reply = bench.ask(messages, tools=[search])
    messages += [{"role": "assistant", "content": reply.content}, user("And?")]
    bench.ask(messages, tools=[search])
    sent = bench.sent[-1]["messages"]
    assert sent[0]["content"][:2] == [picture, document]
    assert sent[1]["content"] == said
    bench.check()


def test_a_block_of_an_unknown_kind_is_passed_on(bench):
    odd = {"type": "hologram", "data": {"z": [1, None]}}
    with pytest.raises(anthropic.BadRequestError):
        bench.ask([{"role": "user", "content": [odd]}])
    assert bench.sent[0]["messages"][0]["content"][0] | {"cache_control": 0} == odd | {"cache_control": 0}
    assert bench.sent[1]["messages"][0]["content"] == [odd]
    assert bench.events == []


def test_requests_that_are_not_ours_pass_as_they_are(bench):
    count = bench.client.messages.count_tokens(model=HAIKU, messages=[user("Hello.")])
    assert count.input_tokens > 0
    edits = {"edits": [{"type": "clear_tool_uses_20250919"}]}
    bench.client.beta.messages.create(
        model=HAIKU, max_tokens=9, messages=[user("Hello.")], context_management=edits,
        betas=["context-management-2025-06-27"],
    )  # fmt: skip
    assert bench.sent[-1] == {
        "model": HAIKU, "max_tokens": 9, "messages": [user("Hello.")], "context_management": edits
    }  # fmt: skip
    assert bench.middleware.conversations == ()


# ── when something fails ─────────────────────────────────────────────────────────────────────────


def test_if_our_code_fails_the_callers_request_goes_on(bench, monkeypatch, caplog):
    messages = bench.talk([], "One?")
    monkeypatch.setattr("everturn.engine.Conversation.turn", lambda *_: 1 / 0)
    with caplog.at_level(logging.WARNING, logger="everturn"):
        for _ in range(2):
            assert bench.ask([*messages, user("Two?")]).content
    assert words(bench.sent[-1]["messages"]) == words([*messages, user("Two?")])
    assert [type(event) for event in bench.events] == [PassedThrough, PassedThrough]
    assert len(caplog.records) == 1
    monkeypatch.undo()
    bench.talk(messages, "Three?")
    assert words(bench.sent[-1]["messages"]) == words([*messages, user("Three?")])


def test_if_a_reply_cannot_be_recorded_the_caller_has_it_all_the_same(bench, monkeypatch):
    monkeypatch.setattr(
        "everturn.session.conversation_runner.ConversationRunner.record_response", lambda *_: 1 / 0
    )
    messages = bench.talk([], "One?")
    monkeypatch.undo()
    bench.talk(messages, "Two?")
    assert words(bench.sent[-1]["messages"]) == words([*messages, user("Two?")])


def test_on_a_full_disk_the_conversation_goes_on_in_memory(bench, monkeypatch, caplog):
    messages = bench.talk([], *(f"Question {n}: {LONG}" for n in range(4)))

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("everturn.session.store.file_system.LocalFileSystem.write", full)
    with caplog.at_level(logging.WARNING, logger="everturn"):
        messages = bench.talk(messages, *(f"More {n}: {LONG}" for n in range(10)))
    assert bench.middleware.conversations[0].compactions == 1
    assert "No space left" in caplog.text
    assert len(caplog.records) == 1


def test_a_folder_that_cannot_be_made_costs_the_transcript_only(twin, tmp_path, caplog):
    (tmp_path / "file").write_text("in the way")
    middleware = everturn.middleware(folder=tmp_path / "file" / "sessions")
    client = twin.client(middleware=[middleware])
    reply = client.messages.create(model=HAIKU, max_tokens=9, messages=[user("Hello.")])
    assert reply.content
    assert middleware.conversations[0].path == ""
    assert "a transcript could not be opened" in caplog.text


def test_a_listener_that_fails_costs_nothing(benches, monkeypatch):
    bench = benches(listen=lambda _: 1 / 0)
    messages = bench.talk([], *(f"Question {n}: {LONG}" for n in range(14)))
    assert len(messages) == 28


def test_a_request_that_only_our_form_makes_invalid_is_sent_in_the_callers(bench, monkeypatch):
    messages = bench.talk([], "One?")
    monkeypatch.setattr(
        "everturn.adapters.tracking.conversation.PreparedCall.fields",
        lambda call: {"model": HAIKU, "messages": []},
    )
    assert bench.ask([*messages, user("Two?")]).content
    assert [type(event) for event in bench.events] == [PassedThrough]


# ── what people look at ──────────────────────────────────────────────────────────────────────────


def test_transcripts_are_their_owners_alone_and_open_like_any_session(bench):
    bench.talk([], "Where is the parser?", "And the lexer?")
    (name,) = bench.transcripts
    path = bench.folder / name
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(bench.folder).st_mode) == 0o700
    session = everturn.open_session(path)
    assert len(session.messages) == 4
    assert bench.middleware.conversations[0].path == str(path)


def test_what_was_said_can_be_recalled(bench):
    bench.talk([], "Where is the parser?", "And the lexer?")
    (hit,) = bench.middleware.recall('"the parser"', 1)
    assert (hit.source, hit.state) == ("user", "visible")
    with pytest.raises(UsageError, match="No conversation 'x' is in memory"):
        bench.middleware.recall("parser", conversation="x")


def test_memory_alone_writes_no_file_and_cannot_recall(twin, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    middleware = everturn.middleware(folder=None)
    client = twin.client(middleware=[middleware])
    client.messages.create(model=HAIKU, max_tokens=9, messages=[user("Hello.")])
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UsageError, match="folder"):
        middleware.recall("Hello")


def test_the_usual_folder_is_where_data_belongs(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert everturn.middleware().tracker.parts.folder == tmp_path / "everturn" / "sessions"
    monkeypatch.setenv("XDG_DATA_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert everturn.middleware().tracker.parts.folder == tmp_path / ".local/share/everturn/sessions"


def test_the_argument_summary_model_overrides_the_option():
    given = everturn.middleware(folder=None, summary_model="one", compact={"summary_model": "other"})
    assert given.tracker.parts.options.compact.summary_model == "one"


def test_an_option_that_is_none_gets_a_sentence():
    with pytest.raises(UsageError, match="listens"):
        everturn.middleware(folder=None, listens=print)
    with pytest.raises(UsageError, match="claude-code"):
        everturn.middleware("claude-cod", folder=None)


def test_garbage_that_is_answered_with_200_is_the_providers_fault_and_forgets_nothing(bench):
    history = bench.talk([], "Look at the parser. " * 1_500, "And now?")
    bench.twin.faults("garbage")
    asked = [*history, {"role": "user", "content": "Once more?"}]
    with pytest.raises((anthropic.APIError, ValueError)):
        bench.ask(asked)
    (event,) = [event for event in bench.events if isinstance(event, PassedThrough)]
    assert event.why == "the provider's answer could not be read and is not recorded"
    bench.ask(asked)
    assert bench.sent[-1] == bench.sent[-2]
    assert len(bench.middleware.conversations) == 1
    assert bench.twin.ledger[-1]["usage"]["cache_read_input_tokens"] > 0


@pytest.mark.spec("CP-9")
@pytest.mark.parametrize(
    ("rounds", "first"),
    [(300, (200, "model_context_window_exceeded")), (320, (400, None)), (340, (400, None))],
)
def test_a_summary_that_has_no_room_is_asked_of_a_shorter_request(bench, rounds, first):
    """The words are more tokens than they are estimated at, and nobody has counted this list yet."""
    said = []
    for number in range(rounds):
        words = f"Entry {number}: " + "and this is why it matters so much. " * 60
        said += [user(words), {"role": "assistant", "content": f"Noted {number}."}]
    bench.ask([*said, user("What next?")])
    ends = [(entry["status"], entry["stop_reason"]) for entry in bench.twin.ledger]
    assert ends == [first, (200, "end_turn"), (200, "end_turn")]
    (done,) = [event for event in bench.events if isinstance(event, CompactionDone)]
    billed = sum(entry["usage"]["input_tokens"] for entry in bench.twin.ledger[:-1])
    assert (done.way, done.usage.input_tokens) == ("direct", billed)
