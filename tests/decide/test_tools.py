"""Which tools' results may be cleared."""

import pytest

from everturn.decide.tools import DEFAULT_TOOLS, TABLE, ToolKinds, kind_of


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
    tools = ("mcp__files__read", "query", "mcp__db_write", "mcp__files__secret", "querying", "Read")
    assert [kind_of(tool, kinds) for tool in tools] == [
        "reproducible", "reproducible", "write_like", "keep", "keep", "keep",
    ]  # fmt: skip


def test_no_tool_stands_in_two_rows_of_the_table():
    names = [name for _, _, row in TABLE for name in row]
    assert sorted(names) == sorted(set(names))
