"""Requests and replies of the Messages API, as whole values."""

import builders as b
import msgspec
import pytest
from engine.alone import Alone

from everturn.decide.betas import required_betas
from everturn.decide.cache_breaks import Diagnosis
from everturn.decide.micro.declarative import AppliedContextEdit
from everturn.engine.values import ConversationSettings
from everturn.engine.wire import ANTHROPIC_WIRE, AnthropicWire, ParsedReply, WireRequest
from everturn.history.records import Usage
from everturn.measure.capabilities import ANTHROPIC, PLAIN
from everturn.wire.anthropic import read_response
from everturn.wire.overflow import parse_overflow

BODY = b'{"id":"m","type":"message","role":"assistant","model":"x","content":[],"usage":{"input_tokens":7}%s}'
EDITS = (
    b'{"applied_edits":[{"type":"clear_tool_uses_20250919","cleared_tool_uses":2,"cleared_input_tokens":9}]}'
)
CLEARED = AppliedContextEdit("clear_tool_uses_20250919", 2, 9)


@pytest.mark.parametrize(
    ("more", "diagnosis", "applied"),
    [
        (b"", None, ()),
        (b',"diagnostics":{"cache_miss_reason":{"type":"ttl"}}', Diagnosis("ttl", 0), ()),
        (b',"diagnostics":{"cache_miss_reason":{}}', Diagnosis("", 0), ()),
        (b',"diagnostics":{"cache_miss_reason":null}', None, ()),
        (b',"context_management":' + EDITS, None, (CLEARED,)),
        (
            b',"diagnostics":{"cache_miss_reason":{"type":"ttl","cache_missed_input_tokens":3}},'
            b'"context_management":' + EDITS,
            Diagnosis("ttl", 3),
            (CLEARED,),
        ),
        (b',"diagnostics":7,"context_management":' + EDITS, None, ()),
    ],
)
def test_a_reply_is_read_with_what_the_provider_tells_beside_it(more, diagnosis, applied):
    body = BODY % more
    assert ANTHROPIC_WIRE.parse_reply(body) == ParsedReply(read_response(body), diagnosis, applied)
    assert ANTHROPIC_WIRE.parse_reply(body, request_id="r1") == ParsedReply(
        read_response(body, request_id="r1"), diagnosis, applied
    )


STREAM = b"".join(
    b"event: %s\ndata: %s\n\n" % (kind, msgspec.json.encode({"type": kind.decode(), **fields}))
    for kind, fields in (
        (b"message_start", {"message": {"id": "m", "role": "assistant", "usage": {"input_tokens": 7}}}),
        (b"content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}),
        (b"content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": "Gr\u00fc\u00dfe"}}),
        (b"message_delta", {"delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}),
        (b"message_stop", {}),
    )
)


@pytest.mark.parametrize("at", range(len(STREAM) + 1))
def test_a_streamed_reply_is_assembled_wherever_its_bytes_are_divided(at: int):
    stream = ANTHROPIC_WIRE.parse_stream()
    assert (stream.envelope, stream.is_whole) == (b"", False)
    stream.feed(STREAM[:at])
    assert stream.is_whole == (at == len(STREAM))
    stream.feed(STREAM[at:])
    assert (stream.is_whole, stream.problem) == (True, "")
    usage = {"input_tokens": 7, "output_tokens": 2}
    message = {"id": "m", "role": "assistant", "usage": usage, "stop_reason": "end_turn"}
    text = {"type": "text", "text": "Gr\u00fc\u00dfe"}
    assert msgspec.json.decode(stream.body) == {**message, "content": [text]}
    assert msgspec.json.decode(stream.envelope) == {**message, "content": []}
    assert ANTHROPIC_WIRE.parse_reply(stream.body).response.reply.usage == Usage(
        input_tokens=7, output_tokens=2
    )


def test_the_usage_of_a_summary_is_that_of_the_call_or_of_the_provider_s_own_compaction():
    parted = b'{"usage":{"iterations":[{"input_tokens":3},{"input_tokens":4}]}}'
    assert ANTHROPIC_WIRE.summary_usage(BODY % b"", by_provider=False) == Usage(input_tokens=7)
    assert ANTHROPIC_WIRE.summary_usage(parted, by_provider=True) == Usage(input_tokens=3)
    without = b'{"id":"m","type":"message","role":"assistant","model":"x","content":[]}'
    assert ANTHROPIC_WIRE.summary_usage(without, by_provider=False) == Usage()


@pytest.mark.spec("CB-8")
@pytest.mark.parametrize("asks", [True, False])
def test_a_provider_that_explains_cache_misses_is_asked_about_the_reply_before(asks: bool):
    turn = Alone([b.user("Hi.", uuid="u1")]).turn()
    wire = AnthropicWire(msgspec.structs.replace(ANTHROPIC, diagnostics=asks))
    made = wire.spell_request(turn.captured, turn.breakpoints, previous_message="m0")
    body = msgspec.json.decode(turn.request().to_bytes())
    asked = {**body, "diagnostics": {"previous_message_id": "m0"}} if asks else body
    assert msgspec.json.decode(made.body) == asked
    assert made == WireRequest(made.body, required_betas(turn.captured))


def test_the_wire_of_a_conversation_is_the_one_it_was_given_or_that_of_its_capabilities():
    setting: ConversationSettings = Alone().conversation.setting
    plain = msgspec.structs.replace(setting, capabilities=PLAIN)
    assert plain.provider_wire.capabilities is PLAIN
    given = msgspec.structs.replace(setting, wire=AnthropicWire(PLAIN))
    assert given.provider_wire is given.wire
    assert ANTHROPIC_WIRE.capabilities is ANTHROPIC
    message = "prompt is too long: 214000 tokens > 200000 maximum"
    assert ANTHROPIC_WIRE.parse_overflow(message) == parse_overflow(message) is not None
