"""References to tools that a request does not offer (TR-11)."""

import json
from typing import Any

import pytest

from everturn.history.blocks import Block, block_from_fields, block_from_json, fields_of
from everturn.history.repair import Repair
from everturn.view.tool_references import read_offered_names, with_offered_references


def reference(name: str) -> dict[str, Any]:
    return {"type": "tool_reference", "tool_name": name}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def result(*parts: Any) -> Block:
    return block_from_fields({"type": "tool_result", "tool_use_id": "toolu_1", "content": list(parts)})


def searched(*names: str, **more: Any) -> Block:
    content = {
        "type": "tool_search_tool_search_result",
        "tool_references": [reference(each) for each in names],
    }
    return block_from_fields(
        {"type": "tool_search_tool_result", "tool_use_id": "srvtoolu_1", "content": {**content, **more}}
    )


def missing(name: str, call: str) -> Repair:
    what = f"a reference to {name}, which is not a tool of this request, was replaced"
    return Repair("missing_tool", call, what)


def offered(*names: str) -> frozenset[str]:
    return frozenset(names)


@pytest.mark.parametrize(
    ("tools", "names"),
    [
        ([], frozenset()),
        ([{"name": "read"}, {"type": "web_search_20250305", "name": "web_search"}], {"read", "web_search"}),
        ([{"name": "read"}, {}], {"read", ""}),
        ([{"name": "read"}, {"type": "mcp_toolset", "mcp_server_name": "github"}], None),
    ],
)
def test_the_names_of_tools_are_known_unless_a_server_names_its_own(tools, names):
    assert read_offered_names([block_from_fields({"type": "custom", **each}) for each in tools]) == names


def test_the_names_of_tools_that_cannot_be_read_are_not_known():
    assert read_offered_names([block_from_json(b'{"name":"read"}'), Block("custom", b"{")]) is None


def test_a_result_of_the_client_names_the_tools_that_are_missing_as_text():
    repairs: list[Repair] = []
    given = result(text("found:"), reference("read"), reference("gone"), "odd", reference("lost"))
    shown = with_offered_references(given, offered("read"), repairs)
    assert fields_of(shown)["content"] == [
        text("found:"),
        reference("read"),
        text("[reference to the tool gone]"),
        "odd",
        text("[reference to the tool lost]"),
    ]
    assert (shown.call, shown.kind) == ("toolu_1", "tool_result")
    assert repairs == [missing("gone", "toolu_1"), missing("lost", "toolu_1")]


def test_a_search_of_the_api_keeps_the_references_that_are_left_and_its_other_fields():
    repairs: list[Repair] = []
    shown = with_offered_references(searched("gone", "read", note=7), offered("read"), repairs)
    assert fields_of(shown) == fields_of(searched("read", note=7))
    assert repairs == [missing("gone", "srvtoolu_1")]


@pytest.mark.parametrize(
    ("block", "names"),
    [
        (result(reference("read")), offered("read")),
        (searched("read"), offered("read", "write")),
        (searched(), offered()),
        (result(text('no "tool_reference" here')), offered()),
        (block_from_fields({"type": "text", "text": '"tool_reference"'}), offered()),
        (block_from_fields({"type": "x", "content": {"tool_references": '"tool_reference"'}}), offered()),
        (Block("tool_result", b'{"content":[{"type":"tool_reference"'), offered()),
    ],
)
def test_a_block_without_such_a_reference_keeps_its_bytes(block, names):
    repairs: list[Repair] = []
    assert with_offered_references(block, names, repairs) is block
    assert repairs == []


def test_nothing_is_replaced_while_the_tools_are_not_known():
    given = result(reference("gone"))
    assert with_offered_references(given, None, []) is given


def test_a_reference_without_a_name_is_replaced_too():
    shown = with_offered_references(result({"type": "tool_reference"}), offered("read"), [])
    assert json.loads(shown.raw)["content"] == [text("[reference to the tool ]")]
