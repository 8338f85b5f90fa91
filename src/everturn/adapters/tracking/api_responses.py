"""Reads the responses of the Messages API where an adapter has their status, headers and body."""

from collections.abc import Mapping
from typing import Final

import msgspec

from everturn.adapters.tracking.summary_retries import SendError, parse_retry_after
from everturn.session.upstream import RawResponse
from everturn.wire.overflow import parse_overflow

REQUEST_ID_HEADER: Final = "request-id"
BAD_REQUEST: Final = 400


def read_response_body(status: int, headers: Mapping[str, str], body: bytes) -> RawResponse:
    """The response; raises `SendError` if its status is an error."""
    if status >= BAD_REQUEST:
        error = _error(body)
        raise SendError(status, error.type, error.message, retry_after=parse_retry_after(headers))
    return RawResponse(body, headers.get(REQUEST_ID_HEADER, ""))


def is_too_long(status: int, body: bytes) -> bool:
    return status == BAD_REQUEST and parse_overflow(_error(body).message) is not None


def read_error(body: bytes) -> str:
    """The provider's message in the body of an error."""
    return _error(body).message


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
