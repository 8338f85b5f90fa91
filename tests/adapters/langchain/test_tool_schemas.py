"""Tools that are given as raw JSON schemas: sent as they were given, counted, and their calls fitted."""

import json
from typing import Any

import pytest
from adapters.framework_bench import asks_for_summary
from adapters.langchain.conftest import LINES
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import ToolMessage
from langchain_core.tools import StructuredTool

from everturn.adapters.langchain.messages import tool_fields
from everturn.decide.events import SummaryUncached
from everturn.history.blocks import fields_of

SMALL = 40_000
NAMED: dict[str, Any] = {"name": "read_part", "description": "Reads a part of the feed."}
# Neither the order of keys nor a field that is not known here may change.
SCHEMA = {
    "type": "object",
    "required": ["path"],
    "properties": {
        "path": {"description": "Where it is.", "type": "string"},
        "limit": {"type": "integer", "minimum": 1, "x-unit": "lines"},
        "options": {"type": "object", "properties": {"deep": {"type": "boolean"}}},
    },
    "additionalProperties": False,
}
GIVEN = {"path": "a.py", "limit": "5", "options": {"deep": "true"}}
FITTED = {"path": "a.py", "limit": 5, "options": {"deep": True}}
FORMS: dict[str, Any] = {
    "the API's": {**NAMED, "input_schema": SCHEMA},
    "the API's, without a description": {"name": "read_part", "input_schema": SCHEMA},
    "OpenAI's tool": {"type": "function", "function": {**NAMED, "parameters": SCHEMA}},
    "OpenAI's function": {**NAMED, "parameters": SCHEMA},
    "JSON Schema": {"title": NAMED["name"], "description": NAMED["description"], **SCHEMA},
    # As the tools of MCP servers arrive.
    "a tool with a schema": StructuredTool.from_function(lambda **_: LINES, args_schema=SCHEMA, **NAMED),
    "a tool with examples": StructuredTool.from_function(
        lambda **_: LINES, args_schema=SCHEMA, extras={"input_examples": [{"path": "a.py"}]}, **NAMED
    ),
}


class Answers(AgentMiddleware[Any, Any, Any]):
    """Runs the calls of tools that have no function."""

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        return ToolMessage(LINES, tool_call_id=request.tool_call["id"])


def talk(bench, form, turns=7):
    middleware = bench.middleware(window=SMALL)
    agent = bench.agent(middleware, Answers(), tools=[FORMS[form]])
    messages: list[Any] = []
    for turn in range(turns):
        call = {"type": "tool_use", "name": "read_part", "input": GIVEN}
        bench.twin.twin.speaker.clear()
        bench.twin.script({"content": [call]}, "Read it.")
        messages = bench.talk(agent, range(turn, turn + 1), messages)
    bench.check()
    (conversation,) = middleware.tracker
    return conversation


def calls(body):
    blocks = [
        block for message in body["messages"] for block in message["content"] if isinstance(block, dict)
    ]
    return [block["input"] for block in blocks if block["type"] == "tool_use"]


@pytest.mark.spec("FLAT-5", "TOK-2")
@pytest.mark.parametrize("form", FORMS)
def test_a_schema_is_sent_as_it_was_given_and_counted_as_it_is_sent(bench, form):
    conversation = talk(bench, form)
    first, *rest = [json.dumps(body["tools"]) for body in bench.wire.bodies]
    sent = json.loads(first)
    # The same bytes in every request, in those for a summary too.
    assert set(rest) == {first}
    assert json.dumps(sent[0]["input_schema"]["properties"]) == json.dumps(SCHEMA["properties"])
    assert sent[0]["input_schema"] == SCHEMA
    assert [fields_of(tool) for tool in conversation.preamble.tools] == sent
    assert any(map(asks_for_summary, bench.wire.bodies))
    assert [event for event in bench.events if isinstance(event, SummaryUncached)] == []


@pytest.mark.spec("FLAT-5")
@pytest.mark.parametrize("form", FORMS)
def test_a_call_is_fitted_to_the_schema_of_its_tool(bench, form):
    talk(bench, form, turns=2)
    assert calls(bench.wire.bodies[-1]) == [FITTED, FITTED]


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "web_search_20250305", "name": "web_search"},
        {"type": "custom", **NAMED, "input_schema": SCHEMA},
        # Of other providers.
        {"type": "web_search_preview"},
        {"google_search": {}},
    ],
    ids=str,
)
def test_a_definition_that_only_its_provider_knows_stays_as_it_is(tool):
    assert tool_fields(tool) == tool


def test_a_tool_that_stands_for_one_of_the_provider_is_counted_as_that():
    definition = {"type": "bash_20250124", "name": "bash"}
    tool = StructuredTool.from_function(
        lambda **_: LINES, args_schema=SCHEMA, extras={"provider_tool_definition": definition}, **NAMED
    )
    assert tool_fields(tool) == definition
