"""Each option changes the behaviour that it describes."""

from typing import Any

import pytest
from twin.asking import EDITING, FIVE, HOUR, Desk, call, result, text, tool, user

from everturn.twin.options import TwinOptions

WORDS = "word " * 400
MODEL = "claude-opus-5"


def desk(**options: Any) -> Desk:
    return Desk(TwinOptions(min_cache={MODEL: 0}, **options))


@pytest.mark.parametrize(("alive_at_ttl", "reads"), [(True, True), (False, False)])
def test_an_entry_at_exactly_its_ttl(alive_at_ttl: bool, reads: bool):
    asked = desk(alive_at_ttl=alive_at_ttl)
    asked.ask(messages=[user(text(WORDS, FIVE))])
    asked.clock.advance(300)
    assert (asked.usage(messages=[user(text(WORDS, FIVE))])[0] > 0) is reads


@pytest.mark.parametrize("lengthens", [True, False])
def test_an_hour_marker_that_hits_a_short_entry(lengthens: bool):
    asked = desk(longer_marker_lengthens=lengthens)
    asked.ask(messages=[user(text(WORDS, FIVE))])
    asked.ask(messages=[user(text(WORDS, HOUR))])
    asked.clock.advance(301)
    assert (asked.usage(messages=[user(text(WORDS, HOUR))])[0] > 0) is lengthens


@pytest.mark.parametrize("survives", [True, False])
def test_an_hour_entry_on_top_of_a_short_one(survives: bool):
    asked = desk(hour_survives_prefix=survives)
    asked.ask(messages=[user(text(WORDS, FIVE))])
    held = [user(text(WORDS), text("What is known.", HOUR), text("."))]
    asked.ask(messages=held)
    asked.clock.advance(301)
    assert (asked.usage(messages=held)[0] > 0) is survives


@pytest.mark.parametrize("share", [True, False])
def test_speeds_and_the_entries_of_tools(share: bool):
    asked = desk(speeds_share_tools=share)
    prefix = {"tools": [tool("look", cache_control=FIVE)], "system": [text(WORDS, FIVE)]}
    asked.ask(**prefix, messages=[user("hi")])
    tools = asked.last()["cache"]["written"][0]["tokens"]
    fast = asked.usage(**prefix, messages=[user("hi")], speed="fast", betas="fast-mode-2026-02-01")
    assert fast[0] == (tools if share else 0)


def cleared(options: dict[str, Any], **edit: Any) -> dict[str, Any]:
    turns = [user("go")]
    for i, name in enumerate(("look", "stay", "look", "stay", "look", "stay")):
        turns.append({"role": "assistant", "content": [call(f"t{i}", name)]})
        turns.append(user(result(f"t{i}", WORDS)))
    edits = [{"type": "clear_tool_uses_20250919", "trigger": {"type": "tool_uses", "value": 2}, **edit}]
    told = desk(**options).ask(
        messages=turns,
        tools=[tool("look"), tool("stay")],
        context_management={"edits": edits},
        betas=EDITING,
    )
    (applied,) = told["context_management"]["applied_edits"]
    return applied


@pytest.mark.parametrize(("counts", "gone"), [(True, 2), (False, 1)])
def test_keep_with_excluded_tools(counts: bool, gone: int):
    keep = {"type": "tool_uses", "value": 2}
    edit = cleared({"keep_counts_excluded": counts}, keep=keep, exclude_tools=["stay"])
    assert edit["cleared_tool_uses"] == gone


def test_cleared_tokens_with_the_placeholders():
    net, gross = cleared({}), cleared({"cleared_tokens_are_net": False})
    assert net["cleared_tool_uses"] == gross["cleared_tool_uses"] == 3
    assert gross["cleared_input_tokens"] > net["cleared_input_tokens"]


@pytest.mark.parametrize(
    ("order", "named"), [("system_first", "system_changed"), ("tools_first", "tools_changed")]
)
def test_which_of_two_changes_a_diagnosis_names(order: Any, named: str):
    asked = desk(diagnosis_order=order)
    first = asked.ask(
        messages=[user("hi")], system="one", tools=[tool("a")], diagnostics={"previous_message_id": None}
    )
    told = asked.ask(
        messages=[user("hi")],
        system="two",
        tools=[tool("b")],
        diagnostics={"previous_message_id": first["id"]},
    )
    assert told["diagnostics"]["cache_miss_reason"]["type"] == named
