"""How requests and replies are encoded for a provider: the interface between the engine and an API.

Inside, everything has the Messages API's blocks, byte for byte as recorded. What is specific to a provider
(the body of a request, betas, breakpoints, the shape of replies and usage, error messages, capabilities) is
behind `Wire`. There is one today; `docs/architecture.md` says what another provider needs.
"""

from typing import Any, Final, Protocol

import msgspec

from everturn.decide.betas import required_betas
from everturn.decide.cache_breaks import Diagnosis
from everturn.decide.micro.declarative import AppliedContextEdit, applied_edits
from everturn.history.records import Usage
from everturn.measure.capabilities import ANTHROPIC, Capabilities
from everturn.view.breakpoints import Breakpoints
from everturn.view.forks import CapturedRequest
from everturn.view.requests import build_request
from everturn.wire.anthropic import MessagePieces, Response, compaction_usage, read_response
from everturn.wire.overflow import Overflow, parse_overflow
from everturn.wire.refusals import refuses_thinking
from everturn.wire.streamed import StreamedReply


class WireRequest(msgspec.Struct, frozen=True):
    """A request as bytes, and the betas for its header."""

    body: bytes
    betas: tuple[str, ...]


class ParsedReply(msgspec.Struct, frozen=True):
    """A reply, and what the provider reports with it: why the cache missed, what it cleared."""

    response: Response
    diagnosis: Diagnosis | None = None
    applied: tuple[AppliedContextEdit, ...] = ()


class ReplyStream(Protocol):
    """Takes the bytes of a streamed reply as they come, in pieces of any length."""

    @property
    def is_whole(self) -> bool: ...

    @property
    def problem(self) -> str:
        """Why these bytes will never be a reply, if that is known."""
        ...

    @property
    def body(self) -> bytes:
        """What a plain request would have returned (`parse_reply`), once the reply is whole."""
        ...

    @property
    def envelope(self) -> bytes:
        """The reply so far with its usage and without its content; empty before it has begun."""
        ...

    def feed(self, piece: bytes) -> None: ...


class Wire(Protocol):
    @property
    def capabilities(self) -> Capabilities: ...

    def spell_request(
        self,
        captured: CapturedRequest,
        breakpoints: Breakpoints,
        *,
        previous_message: str | None,
        spelled: MessagePieces | None = None,
    ) -> WireRequest:
        """`previous_message` is the id of the reply before, None for the first call; a provider that explains
        cache misses is asked about the difference to it (CB-8). `spelled` remembers the messages of the last
        request of the same conversation.
        """
        ...

    def parse_reply(self, body: bytes, *, request_id: str = "") -> ParsedReply:
        """Raises `msgspec.DecodeError` if the body is not a reply."""
        ...

    def parse_stream(self) -> ReplyStream:
        """Assembles a streamed reply."""
        ...

    def summary_usage(self, body: bytes, *, by_provider: bool) -> Usage:
        """The usage of a summary call; the provider's own compaction reports it in a separate field."""
        ...

    def parse_overflow(self, message: str) -> Overflow | None:
        """Whether an error message says that the request was too long, and by how much (CP-26)."""
        ...

    def refuses_thinking(self, message: str) -> bool:
        """Whether an error message says that thinking in the request is not accepted (PC-16)."""
        ...


class AnthropicWire:
    """The Messages API, also where Bedrock or Vertex serve it."""

    def __init__(self, capabilities: Capabilities = ANTHROPIC) -> None:
        self._capabilities = capabilities

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    def spell_request(
        self,
        captured: CapturedRequest,
        breakpoints: Breakpoints,
        *,
        previous_message: str | None,
        spelled: MessagePieces | None = None,
    ) -> WireRequest:
        request = build_request(captured, breakpoints)
        if self._capabilities.diagnostics:
            asked = {"diagnostics": {"previous_message_id": previous_message}}
            request = msgspec.structs.replace(request, settings={**request.settings, **asked})
        return WireRequest(request.to_bytes(spelled), required_betas(captured))

    def parse_reply(self, body: bytes, *, request_id: str = "") -> ParsedReply:
        response = read_response(body, request_id=request_id)
        extras = _read_extras(body)
        reason = extras.diagnostics.cache_miss_reason if extras.diagnostics else None
        diagnosis = Diagnosis(reason.type, reason.cache_missed_input_tokens) if reason else None
        edits = extras.context_management
        return ParsedReply(response, diagnosis, tuple(applied_edits(edits)) if edits else ())

    def parse_stream(self) -> ReplyStream:
        return StreamedReply()

    def summary_usage(self, body: bytes, *, by_provider: bool) -> Usage:
        return compaction_usage(body) if by_provider else read_response(body).reply.usage or Usage()

    def parse_overflow(self, message: str) -> Overflow | None:
        return parse_overflow(message)

    def refuses_thinking(self, message: str) -> bool:
        return refuses_thinking(message)


ANTHROPIC_WIRE: Final = AnthropicWire()


class _CacheMissReason(msgspec.Struct):
    type: str = ""
    cache_missed_input_tokens: int = 0


class _Diagnostics(msgspec.Struct):
    cache_miss_reason: _CacheMissReason | None = None


class _Extras(msgspec.Struct):
    diagnostics: _Diagnostics | None = None
    context_management: dict[str, Any] | None = None


def _read_extras(body: bytes) -> _Extras:
    """Unknown shapes are ignored: they must not make a reply unusable that was paid for."""
    if b'"diagnostics"' not in body and b'"context_management"' not in body:
        return _Extras()
    try:
        return msgspec.json.decode(body, type=_Extras)
    except msgspec.ValidationError:
        return _Extras()
