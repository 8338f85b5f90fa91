import json
import random

import pytest

from everturn.twin.agent import RuleBasedAgent
from everturn.twin.parse import parse_request
from everturn.twin.validate.model_rules import has_thinking_enabled

TOOLS = [
    {
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
    },
    {"type": "bash_20250124", "name": "bash"},
    {
        "name": "read_file",
        "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    },
]
ORDER = {"read_file": 0, "edit_file": 1, "bash": 2}


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


@pytest.mark.spec("TW-8")
def test_the_agent_reads_then_edits_then_checks_then_reports():
    for seed in range(10):
        replies = turn("Fix the parser in src/lexer.py", seed=seed, tools=TOOLS)
        order = [ORDER[call["name"]] for call in calls(replies)]
        assert order == sorted(order)
        assert set(order) == {0, 1, 2}
        assert replies[-1].content[-1]["type"] == "text"


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
    deferred = TOOLS[2] | {"defer_loading": True}
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
