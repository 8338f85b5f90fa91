"""What a program passes to a session by mistake is refused when it is opened."""

import asyncio
import re

import pytest
from anthropic import AsyncAnthropic

from everturn import AsyncSession, CallbackHook, Hooks, Session, Tool, UsageError


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


@pytest.mark.parametrize(
    ("method", "arguments", "says"),
    [
        ("pin", {"text": 5}, "`text` takes the text to pin; this is 5."),
        ("rewind", {"uuid": 5}, "`uuid` takes the uuid of a message; this is 5."),
        ("recall", {"query": 5}, "`query` takes the words to search for, in one text; this is 5."),
        ("recall", {"query": "a", "limit": "x"}, "`limit` takes a whole number from 1 on; this is 'x'."),
        ("compact", {"instructions": None}, "`instructions` takes a text; this is None."),
        ("compact", {"up_to": 5}, "`up_to` takes the uuid of a record; this is 5."),
        ("dry_run", {"from_": 5}, "`from_` takes the uuid of a record; this is 5."),
        ("send", {"message": 5}, "A message is a text or a list of content blocks; this is 5."),
        ("send", {"message": "a", "rounds": -1}, "`rounds` takes a whole number from 0 on; this is -1."),
        ("send", {"message": "a", "rounds": "x"}, "`rounds` takes a whole number from 0 on; this is 'x'."),
    ],
)
def test_an_argument_of_the_wrong_type_is_refused_and_changes_nothing(method, arguments, says, tmp_path):
    with Session.open(tmp_path / "s.jsonl", config=None, send=print) as session:
        with pytest.raises(UsageError, match=re.escape(says)):
            getattr(session, method)(**arguments)
        assert session.conversation.log.records == []

    async def do() -> None:
        async with await AsyncSession.open(tmp_path / "a.jsonl", config=None, send=print) as session:
            with pytest.raises(UsageError, match=re.escape(says)):
                await getattr(session, method)(**arguments)

    asyncio.run(do())
