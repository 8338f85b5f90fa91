"""The seam to the provider: bytes of a request in, bytes of its answer out.

One callable is all that a session needs of the world. The Anthropic SDK is one; a twin in the same process
is another (`twin/upstream.py`).
"""

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from everturn.errors import EverturnError
from everturn.history.blocks import text_of
from everturn.history.records import Usage
from everturn.session.events.serialize import redact_secrets
from everturn.wire.anthropic import Response, read_response

if TYPE_CHECKING:
    import anthropic


# How much of what came instead of a message is shown to whoever must find out why.
_SHOWN: Final = 200
_COUNTS: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")


class RawResponse(msgspec.Struct, frozen=True):
    """The body of a plain response, and the id the provider knows the request by."""

    body: bytes
    request_id: str = ""


class UpstreamError(EverturnError):
    """The provider answered with an error, or not at all (status 0). The message is the provider's own,
    without what looks like a key: some repeat the header that they were sent."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        message = redact_secrets(message)
        super().__init__(f"{status} {kind}: {message}" if status else f"{kind}: {message}")
        self.status = status
        self.kind = kind
        self.message = message


class InvalidResponseError(UpstreamError):
    """The provider answered, and what it sent is no message of the API."""

    def __init__(self, body: bytes, problem: str) -> None:
        came = body[:_SHOWN].decode("utf-8", "replace") or "nothing"
        super().__init__(
            0,
            "no_message",
            f"the provider's answer is no message ({problem}). It began with: {came!r}. "
            "What was said is kept; call again.",
        )


def parse_message(answered: RawResponse) -> Response:
    """The message in an answer; raises `NoMessage` where there is none."""
    try:
        response = read_response(answered.body, request_id=answered.request_id)
    except (msgspec.DecodeError, RecursionError) as problem:
        raise InvalidResponseError(answered.body, str(problem)) from problem
    if not (response.reply.message_id or response.blocks):
        raise InvalidResponseError(answered.body, "it has neither an id nor content")
    return response


def clamp_usage(usage: Usage) -> Usage:
    """A count below zero means nothing, and would make the context and the bill smaller than they are."""
    counts = {name: max(0, count) for name in _COUNTS if (count := getattr(usage, name)) < 0}
    return msgspec.structs.replace(usage, **counts) if counts else usage


# The body of the request, and the betas that its header must name. Raises `UpstreamError`.
Send = Callable[[bytes, Sequence[str]], RawResponse]
# The same, which gives the text of the answer piece by piece on the way.
Stream = Callable[[bytes, Sequence[str]], Generator[str, None, RawResponse]]

T = TypeVar("T")


def as_stream(send: Send) -> Stream:
    """A stream of one piece: the whole text, when it is there."""

    def stream(body: bytes, betas: Sequence[str]) -> Generator[str, None, RawResponse]:
        answered = send(body, betas)
        try:
            blocks = parse_message(answered).blocks
        except InvalidResponseError:
            # Not ours to judge: whoever reads the answer says what is wrong with it.
            return answered
        if text := "".join(text_of(block) for block in blocks if block.kind == "text"):
            yield text
        return answered

    return stream


def drain(pieces: Generator[Any, None, T]) -> T:
    """What a generator comes to, without what it gives on the way."""
    while True:
        try:
            next(pieces)
        except StopIteration as done:
            return done.value


def make_sdk_send(client: "anthropic.Anthropic") -> Send:
    """Send with the official SDK and its retries. It spells the body again, in the same order."""
    import anthropic

    def send(body: bytes, betas: Sequence[str]) -> RawResponse:
        known, fields = _for_sdk(body)
        try:
            raw = client.beta.messages.with_raw_response.create(**known, betas=list(betas), extra_body=fields)
            return RawResponse(raw.http_response.read(), raw.headers.get("request-id", ""))
        except anthropic.APIError as problem:
            raise _ours(problem) from problem

    return send


def make_sdk_stream(client: "anthropic.Anthropic") -> Stream:
    """Stream with the official SDK. The answer is put together and spelled by it: an equal value, and not
    always equal bytes. An error in the middle of a stream is raised behind what was already given."""
    import anthropic
    import httpx2

    def stream(body: bytes, betas: Sequence[str]) -> Generator[str, None, RawResponse]:
        known, fields = _for_sdk(body)
        try:
            with client.beta.messages.stream(**known, betas=list(betas), extra_body=fields) as events:
                for event in events:
                    if event.type == "text":
                        yield event.text
                message = events.get_final_message()
                return RawResponse(message.to_json(indent=None).encode(), events.request_id or "")
        except anthropic.APIError as problem:
            raise _ours(problem) from problem
        except (httpx2.HTTPError, ValueError, AssertionError) as problem:
            # Once a stream has begun the SDK lets these through: a cut line, an event that is no JSON, an end
            # before the beginning.
            raise UpstreamError(
                0, type(problem).__name__, str(problem) or "the stream broke off"
            ) from problem

    return stream


def _for_sdk(body: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """The SDK's own parameters, and the rest: what a version of it does not know still reaches the API."""
    fields: dict[str, Any] = msgspec.json.decode(body)
    known = {name: fields.pop(name) for name in ("model", "messages", "max_tokens") if name in fields}
    return known, fields


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
