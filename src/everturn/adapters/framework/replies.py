"""Converts replies and errors of a framework's model to the API's format."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from everturn.adapters.tracking.summary_retries import list_causes
from everturn.measure.model_table import find_model
from everturn.session.upstream import RawResponse
from everturn.wire.overflow import parse_overflow

BAD_REQUEST: Final = 400
# How the names of errors end after which nothing was sent.
_UNSENT: Final = ("ConnectError", "ConnectTimeout", "PoolTimeout")


class FrameworkUsage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Token counts as frameworks report them: `input_tokens` includes what was read from the cache, and
    `cache_written` what was written for an hour, which costs more."""

    input_tokens: int = 0
    cache_read: int = 0
    cache_written: int = 0
    written_1h: int = 0
    output_tokens: int = 0

    def to_fields(self) -> dict[str, Any]:
        """The `usage` object of the Messages API."""
        written_5m = max(0, self.cache_written - self.written_1h)
        by_lifetime = {
            "ephemeral_5m_input_tokens": written_5m,
            "ephemeral_1h_input_tokens": self.written_1h,
        }
        return {
            "input_tokens": max(0, self.input_tokens - self.cache_read - self.cache_written),
            "cache_read_input_tokens": self.cache_read,
            "cache_creation_input_tokens": self.cache_written,
            "output_tokens": self.output_tokens,
            **({"cache_creation": by_lifetime} if self.written_1h else {}),
        }


class FrameworkReply(msgspec.Struct, frozen=True, kw_only=True):
    """A reply of a framework's model: blocks and metadata."""

    id: str
    model: str
    blocks: Sequence[dict[str, Any]]
    usage: FrameworkUsage | None = None
    stop_reason: str = ""


def find_answering_model(reported: Any, asked: str) -> str:
    """The model that a reply is from: a framework may have asked another one, after the first had failed. A
    name that is not in the table may be the provider's spelling, and says less than the one asked."""
    return reported if isinstance(reported, str) and find_model(reported) is not None else asked


def build_response(reply: FrameworkReply) -> RawResponse:
    """The response body that the Messages API would have sent for this reply."""
    calls = any(block.get("type") == "tool_use" for block in reply.blocks)
    body: dict[str, Any] = {
        "id": reply.id,
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": reply.blocks,
        "stop_reason": reply.stop_reason or ("tool_use" if calls else "end_turn"),
    }
    if reply.usage is not None:
        body["usage"] = reply.usage.to_fields()
    return RawResponse(msgspec.json.encode(body))


def is_too_long(problem: Exception, kind: type[Exception]) -> bool:
    """Whether the provider refused the prompt as too long: by the framework's error class or the message."""
    return isinstance(problem, kind) or parse_overflow(str(problem)) is not None


def is_bad_request(problem: Exception) -> bool:
    """Whether the provider rejected the request as invalid."""
    return getattr(problem, "status_code", 0) == BAD_REQUEST


def may_have_cost(problem: BaseException) -> bool:
    """Whether a call that ended like this may have been paid: not if the provider has answered with an error,
    or was not reached."""
    chain = list(list_causes(problem))
    status = next((code for each in chain if (code := getattr(each, "status_code", 0))), 0)
    return status < BAD_REQUEST and not any(type(each).__name__.endswith(_UNSENT) for each in chain)
