"""Models that bind thinking to the prefix it came from (PC-16, BY-9)."""

import json

import pytest
from surfaces.desk import call, tool

READ = tool("Read", lambda given: "line of code\n" * 400)
OPUS = "claude-opus-5-5"


def thinking_of(body):
    blocks = [block for message in body["messages"] for block in message["content"]]
    return [block["thinking"] for block in blocks if block["type"] == "thinking"]


def reads(desk, session, first, times):
    """Turns in which the model thinks, reads a file, and says so."""
    for n in range(first, first + times):
        thought = {"type": "thinking", "thinking": f"Thought {n}."}
        desk.twin.script({"content": [thought, call(f"toolu_{n}", file_path=f"{n}.py")]}, f"Read {n}.")
        session.send(f"Read file {n}.")


@pytest.mark.spec("PC-16", "BY-9")
def test_clearing_removes_the_thinking_that_it_makes_invalid_and_no_request_is_refused(desk):
    with desk.open(model=OPUS, tools=[READ], thinking={"type": "adaptive"}) as session:
        reads(desk, session, 0, 8)
        before = thinking_of(desk.bodies[-1])
        desk.twin.advance(3_601)
        reads(desk, session, 8, 2)
    assert before == [f"Thought {n}." for n in range(8)]
    after = thinking_of(desk.bodies[-1])
    cleared = json.dumps(desk.bodies[-1]).count("[Old tool result content cleared]")
    assert cleared > 0
    # What came behind the first cleared result is bound to bytes that are no longer sent.
    assert [thought for thought in after if thought in before[1:]] == []
    assert after[-2:] == ["Thought 8.", "Thought 9."]
    assert {entry["status"] for entry in desk.twin.ledger} == {200}


@pytest.mark.spec("PC-16")
def test_a_compaction_is_followed_by_requests_that_are_accepted(desk):
    with desk.open(model=OPUS, tools=[READ], thinking={"type": "adaptive"}) as session:
        reads(desk, session, 0, 4)
        middle = desk.lines()[8]["uuid"]
        session.compact(up_to=middle)
        reads(desk, session, 4, 2)
    assert len(desk.heard("CompactionDone")) == 1
    assert {entry["status"] for entry in desk.twin.ledger} == {200}
