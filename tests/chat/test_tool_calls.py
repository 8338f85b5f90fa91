"""How tool calls, requests and lists look."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everturn.chat.permission import PermissionRequest
from everturn.chat.screen.tool_calls import (
    MAX_DETAIL_LINES,
    format_call,
    format_permission_request,
    format_question,
    format_todos,
    is_shortened,
    summarize_input,
)
from everturn.chat.tools.todo import Todo
from everturn.dashboard.layout import Screen

WIDE = Screen(80)


@pytest.mark.parametrize(
    ("tool", "given_", "result", "line"),
    [
        ("Read", {"file_path": "src/app.py"}, "1\tone\n2\ttwo\n", "● Read src/app.py  2 lines"),
        ("Read", {"file_path": "a.py"}, "1\tonly", "● Read a.py  1 only"),
        ("Grep", {"pattern": "login", "path": "src"}, "a\nb\nc", "● Grep login in src  3 lines"),
        ("Bash", {"command": "make  test\n"}, "Exit code 2\nfailed", "● Bash make test  Exit code 2"),
        ("Edit", {"file_path": "a.py"}, "a.py was changed (+1 -1).", "● Edit a.py  was changed (+1 -1)."),
        ("Glob", {"pattern": "*"}, "", "● Glob *  no output"),
        ("Odd", {"depth": 3}, "fine", "● Odd  fine"),
    ],
)
def test_a_call_is_one_line_with_what_was_asked_and_what_came_out(
    tool: str, given_: dict[str, Any], result: str, line: str
):
    assert format_call(tool, given_, result, "well", WIDE).plain == line


def test_a_call_that_went_wrong_says_why_in_its_first_line():
    line = format_call("Read", {"file_path": "a.py"}, "There is no a.py.\nLook around.", "wrong", WIDE)
    assert line.plain == "● Read a.py  There is no a.py."
    assert {str(span.style) for span in line.spans} >= {"red"}


def test_on_a_narrow_screen_both_sides_get_half():
    line = format_call("Bash", {"command": "python -m pytest tests"}, "x" * 60, "well", Screen(40))
    assert line.plain == "● Bash python -m pyte…  xxxxxxxxxxxxxxx…"


def test_without_shapes_letters_stand_in():
    line = format_call("Read", {"file_path": "é.py"}, "ok…", "well", Screen(40, ascii_only=True))
    assert line.plain == "* Read ?.py  ok?"


def test_calls_of_a_search_agent_are_deeper():
    assert format_call("Glob", {"pattern": "*"}, "a", "well", WIDE, deep=1).plain == "  ● Glob *  a"


@given(
    st.text(max_size=30),
    st.dictionaries(st.sampled_from(["command", "path", "pattern", "x"]), st.text() | st.integers()),
    st.text(),
    st.sampled_from(["well", "wrong"]),
    st.integers(20, 100),
)
def test_a_line_is_one_line_that_fits_whatever_a_model_asked_for(tool, asked, result, went, width):
    line = format_call(tool, asked, result, went, Screen(width))
    assert line.cell_len <= width
    assert line.plain.isprintable()


def test_the_field_that_tells_calls_apart_comes_first():
    assert summarize_input({"description": "Run tests", "command": "make test"}) == "make test"
    assert summarize_input({}) == ""


def test_a_wish_shows_its_diff_and_what_hides_in_it():
    request = PermissionRequest(
        "Write", "write a.py (+1 -1)", "--- a.py\n+++ a.py\n-old\n+new\x1b[2J", "edits in .", "edit"
    )
    assert [line.plain for line in format_permission_request(request, WIDE)] == [
        "Write: write a.py (+1 -1)",
        "  --- a.py",
        "  +++ a.py",
        "  -old",
        "  +new\\x1b[2J",
    ]


def test_a_long_diff_is_cut_and_says_so():
    request = PermissionRequest(
        "Write", "write a.py", "\n".join(f"+{n}" for n in range(100)), "edits in .", "edit"
    )
    lines = [line.plain for line in format_permission_request(request, WIDE)]
    assert lines[-1] == f"  ({100 - MAX_DETAIL_LINES} lines more)"
    assert len(lines) == 1 + MAX_DETAIL_LINES + 1


def test_a_command_that_is_its_own_detail_is_shown_once():
    request = PermissionRequest("Bash", "run make test", "make test", "make test …")
    assert [line.plain for line in format_permission_request(request, WIDE)] == ["Bash: run make test"]


def test_a_command_is_shown_to_its_last_letter_on_any_screen():
    command = "echo " + "a" * 60 + " " * 30 + "; rm -rf ~"
    request = PermissionRequest("Bash", f"run {' '.join(command.split())}", f"{command}\nls", command)
    for width in (20, 40, 80):
        head, *lines = (line.plain for line in format_permission_request(request, Screen(width)))
        assert "".join(line.removeprefix("  ") for line in lines) == f"{command}ls"
        assert max(map(len, [head, *lines])) <= width
    assert not is_shortened(request, WIDE)


def test_a_command_of_one_line_that_is_too_long_for_its_line_is_shown_below():
    command = "echo " + "a" * 80 + "; rm -rf ~"
    lines = [
        line.plain
        for line in format_permission_request(
            PermissionRequest("Bash", f"run {command}", command, command), WIDE
        )
    ]
    assert lines[-1].endswith("; rm -rf ~")


def test_all_of_a_diff_can_be_seen_where_some_is_left_out():
    short = PermissionRequest("Write", "write a.py", "+1\n+2", "edits in .", "edit")
    for detail in ("\n".join(f"+{n}" for n in range(100)), "+" + "x" * 100):
        request = PermissionRequest("Write", "write a.py", detail, "edits in .", "edit")
        assert "s show all" in format_question(request, WIDE)
        shown = [
            line.plain.removeprefix("  ") for line in format_permission_request(request, WIDE, whole=True)
        ]
        assert "".join(shown[1:]) == detail.replace("\n", "")
    assert "show" not in format_question(short, WIDE)


@pytest.mark.parametrize(
    ("width", "asked"),
    [
        (80, "Allow? y once, a always for make test …, n no: "),
        (40, "Allow? y once, a always, n no: "),
        (20, "Allow? y/a/n: "),
    ],
)
def test_the_question_fits_the_screen(width, asked):
    assert (
        format_question(PermissionRequest("Bash", "run make test", "make test", "make test …"), Screen(width))
        == asked
    )


def test_a_list_shows_what_is_done_what_is_going_on_and_what_is_left():
    todos = (Todo("Read", "completed"), Todo("Fix", "in_progress"), Todo("Test"))
    assert [line.plain for line in format_todos(todos, WIDE)] == ["  ✔ Read", "  ▸ Fix", "  ○ Test"]
    plain = [line.plain for line in format_todos(todos, Screen(80, ascii_only=True))]
    assert plain == ["  x Read", "  > Fix", "  - Test"]
