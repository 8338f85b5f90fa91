"""The request of a hold, and why there can be none."""

from typing import Any

import builders as b
import msgspec
import pytest
from engine.alone import Alone
from engine.held import model_of

from everturn.engine.holds import (
    LEAST_OUTPUT,
    hindrance,
    is_answered,
    least_output,
    to_hold,
    up_to_reply,
)
from everturn.history.blocks import Block, block_from_fields, fields_of, text_block
from everturn.history.messages import Message
from everturn.measure.outline import BlockLocation
from everturn.measure.prefix_cache import Breakpoint
from everturn.view.forks import CapturedRequest

OPUS = model_of("claude-opus-4-6")
# Uses only the thinking of the last turn.
FORGETFUL = model_of("claude-sonnet-4-5")
ASKED = Message("user", (text_block("go"),))
THOUGHT = block_from_fields({"type": "thinking", "thinking": "hm", "signature": "s"})
CALL = block_from_fields({"type": "tool_use", "id": "c1", "name": "Read", "input": {}})
OTHER = block_from_fields({"type": "tool_use", "id": "c2", "name": "Read", "input": {}})


def captured(*reply: Block, **settings: Any) -> CapturedRequest:
    turn = Alone([b.user("go", uuid="u1")], model=OPUS.id).turn()
    messages = (ASKED, Message("assistant", reply)) if reply else ()
    fields = {**turn.captured.settings, **settings}
    return msgspec.structs.replace(turn.captured, messages=messages, settings=fields)


def with_thinking(request: CapturedRequest, **thinking: Any) -> CapturedRequest:
    parameters = msgspec.structs.replace(request.parameters, thinking=thinking)
    return msgspec.structs.replace(request, parameters=parameters)


@pytest.mark.parametrize(
    ("reply", "settings", "model", "why"),
    [
        (["a"], {}, OPUS, ""),
        ([], {}, OPUS, "there is no reply yet"),
        (["a"], {"tool_choice": {"type": "auto"}}, OPUS, ""),
        (["a"], {"tool_choice": {"type": "any"}}, OPUS, "a call of a tool is asked for"),
        (["a"], {"tool_choice": {"type": "tool"}}, OPUS, "a call of a tool is asked for"),
        (["a"], {"output_config": {"effort": "low"}}, OPUS, ""),
        (["a"], {"output_config": {"format": {}}}, OPUS, "a reply in a given format is asked for"),
        ([THOUGHT, "a"], {}, OPUS, ""),
        (["a"], {}, FORGETFUL, ""),
        ([THOUGHT, "a"], {}, FORGETFUL, "a new message removes the thinking that the cached prefix has"),
        ([THOUGHT], {}, OPUS, "the last reply cannot carry a breakpoint"),
    ],
)
def test_why_a_hold_would_be_refused_or_useless(reply, settings, model, why):
    blocks = [text_block(each) if isinstance(each, str) else each for each in reply]
    assert hindrance(captured(*blocks, **settings), model) == why


def test_a_request_that_is_repeated_needs_only_a_reply():
    assert hindrance(captured(THOUGHT, tool_choice={"type": "any"}), FORGETFUL, "repeat") == ""
    assert hindrance(captured(), OPUS, "repeat") == "there is no reply yet"


@pytest.mark.parametrize(("form", "ttl"), [("hour", "1h"), ("refresh", "5m")])
def test_a_hold_marks_the_last_reply_and_asks_for_nothing(form, ttl):
    held = to_hold(captured(THOUGHT, text_block("a"), THOUGHT, stream=True), form)
    assert held.messages == (
        ASKED,
        Message("assistant", (THOUGHT, text_block("a"), THOUGHT)),
        Message("user", (text_block("."),)),
    )
    assert held.breakpoints.places == ((BlockLocation(1, 1), Breakpoint(-1, ttl)),)
    assert held.settings == {
        **{k: v for k, v in captured(text_block("a")).settings.items() if k != "stream"},
        "max_tokens": 0,
    }


def test_tools_that_still_run_have_a_stand_in():
    (_, _, last) = to_hold(captured(text_block("a"), CALL, OTHER)).messages
    assert [(fields_of(block)["tool_use_id"], block.kind) for block in last.blocks] == [
        ("c1", "tool_result"),
        ("c2", "tool_result"),
    ]


def test_where_the_api_takes_no_empty_answer_the_least_is_asked_for():
    enabled = with_thinking(captured(text_block("a")), type="enabled", budget_tokens=2_000)
    assert to_hold(enabled).settings["max_tokens"] == 2_001
    assert [
        least_output(thinking, form)
        for thinking in (None, {"type": "adaptive"}, {"type": "enabled"})
        for form in ("hour", "refresh", "repeat")
    ] == [0, 0, 1, 0, 0, 1, LEAST_OUTPUT, LEAST_OUTPUT, LEAST_OUTPUT]


def test_a_repeated_request_is_the_one_before_the_reply():
    held = to_hold(captured(text_block("a")), "repeat")
    assert (held.messages, held.settings["max_tokens"]) == ((ASKED,), 1)
    assert held.breakpoints == captured(text_block("a")).breakpoints


def test_who_spoke_last():
    user, reply, note = b.user("a", uuid="u"), b.assistant("b", id="m"), b.system(uuid="s")
    assert [
        is_answered(each) for each in ([], [user], [user, reply], [user, reply, note], [reply, user])
    ] == [
        False,
        False,
        True,
        True,
        False,
    ]


def test_what_stands_behind_the_last_reply_is_left_out():
    reply = Message("assistant", (CALL,))
    assert up_to_reply((ASKED, reply, ASKED)) == (ASKED, reply)
    assert up_to_reply((ASKED,)) == ()


def test_only_calls_of_the_client_s_tools_get_a_stand_in_result():
    search = block_from_fields({"type": "web_search_tool_result", "tool_use_id": "s1", "content": []})
    nameless = block_from_fields({"type": "tool_use", "name": "Read", "input": {}})
    *_, stand_in = to_hold(captured(search, nameless, CALL)).messages
    assert [fields_of(block) for block in stand_in.blocks] == [
        {"type": "tool_result", "tool_use_id": "c1", "content": "."}
    ]
    *_, alone = to_hold(captured(search, text_block("a"))).messages
    assert alone == Message("user", (text_block("."),))


def test_an_answer_that_the_api_insists_on_is_taken_for_a_hundred_tokens():
    assert [least_output({"type": "enabled"}, form) for form in ("hour", "repeat")] == [100, 100]
