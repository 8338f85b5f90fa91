"""What the model says: replies in order, by words, by workspace; and the agent that has no script."""

import json

import pytest
from conformance.api import Api, assistant, result, text, tool, user

pytestmark = pytest.mark.spec("TW-8")


def said(api: Api, *messages: object, **fields: object) -> str:
    return "".join(b["text"] for b in api.reply(*messages, **fields)["content"] if b["type"] == "text")


def test_replies_come_in_order(api: Api):
    api.script("one", {"content": "two"}, {"content": [text("three")]})
    assert [said(api, "hi") for _ in range(3)] == ["one", "two", "three"]


def test_the_form_of_the_interface(api: Api):
    api.script({"content": [{"type": "text", "text": "exactly this"}], "stop_reason": "end_turn"})
    reply = api.reply("hi")
    assert (reply["content"], reply["stop_reason"]) == ([text("exactly this")], "end_turn")


def test_later_scripts_are_added(api: Api):
    api.script("one")
    api.script("two")
    assert [said(api, "hi"), said(api, "hi")] == ["one", "two"]


@pytest.mark.parametrize("stop", ["end_turn", "max_tokens", "refusal", "pause_turn", "stop_sequence"])
def test_a_stop_reason_is_said_as_given(api: Api, stop: str):
    api.script({"content": [text("x")], "stop_reason": stop})
    assert api.reply("hi")["stop_reason"] == stop


def test_a_reply_that_names_its_stop_reason_is_said_whole(api: Api):
    api.script(
        {"content": [text("word " * 100)], "stop_reason": "end_turn"}, {"content": [text("word " * 100)]}
    )
    whole, cut = api.reply("hi", max_tokens=5), api.reply("hi", max_tokens=5)
    assert (whole["content"], whole["stop_reason"]) == ([text("word " * 100)], "end_turn")
    assert (cut["stop_reason"], cut["usage"]["output_tokens"]) == ("max_tokens", 5)


def test_a_call_stops_for_the_tool(api: Api):
    api.script(
        {"content": [text("Let me look."), {"type": "tool_use", "name": "look", "input": {"path": "a"}}]}
    )
    reply = api.reply("hi", tools=[tool()])
    assert reply["stop_reason"] == "tool_use"
    assert reply["content"][1]["id"].startswith("toolu_")


def test_a_given_id_is_kept_and_the_loop_goes_on(api: Api):
    api.script({"content": [{"type": "tool_use", "id": "toolu_mine", "name": "look", "input": {}}]}, "done")
    reply = api.reply("hi", tools=[tool()])
    assert reply["content"][0]["id"] == "toolu_mine"
    loop = [user("hi"), {"role": "assistant", "content": reply["content"]}, user(result("toolu_mine"))]
    assert said(api, *loop, tools=[tool()]) == "done"


def test_ids_made_up_differ(api: Api):
    both = {"content": [{"type": "tool_use", "name": "look", "input": {}}] * 2}
    api.script(both, both)
    ids = [b["id"] for _ in range(2) for b in api.reply("hi", tools=[tool()])["content"]]
    assert len(set(ids)) == 4


def test_thinking_is_signed_and_comes_back_valid(api: Api):
    api.script({"content": [{"type": "thinking", "thinking": "hm"}, text("yes")]})
    content = api.reply("hi", model="claude-opus-5-5")["content"]
    assert content[0]["signature"]
    turns = [user("hi"), {"role": "assistant", "content": content}, user("so")]
    assert api.ask(*turns, model="claude-opus-5-5").status == 200


def test_a_script_belongs_to_the_key_that_sent_it(api: Api):
    other = api.as_key("key-b")
    api.script("for a")
    other.script("for b")
    assert said(other, "hi") == "for b"
    assert said(api, "hi") == "for a"


def test_a_script_sent_without_a_key_is_for_all(api: Api):
    body = {"replies": ["for all", "for all too"]}
    assert api.send("POST", "/twin/script", body, headers={"content-type": "application/json"}).status == 200
    assert said(api.as_key("key-b"), "hi") == "for all"
    assert said(api, "hi") == "for all too"


def test_a_reply_waits_for_its_words(api: Api):
    api.script({"content": "It rains.", "when": "weather"}, "Hello.")
    assert said(api, "hi") == "Hello."
    assert said(api, "how is the weather?") == "It rains."


def test_refused_requests_and_counts_use_no_reply(api: Api):
    api.script("kept")
    api.refused(user(text("")))
    api.count("hi")
    api.ask("hi", model="claude-nope")
    assert said(api, "hi") == "kept"


def test_without_a_script_someone_answers(api: Api):
    reply = api.reply("hi", max_tokens=2000)
    assert reply["content"][-1]["type"] == "text"
    assert reply["usage"]["output_tokens"] > 5


@pytest.mark.parametrize("model", ["claude-opus-5", "claude-haiku-4-5"])
def test_without_a_script_tools_are_used_and_the_turn_ends(api: Api, model: str):
    tools = [tool("read_file"), tool("write_file")]
    turns = [user("Fix the parser in src/parse.py")]
    used = set()
    for _ in range(12):
        reply = api.reply(*turns, tools=tools, model=model, max_tokens=2000)
        turns.append({"role": "assistant", "content": reply["content"]})
        if reply["stop_reason"] != "tool_use":
            break
        calls = [b for b in reply["content"] if b["type"] == "tool_use"]
        used |= {c["name"] for c in calls}
        turns.append(user(*[result(c["id"], "fine") for c in calls]))
    assert reply["stop_reason"] == "end_turn"
    assert used <= {"read_file", "write_file"}
    assert used


def test_answers_are_the_same_after_a_reset(api: Api):
    first = api.reply("hi", max_tokens=2000)
    api.control("reset", {})
    again = api.reply("hi", max_tokens=2000)
    assert first["content"] == again["content"]


def test_a_plain_request_for_a_summary_gets_one(api: Api):
    reply = said(
        api,
        "Fix the parser.",
        assistant("Done."),
        user(
            "You have been working on the task described above but have not yet completed it. Write a "
            "continuation summary. Wrap your summary in <summary></summary> tags."
        ),
        max_tokens=4000,
    )
    assert "<summary>" in reply
    assert "Fix the parser." in reply


def test_unicode_comes_back_as_it_was(api: Api):
    words = "Größe 🦊 \u2028 \u0000 end"
    api.script({"content": [text(words)]})
    assert said(api, "hi") == words


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"replies": "hi"},
        {"replies": [5]},
        {"replies": [{"content": [{"type": "poem"}]}]},
        {"replies": [{"content": 5}]},
        {"replies": [{"content": "x", "surprise": 1}]},
        {"replies": [{"content": "x", "stop_reason": "tired"}]},
        [],
        None,
    ],
    ids=str,
)
def test_a_wrong_script_is_refused_and_changes_nothing(api: Api, body: object):
    answer = api.send("POST", "/twin/script", raw=json.dumps(body).encode())
    assert answer.status == 400
    assert answer.error["message"]
    assert api.send("POST", "/twin/script", {"replies": ["only"]}).json["queued"] == 1


def test_an_empty_script_takes_back_what_waits(api: Api):
    api.script("never")
    api.script()
    assert said(api, "hi") != "never"
