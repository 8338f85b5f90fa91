"""Reads and changes requests and responses of the Anthropic SDK.

The changed request differs from the caller's only in its body and, if needed, in the beta header. A summary
is a separate request on the same connection, not streamed.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Final

import anthropic
import msgspec

from everturn.adapters.tracking import PreparedCall
from everturn.adapters.tracking.chain import is_mapping
from everturn.errors import UpstreamError
from everturn.session.upstream import RawResponse
from everturn.wire.overflow import parse_overflow

PATH: Final = "/v1/messages"
BETA_HEADER: Final = "anthropic-beta"
REQUEST_ID_HEADER: Final = "request-id"
BAD_REQUEST: Final = 400


def read_body(request: anthropic.APIRequest) -> Mapping[str, Any] | None:
    """The body of a request to the Messages API; None for every other request."""
    path = request.url.partition("?")[0].rstrip("/")
    body = request.json
    if request.method.lower() != "post" or not path.endswith(PATH) or not is_mapping(body):
        return None
    return body


def read_betas(request: anthropic.APIRequest) -> list[str]:
    named = next((value for name, value in request.headers.items() if name.lower() == BETA_HEADER), "")
    return [each.strip() for each in named.split(",") if each.strip()] if isinstance(named, str) else []


def apply_prepared_call(request: anthropic.APIRequest, prepared: PreparedCall) -> anthropic.APIRequest:
    """The caller's request with the prepared body."""
    fields = prepared.fields()
    body = request.json
    if is_mapping(body) and "stream" in body:
        fields["stream"] = body["stream"]
    return _with_body(request, fields, prepared.betas)


def build_summary_request(
    request: anthropic.APIRequest, body: bytes, betas: Sequence[str]
) -> anthropic.APIRequest:
    """A summary request on the caller's connection: not streamed, and without its idempotency key."""
    copied = _with_body(request, msgspec.json.decode(body), betas)
    copied.stream, copied.stream_cls = False, None
    copied.options.idempotency_key = None
    return copied


def _with_body(
    request: anthropic.APIRequest, body: dict[str, Any], betas: Sequence[str]
) -> anthropic.APIRequest:
    # Not `request.copy`: it would first copy every message of the old body.
    copied = copy.copy(request)
    copied.options = copied.options.model_copy()
    copied.options.json_data = body
    known = read_betas(request)
    if missing := [each for each in betas if each not in known]:
        others = {name: value for name, value in request.headers.items() if name.lower() != BETA_HEADER}
        copied.options.headers = {**others, BETA_HEADER: ",".join([*known, *missing])}
    return copied


def read_response_body(status: int, headers: Mapping[str, str], body: bytes) -> RawResponse:
    """The response; raises `UpstreamError` if its status is an error."""
    if status >= BAD_REQUEST:
        error = _error(body)
        raise UpstreamError(status, error.type, error.message)
    return RawResponse(body, headers.get(REQUEST_ID_HEADER, ""))


def to_upstream_error(problem: anthropic.AnthropicError) -> UpstreamError:
    return UpstreamError(0, type(problem).__name__, str(problem))


def is_too_long(status: int, body: bytes) -> bool:
    return status == BAD_REQUEST and parse_overflow(_error(body).message) is not None


class _Error(msgspec.Struct):
    type: str = "error"
    message: str = ""


class _Body(msgspec.Struct):
    error: _Error = msgspec.field(default_factory=_Error)


def _error(body: bytes) -> _Error:
    try:
        return msgspec.json.decode(body, type=_Body).error
    except msgspec.MsgspecError:
        # Other providers use other formats; the message is somewhere in the body.
        return _Error(message=body.decode(errors="replace"))
