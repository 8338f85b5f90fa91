"""Every simulated request as a line of JSON, so that anyone can check the bill.

    session, policy, thread, call, time, source, model, request, usage, dollars, tokens, trailing, hidden,
    cache

`request` is the whole body. Recordings do not hold system prompt and tools, so one system block is a
placeholder for them, and one result is a placeholder for refetched content. `tokens` has one count per block
in the order of the prefix (tools, system, messages) and sums to the billed input; placeholders have their
real size there. Tokens that belong to no block are counted with a neighbour: the start of a message with its
first block, the end of the prompt with the last block. `trailing` says how many come after the last block:
they are never cached. `hidden` are the blocks (by index in `tokens`) of thinking that the API wants in the
request and does not show to the model: they are not part of the prefix.

`cache` says what the provider's cache did on its own before this request, as the recording shows it: `found`
are the ends, in tokens, of entries of this prompt that were in the cache although no line before wrote them
(another conversation did); entries of this prompt that end behind `lost_behind` tokens were gone. Apply both
before the cache is looked up. It is empty on most lines.
"""

from typing import Any, BinaryIO

import msgspec

from everturn.replay.playing.cache_billing import BlockTokens
from everturn.replay.playing.call_log import RequestObserver
from everturn.replay.runs import SimulatedCall
from everturn.wire.anthropic import Request

_encode = msgspec.json.Encoder().encode


def line_of(session: str, policy: str, call: SimulatedCall, request: Request, tokens: BlockTokens) -> bytes:
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
        "tokens": tokens.counts,
        "trailing": tokens.trailing,
        "hidden": tokens.hidden,
        "cache": _cache_fields(call),
    }
    return _encode(fields) + b"\n"


def _cache_fields(call: SimulatedCall) -> dict[str, Any]:
    found = {"found": call.found} if call.found else {}
    return found if call.lost_behind is None else {**found, "lost_behind": call.lost_behind}


def usage_fields(call: SimulatedCall) -> dict[str, Any]:
    """The usage object in the format of the API, with all fields."""
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
    """An observer that writes every request of a simulation to a file."""

    def see(call: SimulatedCall, request: Request, tokens: BlockTokens) -> None:
        file.write(line_of(session, policy, call, request, tokens))

    return see
