import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everturn.twin.tool_input import InputHints, built_in_input, generate_input


def made(schema, *, seed=0, seen=InputHints(("src/a.py",), ("parser",))):  # noqa: B008 - a frozen value
    return generate_input(schema, seen, random.Random(seed))


def one(schema, name="value"):
    return made({"type": "object", "properties": {name: schema}, "required": [name]})[name]


@pytest.mark.parametrize(
    ("name", "schema", "value"),
    [
        ("file_path", {"type": "string"}, "src/a.py"),
        ("query", {"type": "string"}, "parser"),
        ("command", {"type": "string"}, "python -m pytest -q"),
        ("value", {"const": 7}, 7),
        ("value", {"enum": ["only"]}, "only"),
        ("value", {"type": "boolean"}, False),
        ("value", {"type": "null"}, None),
        ("value", {"type": ["null", "boolean"]}, False),
        ("value", {"anyOf": [{"type": "null"}, {"const": 3}]}, 3),
        ("value", {"type": "string", "format": "date"}, "2026-11-15"),
        ("value", {"type": "string", "minLength": 9}, "parserxxx"),
        ("value", {"type": "string", "maxLength": 3}, "par"),
        ("value", {"type": "integer", "minimum": 5, "maximum": 5}, 5),
        ("value", {"type": "integer", "exclusiveMinimum": 5, "exclusiveMaximum": 7}, 6),
        ("value", {"type": "integer", "minimum": 7, "maximum": 11, "multipleOf": 5}, 10),
        ("value", {"type": "number", "minimum": 0.25, "maximum": 0.5}, 0.25),
        ("value", {"type": "array", "items": {"const": 1}, "minItems": 3, "maxItems": 3}, [1, 1, 1]),
        ("value", {"$ref": "#/$defs/missing"}, "parser"),
        ("value", True, "parser"),
    ],
)
def test_a_value_matches_its_schema_and_its_name(name, schema, value):
    assert one(schema, name) == value


def test_references_are_followed_and_endless_ones_end():
    schema = {
        "type": "object",
        "$defs": {
            "node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}, "required": ["next"]}
        },
        "properties": {"node": {"$ref": "#/$defs/node"}},
        "required": ["node"],
    }
    assert set(made(schema)) == {"node"}
    assert made({"$ref": "#"}) == {}


def test_all_parts_of_an_all_of_are_used():
    part = {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}
    other = {"properties": {"b": {"const": 2}}, "required": ["b"]}
    assert made({"allOf": [part, other]}) == {"a": 1, "b": 2}


def test_tools_of_the_api_itself_get_the_input_that_their_clients_expect():
    assert built_in_input("bash_20250124") == {"command": "ls -la"}
    assert built_in_input("web_search_20250305") is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
KEYWORDS = [
    "type",
    "enum",
    "items",
    "properties",
    "required",
    "anyOf",
    "allOf",
    "$ref",
    "minimum",
    "minItems",
    "format",
]


@given(
    st.dictionaries(
        st.sampled_from(KEYWORDS), JSON | st.sampled_from(["object", "array", "integer", "#"]), max_size=5
    )
)
def test_no_schema_however_broken_stops_the_agent(schema):
    assert isinstance(made(schema), dict)
    one(schema)
