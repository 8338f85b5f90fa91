"""What a program passes to a session by mistake is refused when it is opened."""

import re

import pytest
from anthropic import AsyncAnthropic

from everturn import CallbackHook, Hooks, Session, Tool, UsageError


@pytest.mark.parametrize("kind", [str, lambda path: path, lambda path: [path]])
def test_one_root_need_not_be_in_a_list_and_its_characters_are_no_folders(kind, tmp_path):
    with Session.open(tmp_path / "s.jsonl", config=None, send=print, roots=kind(tmp_path)) as session:
        assert session._runtime.parts.roots == (str(tmp_path),)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"tools": [{"name": "Read"}]}, "`tools` takes a list of `Tool`, such as"),
        ({"tools": "Read"}, "`tools` takes a list of `Tool`; this is 'Read'."),
        ({"system": ["Be brief."]}, "`system` takes a text, or `Sections`; this is a value of type list."),
        ({"client": AsyncAnthropic(api_key="k"), "send": None}, "this is a value of type AsyncAnthropic."),
        ({"send": "twin"}, "`send` takes a callable, which gets body and betas"),
        ({"permit": True}, "`permit` takes a callable"),
        ({"may_read": "~"}, "`may_read` takes a callable"),
        ({"listen": []}, "`listen` takes a callable"),
        ({"hooks": Hooks((CallbackHook("PreToolUs", print),))}, "Did you mean 'PreToolUse'?"),
    ],
)
def test_an_object_that_cannot_be_what_it_stands_for_is_refused_when_a_session_is_opened(
    given, says, tmp_path
):
    with pytest.raises(UsageError, match=re.escape(says)):
        Session.open(tmp_path / "s.jsonl", config=None, **{"send": print, **given})
    assert list(tmp_path.iterdir()) == []


def test_tools_may_come_from_a_generator(tmp_path):
    tools = (Tool({"name": name, "input_schema": {"type": "object"}}) for name in "ab")
    with Session.open(tmp_path / "s.jsonl", config=None, send=print, tools=tools) as session:
        assert [tool.name for tool in session._runtime.parts.tools] == ["a", "b"]
