"""What tools do, asked of one table."""

import json

import pytest

from everturn.history.blocks import Block, block_from_fields
from everturn.measure.printed_file import printed_file
from everturn.measure.tool_table import (
    DEFAULT_TOOL_TABLE,
    ROWS,
    UNKNOWN_ROW,
    EditFields,
    ToolEntry,
    ToolRow,
    ToolTable,
    path_read,
)


def call(tool: str, **given: object) -> Block:
    return block_from_fields({"type": "tool_use", "id": "c", "name": tool, "input": given})


def test_no_name_stands_in_two_rows():
    names = [name for row in ROWS for name in row.names]
    assert sorted(names) == sorted(set(names))


def test_an_exact_name_goes_before_a_pattern_and_an_unknown_tool_has_a_row_of_its_own():
    does = {tool: DEFAULT_TOOL_TABLE.find(tool).does for tool in ("Task", "TaskCreate", "TaskList", "todo_x")}
    assert does == {
        "Task": "runs_agent",
        "TaskCreate": "adds_task",
        "TaskList": "tracks_tasks",
        "todo_x": "tracks_tasks",
    }
    assert DEFAULT_TOOL_TABLE.find("a_tool_of_tomorrow") is UNKNOWN_ROW


def test_a_row_says_all_that_is_known_of_its_tools():
    assert DEFAULT_TOOL_TABLE.find("str_replace_editor") == ToolRow(
        names=("str_replace_based_edit_tool", "str_replace_editor"),
        does="edits",
        path=("path", "file_path", "notebook_path", "absolute_path"),
        is_reproducible=True,
        has_large_input=True,
        by_command=(("view", "reads"), ("create", "writes")),
        replaces=EditFields("old_str", "new_str"),
    )


@pytest.mark.spec("MC-2")
def test_entries_extend_the_table_override_only_what_they_name_and_leave_the_rest():
    table = DEFAULT_TOOL_TABLE.extended(
        [
            ToolEntry(names=("mcp__*",), is_reproducible=True),
            ToolEntry(names=("mcp__files__get",), does="reads", path=("name",)),
            ToolEntry(names=("Read",), is_reproducible=False),
            ToolEntry(names=(), does="asks"),
        ]
    )
    read = DEFAULT_TOOL_TABLE.find("Read")
    assert (table.find("Read").does, table.find("Read").is_reproducible) == ("reads", False)
    assert table.find("mcp__x__y") == ToolRow(is_reproducible=True)
    assert table.find("mcp__files__get") == ToolRow(does="reads", path=("name",), is_reproducible=True)
    assert table.find("Bash") == DEFAULT_TOOL_TABLE.find("Bash")
    # The table that was extended is what it was.
    assert DEFAULT_TOOL_TABLE.find("Read") is read


def test_a_later_entry_wins_and_equal_tables_are_equal_whatever_was_looked_up():
    entries = [ToolEntry(names=("x*",), does="reads"), ToolEntry(names=("x1",), does="runs")]
    table = DEFAULT_TOOL_TABLE.extended(entries[:1]).extended(entries[1:])
    assert [table.find(tool).does for tool in ("x1", "x2")] == ["runs", "reads"]
    assert table == ToolTable(ROWS, tuple(entries))
    assert DEFAULT_TOOL_TABLE.extended([]) is DEFAULT_TOOL_TABLE


def test_a_table_that_was_asked_for_any_number_of_names_still_answers():
    table = ToolTable()
    assert {table.find(f"tool{at}").does for at in range(10_000)} == {"other"}
    assert table.find("Read").does == "reads"


@pytest.mark.spec("TOK-10", "CP-13")
@pytest.mark.parametrize(
    ("block", "path"),
    [
        (call("Read", file_path="/a.py"), "/a.py"),
        (call("NotebookRead", notebook_path="/n.ipynb"), "/n.ipynb"),
        (call("read", path="a.py", limit=5), "a.py"),
        (call("read_file", file_path="/a.py"), "/a.py"),
        (call("read_file", absolute_path="/a.py"), "/a.py"),
        (call("read_file", file_path="", path="/b.py"), "/b.py"),
        (call("str_replace_editor", command="view", path="/a.py"), "/a.py"),
        (call("str_replace_editor", command="create", path="/a.py"), ""),
        (call("str_replace_editor", command=["view"], path="/a.py"), ""),
        (call("str_replace_editor", path="/a.py"), ""),
        (call("read_many_files", paths=["/a.py"]), ""),
        (call("Edit", file_path="/a.py"), ""),
        (call("Bash", command="cat /a.py"), ""),
        (call("shell", command=["bash", "-lc", "sed -n '1,200p' src/a.py"]), "src/a.py"),
        (call("exec_command", cmd="cat src/a.py"), "src/a.py"),
        (call("exec_command", cmd="pytest -q"), ""),
        (call("Read", file_path=7), ""),
        (Block("tool_use", b'{"type":"tool_use","input":[]}', "c", "Read"), ""),
        (Block("tool_use", b"not json", "c", "Read"), ""),
    ],
    ids=lambda value: value.raw.decode()[18:90] if isinstance(value, Block) else None,
)
def test_the_file_that_a_call_reads_is_found_in_every_known_spelling(block: Block, path: str):
    assert path_read(block) == path


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("cat a.py", "a.py"),
        ("cat -n 'my file.py'", "my file.py"),
        ("nl -ba a.py", "a.py"),
        ("head -n 40 a.py", "a.py"),
        ("head -40 a.py", "a.py"),
        ("tail a.py", "a.py"),
        ("sed -n 1,80p a.py", "a.py"),
        ("sed -n 40p a.py", "a.py"),
        (["cat", "a.py"], "a.py"),
        (["/bin/bash", "-lc", "cat a.py"], "a.py"),
        ("cat a.py b.py", ""),
        ("cat a.py | head", ""),
        ("cat a.py > b.py", ""),
        ("cat *.py", ""),
        ("cat a.py && rm a.py", ""),
        ("cat", ""),
        ("cat 'a.py", ""),
        ("sed s/a/b/ a.py", ""),
        ("sed -i s/a/b/ a.py", ""),
        ("sed -n /x/p a.py", ""),
        ("tail -f a.py", ""),
        ("rm a.py", ""),
        ("", ""),
        (None, ""),
        ([7], ""),
    ],
    ids=json.dumps,
)
def test_a_command_reads_a_file_where_printing_it_is_all_that_it_does(command: object, path: str):
    assert printed_file(command) == path
