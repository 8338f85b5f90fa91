"""Compactions within a turn: what has no answer yet is kept, and an unfinished reply goes on."""

import json

import pytest
from surfaces.random_compactions import drop_replies
from surfaces.test_open_calls import MODES, STRATEGIES, behind_the_summary

SMALL = {"window": 40_000}
SEARCH = {"type": "web_search_20250305", "name": "web_search"}
READ = {"name": "read_file", "description": "Reads.", "input_schema": {"type": "object", "properties": {}}}
OPUS = "claude-opus-4-8"
# Thinking is demanded at the start of a turn here.
ENABLED = {
    "model": "claude-opus-4-5",
    "max_tokens": 4_000,
    "thinking": {"type": "enabled", "budget_tokens": 2_000},
}


def text(words):
    return {"type": "text", "text": words}


def user(content):
    return {"role": "user", "content": content}


def searches(number):
    return {
        "type": "server_tool_use",
        "id": f"srvtoolu_{number}",
        "name": "web_search",
        "input": {"query": "x"},
    }


def found(number):
    return {"type": "web_search_tool_result", "tool_use_id": f"srvtoolu_{number}", "content": []}


def reads(number):
    return {"type": "tool_use", "id": f"toolu_{number}", "name": "read_file", "input": {}}


def answer(number, words):
    return {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": words}


def say(bench, history, reply, **request):
    """The list with what the model says to it."""
    bench.twin.script(reply)
    made = bench.ask(history, tools=[READ, SEARCH], **request)
    return [*history, {"role": "assistant", "content": [each.to_dict() for each in made.content]}]


def compactions(bench):
    return [each.compactions for each in bench.middleware.conversations]


@pytest.mark.spec("CP-37")
def test_results_of_a_turn_that_also_searches_are_kept_behind_system_messages(benches):
    """The search ties the two replies of the turn together: the nearest cut is behind the newest result."""
    bench, history = benches(**SMALL), []
    words = "One row of many. " * 700
    for number in range(3):
        history = [*history, user(f"Part {number}. " + words)]
        history = say(
            bench,
            history,
            {"content": [searches(number), reads(2 * number)], "stop_reason": "tool_use"},
            model=OPUS,
        )
        history += [user([answer(2 * number, words)]), {"role": "system", "content": "Be brief."}]
        history = say(
            bench, history, {"content": [found(number), text("And."), reads(2 * number + 1)]}, model=OPUS
        )
        newest = f"Result {number}: {words}"
        history += [user([answer(2 * number + 1, newest)]), {"role": "system", "content": "Be quick."}]
        history = say(bench, history, "Done.", model=OPUS)
        assert newest in json.dumps(bench.sent[-1]["messages"])
    bench.check()
    assert compactions(bench)[0] >= 1


def test_a_system_message_beside_a_result_does_not_end_a_search(bench):
    asked = [user("Search and read.")]
    history = say(bench, asked, {"content": [searches(1), reads(1)], "stop_reason": "tool_use"}, model=OPUS)
    history += [user([answer(1, "code")]), {"role": "system", "content": "Be brief."}]
    history = say(bench, history, {"content": [found(1), text("Found.")]}, model=OPUS)
    say(bench, [*history, user("And?")], "Yes.", model=OPUS)
    bench.check()
    kinds = [
        [block["type"] for block in message["content"]]
        for message in bench.sent[-1]["messages"]
        if message["role"] == "assistant"
    ]
    assert kinds == [["server_tool_use", "tool_use"], ["web_search_tool_result", "text"]]


@pytest.mark.spec("CP-37")
def test_of_two_new_messages_that_do_not_fit_together_the_newest_is_whole(benches):
    bench = benches(**SMALL)
    history = bench.talk([], "Hello.", model=OPUS)
    newest = "The newest: " + "a word of it " * 2_500
    history += [user("A paste: " + "lorem ipsum " * 9_000), user(newest)]
    bench.ask(history, model=OPUS)
    bench.check()
    sent = json.dumps(bench.sent[-1]["messages"])
    assert newest in sent
    # Of the other one, head and tail come along.
    assert "A paste: lorem ipsum" in sent


@pytest.mark.spec("CP-38")
def test_a_paused_reply_goes_on_behind_the_thinking_that_its_turn_began_with(benches):
    bench = benches(window=60_000)
    history = bench.talk([], "Hello. " + "lorem ipsum " * 3_000, **ENABLED)
    history = [*history, user("Look it up.")]
    thought = {"type": "thinking", "thinking": "Hm."}
    history = say(bench, history, {"content": [thought, reads(1)], "stop_reason": "tool_use"}, **ENABLED)
    history += [user([answer(1, "code " * 400)])]
    history = say(bench, history, {"content": [reads(2)], "stop_reason": "tool_use"}, **ENABLED)
    history += [user([answer(2, "code " * 400)])]
    history = say(bench, history, {"content": [searches(1)], "stop_reason": "pause_turn"}, **ENABLED)
    bench.middleware.compact()
    # The request for the summary is answered first.
    bench.twin.twin.speaker.clear()
    bench.ask(history, tools=[READ, SEARCH], **ENABLED)
    bench.check()
    roles = [(message["role"], message["content"][0]["type"]) for message in bench.sent[-1]["messages"]]
    assert roles[-5:] == [
        ("assistant", "thinking"),
        ("user", "tool_result"),
        ("assistant", "tool_use"),
        ("user", "tool_result"),
        ("assistant", "server_tool_use"),
    ]
    assert compactions(bench) == [1]


@pytest.mark.spec("CP-38")
def test_a_question_behind_results_is_sent_where_the_loop_before_it_began_without_thinking(bench):
    """The reply to the results was empty, and the caller asks again in a message of its own. Together they
    would go on with the loop, and the mode demands that it begins with thinking."""
    told = {"content": [reads(1)], "stop_reason": "tool_use"}
    history = say(bench, [user("Look.")], told, model=ENABLED["model"])
    history = [*history, user([answer(1, "the code")]), user("And now?")]
    say(bench, history, "Done.", **ENABLED)
    bench.check()
    sent = json.dumps(bench.sent[-1]["messages"][-1])
    assert "the code" in sent
    assert "And now?" in sent


QUESTION = "Delete only the blue one."
RESULT = answer(1, "There are a blue and a red one.")


@pytest.mark.spec("CP-37", "CP-39")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("ways", STRATEGIES, ids="-".join)
def test_a_compaction_asked_for_between_a_call_and_its_result_keeps_the_question(benches, ways, mode):
    """As `compact()` of a session does, though it is made when the result has arrived."""
    bench = benches(window=60_000, compact={"strategies": ways})
    history = bench.talk([], *(f"Entry {number}: " + "A long log line. " * 700 for number in range(5)))
    thought = [] if mode == "no thinking" else [{"type": "thinking", "thinking": "Which are there?"}]
    history = say(bench, [*history, user(QUESTION)], {"content": [*thought, reads(1)]}, **MODES[mode])
    bench.middleware.compact()
    drop_replies(bench.twin)
    bench.twin.script("The blue one is gone.")
    bench.ask([*history, user([RESULT])], tools=[READ, SEARCH], **MODES[mode])
    bench.check()
    assert compactions(bench) == [1]
    assert behind_the_summary(bench.sent[-1])[-3:] == [
        user([text(QUESTION)]),
        {"role": "assistant", "content": [reads(1)]},
        user([RESULT]),
    ]
