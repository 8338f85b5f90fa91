"""Cache diagnostics: a request compared with an earlier one."""

import pytest
from twin.asking import Desk, assistant, text, tool, user

TALK = [user("a question"), assistant("an answer"), user("another")]
BASE = {"tools": [tool("look")], "system": "You help.", "messages": TALK}


def asked(desk: Desk, previous: str | None, **body):
    told = desk.ask(diagnostics={"previous_message_id": previous}, **{**BASE, **body})
    return told["id"], told["diagnostics"]


def tokens(desk: Desk, **body) -> int:
    """The tokens of these parts, without the three trailing ones."""
    return desk.ask(endpoint="count_tokens", **body)["input_tokens"] - desk.twin.options.trailing_tokens


CASES = [
    ("nothing", {}, None),
    ("appended", {"messages": [*TALK, assistant("yes"), user("more")]}, None),
    ("the model", {"model": "claude-opus-4-8"}, "model_changed"),
    ("the speed", {"speed": "fast", "betas": "fast-mode-2026-02-01"}, "model_changed"),
    ("the system", {"system": "You help much."}, "system_changed"),
    ("the tools", {"tools": [tool("look"), tool("new")]}, "tools_changed"),
    ("system and tools", {"system": "You.", "tools": [tool("new")]}, "system_changed"),
    ("a message", {"messages": [user("a question!"), *TALK[1:]]}, "messages_changed"),
    ("a message gone", {"messages": TALK[:1]}, "messages_changed"),
    ("tool_choice", {"tool_choice": {"type": "none"}}, "unavailable"),
    ("thinking", {"thinking": {"type": "disabled"}}, "unavailable"),
    ("effort", {"output_config": {"effort": "low"}}, "unavailable"),
    ("betas", {"betas": "context-management-2025-06-27"}, "unavailable"),
]


@pytest.mark.spec("TW-5")
@pytest.mark.parametrize(("what", "change", "reason"), CASES, ids=[case[0] for case in CASES])
def test_the_first_difference_is_reported(what, change, reason):
    desk = Desk()
    first, diagnostics = asked(desk, None)
    assert diagnostics is None
    _, diagnostics = asked(desk, first, **change)
    if reason is None:
        assert diagnostics is None
    else:
        assert diagnostics["cache_miss_reason"]["type"] == reason


@pytest.mark.spec("TW-5")
def test_the_missed_tokens_are_those_after_the_first_difference():
    desk = Desk()
    total = tokens(desk, **BASE)
    messages = tokens(desk, messages=TALK)
    first, _ = asked(desk, None)
    changed = [user("a question"), assistant("an Answer"), user("another")]
    missed = {
        "model_changed": ({"model": "claude-opus-4-8"}, total),
        "tools_changed": ({"tools": [tool("new")]}, total),
        "system_changed": ({"system": "You."}, messages + 4),
        "messages_changed": ({"messages": changed}, messages - tokens(desk, messages=TALK[:1])),
    }
    for reason, (change, count) in missed.items():
        _, diagnostics = asked(desk, first, **change)
        assert diagnostics == {"cache_miss_reason": {"type": reason, "cache_missed_input_tokens": count}}


@pytest.mark.spec("TW-5")
def test_a_previous_message_that_is_unknown_foreign_old_or_without_diagnostics_is_not_found():
    desk = Desk()
    not_found = {"cache_miss_reason": {"type": "previous_message_not_found"}}
    assert asked(desk, "msg_unknown")[1] == not_found
    plain = desk.ask(**BASE)
    assert plain["diagnostics"] is None
    assert asked(desk, plain["id"])[1] == not_found
    first, _ = asked(desk, None)
    assert asked(desk, first, key="other")[1] == not_found
    desk.clock.advance(desk.twin.options.diagnosis_keeps_seconds + 1)
    assert asked(desk, first)[1] == not_found


def test_a_moved_breakpoint_is_not_a_difference():
    desk = Desk()
    marked = text("a question", {"type": "ephemeral"})
    first, _ = asked(desk, None, messages=[user(marked)])
    assert asked(desk, first, messages=TALK)[1] is None
