"""The interface to the provider: a callable that takes the bytes of a request and returns the response.

A session needs only this callable. `make_sdk_send` makes one from the Anthropic SDK; a twin in the same
process is another (`twin/upstream.py`).
"""

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from everturn.engine.wire import ANTHROPIC_WIRE, ParsedReply, Wire
from everturn.errors import InvalidResponseError, UpstreamError, UsageError
from everturn.history.blocks import text_of
from everturn.history.records import Usage
from everturn.wire.json_values import as_mapping

if TYPE_CHECKING:
    import anthropic

NO_KEY: Final = (
    "No API key found. Set ANTHROPIC_API_KEY, or pass `client=`, such as "
    "anthropic.Anthropic(api_key=...). What was said is kept; `send()` goes on with it."
)


class RawResponse(msgspec.Struct, frozen=True):
    """The body of a response, and the provider's request id."""

    body: bytes
    request_id: str = ""


def parse_reply(answered: RawResponse, wire: Wire = ANTHROPIC_WIRE) -> ParsedReply:
    """Parse the reply in a response; raises `InvalidResponseError` if there is none."""
    try:
        parsed = wire.parse_reply(answered.body, request_id=answered.request_id)
    except (msgspec.DecodeError, RecursionError) as problem:
        raise InvalidResponseError(answered.body, str(problem)) from problem
    if not (parsed.response.reply.message_id or parsed.response.blocks):
        raise InvalidResponseError(answered.body, "it has neither an id nor content")
    return parsed


def clamp_usage(usage: Usage) -> Usage:
    """Replace negative counts with 0: they are invalid, and would reduce the context size and the bill."""
    return usage.clamped


# The body of the request, and the betas that its header must name. Raises `UpstreamError`.
Send = Callable[[bytes, Sequence[str]], RawResponse]
# The same, and yields the text of the reply as it arrives.
Stream = Callable[[bytes, Sequence[str]], Generator[str, None, RawResponse]]

T = TypeVar("T")


def as_stream(send: Send) -> Stream:
    """A `Stream` that yields the whole text in one piece."""

    def stream(body: bytes, betas: Sequence[str]) -> Generator[str, None, RawResponse]:
        answered = send(body, betas)
        try:
            blocks = parse_reply(answered).response.blocks
        except InvalidResponseError:
            # The caller parses the response again and raises this error.
            return answered
        if text := "".join(text_of(block) for block in blocks if block.kind == "text"):
            yield text
        return answered

    return stream


def drain(pieces: Generator[Any, None, T]) -> T:
    """Run a generator to its end and return its value; the pieces it yields are discarded."""
    while True:
        try:
            next(pieces)
        except StopIteration as done:
            return done.value


def make_sdk_send(client: "anthropic.Anthropic") -> Send:
    """Send with the official SDK and its retries. The SDK encodes the body again, in the same order."""
    import anthropic

    stream = make_sdk_stream(client)

    def send(body: bytes, betas: Sequence[str]) -> RawResponse:
        known, fields = _for_sdk(body)
        try:
            # Any: `create` is overloaded on `stream`, and untyped keyword arguments match no overload.
            create: Any = client.beta.messages.with_raw_response.create
            raw = create(**known, betas=list(betas), extra_body=fields)
            return RawResponse(raw.http_response.read(), raw.headers.get("request-id", ""))
        except anthropic.APIError as problem:
            raise _to_upstream_error(problem) from problem
        except TypeError as problem:
            _check_has_key(problem)
            raise
        except ValueError:
            # Raised before anything is sent: the answer may take more than ten minutes, and the SDK only
            # streams those. It expects that from 21,334 `max_tokens` on, for some models earlier.
            return drain(stream(body, betas))

    return send


def make_sdk_stream(client: "anthropic.Anthropic") -> Stream:
    """Stream with the official SDK. The SDK assembles and encodes the response: the value is equal to what
    the API sent, the bytes may differ. An error in mid-stream is raised after the text that arrived."""
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
            raise _to_upstream_error(problem) from problem
        except TypeError as problem:
            _check_has_key(problem)
            raise
        except (httpx2.HTTPError, ValueError, AssertionError) as problem:
            # In mid-stream the SDK does not wrap these: a cut line, an event that is not JSON, an end without
            # a start.
            raise UpstreamError(
                0, type(problem).__name__, str(problem) or "the stream broke off"
            ) from problem

    return stream


def _check_has_key(problem: TypeError) -> None:
    """Raise `UsageError` if the SDK found no key. It looks for one in more places than we know."""
    if "authentication method" in str(problem):
        raise UsageError(NO_KEY) from problem


def _for_sdk(body: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """The SDK's required parameters, and the rest, which is passed through: the SDK may not know it yet."""
    fields: dict[str, Any] = msgspec.json.decode(body)
    known = {name: fields.pop(name) for name in ("model", "messages", "max_tokens") if name in fields}
    return known, fields


def _to_upstream_error(problem: "anthropic.APIError") -> UpstreamError:
    """Convert an error of the SDK; the original is raised as its cause."""
    status = getattr(problem, "status_code", 0)
    body = as_mapping(problem.body) or {}
    error = as_mapping(body.get("error"))
    if error is not None:
        return UpstreamError(
            status, str(error.get("type", "error")), str(error.get("message", problem.message))
        )
    return UpstreamError(status, type(problem).__name__, problem.message)
