"""A compaction between a call and its result keeps the question, the call and its thinking (CP-37)."""

import os
from typing import Any

import pytest
from surfaces.desk import HAIKU, SUMMARY, Desk, Json, call, result, text, tool, words
from surfaces.random_compactions import drop_replies

import everturn

QUESTION = "Delete only the blue one."
CALL = call("toolu_x", file_path="list.txt")
RESULT = result("toolu_x", "There are a blue and a red one.")
THOUGHT = {"type": "thinking", "thinking": "Which are there?"}
MODES: dict[str, Json] = {
    "no thinking": {"model": HAIKU},
    "demanded thinking": {
        "model": "claude-opus-4-5",
        "max_tokens": 4_000,
        "thinking": {"type": "enabled", "budget_tokens": 2_000},
    },
    "bound thinking": {"model": "claude-opus-5-5", "thinking": {"type": "adaptive"}},
}
STRATEGIES = [("fork",), ("direct",), ("extractive",), ("provider", "extractive"), ("notes", "extractive")]


def behind_the_summary(body: Json) -> list[Json]:
    """The messages of a request without breakpoints, thinking and what a compaction tells."""
    found: list[Json] = []
    for message in body["messages"]:
        blocks = [
            {name: value for name, value in block.items() if name != "cache_control"}
            for block in message["content"]
            if block["type"] != "thinking"
            and not block.get("text", "").startswith(("<system-reminder>", "This session continues"))
        ]
        found.append({"role": message["role"], "content": blocks})
    return found


def ask(desk: Desk, session: Any, mode: str) -> Any:
    """The question, which the model answers with a call that the program runs itself."""
    desk.talk(session, turns=8)
    thought = [] if mode == "no thinking" else [THOUGHT]
    desk.twin.script({"content": [*thought, CALL]})
    return session.send(QUESTION)


@pytest.mark.spec("CP-37")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("ways", STRATEGIES, ids="-".join)
def test_a_question_stays_with_a_call_that_waits_for_its_result(desk, ways, mode):
    with desk.open(tools=[tool("Read")], ways=ways, **MODES[mode]) as session:
        reply = ask(desk, session, mode)
        drop_replies(desk.twin)
        desk.twin.script(SUMMARY)
        made = session.compact()
        drop_replies(desk.twin)
        desk.twin.script("The blue one is gone.")
        session.send([RESULT])
    assert [each.id for each in reply.calls] == ["toolu_x"]
    assert isinstance(made, everturn.Compaction)
    assert behind_the_summary(desk.bodies[-1])[-3:] == [
        {"role": "user", "content": [text(QUESTION)]},
        {"role": "assistant", "content": [CALL]},
        {"role": "user", "content": [RESULT]},
    ]
    assert "extractive" in ways or "fixed by waiting for the token" in words(desk.bodies[-1])
    # Bound thinking is not valid behind a summary; where thinking is demanded, the loop has to begin with it.
    begins = desk.bodies[-1]["messages"][-2]["content"][0]
    assert (begins["type"] == "thinking") is (mode == "demanded thinking")
    assert {entry["status"] for entry in desk.twin.ledger} == {200}


@pytest.mark.spec("CP-37")
def test_a_tool_that_compacts_its_session_gets_its_result_to_the_call_and_the_question(desk):
    made: list[Any] = []

    def run(given: Json) -> str:
        drop_replies(desk.twin)
        desk.twin.script(SUMMARY, "The blue one is gone.")
        made.append(session.compact())
        return "There are a blue and a red one."

    with desk.open(tools=[tool("Read", run)], ways=("direct",)) as session:
        ask(desk, session, "no thinking")
    assert [type(each) for each in made] == [everturn.Compaction]
    assert behind_the_summary(desk.bodies[-1])[-3:] == [
        {"role": "user", "content": [text(QUESTION)]},
        {"role": "assistant", "content": [CALL]},
        {"role": "user", "content": [RESULT]},
    ]


def die_within_a_tool(desk: Desk) -> None:
    """Another process asks the question, and ends while its tool runs."""
    if (child := os.fork()) == 0:
        try:
            ask(desk, desk.open(tools=[tool("Read", lambda given: os._exit(0))]), "no thinking")
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.spec("CP-37")
def test_a_question_whose_tool_died_with_its_process_is_kept_until_something_new_is_said(desk):
    die_within_a_tool(desk)
    with desk.open(tools=[tool("Read")], ways=("direct",)) as session:
        for _ in range(2):
            # The second compaction follows new words and their answer: nothing waits any more.
            desk.twin.script(SUMMARY)
            assert isinstance(session.compact(), everturn.Compaction)
            drop_replies(desk.twin)
            desk.twin.script("The red one is left. " * 200)
            session.send("What is left? " + "Look closely. " * 200)
    first, second = (words(body) for body in (desk.bodies[-3], desk.bodies[-1]))
    assert (QUESTION in first, QUESTION in second) == (True, False)
    assert {entry["status"] for entry in desk.twin.ledger} == {200}


@pytest.mark.spec("CP-37")
def test_a_call_to_the_first_message_of_a_session_leaves_nothing_to_summarize(desk):
    with desk.open(tools=[tool("Read")]) as session:
        desk.twin.script({"content": [CALL]}, "The blue one is gone.")
        session.send(QUESTION)
        made = session.compact()
        session.send([RESULT])
    assert isinstance(made, everturn.CompactionSkipped)
    assert made.why.startswith("There is nothing to summarize: all of the ")
    assert behind_the_summary(desk.bodies[-1]) == [
        {"role": "user", "content": [text(QUESTION)]},
        {"role": "assistant", "content": [CALL]},
        {"role": "user", "content": [RESULT]},
    ]


@pytest.mark.spec("CP-37")
def test_a_compaction_from_a_message_on_does_not_summarize_a_call_that_waits(desk):
    with desk.open(tools=[tool("Read")]) as session:
        ask(desk, session, "no thinking")
        records = session.conversation.log.view.records
        made = session.compact(from_=records[2].uuid)
    assert isinstance(made, everturn.CompactionSkipped)
    assert made.why.startswith("A compaction from a message on would summarize the newest message")


@pytest.mark.spec("CP-37")
def test_a_call_is_kept_where_its_question_is_as_large_as_the_window(desk, tmp_path):
    with desk.open(tools=[tool("Read")], ways=("direct",)) as session:
        desk.talk(session, turns=8)
        desk.twin.script({"content": [CALL]})
        session.send(f"{QUESTION} " + "A line of what is there. " * 8_000)
    drop_replies(desk.twin)
    with desk.open(tools=[tool("Read")], ways=("direct",), window=40_000) as session:
        desk.twin.script(SUMMARY)
        assert isinstance(session.compact(), everturn.Compaction)
        drop_replies(desk.twin)
        desk.twin.script("The blue one is gone.")
        session.send([RESULT])
    assert QUESTION in words(desk.bodies[-1])
    assert behind_the_summary(desk.bodies[-1])[-2:] == [
        {"role": "assistant", "content": [CALL]},
        {"role": "user", "content": [RESULT]},
    ]
