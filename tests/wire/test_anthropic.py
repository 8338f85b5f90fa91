"""Requests from bytes that exist already, replies as values."""

import json

import msgspec
import pytest

from everturn.history.blocks import Block, text_block
from everturn.history.messages import Message
from everturn.history.records import ReplyMeta, Usage
from everturn.wire.anthropic import (
    MessagePieces,
    Request,
    Response,
    compaction_usage,
    read_response,
    tool_block,
    without_cache_control,
)

ODD = Block("invented", b'{"type":"invented", "n":1.0}')


def test_a_request_holds_the_bytes_of_its_blocks_as_they_came():
    request = Request(
        model="m",
        messages=(Message("user", (text_block("hi"), ODD)), Message("assistant", (text_block("ho"),))),
        system=(text_block("be kind"),),
        tools=(Block("", b'{"name":"Read", "input_schema":{}}'),),
        settings={"max_tokens": 10, "stream": True},
    )
    assert request.to_bytes() == (
        b'{"model":"m","max_tokens":10,"stream":true,'
        b'"tools":[{"name":"Read", "input_schema":{}}],"system":[{"type":"text","text":"be kind"}],'
        b'"messages":[{"role":"user","content":[{"type":"text","text":"hi"},{"type":"invented", "n":1.0}]},'
        b'{"role":"assistant","content":[{"type":"text","text":"ho"}]}]}'
    )


def test_a_request_of_nothing_is_still_json():
    assert json.loads(Request(model="m", messages=()).to_bytes()) == {"model": "m", "messages": []}
    assert MessagePieces().update(()) == []


WORDS = tuple(Message("user", tuple(text_block(f"{at}.{part}") for part in range(at % 3))) for at in range(6))


@pytest.mark.parametrize(
    "after",
    [
        WORDS,
        WORDS[:3],
        (),
        (*WORDS[:2], WORDS[5], *WORDS[3:]),
        (WORDS[4], *WORDS[1:]),
        (*WORDS, Message("assistant", (ODD,))),
        (*WORDS[:5], Message("user", WORDS[5].blocks)),
    ],
)
def test_bytes_with_a_memo_of_the_last_request_are_those_without(after: tuple[Message, ...]):
    memo = MessagePieces()
    for messages in (WORDS, after, WORDS):
        request = Request(model="m", messages=messages)
        assert request.to_bytes(memo) == request.to_bytes()


def test_tools_and_system_that_change_are_spelled_anew_with_a_memo_too():
    memo, one, other = MessagePieces(), (text_block("one"),), (text_block("other"), ODD)
    for tools, system in ((one, other), (one, other), (other, one), ((), one), (one, ()), ((), ())):
        request = Request(model="m", messages=WORDS, tools=tools, system=system)
        assert request.to_bytes(memo) == request.to_bytes()


def test_a_response_is_read_with_its_blocks_byte_for_byte():
    body = (
        b'{"id":"msg_1","model":"m","stop_reason":"end_turn","content":[{"type":"invented", "n":1.0}],'
        b'"usage":{"input_tokens":5,"output_tokens":2,"new":1}}'
    )
    expected = ReplyMeta("msg_1", "m", "end_turn", Usage(5, output_tokens=2), "req_1")
    assert read_response(body, request_id="req_1") == Response((ODD,), expected)


def test_a_count_that_the_api_leaves_null_is_none():
    body = b'{"id":"msg_1","content":[],"usage":{"input_tokens":5,"cache_read_input_tokens":null}}'
    assert read_response(body).reply.usage == Usage(5)


@pytest.mark.parametrize("body", [b"<html>502</html>", b"[]", b"null", b'{"id":5}'])
def test_a_body_that_is_no_response_is_refused(body: bytes):
    with pytest.raises(msgspec.DecodeError):
        read_response(body)


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"iterations": [{"input_tokens": 7, "output_tokens": 2}, {"input_tokens": 9}]}, Usage(7, 0, 0, 2)),
        ({"iterations": []}, Usage()),
        ({}, Usage()),
        ({"iterations": 7}, Usage()),
    ],
)
def test_the_usage_of_the_api_s_own_compaction_is_its_first_iteration(usage, expected):
    assert compaction_usage(json.dumps({"usage": usage}).encode()) == expected


def test_pieces_of_messages_are_the_bytes_of_the_whole_also_where_one_is_empty():
    hello, nothing = Message("user", (text_block("hi"), text_block("ho"))), Message("assistant", ())
    pieces = MessagePieces()
    for messages in ((hello,), (hello, nothing), (hello, nothing, hello), (nothing,), ()):
        spelled = b"".join(pieces.update(messages))
        assert msgspec.json.decode(b"[" + spelled + b"]") == [
            {"role": each.role, "content": [msgspec.json.decode(block.raw) for block in each.blocks]}
            for each in messages
        ]


def test_a_reply_without_a_stop_reason_has_none():
    assert read_response(b'{"id":"m","content":[]}').reply.stop_reason == ""


class Watched:
    """A message that counts how often its blocks are asked for."""

    role = "user"

    def __init__(self) -> None:
        self.asked = 0

    @property
    def blocks(self) -> tuple[Block, ...]:
        self.asked += 1
        return (text_block("x"),)


def test_messages_of_the_last_request_are_not_looked_at_again():
    memo, one, two = MessagePieces(), Watched(), Watched()
    memo.update((one,))  # type: ignore[arg-type]
    before = one.asked
    memo.update((one, two))  # type: ignore[arg-type]
    memo.update((one, two))  # type: ignore[arg-type]
    assert (one.asked, two.asked) == (before, before)


@pytest.mark.parametrize(
    ("usage", "deleted"),
    [
        (b"", None),
        (b',"usage":{"input_tokens":1}', None),
        (b',"usage":{"cache_deleted_input_tokens":7}', 7),
        (b',"usage":{"cache_deleted_input_tokens":0}', 0),
        (b',"usage":{"cache_deleted_input_tokens":null}', None),
        (b',"usage":{"cache_deleted_input_tokens":"7"}', None),
        (b',"usage":null,"note":"cache_deleted_input_tokens"', None),
    ],
)
def test_deleted_tokens_are_read_from_the_usage_of_a_reply(usage: bytes, deleted: int | None):
    assert read_response(b'{"id":"m"' + usage + b"}").reply.deleted_tokens == deleted


def test_a_reply_of_which_only_the_id_is_known_has_nothing_else():
    assert read_response(b'{"id":"m"}') == Response((), ReplyMeta("m"))
    strange = b'{"id":"m","model":7,"stop_reason":[],"usage":"none","content":"hi"}'
    assert read_response(strange) == Response((text_block("hi"),), ReplyMeta("m", usage=Usage()))


@pytest.mark.parametrize(
    ("definition", "name"),
    [
        ({"name": "Read", "input_schema": {}}, "Read"),
        ({"type": "web_search_20250305"}, ""),
        ({"name": 7}, "7"),
    ],
)
def test_a_tool_is_a_block_with_its_name(definition: dict[str, object], name: str):
    assert tool_block(definition) == Block("tool", msgspec.json.encode(definition), tool=name)


MARK = {"type": "ephemeral"}


@pytest.mark.parametrize(
    ("marked", "plain"),
    [
        ({"type": "text", "text": "x", "cache_control": MARK}, {"type": "text", "text": "x"}),
        (
            {"type": "tool_result", "content": [{"type": "text", "cache_control": MARK}, "y", 7]},
            {"type": "tool_result", "content": [{"type": "text"}, "y", 7]},
        ),
        (
            {"content": ({"cache_control": None, "source": {"cache_control": MARK, "data": "d"}},)},
            {"content": [{"source": {"data": "d"}}]},
        ),
        (
            {"type": "tool_use", "input": {"cache_control": "mine"}, "cache_control": MARK},
            {"type": "tool_use", "input": {"cache_control": "mine"}},
        ),
        ("cache_control", "cache_control"),
        ([{"cache_control": MARK}, None], [{}, None]),
        (7, 7),
    ],
)
def test_breakpoints_are_removed_at_every_depth_but_not_from_the_input_of_a_call(marked, plain):
    assert without_cache_control(marked) == plain
