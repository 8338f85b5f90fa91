import json
import random

import pytest

from everturn.twin.faults import FaultInjector, InjectedFault
from everturn.twin.parse import parse_request
from everturn.twin.speaker import Speaker, script_reply
from everturn.twin.values import ModelOutput


def request(*messages, workspace="k", **fields):
    body = {
        "model": "claude-haiku-4-5",
        "max_tokens": 100,
        "messages": [
            {"role": ("user", "assistant")[n % 2], "content": content} for n, content in enumerate(messages)
        ],
    }
    return parse_request("messages", {}, json.dumps(body | fields).encode(), workspace=workspace)


def heard(speaker, asked):
    said = speaker.say(asked, rng=random.Random(1))
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
    call = speaker.say(request("hi"), rng=random.Random(5))
    again = Speaker([script_reply([{"type": "tool_use", "name": "read"}])]).say(
        request("hi"), rng=random.Random(5)
    )
    assert call == again
    assert call.stop_reason == "tool_use"
    assert call.content[0]["id"].startswith("toolu_01")
    assert list(call.content[0]) == ["type", "id", "name", "input"]
    assert speaker.say(request("hi"), rng=random.Random(5)) == ModelOutput(text("done"), "end_turn")


def test_a_script_may_fix_id_and_stop_reason():
    call = {"type": "tool_use", "id": "toolu_mine", "name": "read", "input": {"a": 1}}
    speaker = Speaker([script_reply([call], "max_tokens")])
    assert speaker.say(request("hi"), rng=random.Random(5)) == ModelOutput(
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
    assert speaker.say(request("hi", stop_sequences=stops), rng=random.Random(1)) == said


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


@pytest.mark.spec("TW-8")
def test_a_client_that_asks_for_a_summary_in_an_ordinary_request_gets_one():
    said = heard(Speaker(), request("Fix a.py", "Done.", "Write a summary in <summary> tags."))
    assert said.startswith("<summary>")
    assert "Fix a.py" in said


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
    assert heard(speaker, request("Put it in <summary> tags")).startswith("I can't")
