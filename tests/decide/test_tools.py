"""Which tools' results may be cleared, and what users say about tools of their own."""

import builders as b
import pytest

from everturn.decide.compact.restoration import plan_restoration
from everturn.decide.compact.settings import DEFAULTS
from everturn.decide.policy import get_policy
from everturn.decide.result_tracker import ResultTracker
from everturn.decide.tools import ALL_ALIKE, DEFAULT_TOOLS, ToolKinds, build_tool_table, kind_of
from everturn.measure.tokens import TokenCounter


@pytest.mark.spec("MC-2")
@pytest.mark.parametrize(
    ("kind", "tools"),
    [
        ("reproducible", "Read Bash Grep Glob WebSearch WebFetch read_file bash shell grep glob web_search"),
        ("write_like", "Edit Write edit_file write_file str_replace_based_edit_tool apply_patch"),
        ("keep", "AskUserQuestion Task TaskCreate TaskUpdate TodoWrite NotebookEdit SendMessage ToolSearch"),
        ("keep", "mcp__tracker__create_issue a_tool_of_tomorrow unknown"),
    ],
)
def test_each_default_tool_is_sorted_and_an_unknown_one_is_kept(kind: str, tools: str):
    assert {tool: kind_of(tool, DEFAULT_TOOLS) for tool in tools.split()} == dict.fromkeys(
        tools.split(), kind
    )


@pytest.mark.spec("MC-2")
def test_users_sort_their_own_tools_by_name_or_pattern_and_keep_wins():
    kinds = ToolKinds(
        reproducible=("mcp__files__*", "query"), write_like=("mcp__*_write",), keep=("*secret*",)
    )
    tools = ("mcp__files__read", "query", "mcp__db_write", "mcp__files__secret", "querying")
    assert [kind_of(tool, kinds) for tool in tools] == [
        "reproducible", "reproducible", "write_like", "keep", "keep",
    ]  # fmt: skip


@pytest.mark.spec("MC-2")
def test_what_a_user_says_is_added_to_the_default_tools_and_overrides_them_by_name():
    kinds = ToolKinds(reproducible=("query", "NotebookEdit"), keep=("WebFetch",))
    tools = ("query", "NotebookEdit", "WebFetch", "Read", "Bash", "Grep", "Edit", "TodoWrite")
    assert [kind_of(tool, kinds) for tool in tools] == [
        "reproducible", "reproducible", "keep", "reproducible", "reproducible", "reproducible",
        "write_like", "keep",
    ]  # fmt: skip


@pytest.mark.spec("MC-2")
def test_policies_that_treat_all_tools_alike_clear_every_result_but_those_a_user_keeps():
    assert get_policy("masking").options.tools == get_policy("clear-keep-3").options.tools == ALL_ALIKE
    tools = ("TodoWrite", "a_tool_of_tomorrow", "Read", "mcp__x__secret")
    cleared = [tool for tool in tools if kind_of(tool, ALL_ALIKE) != "keep"]
    assert cleared == list(tools)
    kept = ToolKinds(clear_all=True, keep=("*secret",))
    assert [tool for tool in tools if kind_of(tool, kept) == "keep"] == ["mcp__x__secret"]


@pytest.mark.spec("MC-2", "CP-13")
def test_a_file_that_a_users_own_tool_reads_is_cleared_and_restored_like_any_other():
    records = [
        b.assistant(b.call("c1", "mcp__files__open", path="/src/a.py"), id="m1", uuid="a1"),
        b.user([b.answer("c1", "text of it")], uuid="r1"),
    ]
    kinds = ToolKinds(reads=("mcp__files__*",))
    results = {name: ResultTracker(each) for name, each in (("told", kinds), ("not told", DEFAULT_TOOLS))}
    for tracker in results.values():
        for record in records:
            tracker.add(record, TokenCounter())
    assert {
        name: [(each.call, each.path) for each in tracker.active] for name, tracker in results.items()
    } == {
        "told": [("c1", "/src/a.py")],
        "not told": [],
    }
    restored = plan_restoration(records, [], DEFAULTS, tools=build_tool_table(kinds)).files
    assert (restored, plan_restoration(records, [], DEFAULTS).files) == (("/src/a.py",), ())
