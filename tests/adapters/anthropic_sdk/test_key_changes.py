"""A system prompt or a list of tools that changes with every request is told (CB-3)."""

import logging

import msgspec
import pytest

from everturn.adapters.tracking import ConversationTracker, make_parts
from everturn.decide.events import KeyChangesRepeated
from everturn.twin.upstream import make_twin_send

RULES = {"type": "text", "text": "You maintain a feed parser. " * 400}
TOOLS = [
    {"name": name, "description": f"{name} does a thing. " * 200, "input_schema": {"type": "object"}}
    for name in ("read", "write", "list")
]
LINES = "A long log line. " * 300
pytestmark = pytest.mark.moves_cache_prefix(reason="the system prompt or the tools are changed on purpose")


def talk(bench, system=lambda number: [RULES], tools=lambda number: TOOLS, calls=12, **more):
    history = []
    for number in range(calls):
        head = {"system": system(number), "tools": tools(number)}
        history = bench.talk(history, f"Entry {number}: {LINES}", **head, **more)
    bench.check()
    return [event for event in bench.events if isinstance(event, KeyChangesRepeated)]


def clock(number):
    return [RULES, {"type": "text", "text": f"It is {number} o'clock."}]


def turning(number):
    return TOOLS[number % 3 :] + TOOLS[: number % 3]


@pytest.mark.spec("CB-3")
@pytest.mark.parametrize(
    ("head", "parts", "what"),
    [
        ({"system": clock}, ("system",), "block 2 of 2 of the system prompt"),
        ({"tools": turning}, ("tools",), "the order of the tools, from 'read' at position 1 on"),
    ],
)
def test_a_head_that_changes_with_each_request_is_told_once_with_what_it_costs(
    benches, caplog, twin, head, parts, what
):
    steady = benches(folder_name="steady")
    # Other words of the same length: it must not leave anything in the cache for the next one.
    assert talk(steady, system=lambda number: [{**RULES, "text": RULES["text"].swapcase()}]) == []
    least = sum(entry["dollars"] for entry in twin.ledger)
    bench = benches(folder_name="changing")
    with caplog.at_level(logging.WARNING, "everturn"):
        [event] = talk(bench, **head)
    assert (event.changed, event.calls, event.parts, event.what) == (3, 4, parts, what)
    [line] = [record.getMessage() for record in caplog.records if "cache key" in record.getMessage()]
    assert what in line
    [note], [conversation] = bench.middleware.bill.notes, bench.middleware.conversations
    assert conversation.bill.notes == (note,)
    assert note.startswith("11 of 12 calls of one conversation")
    paid = sum(entry["dollars"] for entry in twin.ledger) - least
    told = float(note.partition("$")[2].partition(" ")[0])
    assert told == pytest.approx(paid - least, rel=0.15)
    assert "o'clock" not in note


@pytest.mark.spec("CB-3")
def test_a_head_that_changes_now_and_then_is_not_told(bench):
    assert talk(bench, system=lambda number: clock(number // 6)) == []


@pytest.mark.spec("CB-3")
def test_requests_that_alternate_between_two_models_are_not_told(bench):
    history = []
    for number in range(10):
        model = ("claude-opus-4-5", "claude-sonnet-4-6")[number % 2]
        history = bench.talk(history, f"Entry {number}: {LINES}", system=[RULES], model=model)
    assert [event for event in bench.events if isinstance(event, KeyChangesRepeated)] == []


@pytest.mark.spec("CB-3")
def test_observed_requests_are_told_too(twin):
    heard, send, history = [], make_twin_send(twin.twin), []
    tracker = ConversationTracker(make_parts(None, folder=None, config=None, listen=heard.append))
    for number in range(6):
        history.append({"role": "user", "content": f"Entry {number}: {LINES}"})
        body = {
            "model": "claude-haiku-4-5",
            "max_tokens": 300,
            "cache_control": {"type": "ephemeral"},
            "system": clock(number),
            "messages": history,
        }
        call = tracker.prepare(tracker.read(body, observe=True), send)
        answer = send(msgspec.json.encode(body), ())
        tracker.record_response(call, answer)
        history = [*history, {"role": "assistant", "content": msgspec.json.decode(answer.body)["content"]}]
    assert [type(event) for event in heard] == [KeyChangesRepeated]
    assert len(tracker.bill.notes) == 1
