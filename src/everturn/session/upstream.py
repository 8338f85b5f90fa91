"""The seam to the provider: bytes of a request in, bytes of its answer out.

One callable is all that a session needs of the world. The Anthropic SDK is one; a twin in the same process
is another (`twin/upstream.py`).
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from everturn.errors import EverturnError

if TYPE_CHECKING:
    import anthropic


class Answered(msgspec.Struct, frozen=True):
    """The body of a plain response, and the id the provider knows the request by."""

    body: bytes
    request_id: str = ""


class UpstreamError(EverturnError):
    """The provider answered with an error, or not at all (status 0). The message is the provider's own."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(f"{status} {kind}: {message}" if status else f"{kind}: {message}")
        self.status = status
        self.kind = kind
        self.message = message


# The body of the request, and the betas that its header must name. Raises `UpstreamError`.
Send = Callable[[bytes, Sequence[str]], Answered]


def through_sdk(client: "anthropic.Anthropic") -> Send:
    """Send with the official SDK and its retries. It spells the body again, in the same order."""
    import anthropic

    def send(body: bytes, betas: Sequence[str]) -> Answered:
        fields: dict[str, Any] = msgspec.json.decode(body)
        # Fields that a version of the SDK has no parameter for still reach the API.
        known = {name: fields.pop(name) for name in ("model", "messages", "max_tokens") if name in fields}
        try:
            raw = client.beta.messages.with_raw_response.create(**known, betas=list(betas), extra_body=fields)
            return Answered(raw.http_response.read(), raw.headers.get("request-id", ""))
        except anthropic.APIError as problem:
            raise _ours(problem) from problem

    return send


def _ours(problem: "anthropic.APIError") -> UpstreamError:
    """The SDK's error with what it knows; the original is its cause."""
    status = getattr(problem, "status_code", 0)
    body: Any = problem.body
    error = body.get("error") if isinstance(body, dict) else None
    if isinstance(error, dict):
        return UpstreamError(
            status, str(error.get("type", "error")), str(error.get("message", problem.message))
        )
    return UpstreamError(status, type(problem).__name__, problem.message)
