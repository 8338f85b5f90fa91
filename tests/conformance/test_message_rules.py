"""What a message may contain and in which order messages come: the wordings of the refusals."""

import pytest
from conformance.api import Api, Json, assistant, call, long, text, tool, user

pytestmark = pytest.mark.spec("TW-6")
BAD_REQUEST = (400, "invalid_request_error")


def test_empty_text_is_refused(api: Api):
    assert api.refused(user(text(""))) == "messages: text content blocks must be non-empty"


@pytest.mark.parametrize("space", [" ", "\n\n", "\t "])
def test_text_of_only_space_is_refused(api: Api, space: str):
    assert api.refused(user(text(space))).startswith("messages: text content blocks must")


@pytest.mark.parametrize("content", ["", []])
def test_an_empty_message_is_refused(api: Api, content: object):
    words = api.refused(user("a"), {"role": "assistant", "content": content}, user("b"))
    assert words == (
        "messages.1: all messages must have non-empty content except for the optional final assistant message"
    )


def test_no_messages_are_refused(api: Api):
    assert api.refused() == "messages: at least one message is required"


@pytest.mark.parametrize(
    ("fields", "messages", "words"),
    [
        (
            {"system": [text("", {"type": "ephemeral"})]},
            [user("a")],
            "system.0: cache_control cannot be set for empty text blocks",
        ),
        (
            {},
            [user("a", text("", {"type": "ephemeral"}))],
            "messages.0.content.1.text: cache_control cannot be set for empty text blocks",
        ),
    ],
)
def test_a_marker_on_empty_text_is_refused(api: Api, fields: Json, messages: list[Json], words: str):
    assert api.refused(*messages, **fields) == words


@pytest.mark.parametrize(
    ("fields", "messages", "path"),
    [
        ({"surprise": 1}, [user("a")], "surprise"),
        ({}, [{**user("a"), "surprise": 1}], "messages.0.surprise"),
        ({}, [user({**text("a"), "surprise": 1})], "messages.0.content.0.text.surprise"),
        ({"tools": [tool(surprise=1)]}, [user("a")], "tools.0.custom.surprise"),
        ({"system": [{**text("a"), "surprise": 1}]}, [user("a")], "system.0.surprise"),
        (
            {},
            [user(text("a", {"type": "ephemeral", "scope": "x"}))],
            "messages.0.content.0.text.cache_control.ephemeral.scope",
        ),
        ({"metadata": {"surprise": 1}}, [user("a")], "metadata.surprise"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_an_unknown_field_is_refused_by_its_path(api: Api, fields: Json, messages: list[Json], path: str):
    assert api.refused(*messages, **fields) == f"{path}: Extra inputs are not permitted"


@pytest.mark.parametrize("missing", ["model", "max_tokens", "messages"])
def test_a_missing_field_is_named(api: Api, missing: str):
    body = {"model": "claude-opus-5", "max_tokens": 10, "messages": [user("hi")]}
    del body[missing]
    answer = api.send("POST", "/v1/messages", body)
    assert answer.said == (*BAD_REQUEST, f"{missing}: Field required")


@pytest.mark.parametrize("block", [{"type": "poem", "text": "x"}, {"text": "x"}, "words", 5, None], ids=str)
def test_an_unknown_block_is_refused(api: Api, block: object):
    words = api.refused({"role": "user", "content": [block]})
    assert words.startswith("messages.0.content.0")


@pytest.mark.parametrize("role", ["robot", "", None, 5, "User"])
def test_an_unknown_role_is_refused(api: Api, role: object):
    assert api.refused({"role": role, "content": "hi"}).startswith("messages.0.role")


# The order of messages


def test_neighbours_of_one_role_are_merged(api: Api):
    assert api.ask(user("a"), user("b"), assistant("c"), assistant("d"), user("e")).status == 200


def test_a_conversation_starts_with_the_user(api: Api):
    assert api.ask(assistant("hello"), user("hi")).status == 400


@pytest.mark.parametrize(
    ("turns", "status"),
    [
        (["user", "system"], 200),
        (["user", "system", "assistant", "user"], 200),
        (["user", "system", "system"], 200),
        (["system", "user"], 400),
        (["user", "assistant", "system", "user"], 400),
        (["user", "system", "user"], 400),
    ],
    ids=str,
)
def test_a_system_message_follows_the_user(api: Api, turns: list[str], status: int):
    assert api.ask(*[{"role": r, "content": "words"} for r in turns]).status == status


@pytest.mark.parametrize(
    ("model", "status"),
    [("claude-opus-4-8", 200), ("claude-fable-5", 200), ("claude-sonnet-5", 400), ("claude-opus-4-7", 400)],
)
def test_system_messages_need_a_model_that_takes_them(api: Api, model: str, status: int):
    assert api.ask(user("a"), {"role": "system", "content": "b"}, model=model).status == status


@pytest.mark.parametrize(
    ("field", "header"),
    [
        ({"clear_at": "next_user_message"}, "mid-conversation-system-clear-at-2026-08-21"),
        ({"output_config": {"effort": "low"}}, "mid-conversation-output-config-2026-07-01"),
    ],
)
def test_extras_of_system_messages_need_their_header(api: Api, field: Json, header: str):
    turns = [user("a"), {"role": "system", "content": [text("b")], **field}]
    assert api.ask(*turns).status == 400
    assert api.ask(*turns, betas=header).status == 200


def test_a_turn_scoped_message_takes_no_marker(api: Api):
    marked = [text("b", {"type": "ephemeral"})]
    turns = [user("a"), {"role": "system", "content": marked, "clear_at": "next_user_message"}]
    assert "cache_control" in api.refused(*turns, betas="mid-conversation-system-clear-at-2026-08-21")


def test_a_turn_scoped_message_costs_nothing_later(api: Api):
    header = "mid-conversation-system-clear-at-2026-08-21"
    aside = {"role": "system", "content": [text("words " * 100)], "clear_at": "next_user_message"}
    now = api.count(user("a"), aside, betas=header)
    later = api.count(user("a"), aside, assistant("b"), user("c"), betas=header)
    assert now > api.count(user("a")) + 100
    assert later - api.count(user("a"), assistant("b"), user("c")) <= 4


def test_a_deferred_tool_takes_no_marker(api: Api):
    search = {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}
    deferred = tool(defer_loading=True, cache_control={"type": "ephemeral"})
    assert "cache_control" in api.refused("hi", tools=[search, deferred])


@pytest.mark.parametrize("name", ["", "with space", "n" * 129, "dot.dot", 5])
def test_a_wrong_tool_name_is_refused(api: Api, name: object):
    assert api.refused("hi", tools=[tool() | {"name": name}]).startswith("tools.0")


def test_two_tools_of_one_name_are_refused(api: Api):
    assert api.refused("hi", tools=[tool("a"), tool("a")]) == "tools: Tool names must be unique."


def test_a_tool_choice_must_exist(api: Api):
    assert "nothing" in api.refused("hi", tools=[tool()], tool_choice={"type": "tool", "name": "nothing"})


def test_refusals_are_the_same_for_streams(api: Api):
    assert api.ask(user(text("")), stream=True).said == api.ask(user(text(""))).said


def test_count_tokens_refuses_the_same(api: Api):
    assert api.counted(user(text(""))).said == api.ask(user(text(""))).said
    assert api.counted(user("go"), assistant(call("t1")), user("x")).status == 400


def test_long_histories_pass(api: Api):
    turns = [t for i in range(300) for t in (user(f"q{i}"), assistant(f"a{i}"))]
    assert api.ask(*turns, user(long("end", 100))).status == 200
