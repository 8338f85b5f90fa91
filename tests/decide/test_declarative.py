"""What the API is asked to clear by itself."""

import pytest

from everturn.decide.micro.declarative import (
    BETA,
    AppliedContextEdit,
    applied_edits,
    build_context_management,
)
from everturn.decide.settings import DeclarativeSettings
from everturn.decide.tools import ToolKinds, build_tool_table
from everturn.measure.capabilities import ANTHROPIC, PLAIN

TOOLS = ("Write", "Read", "AskUserQuestion", "Bash", "NotebookEdit", "mcp__x__y")
QUIET = DeclarativeSettings(thinking=False)
NUMBERS = {
    "type": "clear_tool_uses_20250919",
    "trigger": {"type": "input_tokens", "value": 180_000},
    "clear_at_least": {"type": "input_tokens", "value": 140_000},
}


def composed(settings=None, *, tools=TOOLS, thinking="present", capabilities=ANTHROPIC, **more):
    chosen = settings or DeclarativeSettings()
    return build_context_management(
        tools, thinking=thinking, settings=chosen, capabilities=capabilities, **more
    )


@pytest.mark.spec("MC-13")
def test_thinking_that_can_be_read_is_kept():
    assert composed() == {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}


@pytest.mark.spec("MC-13")
@pytest.mark.parametrize("thinking", ["redacted", "none"])
def test_redacted_or_absent_thinking_has_no_strategy(thinking):
    assert composed(thinking=thinking) is None


@pytest.mark.spec("MC-13", "MC-14")
def test_thinking_comes_first():
    edits = composed(DeclarativeSettings(tool_results=True))["edits"]
    assert [edit["type"] for edit in edits] == ["clear_thinking_20251015", "clear_tool_uses_20250919"]


@pytest.mark.spec("MC-14")
@pytest.mark.parametrize(
    ("results", "inputs", "lists"),
    [
        (True, False, {"exclude_tools": ["AskUserQuestion", "NotebookEdit", "Write", "mcp__x__y"]}),
        (
            False,
            True,
            {
                "exclude_tools": ["AskUserQuestion", "Bash", "Read", "mcp__x__y"],
                "clear_tool_inputs": ["NotebookEdit", "Write"],
            },
        ),
        (
            True,
            True,
            {
                "exclude_tools": ["AskUserQuestion", "mcp__x__y"],
                "clear_tool_inputs": ["NotebookEdit", "Write"],
            },
        ),
    ],
)
def test_results_and_inputs_are_switched_one_by_one(results, inputs, lists):
    settings = DeclarativeSettings(thinking=False, tool_results=results, tool_inputs=inputs)
    assert composed(settings) == {"edits": [NUMBERS | lists]}


@pytest.mark.spec("MC-2", "MC-14")
def test_a_users_tools_are_cleared_or_kept_by_the_api_too_beside_the_default_ones():
    settings = DeclarativeSettings(
        thinking=False, tool_results=True, tool_inputs=True, results_of=("mcp__x__*",)
    )
    table = build_tool_table(ToolKinds(write_like=("save",), keep=("Bash", "NotebookEdit")))
    (edit,) = composed(settings, tools=(*TOOLS, "save"), table=table)["edits"]
    assert (edit["exclude_tools"], edit["clear_tool_inputs"]) == (
        ["AskUserQuestion", "Bash", "NotebookEdit"],
        ["Write", "save"],
    )


@pytest.mark.spec("MC-14")
def test_the_numbers_come_from_the_settings_and_what_goes_at_least_is_their_difference():
    settings = DeclarativeSettings(thinking=False, tool_results=True, trigger=90_000, target=25_000)
    (edit,) = composed(settings, tools=["Read"])["edits"]
    assert edit == {
        "type": "clear_tool_uses_20250919",
        "trigger": {"type": "input_tokens", "value": 90_000},
        "clear_at_least": {"type": "input_tokens", "value": 65_000},
    }


@pytest.mark.spec("MC-14")
def test_equal_tools_give_equal_bytes_in_whatever_order_they_come():
    settings = DeclarativeSettings(tool_results=True, tool_inputs=True)
    assert composed(settings) == composed(settings, tools=reversed(TOOLS))


def test_nothing_is_asked_where_nothing_can_be_cleared():
    assert composed(QUIET) is None
    assert composed(DeclarativeSettings(thinking=False, tool_results=True), tools=["Task"]) is None


@pytest.mark.spec("OV-4")
def test_a_provider_without_context_editing_is_not_asked():
    assert composed(DeclarativeSettings(tool_results=True), capabilities=PLAIN) is None


def test_what_the_api_applied_is_a_value_that_says_what_the_detector_must_know():
    reported = {
        "applied_edits": [
            {"type": "clear_thinking_20251015", "cleared_thinking_turns": 2, "cleared_input_tokens": 900},
            {"type": "clear_tool_uses_20250919", "cleared_tool_uses": 8, "cleared_input_tokens": 50_000},
            {"type": "edit_of_tomorrow", "cleared_input_tokens": 0},
        ]
    }
    found = applied_edits(reported)
    assert found == (
        AppliedContextEdit("clear_thinking_20251015", 2, 900),
        AppliedContextEdit("clear_tool_uses_20250919", 8, 50_000),
        AppliedContextEdit("edit_of_tomorrow", 0, 0),
    )
    assert [edit.detector_notice for edit in found] == ["deleted", "deleted", "nothing"]


@pytest.mark.parametrize("reported", [None, {}, {"applied_edits": []}, {"applied_edits": 7}, "words"])
def test_a_report_of_nothing_or_of_nonsense_says_nothing(reported):
    assert applied_edits(reported) == ()


@pytest.mark.spec("MC-13", "MC-14")
def test_the_api_takes_what_is_composed_and_clears_by_it(twin):
    tools = [{"name": name, "input_schema": {"type": "object"}} for name in ("Read", "Write", "Task")]
    messages: list[dict] = [{"role": "user", "content": "go"}]
    for at, tool in enumerate(["Read", "Write", "Task", "Read", "Read", "Read"]):
        call = {"type": "tool_use", "id": f"toolu_{at}", "name": tool, "input": {"text": "x" * 4_000}}
        answer = {"type": "tool_result", "tool_use_id": f"toolu_{at}", "content": "y" * 4_000}
        messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [answer]}]
    settings = DeclarativeSettings(tool_results=True, tool_inputs=True, trigger=2_000, target=1_000)
    reply = twin.client().beta.messages.create(
        model="claude-opus-4-6",
        max_tokens=2_000,
        thinking={"type": "adaptive"},
        betas=[BETA],
        tools=tools,
        messages=messages,
        context_management=composed(settings, tools=[tool["name"] for tool in tools]),
    )
    (applied,) = applied_edits(reply.context_management.model_dump())
    assert (applied.edit, applied.cleared) == ("clear_tool_uses_20250919", 2)
    assert applied.tokens > 2_500


def test_numbers_that_the_api_does_not_report_are_none():
    reported = {
        "applied_edits": [{}, {"type": "x", "cleared_thinking_turns": 2}, {"cleared_input_tokens": 9}]
    }
    assert applied_edits(reported) == (
        AppliedContextEdit(""),
        AppliedContextEdit("x", 2, 0),
        AppliedContextEdit("", 0, 9),
    )
