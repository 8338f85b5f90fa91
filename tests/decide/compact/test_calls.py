"""One walk through the records answers as a walk for each question did."""

import builders as b
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_logs import broken_logs

from everturn.decide.compact.call_index import Attached, Called, attached, index_calls, parts_inside
from everturn.history.blocks import Block, block_from_fields, block_from_json, fields_of, parts_of
from everturn.history.records import Record
from everturn.measure.tool_table import DEFAULT_TOOL_TABLE, ToolPurpose

TOOLS = ("Read", "Bash", "Edit", "TodoWrite")


def called_naively(records: list[Record], *purposes: str) -> tuple[Called, ...]:
    """Everything that was said, in order: a call is noted, a result goes to the call that it answers."""
    found: dict[str, Called] = {}
    for at, record in enumerate(records):
        for block in record.blocks:
            if block.call and block.is_call and DEFAULT_TOOL_TABLE.find(block.tool).does in purposes:
                found[block.call] = Called(at, block)
            elif block.call in found and block.is_result:
                call = found[block.call]
                found[block.call] = Called(call.at, call.block, block)
    return tuple(found.values())


def purposes_in(records: list[Record]) -> list[ToolPurpose]:
    tools = {block.tool for record in records for block in record.blocks if block.is_call}
    return sorted({DEFAULT_TOOL_TABLE.find(tool).does for tool in tools})


@given(broken_logs(most=20))
def test_calls_and_their_results_are_found_as_a_walk_for_each_purpose_finds_them(records: list[Record]):
    seen, purposes = index_calls(records), purposes_in(records)
    for named in ([], purposes, *([each] for each in purposes)):
        assert seen.called(*named) == called_naively(records, *named)


@given(broken_logs(most=20))
def test_attachments_are_found_in_one_walk_as_by_themselves(records: list[Record]):
    types = {record.subtype for record in records}
    assert index_calls(records).attached(*types) == attached(records, *types)


def test_a_call_of_the_same_id_waits_for_a_result_of_its_own():
    first, again = b.call("c1", "Read", file_path="a"), b.call("c1", "Read", file_path="b")
    records = [b.assistant(first), b.result("c1", "old"), b.assistant(again, id="m2")]
    assert [(each.at, each.given, each.answer) for each in index_calls(records).called("reads")] == [
        (2, {"file_path": "b"}, "")
    ]


def test_calls_of_several_tools_come_in_the_order_in_which_they_were_made():
    records = [b.assistant(b.call(f"c{at}", tool), id=f"m{at}") for at, tool in enumerate(TOOLS)]
    assert [
        each.tool for each in index_calls(records).called("replaces_tasks", "edits", "runs", "reads")
    ] == list(TOOLS)


PICTURE = '{"type":"image","source":{"type":"base64","media_type":"image/png","data":""}}'


@pytest.mark.parametrize(
    "raw",
    [
        f'{{"type":"tool_result","tool_use_id":"c1","content":[{PICTURE}]}}',
        f'{{ "content" : [{PICTURE}], "is_error": false, "type":"tool_result", "tool_use_id":"c1"}}',
        f'{{"is_error":true,"content":[{{"type":"text","text":"\\"content\\":\\""}},{PICTURE}],"type":"tool_result"}}',
        f'{{"other":"content\\":\\"","type":"tool_result","content":[{PICTURE}]}}',
        '{"type":"tool_result","content":[{"type":"document","source":{"type":"text","content":"words"}}]}',
        '{"type":"tool_result","content":"an image and a document, in words"}',
        '{"type" : "tool_result", "is_error" : true , "content" : "[{\\"type\\":\\"image\\"}]"}',
        '{"type":"tool_result","content":null}',
        '{"type":"tool_result","content":[{"type":"text","text":"image"}]}',
        '{"type":"tool_result"}',
    ],
)
def test_what_is_inside_a_result_is_found_however_it_is_spelled(raw: str):
    block = block_from_json(raw.encode())
    wanted = ("image", "document")
    assert parts_inside(block, *wanted) == [part for part in parts_of(block) if part.kind in wanted]


@given(st.sampled_from(["tool_reference", "image"]), st.text(), st.booleans())
def test_words_inside_a_result_are_never_taken_for_blocks(kind: str, words: str, is_error: bool):
    block = b.result("c1", f'{words}"content":[{{"type":"{kind}"}}]', is_error=is_error).blocks[0]
    assert parts_inside(block, kind) == []
    assert parts_inside(with_part(block, kind), kind) == [Block(kind, b'{"type":"' + kind.encode() + b'"}')]


def with_part(block: Block, kind: str) -> Block:
    """The same result, its words followed by a block of that kind."""
    words = {"type": "text", "text": fields_of(block)["content"]}
    return block_from_fields({**fields_of(block), "content": [words, {"type": kind}]})


TOO_DEEP = b'{"input":' + b"[" * 100_000


@pytest.mark.parametrize("raw", [b'{"input":{"file_path":"a"', b"", b"[]", b'"is_error"', TOO_DEEP])
def test_what_cannot_be_read_has_no_input_no_error_and_no_payload(raw: bytes):
    call = Called(0, Block("tool_use", raw, "c1", "Read"), Block("tool_result", raw + b'"is_error"', "c1"))
    assert (call.given, call.failed) == ({}, False)
    found = b.attachment({"type": "file", "content": "x"}, uuid="a")
    broken = msgspec.structs.replace(found, blocks=(Block("attachment", raw),))
    assert attached([broken], found.subtype) == (Attached(0, found.subtype, {}),)


@pytest.mark.parametrize(
    ("fields", "failed"),
    [({}, False), ({"is_error": True}, True), ({"is_error": False}, False), ({"is_error": "yes"}, False)],
)
def test_a_call_failed_if_its_result_says_so(fields: dict[str, object], failed: bool):
    call = block_from_fields(b.call("c1", "Read", file_path="a"))
    result = block_from_fields({"type": "tool_result", "tool_use_id": "c1", "content": "is_error", **fields})
    assert (Called(0, call, result).failed, Called(0, call).failed) == (failed, False)
    assert (Called(0, call, result).answer, Called(0, call).answer) == ("is_error", "")
