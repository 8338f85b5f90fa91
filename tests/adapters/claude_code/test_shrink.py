"""Huge results, moved to files, in the shape of the tool that gave them."""

import os

import pytest

from everturn.adapters.claude_code.shrink import shrink_result

LIMIT = 3_000
LONG = "line of output\n" * 400


def payload(tool: str, response: object, **given: object) -> dict[str, object]:
    return {
        "session_id": "s1",
        "tool_name": tool,
        "tool_use_id": "toolu_1",
        "tool_input": given,
        "tool_response": response,
    }


def test_a_long_output_is_named_where_it_stood(tmp_path):
    response = {"stdout": LONG, "stderr": "short", "interrupted": False, "isImage": False, "extra": [1]}
    changed = shrink_result(payload("Bash", response), LIMIT, str(tmp_path))
    path = tmp_path / "s1" / "toolu_1-stdout.txt"
    assert isinstance(changed, dict)
    first, _, rest = changed["stdout"].partition("\n")
    assert first == (
        "[This result has 6,000 characters, too many to show. "
        f"All of it is in {path}; read it there. It begins:]"
    )
    assert LONG.startswith(rest)
    assert path.read_text() == LONG
    assert changed == response | {"stdout": changed["stdout"]}


@pytest.mark.parametrize(
    ("tool", "response", "place"),
    [
        ("Bash", {"stdout": "", "stderr": LONG}, ["stderr"]),
        ("Grep", {"mode": "content", "content": LONG}, ["content"]),
        ("WebFetch", {"result": LONG, "code": 200}, ["result"]),
        ("mcp__docs__search", [{"type": "image"}, {"type": "text", "text": LONG}], [1, "text"]),
    ],
)
def test_each_tool_keeps_its_shape(tmp_path, tool, response, place):
    changed = shrink_result(payload(tool, response), LIMIT, str(tmp_path))
    inner, before = changed, response
    for step in place[:-1]:
        inner, before = inner[step], before[step]
    assert (set(inner), len(inner[place[-1]]) < LIMIT) == (set(before), True)


def test_a_plain_text_of_a_server_stays_plain_text(tmp_path):
    changed = shrink_result(payload("mcp__docs__search", LONG), LIMIT, str(tmp_path))
    assert isinstance(changed, str)
    assert len(changed) < LIMIT


@pytest.mark.parametrize(
    ("tool", "response"),
    [
        ("Bash", {"stdout": "x" * LIMIT, "stderr": ""}),
        ("Bash", LONG),
        ("Bash", None),
        ("Bash", {"stdout": 3}),
        ("Read", {"type": "text", "file": {"content": LONG}}),
        ("Unknown", {"stdout": LONG}),
        ("mcp__docs__search", [{"type": "text", "text": None}, LONG, None]),
        ("", {}),
    ],
)
def test_what_is_short_or_of_an_unknown_shape_stays(tmp_path, tool, response):
    assert shrink_result(payload(tool, response), LIMIT, str(tmp_path)) is None
    assert os.listdir(tmp_path) == []


def test_reading_a_moved_result_is_not_moved_again(tmp_path):
    response = {"stdout": LONG, "stderr": ""}
    given = payload("Bash", response, command=f"cat {tmp_path}/s1/toolu_0-stdout.txt")
    assert shrink_result(given, LIMIT, str(tmp_path)) is None


def test_a_call_without_a_name_gets_a_file_all_the_same(tmp_path):
    given = payload("Bash", {"stdout": LONG}) | {"tool_use_id": "../../x"}
    shrink_result(given, LIMIT, str(tmp_path))
    (name,) = os.listdir(tmp_path / "s1")
    assert name.startswith("______x-stdout-")
