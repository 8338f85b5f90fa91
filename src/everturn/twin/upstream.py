"""A twin in this process as the provider of a session: no socket, no SDK."""

from collections.abc import Sequence
from typing import Any

import msgspec

from everturn.session.upstream import RawResponse, Send, UpstreamError
from everturn.twin.service import Twin


def make_twin_send(twin: Twin, *, api_key: str = "session") -> Send:
    headers = {"x-api-key": api_key, "anthropic-version": "2026-10-21", "content-type": "application/json"}

    def send(body: bytes, betas: Sequence[str]) -> RawResponse:
        named = {"anthropic-beta": ",".join(betas)} if betas else {}
        answer = twin.messages(headers | named, body)
        if answer.begins is not None:
            answer.begins()
        if answer.status != 200:
            error: dict[str, Any] = msgspec.json.decode(answer.body)["error"]
            raise UpstreamError(answer.status, error["type"], error["message"])
        return RawResponse(answer.body, answer.headers.get("request-id", ""))

    return send
