"""Reads and changes requests and responses of the Anthropic SDK.

The changed request differs from the caller's only in its body and, if needed, in the beta header. A summary
is a separate request on the same connection, not streamed.

The body is handed over as bytes, so that recorded blocks leave as they were recorded. Otherwise the SDK would
encode it again, with its own spelling of numbers and characters. That is only possible if the SDK sends what
it gets: not if another middleware follows, which reads the decoded body, not for the clients of Bedrock and
Vertex, which change it, and not if requests are traced.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from types import CellType, CodeType
from typing import Any, Final

import anthropic
import msgspec

from everturn.adapters.tracking import PreparedCall
from everturn.wire.json_values import is_mapping

PATH: Final = "/v1/messages"
COUNT_PATH: Final = "/v1/messages/count_tokens"
BETA_HEADER: Final = "anthropic-beta"
# The SDK's own function at the end of a chain of middlewares.
SENDING_FUNCTION: Final = "base_handler"


def read_body(request: anthropic.APIRequest, endpoint: str = PATH) -> Mapping[str, Any] | None:
    """The body of a request to this endpoint, with `extra_body`; None for every other request."""
    path = request.url.partition("?")[0].rstrip("/")
    body = request.json
    if request.method.lower() != "post" or not path.endswith(endpoint) or not is_mapping(body):
        return None
    extra: Any = request.options.extra_json
    return {**body, **extra} if is_mapping(extra) else body


def takes_bytes(call_next: Callable[..., Any]) -> bool:
    """Whether the SDK sends bytes as they are after this middleware, see above. The SDK does not say, so the
    function that sends is examined; if it looks different in another version, the answer is no."""
    code: CodeType | None = getattr(call_next, "__code__", None)
    if code is None or code.co_name != SENDING_FUNCTION:
        return False
    cells: tuple[CellType, ...] = getattr(call_next, "__closure__", None) or ()
    bound = dict(zip(code.co_freevars, (cell.cell_contents for cell in cells), strict=True))
    is_traced = bound.get("call") is not None
    return type(bound.get("self")) in (anthropic.Anthropic, anthropic.AsyncAnthropic) and not is_traced


def read_betas(request: anthropic.APIRequest) -> list[str]:
    named = next((value for name, value in request.headers.items() if name.lower() == BETA_HEADER), "")
    return [each.strip() for each in named.split(",") if each.strip()] if isinstance(named, str) else []


def apply_prepared_call(
    request: anthropic.APIRequest, prepared: PreparedCall, call_next: Callable[..., Any]
) -> anthropic.APIRequest:
    """The caller's request with the prepared body."""
    copied = _copy(request, prepared.betas)
    body = request.json
    stream = body["stream"] if is_mapping(body) and "stream" in body else None
    if takes_bytes(call_next) and prepared.request.message_mark is None:
        content = prepared.body
        if stream is not None:
            # A view: the body may have megabytes, and is copied once only.
            content = b"".join((b'{"stream":', msgspec.json.encode(stream), b",", memoryview(content)[1:]))
        copied.options.json_data, copied.options.content = None, content
    else:
        fields = prepared.fields()
        copied.options.json_data = fields if stream is None else {**fields, "stream": stream}
    return copied


def replace_messages(request: anthropic.APIRequest, messages: list[Any]) -> anthropic.APIRequest:
    """The caller's count with other messages."""
    copied = _copy(request, ())
    copied.options.json_data = {**(read_body(request, COUNT_PATH) or {}), "messages": messages}
    return copied


def build_summary_request(
    request: anthropic.APIRequest, body: bytes, betas: Sequence[str], call_next: Callable[..., Any]
) -> anthropic.APIRequest:
    """A summary request on the caller's connection: not streamed, and without its idempotency key."""
    copied = _copy(request, betas)
    if takes_bytes(call_next):
        copied.options.json_data, copied.options.content = None, body
    else:
        copied.options.json_data = msgspec.json.decode(body)
    copied.stream, copied.stream_cls = False, None
    copied.options.idempotency_key = None
    return copied


def _copy(request: anthropic.APIRequest, betas: Sequence[str]) -> anthropic.APIRequest:
    # Not `request.copy`: it would first copy every message of the old body.
    copied = copy.copy(request)
    copied.options = copied.options.model_copy()
    # It is in the body already, see `read_body`.
    copied.options.extra_json = None
    known = read_betas(request) if betas else []
    if missing := [each for each in betas if each not in known]:
        others = {name: value for name, value in request.headers.items() if name.lower() != BETA_HEADER}
        copied.options.headers = {**others, BETA_HEADER: ",".join([*known, *missing])}
    return copied
