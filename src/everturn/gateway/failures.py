"""Errors of the gateway itself, in the shape of the API's. Their types begin with `everturn_` (GW-6)."""

import json

from everturn.errors import LeaseLost, SessionLocked, StoreError, StoreUnavailable


class GatewayError(Exception):
    """Answered to the client. The message says what to do, and has no content, path or key in it."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = f"everturn_{kind}"
        self.message = message

    @property
    def body(self) -> bytes:
        return json.dumps(
            {"type": "error", "error": {"type": self.kind, "message": self.message}}, separators=(",", ":")
        ).encode()

    @property
    def event(self) -> bytes:
        """As an event of a stream that has begun."""
        return make_error_event(self.body)


class ClientGone(Exception):
    """The client has disconnected; there is nobody to answer."""


def describe_failure(problem: Exception) -> str:
    """What failed, for notes and metrics: few values, without content."""
    if isinstance(problem, StoreUnavailable):
        return "the store does not answer"
    if isinstance(problem, SessionLocked | LeaseLost):
        return "another replica is writing this conversation"
    return "the store refused" if isinstance(problem, StoreError) else "everturn failed"


def make_error_event(body: bytes) -> bytes:
    """The body of an error as an event. The API's errors are one line of JSON; other bodies are wrapped."""
    text = body.strip()
    if not text.startswith(b"{") or b"\n" in text or b"\r" in text:
        message = text.decode(errors="replace")
        wrapped = {"type": "error", "error": {"type": "api_error", "message": message}}
        text = json.dumps(wrapped, separators=(",", ":")).encode()
    return b"event: error\ndata: " + text + b"\n\n"
