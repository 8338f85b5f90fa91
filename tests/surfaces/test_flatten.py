"""How what lies on disk becomes the messages of a request (FLAT)."""

import json
from itertools import pairwise

import pytest
from surfaces.desk import HAIKU, assistant_line, call, result, text, texts, tool, user_line

READ = tool("Read", lambda given: "contents")


def said(body):
    """Role and words of every message."""
    return [(message["role"], texts(message)) for message in body["messages"]]


def text_of_turn(message):
    return "".join(block.get("text", "") for block in message["content"])


@pytest.mark.spec("FLAT-1")
def test_only_what_people_and_the_model_said_is_sent(desk):
    desk.write(
        user_line("Hi."),
        {"type": "progress", "data": {"type": "bash_progress", "output": "12 %"}, "toolUseID": "c1"},
        {"type": "system", "subtype": "turn_duration", "content": "3 s", "level": "info"},
        assistant_line(text("API Error: 529"), id="x", isApiErrorMessage=True, message_model="<synthetic>"),
        assistant_line(text("Hello."), id="msg_2"),
    )
    assert said(desk.send_once()) == [("user", ["Hi."]), ("assistant", ["Hello."]), ("user", ["Go on."])]


@pytest.mark.spec("FLAT-2")
def test_an_attachment_is_wrapped_and_joins_the_message_beside_it(desk):
    note = {"type": "hook_additional_context", "content": "The build is green."}
    desk.write(user_line("Hi."), {"type": "attachment", "attachment": note}, assistant_line(text("Yes.")))
    first, *_ = said(desk.send_once())
    assert first == ("user", ["<system-reminder>\nThe build is green.\n</system-reminder>", "Hi."])


@pytest.mark.spec("FLAT-3")
def test_user_messages_in_a_row_become_one_with_the_results_first(desk):
    desk.write(
        user_line("Read it."),
        assistant_line(call("toolu_1", file_path="a")),
        user_line("By the way."),
        user_line([result("toolu_1", "A")]),
        user_line("And hurry."),
    )
    *_, last = said(desk.send_once(tools=[READ]))
    assert last == ("user", ["A", "By the way.", "And hurry.", "Go on."])


# Haiku drops the thinking of earlier turns, Opus 4.6 keeps it, and Opus 5.5 binds it to what came before it.
THINKS = {
    HAIKU: {"type": "enabled", "budget_tokens": 2_000},
    "claude-opus-4-6": {"type": "adaptive"},
    "claude-opus-5-5": {"type": "adaptive"},
}


@pytest.mark.spec("FLAT-6")
@pytest.mark.parametrize("model", THINKS)
def test_a_reply_of_thinking_alone_is_not_sent_as_the_last_message_and_stays_out(desk, model):
    first, second = ({"type": "thinking", "thinking": words} for words in ("Hm.", "Ah."))
    desk.twin.script({"content": [first]}, {"content": [second, text("Well.")]}, "Yes.")
    with desk.open(model=model, thinking=THINKS[model]) as session:
        session.send("Hi.")
        assert session.send().text == "Well."
        session.send("Sure?")
    assert [said(body) for body in desk.bodies[:2]] == [[("user", ["Hi."])]] * 2
    assert [text_of_turn(turn) for turn in desk.bodies[2]["messages"]] == ["Hi.", "Well.", "Sure?"]
    assert "Hm." not in json.dumps(desk.bodies[2])
    assert [entry["status"] for entry in desk.twin.ledger] == [200] * 3
    assert [event.kinds for event in desk.heard("Repaired")] == [{"trailing_thinking": 1}]


@pytest.mark.spec("FLAT-6")
@pytest.mark.parametrize("model", THINKS)
def test_a_reply_of_thinking_alone_that_a_person_answers_keeps_its_place(desk, model):
    desk.twin.script({"content": [{"type": "thinking", "thinking": "Hm."}]}, "Well.", "Yes.")
    with desk.open(model=model, thinking=THINKS[model]) as session:
        session.send("Hi.")
        session.send("And?")
        session.send("Sure?")
    roles = [message["role"] for message in desk.bodies[2]["messages"]]
    assert roles == ["user", "assistant", "user", "assistant", "user"]
    assert [entry["status"] for entry in desk.twin.ledger] == [200] * 3


@pytest.mark.spec("FLAT-6")
def test_thinking_before_a_call_goes_back_with_its_signature_where_it_stood(desk):
    thinking = {"type": "thinking", "thinking": "I should read it."}
    desk.twin.script({"content": [thinking, text("Reading."), call("toolu_1", file_path="a")]}, "Well.")
    with desk.open(tools=[READ], thinking={"type": "enabled", "budget_tokens": 2_000}) as session:
        session.send("Read a.")
    reply = desk.lines()[1]["message"]["content"]
    assert [block["type"] for block in reply] == ["thinking", "text", "tool_use"]
    assert reply[0]["signature"]
    assert desk.bodies[-1]["messages"][1]["content"] == reply


@pytest.mark.spec("FLAT-7")
def test_hidden_messages_reach_the_model_and_are_not_listed_as_the_users_words(desk):
    long = "The login test waits for the token, and the token comes late. " * 200
    desk.write(
        user_line("Fix the login test."),
        user_line("Caveat: this was written by a program.", isMeta=True),
        assistant_line(text(long)),
    )
    body = desk.send_once()
    assert "Caveat: this was written by a program." in json.dumps(body["messages"][0])
    with desk.open(ways=("extract",)) as session:
        session.compact()
    summary = next(line for line in desk.lines() if line.get("isCompactSummary"))
    assert "Fix the login test." in json.dumps(summary)
    assert "Caveat" not in json.dumps(summary)


@pytest.mark.spec("FLAT-8", "TR-9")
def test_the_same_file_gives_the_same_bytes_and_new_turns_change_no_earlier_message(desk):
    with desk.open(tools=[READ]) as session:
        desk.use_tool(session, 3)
        desk.talk(session, 2, size=2)
    kept = desk.path.read_bytes()
    first = desk.send_once(tools=[READ])
    desk.path.write_bytes(kept)
    again = desk.send_once(tools=[READ])
    assert json.dumps(first["messages"]) == json.dumps(again["messages"])
    plain = [_unmarked(body["messages"]) for body in desk.bodies[:-1]]
    for before, after in pairwise(plain):
        assert after[: len(before)] == before


def _unmarked(messages):
    """The bytes of each message without breakpoints, which are no part of the conversation."""
    blocks = [
        [
            {name: value for name, value in block.items() if name != "cache_control"}
            for block in each["content"]
        ]
        for each in messages
    ]
    return [
        json.dumps({"role": each["role"], "content": content})
        for each, content in zip(messages, blocks, strict=True)
    ]
