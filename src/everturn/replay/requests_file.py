"""Every simulated request as a line of JSON, so that anyone can check the bill.

    session, policy, thread, call, time, source, model, request, usage, dollars, tokens

`request` is the whole body. System prompt and tools are in no recording: one system block stands for them,
and one result for what a fault fetched. Their sizes are in `tokens`, which has one count per block in the
order of the prefix (tools, system, messages) and sums to the billed input. Hidden tokens stand with a block:
what opens a message with its first block, what ends the prompt with the last one.
"""

from collections.abc import Sequence
from typing import Any, BinaryIO

import msgspec

from everturn.replay.playing.call_log import RequestObserver
from everturn.replay.runs import SimulatedCall
from everturn.wire.anthropic import Request

_encode = msgspec.json.Encoder().encode


def line_of(session: str, policy: str, call: SimulatedCall, request: Request, tokens: Sequence[int]) -> bytes:
    fields: dict[str, Any] = {
        "session": session,
        "policy": policy,
        "thread": call.thread,
        "call": call.number,
        "time": call.at,
        "source": call.source,
        "model": call.model,
        "request": msgspec.Raw(request.to_bytes()),
        "usage": usage_fields(call),
        # A JSON number with all its digits.
        "dollars": msgspec.Raw(format(call.dollars, "f").encode()),
        "tokens": tokens,
    }
    return _encode(fields) + b"\n"


def usage_fields(call: SimulatedCall) -> dict[str, Any]:
    """As the API reports it, all fields."""
    return {
        "input_tokens": call.plain,
        "cache_creation_input_tokens": call.write_5m + call.write_1h,
        "cache_read_input_tokens": call.read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": call.write_5m,
            "ephemeral_1h_input_tokens": call.write_1h,
        },
        "output_tokens": call.output,
        "service_tier": "standard",
    }


def make_request_writer(file: BinaryIO, session: str, policy: str) -> RequestObserver:
    """A witness of a simulation that writes down all it sees."""

    def see(call: SimulatedCall, request: Request, tokens: Sequence[int]) -> None:
        file.write(line_of(session, policy, call, request, tokens))

    return see
