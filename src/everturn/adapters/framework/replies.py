"""What came back from a framework's model: a reply as the API would have spelled it, or an error."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from everturn.session.upstream import RawResponse, UpstreamError
from everturn.wire.overflow import parse_overflow

BAD_REQUEST: Final = 400


class FrameworkUsage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The tokens of a reply as frameworks count them: `input_tokens` are all of the input."""

    input_tokens: int = 0
    cache_read: int = 0
    cache_written: int = 0
    output_tokens: int = 0

    def usage(self) -> dict[str, int]:
        return {
            "input_tokens": max(0, self.input_tokens - self.cache_read - self.cache_written),
            "cache_read_input_tokens": self.cache_read,
            "cache_creation_input_tokens": self.cache_written,
            "output_tokens": self.output_tokens,
        }


class FrameworkReply(msgspec.Struct, frozen=True, kw_only=True):
    """A reply: its blocks, and what it says about itself."""

    id: str
    model: str
    blocks: Sequence[dict[str, Any]]
    counted: FrameworkUsage | None = None
    stop_reason: str = ""


def build_response(heard: FrameworkReply) -> RawResponse:
    """The body that the Messages API would have sent for this reply."""
    calls = any(block.get("type") == "tool_use" for block in heard.blocks)
    body: dict[str, Any] = {
        "id": heard.id,
        "type": "message",
        "role": "assistant",
        "model": heard.model,
        "content": heard.blocks,
        "stop_reason": heard.stop_reason or ("tool_use" if calls else "end_turn"),
    }
    if heard.counted is not None:
        body["usage"] = heard.counted.usage()
    return RawResponse(msgspec.json.encode(body))


def is_too_long(problem: Exception, kind: type[Exception]) -> bool:
    """Whether this is a provider's "too long": by the framework's own kind of error, or by its words."""
    return isinstance(problem, kind) or parse_overflow(str(problem)) is not None


def is_bad_request(problem: Exception) -> bool:
    """Whether the provider found fault with the request itself."""
    return getattr(problem, "status_code", 0) == BAD_REQUEST


def to_upstream_error(problem: Exception) -> UpstreamError:
    return UpstreamError(getattr(problem, "status_code", 0) or 0, type(problem).__name__, str(problem))
