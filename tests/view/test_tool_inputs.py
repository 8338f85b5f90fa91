"""Tool inputs against schemas: read back where that is plain, kept and reported where not."""

from typing import Any

import pytest

from everturn.history.blocks import Block, block_from_fields, block_from_json, fields_of
from everturn.history.repair import Repair
from everturn.view.tool_inputs import fitted_call, misfit, read_schemas

SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "limit": {"type": "integer"},
        "ratio": {"type": "number"},
        "deep": {"type": "boolean"},
        "lines": {"type": "array", "items": {"type": "integer"}},
        "mode": {"enum": ["r", "w"]},
        "maybe": {"type": ["string", "null"]},
        "options": {"type": "object", "properties": {"n": {"type": "integer"}}},
    },
    "required": ["path"],
    "additionalProperties": False,
}


def call(value: Any, tool: str = "Read") -> Block:
    return block_from_fields(
        {"type": "tool_use", "id": "c", "name": tool, "input": value, "caller": {"x": 1}}
    )


def fitted(value: Any, tool: str = "Read") -> tuple[Any, list[str]]:
    repairs: list[Repair] = []
    block = fitted_call(call(value, tool), {"Read": SCHEMA}, repairs)
    fields = fields_of(block)
    assert {**fields, "input": None} == {**fields_of(call(value, tool)), "input": None}
    return fields["input"], [repair.what for repair in repairs]


@pytest.mark.spec("FLAT-5")
@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({"path": "a", "limit": "5"}, {"path": "a", "limit": 5}),
        ({"path": "a", "ratio": "0.5"}, {"path": "a", "ratio": 0.5}),
        ({"path": "a", "deep": "true"}, {"path": "a", "deep": True}),
        ({"path": "a", "lines": "[1,2]"}, {"path": "a", "lines": [1, 2]}),
        ({"path": "a", "lines": ["1", 2]}, {"path": "a", "lines": [1, 2]}),
        ({"path": "a", "options": '{"n":"3"}'}, {"path": "a", "options": {"n": 3}}),
        ('{"path":"a"}', {"path": "a"}),
    ],
)
def test_words_are_read_back_as_what_the_schema_says_they_are(given: Any, sent: Any):
    assert fitted(given) == (sent, ["Read: the input was converted by its schema"])


@pytest.mark.spec("FLAT-5")
@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "input.path is missing"),
        ({"path": 5}, "input.path should be string, is 5"),
        ({"path": "a", "limit": "five"}, 'input.limit should be integer, is "five"'),
        ({"path": "a", "limit": True}, "input.limit should be integer, is true"),
        ({"path": "a", "mode": "x"}, 'input.mode should be one of ["r","w"], is "x"'),
        ({"path": "a", "lines": [1, "two"]}, 'input.lines.1 should be integer, is "two"'),
        ({"path": "a", "maybe": 1}, "input.maybe should be ['string', 'null'], is 1"),
        ({"path": "a", "new": 1}, "input.new is not known to the tool"),
    ],
)
def test_an_input_that_does_not_fit_is_kept_and_reported(given: Any, why: str):
    assert fitted(given) == (given, [f"Read: {why}; sent as recorded"])


@pytest.mark.spec("FLAT-5")
def test_what_fits_or_has_no_schema_leaves_with_its_bytes():
    for raw in (
        b'{"type":"tool_use","id":"c","name":"Read","input":{"path":"a", "limit":5, "maybe":null}}',
        b'{"type":"tool_use","id":"c","name":"Other","input":{"limit":"5"}}',
        b'{"type":"tool_use","id":"c","name":"Other", "input" : {"limit":"5"}}',
        b'{"type":"text","text":"x"}',
    ):
        repairs: list[Repair] = []
        assert fitted_call(block_from_json(raw), {"Read": SCHEMA}, repairs).raw == raw
        assert repairs == []


@pytest.mark.parametrize(
    ("given", "sent"), [("plain", {"input": "plain"}), (None, {"input": None}), ([1], {"input": [1]})]
)
def test_an_input_that_is_no_object_is_put_into_one(given: Any, sent: Any):
    value, repairs = fitted(given, "Other")
    assert value == sent
    assert len(repairs) == 2


@pytest.mark.parametrize("odd", [b"7" * 5_000, b"1e999999", b"[" * 900 + b"]" * 900])
def test_an_input_that_cannot_be_looked_into_is_sent_as_recorded(odd: bytes):
    raw = b'{"type":"tool_use","id":"c","name":"Read","input":{"path":' + odd + b"}}"
    repairs: list[Repair] = []
    block = Block("tool_use", raw, "c", "Read")
    assert fitted_call(block, {"Read": SCHEMA}, repairs) == block
    assert [(repair.kind, repair.where) for repair in repairs] == [("tool_input", "c")]


def test_a_schema_that_says_nothing_fits_everything():
    assert misfit({"a": [1, "x", None]}, {}) == []
    assert misfit(5, {"type": "invented"}) == []


def test_schemas_are_read_from_the_definitions_of_tools():
    tools = [
        block_from_json(b'{"name":"Read","input_schema":{"type":"object"}}'),
        block_from_json(b'{"type":"web_search_20250305","name":"web_search"}'),
        block_from_json(b'{"name":"odd","input_schema":true}'),
    ]
    named = [Block("tool", tool.raw, tool=name) for tool, name in zip(tools, "abc", strict=True)]
    assert read_schemas(named) == {"a": {"type": "object"}}


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"limit": True}},
        {"properties": 5, "required": 7},
        {"properties": {"limit": None}, "required": [7, None]},
        {"type": [["object"]]},
        {"type": {"object": 1}},
        {"properties": {"limit": {"type": "array", "items": 5}}},
    ],
    ids=str,
)
def test_a_schema_that_is_odd_does_no_harm(schema):
    given = call({"limit": "5"})
    assert fields_of(fitted_call(given, {"Read": schema}, [])) == fields_of(given)


DEEP = b'{"a":' * 100_000 + b"1" + b"}" * 100_000


def test_a_tool_whose_definition_cannot_be_read_has_no_schema():
    tool = Block("", DEEP, tool="Deep")
    assert read_schemas([tool]) == {}


def test_a_call_that_cannot_be_read_is_sent_as_recorded_and_reported():
    repairs: list[Repair] = []
    block = Block("tool_use", b'{"type":"tool_use","id":"c","name":"Read","input":%s}' % DEEP, "c", "Read")
    assert fitted_call(block, {"Read": SCHEMA}, repairs) is block
    (repair,) = repairs
    assert (repair.kind, repair.where, repair.what[:19]) == ("tool_input", "c", "Read: not checked, ")


@pytest.mark.parametrize(
    ("value", "schema", "found"),
    [
        (5, {"type": "integer"}, []),
        (5, {"type": "number"}, []),
        (5.5, {"type": "integer"}, ["input should be integer, is 5.5"]),
        (True, {"type": "boolean"}, []),
        (True, {"type": "number"}, ["input should be number, is true"]),
        (None, {"type": "null"}, []),
        (None, {"type": ["string", "null"]}, []),
        ("x", {"type": []}, ["input should be [], is \"x\""]),
        ([], {"type": "array"}, []),
        ({}, {"type": "array"}, ["input should be array, is {}"]),
        ("a", {"enum": ["a"]}, []),
        ("b", {"enum": []}, ['input should be one of [], is "b"']),
        ("b", {"enum": "a"}, []),
        ([1, "x", 2, "y"], {"items": {"type": "integer"}},
         ['input.1 should be integer, is "x"', 'input.3 should be integer, is "y"']),
        ({"a": {"b": [True]}}, {"properties": {"a": {"properties": {"b": {"items": {"type": "string"}}}}}},
         ["input.a.b.0 should be string, is true"]),
        ({"a": 1, "b": 2}, {"required": ["c", "a", "d", 7]}, ["input.c is missing", "input.d is missing"]),
        ({"a": 1, "b": 2}, {"properties": {"a": {}}, "additionalProperties": False},
         ["input.b is not known to the tool"]),
        ({"a": 1, "b": 2}, {"properties": {"a": {}}, "additionalProperties": True}, []),
        ({"a": 1}, {"properties": {"a": True}, "additionalProperties": False}, []),
    ],
)  # fmt: skip
def test_every_place_that_does_not_fit_is_named_with_what_is_there(value, schema, found):
    assert misfit(value, schema) == found
    assert misfit(value, schema, "it") == [each.replace("input", "it", 1) for each in found]


def test_long_values_are_named_by_their_beginning():
    whole, longer = "x" * 58, "x" * 59
    assert misfit(whole, {"type": "integer"}) == [f'input should be integer, is "{whole}"']
    assert misfit(longer, {"type": "integer"}) == [f'input should be integer, is "{"x" * 56}...']


@pytest.mark.parametrize(
    ("given", "sent", "problems"),
    [
        ({"path": "a", "lines": ["1", "x", "3"]}, {"path": "a", "lines": [1, "x", 3]},
         ['input.lines.1 should be integer, is "x"']),
        ({"path": "a", "limit": "1.5"}, {"path": "a", "limit": "1.5"},
         ['input.limit should be integer, is "1.5"']),
        ({"path": "a", "limit": "true"}, {"path": "a", "limit": "true"},
         ['input.limit should be integer, is "true"']),
        ({"path": "5", "deep": "yes"}, {"path": "5", "deep": "yes"},
         ['input.deep should be boolean, is "yes"']),
        ({"path": "a", "maybe": "null"}, {"path": "a", "maybe": "null"}, []),
        ({"path": "a", "deep": False, "limit": 0}, {"path": "a", "deep": False, "limit": 0}, []),
        ({"path": "a", "mode": "r", "ratio": 1}, {"path": "a", "mode": "r", "ratio": 1}, []),
        ({"limit": 1}, {"limit": 1}, ["input.path is missing"]),
        ("[1]", {"input": "[1]"}, ['input should be object, is "[1]"']),
    ],
)  # fmt: skip
def test_what_can_be_read_back_is_and_the_first_problem_of_the_rest_is_told(given, sent, problems):
    said = [f"Read: {each}; sent as recorded" for each in problems]
    changed = ["Read: the input was converted by its schema"] if sent != given else []
    assert fitted(given) == (sent, said + changed)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": "string"}}},
        {"properties": {"a": {"type": "string"}}, "required": None},
        {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"type": "string", "enum": ["x"]}}},
        {"type": "object", "properties": {"a": {"type": "string"}}, "required": "a"},
    ],
    ids=str,
)
def test_an_input_that_fits_is_sent_as_the_same_block_and_nothing_is_told(schema):
    repairs: list[Repair] = []
    block = call({"a": "x"})
    assert fitted_call(block, {"Read": schema}, repairs) is block
    assert repairs == []


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"type": "array", "properties": {"a": {"type": "string"}}}, 'input should be array, is {"a":"x"}'),
        ({"properties": {"a": {"type": "string", "enum": ["y"]}}}, 'input.a should be one of ["y"], is "x"'),
        ({"properties": {"a": {"type": "string"}}, "enum": [1]}, 'input should be one of [1], is {"a":"x"}'),
        ({"properties": {"a": {"type": "string"}}, "required": ["b"]}, "input.b is missing"),
        ({"properties": {"b": {}}, "additionalProperties": False}, "input.a is not known to the tool"),
        ({"properties": {"a": {"type": "boolean"}}}, 'input.a should be boolean, is "x"'),
    ],
    ids=str,
)
def test_an_input_of_plain_values_that_does_not_fit_is_told(schema, problem):
    repairs: list[Repair] = []
    block = call({"a": "x"})
    assert fitted_call(block, {"Read": schema}, repairs) is block
    assert repairs == [Repair("tool_input", "c", f"Read: {problem}; sent as recorded")]
