"""Blocks keep their bytes; we look into them and never spell them again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everturn.history.blocks import (
    Block,
    block_from_fields,
    block_from_json,
    fields_of,
    parts_of,
    result_block,
    text_block,
    text_block_from_json_string,
    text_of,
    with_field,
)


@pytest.mark.spec("TR-2")
@pytest.mark.parametrize(
    ("raw", "block"),
    [
        (b'{"type":"text", "text":"x"}', Block("text", b'{"type":"text", "text":"x"}')),
        (
            b'{"id":"c","type":"tool_use","name":"N","input":{}}',
            Block("tool_use", b'{"id":"c","type":"tool_use","name":"N","input":{}}', "c", "N"),
        ),
        (
            b'{"type":"tool_result","tool_use_id":"c"}',
            Block("tool_result", b'{"type":"tool_result","tool_use_id":"c"}', "c"),
        ),
        (b'{"type":"new","id":"x"}', Block("new", b'{"type":"new","id":"x"}')),
        (b'{"type":null,"id":null}', Block("", b'{"type":null,"id":null}')),
    ],
)
def test_a_block_knows_its_kind_and_the_id_of_its_pair(raw: bytes, block: Block):
    assert block_from_json(raw) == block


def test_calls_results_and_thinking_are_told_apart():
    kinds = ["tool_use", "tool_result", "thinking", "redacted_thinking", "text"]
    blocks = [Block(kind, b"{}") for kind in kinds]
    assert [block.is_call for block in blocks] == [True, False, False, False, False]
    assert [block.is_result for block in blocks] == [False, True, False, False, False]
    assert [block.is_thinking for block in blocks] == [False, False, True, True, False]


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_text_goes_in_and_comes_out(text: str):
    assert text_of(text_block(text)) == text
    quoted = text_block(text).raw[len(b'{"type":"text","text":') : -1]
    assert text_block_from_json_string(quoted) == text_block(text)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"type": "text", "text": "a"}, "a"),
        ({"type": "thinking", "thinking": "b", "signature": "s"}, "b"),
        ({"type": "tool_result", "content": "c"}, "c"),
        (
            {
                "type": "tool_result",
                "content": [{"type": "text", "text": "d"}, {"type": "image"}, {"text": "e"}],
            },
            "d\ne",
        ),
        ({"type": "tool_result"}, ""),
        ({"type": "text", "text": 5}, ""),
        ({"type": "image", "source": {}}, ""),
    ],
)
def test_the_words_of_a_block_are_those_that_a_person_would_read(fields: dict, words: str):
    assert text_of(block_from_fields(fields)) == words


def test_a_result_may_be_an_error():
    assert fields_of(result_block("c", "no", is_error=True)) == {
        "type": "tool_result",
        "tool_use_id": "c",
        "content": "no",
        "is_error": True,
    }
    assert result_block("c", "yes").raw == b'{"type":"tool_result","tool_use_id":"c","content":"yes"}'


def test_one_field_is_replaced_and_no_other_byte():
    raw = b'{"type":"tool_use","id":"c","input":{"n":1.0,"m":12345678901234567890123, "e":1e999}}'
    assert with_field(block_from_json(raw), "id", "d").raw == raw.replace(b'"c"', b'"d"')


@pytest.mark.parametrize(
    ("raw", "parts"),
    [
        (b'{"type":"tool_result","content":"text"}', ()),
        (b'{"type":"tool_result"}', ()),
        (b'{"type":"tool_result","content":[]}', ()),
        (b'{"content":[{"type":"text", "text":"a"},{"type":"tool_use","id":"i","name":"n"}]}',
         (Block("text", b'{"type":"text", "text":"a"}'),
          Block("tool_use", b'{"type":"tool_use","id":"i","name":"n"}', "i", "n"))),
        (b'{"type":"tool_result","content":[7]}', ()),
        (b"no json", ()),
        (b'{"content":' + b"[" * 5_000 + b"]" * 5_000 + b"}", ()),
    ],
)  # fmt: skip
def test_the_blocks_inside_a_result_are_read_as_they_are(raw: bytes, parts: tuple[Block, ...]):
    assert parts_of(Block("tool_result", raw)) == parts


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b'{"text":"a","thinking":"b","content":"c"}', "a"),
        (b'{"text":"","thinking":"b","content":"c"}', "b"),
        (b'{"content":"c"}', "c"),
        (b'{"text":"a","content":[{"text":"d"},{"text":""},{}]}', "d"),
        (b'{"content":null}', ""),
        (b"no json", ""),
        (b'{"content":[{"a":' + b"[" * 5_000 + b"]" * 5_000 + b"}]}", ""),
    ],
)
def test_the_words_of_a_block_are_its_text_else_its_thinking_else_its_content(raw: bytes, words: str):
    assert text_of(Block("text", raw)) == words


@pytest.mark.parametrize(
    ("raw", "block"),
    [
        (b'{"type":"tool_use"}', Block("tool_use", b'{"type":"tool_use"}')),
        (
            b'{"type":"tool_use","tool_use_id":"x"}',
            Block("tool_use", b'{"type":"tool_use","tool_use_id":"x"}'),
        ),
        (b'{"type":"text","name":"x"}', Block("text", b'{"type":"text","name":"x"}')),
        (b"{}", Block("", b"{}")),
    ],
)
def test_ids_and_names_that_are_not_there_are_empty(raw: bytes, block: Block):
    assert block_from_json(raw) == block
