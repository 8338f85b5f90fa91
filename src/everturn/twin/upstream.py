"""Use a twin in this process as the model provider of a session, without a socket or an SDK."""

import warnings
from collections.abc import Sequence
from typing import Any

import msgspec

from everturn.errors import UpstreamError
from everturn.session.upstream import RawResponse, Send
from everturn.twin.service import Twin


def make_twin_send(twin: Twin, *, api_key: str = "session") -> Send:
    """A function that sends one request to the twin, as a session needs it."""
    headers = {"x-api-key": api_key, "anthropic-version": "2026-10-21", "content-type": "application/json"}

    def send(body: bytes, betas: Sequence[str]) -> RawResponse:
        beta_header = {"anthropic-beta": ",".join(betas)} if betas else {}
        response = twin.messages(headers | beta_header, body)
        if response.on_first_byte is not None:
            response.on_first_byte()
        if response.status != 200:
            error: dict[str, Any] = msgspec.json.decode(response.body)["error"]
            raise UpstreamError(response.status, error["type"], error["message"])
        return RawResponse(response.body, response.headers.get("request-id", ""))

    return send


def through_twin(twin: Twin, *, api_key: str = "session") -> Send:
    """The old name of `make_twin_send`, kept for one version."""
    warnings.warn("through_twin() is now make_twin_send()", DeprecationWarning, stacklevel=2)
    return make_twin_send(twin, api_key=api_key)
