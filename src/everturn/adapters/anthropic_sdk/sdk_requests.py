"""Requests and responses of the SDK, as far as the middleware looks into them.

One attempt is one HTTP request. Ours differs from the caller's in its body alone; a summary is asked for
by an attempt of its own on the same connection, plain and whole.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Final

import anthropic
import msgspec

from everturn.adapters.tracking import PreparedCall
from everturn.session.upstream import RawResponse, UpstreamError
from everturn.wire.overflow import parse_overflow

PATH: Final = "/v1/messages"
BETA_HEADER: Final = "anthropic-beta"
REQUEST_ID_HEADER: Final = "request-id"
BAD_REQUEST: Final = 400


def read_body(request: anthropic.APIRequest) -> Mapping[str, Any] | None:
    """The body of a request for a message; None for every other request."""
    path = request.url.partition("?")[0].rstrip("/")
    body = request.json
    if request.method.lower() != "post" or not path.endswith(PATH) or not isinstance(body, Mapping):
        return None
    return body


def read_betas(request: anthropic.APIRequest) -> list[str]:
    named = next((value for name, value in request.headers.items() if name.lower() == BETA_HEADER), "")
    return [each.strip() for each in named.split(",") if each.strip()] if isinstance(named, str) else []


def apply_prepared_call(request: anthropic.APIRequest, ticket: PreparedCall) -> anthropic.APIRequest:
    """The caller's request with the body that the engine made of it."""
    fields = ticket.fields()
    body = request.json
    if isinstance(body, Mapping) and "stream" in body:
        fields["stream"] = body["stream"]
    return _with_body(request, fields, ticket.betas)


def build_summary_request(
    request: anthropic.APIRequest, body: bytes, betas: Sequence[str]
) -> anthropic.APIRequest:
    """A request of our own on the caller's connection: not streamed, and no repetition of the caller's."""
    made = _with_body(request, msgspec.json.decode(body), betas)
    made.stream, made.stream_cls = False, None
    made.options.idempotency_key = None
    return made


def _with_body(
    request: anthropic.APIRequest, body: dict[str, Any], betas: Sequence[str]
) -> anthropic.APIRequest:
    # Not `request.copy`: it copies every message of the old body first, only to have it replaced.
    made = copy.copy(request)
    made.options = made.options.model_copy()
    made.options.json_data = body
    known = read_betas(request)
    if missing := [each for each in betas if each not in known]:
        others = {name: value for name, value in request.headers.items() if name.lower() != BETA_HEADER}
        made.options.headers = {**others, BETA_HEADER: ",".join([*known, *missing])}
    return made


def read_response_body(status: int, headers: Mapping[str, str], body: bytes) -> RawResponse:
    """What came back; raises `UpstreamError` where it is an error."""
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
        # Other vendors' bodies have other shapes; their words are somewhere in it.
        return _Error(message=body.decode(errors="replace"))
