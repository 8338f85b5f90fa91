from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everturn.twin.control import ClockChange, FaultPlan, decode_object, read_clock, read_faults, read_script
from everturn.twin.faults import InjectedFault
from everturn.twin.speaker import ScriptedReply, script_reply
from everturn.twin.values import ApiError, ModelOutput


def test_replies_are_texts_or_blocks():
    call = {"type": "tool_use", "name": "read", "input": {"a": 1}}
    body = {
        "replies": [
            "Hello",
            {"content": "Hi", "when": "greet"},
            {"content": [call], "stop_reason": "tool_use", "output_tokens": 7},
        ]
    }
    assert read_script(body) == (
        script_reply("Hello"),
        script_reply("Hi", when="greet"),
        ScriptedReply(ModelOutput((call,), "tool_use", output_tokens=7)),
    )


def test_faults_are_kinds_or_objects_and_chances():
    body = {
        "faults": [
            "overloaded",
            {"kind": "rate_limit", "times": 2, "retry_after": None, "endpoint": "compaction"},
        ],
        "random": {"seed": 3, "chances": {"garbage": 0.5}},
    }
    assert read_faults(body) == FaultPlan(
        (
            InjectedFault("overloaded"),
            InjectedFault("rate_limit", times=2, retry_after=None, endpoint="compaction"),
        ),
        {"garbage": 0.5},
        3,
    )


def test_the_clock_is_advanced_or_set():
    assert read_clock({"advance_s": 300}) == ClockChange(advance_s=300)
    assert read_clock({"set": "2026-12-01T00:00:00Z"}) == ClockChange(
        set_to=datetime(2026, 12, 1, tzinfo=UTC)
    )


@pytest.mark.parametrize(
    ("read", "body", "message"),
    [
        (read_clock, {}, 'Give either {"advance_s": seconds} or {"set": "2026-11-15T00:00:00Z"}.'),
        (read_clock, {"advance": 3}, "body has an unknown key 'advance' with 3; allowed: advance_s, set."),
        (read_clock, {"advance_s": -1}, "advance_s is -1; allowed: seconds, from 0 to 315360000."),
        (read_clock, {"set": "soon"}, "set is 'soon'; allowed: a time such as 2026-11-15T00:00:00Z."),
        (read_script, {"replies": "x"}, "replies is 'x'; allowed: a list."),
        (
            read_script,
            {"replies": [{}]},
            "replies[0].content is missing; allowed: a text, or a list of blocks.",
        ),
        (
            read_script,
            {"replies": [{"content": [{"type": "txet"}]}]},
            "replies[0].content[0].type is 'txet'; allowed: text, thinking, redacted_thinking, tool_use, "
            "server_tool_use, web_search_tool_result, web_fetch_tool_result, tool_search_tool_result.",
        ),
        (
            read_script,
            {"replies": [{"content": [{"type": "tool_use"}]}]},
            "replies[0].content[0].name is missing; allowed: a text.",
        ),
        (
            read_script,
            {"replies": [{"content": "x", "stop_reason": "done"}]},
            "replies[0].stop_reason is 'done'; allowed: end_turn, max_tokens, stop_sequence, tool_use, "
            "pause_turn, refusal, model_context_window_exceeded.",
        ),
        (
            read_faults,
            {"faults": [{"kind": "overloaded", "times": 0}]},
            "faults[0].times is 0; allowed: 1 or more.",
        ),
        (
            read_faults,
            {"faults": [{"kind": "overloaded", "endpoint": "models"}]},
            "faults[0].endpoint is 'models'; allowed: messages, count_tokens, compaction.",
        ),
        (
            read_faults,
            {"random": {"chances": {"garbage": 2}}},
            "random.chances.garbage is 2; allowed: a number from 0 to 1.",
        ),
        (
            read_faults,
            {"faults": [{"kind": "rate_limit", "headers": {"x": "a\nb"}}]},
            "faults[0].headers.x is 'a\\nb'; allowed: an HTTP header with printable ASCII text.",
        ),
    ],
)
def test_the_error_for_a_wrong_body_names_the_key_the_value_and_what_is_allowed(read, body, message):
    with pytest.raises(ApiError) as refused:
        read(body)
    assert (refused.value.status, refused.value.message) == (400, message)


def test_the_error_for_an_unknown_fault_lists_all_kinds():
    with pytest.raises(
        ApiError, match=r"^faults\[0\].kind is 'overload'; allowed: overloaded, rate_limit, .*summary\.$"
    ):
        read_faults({"faults": [{"kind": "overload"}]})


def test_an_empty_body_is_an_empty_object_and_any_other_body_must_be_an_object():
    assert decode_object(b" ") == {}
    for body in (b"[]", b"{", b"\xff", b"[" * 100_000):
        with pytest.raises(ApiError):
            decode_object(body)


KEYS = ["content", "kind", "type", "text", "replies", "faults", "set", "advance_s", "random"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(KEYS), JSON, max_size=2))
def test_any_body_is_accepted_or_an_error(body):
    readers = {read_clock: ClockChange, read_script: tuple, read_faults: FaultPlan}
    for read, understood in readers.items():
        with suppress(ApiError):
            assert isinstance(read(body), understood)
