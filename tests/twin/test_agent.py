import json
import random

import pytest

from everturn.twin.agent import RuleBasedAgent
from everturn.twin.parse import parse_request
from everturn.twin.validate.model_rules import has_thinking_enabled

READ = {
    "name": "read_file",
    "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}
EDIT = {
    "name": "edit_file",
    "input_schema": {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "old_string": {"type": "string"},
            "new_string": {"type": "string"},
        },
        "required": ["path", "old_string", "new_string"],
    },
}
TOOLS = [EDIT, READ, {"name": "get_status", "input_schema": {"type": "object"}}]
# The tools of Claude Code 2.1, except those over files and the shell.
CLAUDE_CODE = [
    "Agent", "CronCreate", "CronDelete", "CronList", "EnterWorktree", "ExitWorktree", "NotebookEdit",
    "ReportFindings", "ScheduleWakeup", "SendMessage", "Skill", "TaskCreate", "TaskGet", "TaskList",
    "TaskOutput", "TaskStop", "TaskUpdate", "WebFetch", "WebSearch", "Workflow", "Write", "Edit",
]  # fmt: skip


def request(messages, model="claude-haiku-4-5", **fields):
    body = {"model": model, "max_tokens": 4000, "messages": messages} | fields
    return parse_request("messages", {}, json.dumps(body).encode(), workspace="k")


def turn(asked, *, seed=0, **fields):
    """A complete turn: the replies of the agent until it stops, with a result for each call."""
    messages, replies = [{"role": "user", "content": asked}], []
    while not replies or replies[-1].stop_reason == "tool_use":
        said = RuleBasedAgent(seed).say(request(messages, **fields), rng=random.Random(len(replies)))
        replies.append(said)
        results = [
            {"type": "tool_result", "tool_use_id": block["id"], "content": "see src/core/engine.py"}
            for block in said.content
            if block["type"] == "tool_use"
        ]
        messages += [
            {"role": "assistant", "content": list(said.content)},
            {"role": "user", "content": results},
        ]
        assert len(replies) < 10
    return replies


def calls(replies):
    return [block for said in replies for block in said.content if block["type"] == "tool_use"]


def named(name, description=""):
    return {"name": name, "description": description, "input_schema": {"type": "object"}}


@pytest.mark.spec("TW-8")
def test_unasked_the_agent_calls_only_tools_that_read_and_then_reports():
    for seed in range(20):
        replies = turn("Fix the parser in src/lexer.py", seed=seed, tools=TOOLS)
        assert {call["name"] for call in calls(replies)} <= {"read_file", "get_status"}
        assert replies[-1].content[-1]["type"] == "text"


@pytest.mark.spec("TW-8")
@pytest.mark.parametrize(
    ("name", "description", "is_called"),
    [
        ("read_file", "", True),
        ("Grep", "", True),
        ("get_weather", "", True),
        ("mcp__jira__search_issues", "", True),
        ("lookupCustomer", "", True),
        ("weather", "Returns the weather of a city.", True),
        ("weather", "Sends the weather to a city.", False),
        ("weather", "", False),
        ("get_page", "Get a page from the web.", False),
        ("get_orders", "Get the open orders.", True),
        ("search_web", "", False),
        ("fetch_url", "", False),
        ("get_and_delete", "", False),
        ("mcp__github__create_issue", "Get an issue created.", False),
        ("deploy", "Returns nothing.", False),
        ("deploy", "Deploy the service.", False),
        ("checkout", "", False),
        ("run_tests", "", False),
        *((name, "", False) for name in CLAUDE_CODE),
    ],
)
def test_a_tool_is_called_unasked_only_if_its_name_or_description_says_that_it_reads(
    name, description, is_called
):
    seeds = range(10)
    called = [calls(turn("Go on", seed=seed, tools=[named(name, description)])) for seed in seeds]
    assert {bool(each) for each in called} == {is_called}


def test_a_tool_that_acts_is_called_when_the_user_asks_for_it_by_name():
    tools = [named("deploy", "Deploy the service.")]
    assert calls(turn("Please call the deploy tool.", tools=tools)) != []
    assert calls(turn("We deploy on Fridays. Explain.", tools=tools)) == []


@pytest.mark.spec("TW-8")
def test_the_agent_gives_equal_replies_for_equal_seeds_only():
    assert turn("Fix it", seed=3, tools=TOOLS) == turn("Fix it", seed=3, tools=TOOLS)
    assert turn("Fix it", seed=3, tools=TOOLS) != turn("Fix it", seed=4, tools=TOOLS)


def test_the_agent_uses_the_paths_it_has_seen():
    paths = {
        call["input"]["path"]
        for call in calls(turn("Fix src/lexer.py", tools=TOOLS))
        if "path" in call["input"]
    }
    assert paths <= {"src/lexer.py", "src/core/engine.py"}
    assert paths


def test_some_steps_call_in_parallel_unless_that_is_forbidden():
    def widest(**fields):
        return max(len(calls([said])) for seed in range(20) for said in turn("Fix it", seed=seed, **fields))

    assert widest(tools=TOOLS) > 1
    choice = {"type": "auto", "disable_parallel_tool_use": True}
    assert widest(tools=TOOLS, tool_choice=choice) == 1


def test_a_forced_tool_is_called_and_a_forbidden_one_is_not():
    first = turn_step(tools=TOOLS, tool_choice={"type": "tool", "name": "edit_file"})
    assert [call["name"] for call in calls([first])] == ["edit_file"]
    assert calls([turn_step(tools=TOOLS, tool_choice={"type": "none"})]) == []
    assert calls([turn_step(tools=TOOLS, tool_choice={"type": "any"})]) != []


def turn_step(**fields):
    return RuleBasedAgent().say(
        request([{"role": "user", "content": "Fix it"}], **fields), rng=random.Random(1)
    )


def test_tools_that_the_client_cannot_run_are_not_called():
    deferred = READ | {"defer_loading": True}
    assert calls([turn_step(tools=[{"type": "web_search_20250305", "name": "web_search"}, deferred])]) == []


def test_without_tools_the_agent_replies_with_a_few_sentences():
    (said,) = turn("What is a parser?")
    assert 20 < len(said.content[0]["text"].split()) < 200


@pytest.mark.spec("TW-8")
def test_a_turn_starts_with_thinking_where_thinking_is_on():
    assert turn("Fix it", model="claude-opus-5-5", tools=TOOLS)[0].content[0]["type"] == "thinking"
    said = [block["type"] for reply in turn("Fix it", tools=TOOLS) for block in reply.content]
    assert "thinking" not in said


@pytest.mark.parametrize(
    ("model", "thinking", "expected"),
    [
        ("claude-opus-5-5", None, True),
        ("claude-haiku-4-5", None, False),
        ("claude-haiku-4-5", {"type": "enabled", "budget_tokens": 1024}, True),
        ("claude-opus-5", {"type": "disabled"}, False),
        ("claude-opus-4-8", {"type": "adaptive"}, True),
    ],
)
def test_thinking_is_on_when_asked_for_or_by_default_of_the_model(model, thinking, expected):
    fields = {} if thinking is None else {"thinking": thinking}
    asked = request([{"role": "user", "content": "x"}], model=model, **fields)
    assert has_thinking_enabled(asked) is expected


def test_a_reply_in_an_output_format_matches_its_schema():
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    said = turn_step(output_config={"format": {"type": "json_schema", "schema": schema}})
    assert isinstance(json.loads(said.content[0]["text"])["n"], int)
