import json
import random

import pytest
from twin.asking import Desk, call, result, tool, user

from everturn.twin.faults import FaultInjector, InjectedFault
from everturn.twin.parse import parse_request
from everturn.twin.speaker import REQUIRED_THINKING, Speaker, script_reply
from everturn.twin.values import ModelOutput
from everturn.view.fragments.summary_prompt import repair_prompt, summary_prompt


def request(*messages, workspace="k", **fields):
    body = {
        "model": "claude-haiku-4-5",
        "max_tokens": 100,
        "messages": [
            {"role": ("user", "assistant")[n % 2], "content": content} for n, content in enumerate(messages)
        ],
    }
    return parse_request("messages", {}, json.dumps(body | fields).encode(), workspace=workspace)


def say(speaker, asked, **more):
    return speaker.say(asked, **more).output


def heard(speaker, asked):
    said = say(speaker, asked, rng=random.Random(1))
    return said.content[0].get("text")


def text(words):
    return ({"type": "text", "text": words},)


@pytest.mark.spec("TW-8")
def test_scripted_replies_are_used_in_order_and_then_the_agent_replies():
    speaker = Speaker([script_reply("one"), script_reply("two")])
    assert [heard(speaker, request("hi")) for _ in range(2)] == ["one", "two"]
    assert heard(speaker, request("hi")) == heard(Speaker(), request("hi"))


@pytest.mark.spec("TW-8")
def test_a_reply_with_when_waits_for_its_text():
    speaker = Speaker(
        [script_reply("It rains.", when="weather"), script_reply("Hello."), script_reply("Bye.")]
    )
    said = [heard(speaker, request(asked)) for asked in ("hi", "what weather is it?", "bye")]
    assert said == ["Hello.", "It rains.", "Bye."]


def test_a_reply_with_when_also_matches_tool_results():
    speaker = Speaker([script_reply("Found it.", when="ValueError")])
    result = [
        {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "a ValueError"}]}
    ]
    assert heard(speaker, request("hi", [{"type": "text", "text": "x"}], result)) == "Found it."


@pytest.mark.spec("TW-8")
def test_the_script_of_a_workspace_comes_before_the_shared_one():
    speaker = Speaker([script_reply("for all")])
    speaker.add([script_reply("for me")], workspace="me")
    assert [heard(speaker, request("hi", workspace="me")) for _ in range(2)] == ["for me", "for all"]


def test_one_workspace_does_not_get_the_script_of_another():
    speaker = Speaker()
    speaker.add([script_reply("secret")], workspace="me")
    assert heard(speaker, request("hi", workspace="you")) != "secret"
    assert heard(speaker, request("hi", workspace="me")) == "secret"


def test_a_script_may_leave_out_ids_and_stop_reasons():
    speaker = Speaker([script_reply([{"type": "tool_use", "name": "read"}]), script_reply("done")])
    call = say(speaker, request("hi"), rng=random.Random(5))
    again = say(
        Speaker([script_reply([{"type": "tool_use", "name": "read"}])]), request("hi"), rng=random.Random(5)
    )
    assert call == again
    assert call.stop_reason == "tool_use"
    assert call.content[0]["id"].startswith("toolu_01")
    assert list(call.content[0]) == ["type", "id", "name", "input"]
    assert say(speaker, request("hi"), rng=random.Random(5)) == ModelOutput(text("done"), "end_turn")


def test_a_script_may_fix_id_and_stop_reason():
    call = {"type": "tool_use", "id": "toolu_mine", "name": "read", "input": {"a": 1}}
    speaker = Speaker([script_reply([call], "max_tokens")])
    assert say(speaker, request("hi"), rng=random.Random(5)) == ModelOutput(
        (call,), "max_tokens", is_verbatim=True
    )


@pytest.mark.parametrize(
    ("stops", "said"),
    [
        (["END"], ModelOutput(text("one "), "stop_sequence", "END")),
        (["two", "END"], ModelOutput(text("one "), "stop_sequence", "END")),
        (["one"], ModelOutput((), "stop_sequence", "one")),
        (["absent"], ModelOutput(text("one END two"), "end_turn")),
    ],
)
def test_a_reply_ends_where_a_stop_sequence_starts(stops, said):
    speaker = Speaker([script_reply("one END two")])
    assert say(speaker, request("hi", stop_sequences=stops), rng=random.Random(1)) == said


@pytest.mark.spec("TW-8")
def test_a_recording_is_played_after_the_scripts_and_before_the_agent():
    speaker = Speaker([script_reply("script")], playback=[ModelOutput(text("played"), "end_turn")])
    assert [heard(speaker, request("hi")) for _ in range(2)] == ["script", "played"]
    assert heard(speaker, request("hi")) not in ("script", "played")


def test_each_workspace_gets_the_recording_from_its_start():
    speaker = Speaker(
        playback=[ModelOutput(text("first"), "end_turn"), ModelOutput(text("second"), "end_turn")]
    )
    order = ["a", "b", "a", "b"]
    assert [heard(speaker, request("hi", workspace=w)) for w in order] == [
        "first",
        "first",
        "second",
        "second",
    ]


def test_reset_brings_back_what_the_twin_was_started_with():
    speaker = Speaker([script_reply("start")], playback=[ModelOutput(text("played"), "end_turn")])
    for _ in range(2):
        heard(speaker, request("hi"))
    speaker.add([script_reply("late")])
    speaker.reset()
    assert [heard(speaker, request("hi")) for _ in range(2)] == ["start", "played"]


CLAUDE_CODE = (
    "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.\n\n- Do NOT use Read.\n\n"
    "Your task is to create a detailed summary of the conversation so far, paying close attention to it.\n"
    "<example>\n<summary>\n1. Primary Request\n</summary>\n</example>"
)
API = (
    "You have been working on the task described above but have not yet completed it. Write a continuation "
    "summary. Wrap your summary in <summary></summary> tags."
)
PROMPTS = [
    *(summary_prompt(form) for form in ("full", "from", "up_to")),
    repair_prompt("it is empty"),
    CLAUDE_CODE,
    CLAUDE_CODE.partition("\n\n- Do NOT use Read.\n\n")[2],
    API,
]


@pytest.mark.spec("TW-8")
@pytest.mark.parametrize("prompt", PROMPTS)
def test_a_prompt_for_a_summary_gets_one_and_uses_up_no_scripted_reply(prompt):
    speaker = Speaker([script_reply("scripted")], playback=[ModelOutput(text("played"), "end_turn")])
    said = heard(speaker, request("Fix a.py", "Done.", prompt))
    assert said.startswith("<summary>")
    assert "Fix a.py" in said
    assert [heard(speaker, request("hi")) for _ in range(2)] == ["scripted", "played"]


@pytest.mark.parametrize(
    "last",
    [
        "Write a summary in <summary> tags.",
        "What does <summary> mean in HTML?",
        f"Look at this prompt: {API}",
        [{"type": "tool_result", "tool_use_id": "t", "content": CLAUDE_CODE}],
    ],
)
def test_a_message_that_only_contains_summary_tags_is_not_a_prompt_for_a_summary(last):
    speaker = Speaker([script_reply("scripted")])
    assert heard(speaker, request("Fix a.py", "Done.", last)) == "scripted"


def test_a_prompt_for_a_summary_counts_only_in_the_last_user_message():
    messages = [("user", PROMPTS[0]), ("assistant", "<summary>x</summary>"), ("user", "Go on")]
    asked = request(*(content for _, content in messages))
    assert heard(Speaker([script_reply("scripted")]), asked) == "scripted"
    assert heard(Speaker([script_reply("scripted")]), request("hi", PROMPTS[0])) == "scripted"


def test_a_scripted_reply_for_the_prompt_itself_is_used_as_the_summary():
    speaker = Speaker([script_reply("<summary>mine</summary>", when="<summary> tags")])
    assert heard(speaker, request("Fix a.py", "Done.", PROMPTS[0])) == "<summary>mine</summary>"


def test_a_scripted_summary_is_used_for_the_next_prompt_for_a_summary():
    speaker = Speaker([script_reply("one"), script_reply("<summary>mine</summary>"), script_reply("two")])
    assert heard(speaker, request("Fix a.py", "Done.", PROMPTS[0])) == "<summary>mine</summary>"
    assert [heard(speaker, request("hi")) for _ in range(2)] == ["one", "two"]


def test_a_reply_that_is_broken_off_stays_for_the_next_attempt():
    speaker = Speaker([script_reply("one")], playback=[ModelOutput(text("two"), "end_turn")])
    broken = [say(speaker, request("hi"), rng=random.Random(1), is_broken_off=True) for _ in range(2)]
    assert [said.content[0]["text"] for said in broken] == ["one", "one"]
    assert [heard(speaker, request("hi")) for _ in range(2)] == ["one", "two"]


@pytest.mark.spec("TW-8")
def test_a_scripted_tool_call_gets_the_thinking_that_its_mode_requires():
    call = {"type": "tool_use", "name": "read"}
    thought = {"type": "thinking", "thinking": "Mine."}
    enabled = {"type": "enabled", "budget_tokens": 1024}
    results = [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]

    def kinds(reply, *messages, **fields):
        said = say(Speaker([script_reply(reply)]), request(*messages, **fields), rng=random.Random(1))
        return [block.get("thinking", block["type"]) for block in said.content]

    assert kinds([call], "hi", thinking=enabled) == [REQUIRED_THINKING, "tool_use"]
    assert kinds([thought, call], "hi", thinking=enabled) == ["Mine.", "tool_use"]
    assert kinds([call], "hi") == ["tool_use"]
    assert kinds("done", "hi", thinking=enabled) == ["text"]
    assert kinds([call], "hi", [call | {"id": "t"}], results, thinking=enabled) == ["tool_use"]


MODES = [
    ("claude-sonnet-4-5", {"type": "enabled", "budget_tokens": 1024}, ["thinking", "tool_use"]),
    ("claude-opus-5", {"type": "adaptive"}, ["tool_use"]),
    ("claude-opus-5", {"type": "disabled"}, ["tool_use"]),
    ("claude-opus-5", None, ["tool_use"]),
]


@pytest.mark.spec("TW-8")
@pytest.mark.parametrize(("model", "mode", "kinds"), MODES)
@pytest.mark.parametrize("thinks", [True, False])
@pytest.mark.parametrize("stop_reason", ["", "tool_use"])
def test_a_scripted_tool_loop_is_accepted_in_every_mode_of_thinking(model, mode, kinds, thinks, stop_reason):
    """The mode is in the request, so a script cannot be refused for it when it is posted: it is completed."""
    desk = Desk(model=model)
    thought = [{"type": "thinking", "thinking": "Mine."}] if thinks else []
    desk.twin.speaker.add([script_reply([*thought, call("toolu_1")], stop_reason), script_reply("Done.")])
    asked = {"tools": [tool("look")], "thinking": mode, "max_tokens": 4000}
    said = desk.ask(messages=[user("go")], **asked)["content"]
    assert [block["type"] for block in said] == (["thinking", "tool_use"] if thinks else kinds)
    loop = [user("go"), {"role": "assistant", "content": said}, user(result("toolu_1", "found"))]
    assert desk.ask(messages=loop, **asked)["content"][-1]["text"] == "Done."


@pytest.mark.spec("TW-10")
@pytest.mark.parametrize(
    ("kind", "content_types", "stop_reason"),
    [
        ("empty_summary", [], "end_turn"),
        ("refusing_summary", [], "refusal"),
        ("tool_calling_summary", ["tool_use"], "tool_use"),
    ],
)
def test_a_summary_can_be_empty_refused_or_a_tool_call(kind, content_types, stop_reason):
    speaker = Speaker(faults=FaultInjector([InjectedFault(kind)]))
    said = speaker.summary(request("hi"))
    assert ([block["type"] for block in said.content], said.stop_reason) == (content_types, stop_reason)
    assert speaker.summary(request("hi")).content[0]["text"].startswith("<summary>")


def test_a_refused_summary_in_an_ordinary_request_says_so():
    speaker = Speaker(faults=FaultInjector([InjectedFault("refusing_summary")]))
    assert heard(speaker, request(PROMPTS[0])).startswith("I can't")
