"""What a program can ask the middleware to do with a conversation, and what a failing provider changes."""

import json
import logging

import anthropic
import pytest

from everturn import UsageError
from everturn.decide.compact.values import CompactionSkipped
from everturn.decide.events import TranscriptDamaged
from everturn.history.edits import Undone

LOG = "A long log line. " * 700
ENTRIES = [f"Entry {number}: {LOG}" for number in range(5)]


def words(body):
    return json.dumps(body["messages"])


@pytest.mark.spec("CP-39")
def test_a_compaction_can_be_asked_for_and_undone(bench):
    messages = bench.talk([], *ENTRIES)
    bench.middleware.compact("Keep the numbers of the entries.")
    messages = bench.talk(messages, "And now?")
    (held,) = bench.middleware.conversations
    assert held.compactions == 1
    assert ENTRIES[0] not in words(bench.sent[-1])
    undone = bench.middleware.undo()
    assert isinstance(undone, Undone)
    bench.talk(messages, "And then?")
    assert ENTRIES[0] in words(bench.sent[-1])
    bench.check()


@pytest.mark.spec("CP-39")
@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, "A compaction would enlarge the context"),
        ({"compact": {"enabled": False}}, "this conversation is never compacted"),
    ],
    ids=["too small", "switched off"],
)
def test_a_compaction_that_was_asked_for_and_cannot_be_made_says_why(benches, caplog, options, why):
    bench = benches(**options)
    messages = bench.talk([], "Hello.")
    bench.middleware.compact()
    with caplog.at_level(logging.WARNING, "everturn"):
        messages = bench.talk(messages, "And now?")
        bench.talk(messages, "And then?")
    (said,) = (record.getMessage() for record in caplog.records)
    assert said.startswith("everturn: the compaction that was asked for was not made: ")
    assert why in said
    bench.check()


@pytest.mark.spec("CP-39")
def test_a_compaction_that_was_asked_for_is_made_for_the_question_that_replaces_an_unanswered_one(bench):
    messages = bench.talk([], *ENTRIES)
    bench.twin.faults("overloaded")
    with pytest.raises(anthropic.APIStatusError):
        bench.client.with_options(max_retries=0).messages.create(
            model="claude-haiku-4-5",
            max_tokens=500,
            messages=[*messages, {"role": "user", "content": "This?"}],
        )
    bench.middleware.compact()
    bench.talk(messages, "Or that?")
    assert bench.middleware.conversations[-1].compactions == 1
    assert ENTRIES[0] not in words(bench.sent[-1])
    bench.check()


@pytest.mark.spec("PC-16", "CP-38")
@pytest.mark.parametrize("restarts", [False, True])
def test_an_undo_after_a_change_of_tools_brings_back_no_thinking_that_the_api_refuses(bench, restarts):
    """On models that bind thinking to everything before it, tools included."""
    tools = [{"name": name, "description": "Reads.", "input_schema": {"type": "object"}} for name in "ab"]
    how = {"model": "claude-opus-5-5", "max_tokens": 3_000, "thinking": {"type": "adaptive"}}
    thinks = [{"type": "thinking", "thinking": "Let me see. "}, {"type": "text", "text": "I see. " * 40}]
    bench.twin.script(*[{"content": thinks}] * 4)
    messages = bench.talk([], *ENTRIES[:4], tools=tools, **how)
    bench.twin.script("<summary>1. Four entries of a log were looked at.</summary>", "I see.")
    bench.middleware.compact()
    messages = bench.talk(messages, "What was it?", tools=tools, **how)
    bench.twin.script(*[{"content": thinks}] * 3)
    messages = bench.talk(messages, "And now?", tools=tools[:1], **how)
    if restarts:
        bench.restart()
        messages = bench.talk(messages, "And here?", tools=tools[:1], **how)
    assert isinstance(bench.middleware.undo(), Undone)
    bench.talk(messages, "And then?", tools=tools[:1], **how)
    assert ENTRIES[0] in words(bench.sent[-1])
    bench.check()


def test_without_a_compaction_there_is_nothing_to_undo(bench):
    bench.talk([], "Hello.")
    assert isinstance(bench.middleware.undo(), CompactionSkipped)


def test_a_pinned_text_is_in_every_later_summary(bench):
    messages = bench.talk([], *ENTRIES)
    bench.middleware.pin("The deadline is Friday at noon.")
    for _ in range(2):
        bench.middleware.compact()
        messages = bench.talk(messages, "And now?", "And then?")
        assert "The deadline is Friday at noon." in words(bench.sent[-1])
    with pytest.raises(UsageError, match="No text to pin"):
        bench.middleware.pin(" ")
    bench.check()


def test_a_rewind_gives_the_messages_to_go_on_with(bench):
    messages = bench.talk([], "Look at the parser.", "Explain it.", "Change it.")
    last = bench.middleware.rewind()
    assert [message["role"] for message in last] == ["user", "assistant"] * 2
    bench.talk(last, "Leave it.")
    assert "Change it." not in words(bench.sent[-1])
    (hit,) = bench.middleware.recall('"Explain it"', conversation=bench.middleware.conversations[0].id)
    first = bench.middleware.rewind(hit.record, conversation=bench.middleware.conversations[0].id)
    assert len(first) == 2
    # The conversation that was left can be continued too.
    bench.talk(messages, "Test it.")
    assert "Change it." in words(bench.sent[-1])
    with pytest.raises(UsageError, match="not a message of the caller"):
        bench.middleware.rewind("unknown")
    bench.check()


@pytest.mark.parametrize("restarts", [False, True])
def test_a_rewind_keeps_a_compaction_of_what_is_left(bench, restarts):
    messages = bench.talk([], *ENTRIES)
    bench.middleware.compact()
    messages = bench.talk(messages, "One.", "Two.")
    left = bench.middleware.rewind()
    if restarts:
        bench.restart()
    bench.talk(left, "Three.")
    assert [event for event in bench.events if isinstance(event, TranscriptDamaged)] == []
    assert ENTRIES[0] not in words(bench.sent[-1])
    assert "Two." not in words(bench.sent[-1])
    bench.check()


def recall_call(query, name="toolu_recall_1"):
    return {"content": [{"type": "tool_use", "id": name, "name": "recall", "input": {"query": query}}]}


def test_the_recall_tool_answers_from_the_conversation_that_called_it(bench):
    tool = bench.middleware.recall_tool
    request = {"tools": [tool.definition]}
    messages = bench.talk([], "The code word is Otto.", **request)
    bench.talk([], "The code word is Emma.", system="Another agent.", **request)
    bench.twin.script(recall_call("code word"))
    messages = [*messages, {"role": "user", "content": "What was the code word?"}]
    (call,) = bench.ask(messages, **request).content
    answer = tool.run(call.input)
    assert "Otto" in answer
    assert "Emma" not in answer


def test_of_two_equal_calls_only_the_one_that_is_named_is_answered(bench):
    request = {"tools": [bench.middleware.recall_tool.definition]}
    for name, number in (("Otto", 1), ("Emma", 2)):
        bench.twin.script(recall_call("code word", f"toolu_recall_{number}"))
        bench.ask([{"role": "user", "content": f"The code word is {name}."}], **request)
    given = {"query": "code word"}
    assert "belongs to no conversation" in bench.middleware.recall_tool.run(given)
    answers = [bench.middleware.answer_recall(given, f"toolu_recall_{number}") for number in (1, 2)]
    assert ["Otto" in answers[0], "Emma" in answers[1], "Emma" in answers[0]] == [True, True, False]


def test_without_a_transcript_recall_says_what_it_needs(benches, twin):
    bench = benches(store={"kind": "memory"})
    bench.twin.script(recall_call("code word"))
    bench.ask([{"role": "user", "content": "Look."}], tools=[bench.middleware.recall_tool.definition])
    assert "needs a transcript on disk" in bench.middleware.recall_tool.run({"query": "code word"})


# ── a provider that fails for a moment ───────────────────────────────────────────────────────────


@pytest.mark.spec("CP-39")
@pytest.mark.parametrize(
    "fault",
    [
        "overloaded",
        "rate_limit",
        "server_error",
        {"kind": "overloaded", "times": 3},
        {"kind": "timeout", "hangs_up": True},
    ],
    ids=str,
)
def test_a_summary_is_asked_for_again_before_another_strategy_is_tried(benches, fault):
    bench = benches(window=60_000)
    messages = bench.talk([], *ENTRIES)
    bench.middleware.compact()
    bench.twin.faults(fault)
    before = len(bench.twin.ledger)
    bench.talk(messages, "And now?")
    # The summary and the reply; a fork reads the conversation from the cache.
    summary, _ = [entry for entry in bench.twin.ledger[before:] if entry["status"] == 200][-2:]
    assert summary["usage"]["cache_read_input_tokens"] > 10_000
    assert bench.middleware.conversations[0].compactions == 1


def test_the_retries_of_a_summary_are_not_those_of_the_caller(benches):
    """A client without retries, and a provider that fails twice: the summary arrives, then the reply."""
    bench = benches(window=60_000)
    messages = bench.talk([], *ENTRIES)
    bench.middleware.compact()
    bench.twin.faults({"kind": "overloaded", "times": 2})
    client = bench.client.with_options(max_retries=0)
    asked = [*messages, {"role": "user", "content": "And now?"}]
    client.messages.create(model="claude-haiku-4-5", max_tokens=500, messages=asked)
    assert bench.middleware.conversations[0].compactions == 1


def test_a_provider_that_stays_away_ends_the_retries(benches):
    bench = benches(window=60_000)
    messages = bench.talk([], *ENTRIES)
    bench.middleware.compact()
    bench.twin.faults({"kind": "overloaded", "times": 10})
    before = len(bench.twin.ledger)
    bench.talk(messages, "And now?")
    assert bench.middleware.conversations[0].compactions == 1
    # Five requests of a fork and five of a separate call; then a summary without a model.
    assert [entry["status"] for entry in bench.twin.ledger[before:]] == [529] * 10 + [200]


@pytest.mark.spec("TOK-15")
def test_beyond_the_blocking_limit_requests_are_sent_and_the_refusal_is_the_apis(benches):
    bench, history = benches(**{"thresholds.auto_compaction": False, "window": 40_000}), []
    entry = "A long log line. " * 6_000
    for number in range(6):
        history = bench.talk(history, f"Entry {number}: {entry}")
    history = [*history, {"role": "user", "content": f"Entry 6: {entry}"}]
    with pytest.raises(anthropic.BadRequestError, match="prompt is too long"):
        bench.ask(history)
    conversation = bench.middleware.conversations[0]
    assert conversation.tokens > bench.middleware.tracker.find().runner.conversation.thresholds.blocking
    assert conversation.compactions == 0
    bench.middleware.compact()
    bench.ask(history)
    assert bench.middleware.conversations[-1].compactions == 1
    bench.check()
