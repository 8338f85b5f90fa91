"""Inject faults: queued ones, and random ones with a seed (TW-10).

For every valid request the service calls `FaultInjector.take` once. A fault acts in one of three places:

    fault.to_error(model, at=...)      before the reply is generated: an error response
    fault.drops_cache                  before the cache lookup: the workspace's entries are lost
    fault.alter_response(response)     after the response is built: delayed, slow, cut short, corrupted

Faults in summaries (`take_summary_fault`) are applied by the speaker, because there the model's output is
wrong. Invalid requests do not use up faults. A fault without `endpoint` applies to `/v1/messages` requests
that do not compact; count_tokens and compaction requests are affected only by faults that name them.
"""

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import chain
from typing import Final, Literal, get_args

from everturn.measure.model_table import Model
from everturn.twin.clock import format_time
from everturn.twin.response_bodies import build_error_response
from everturn.twin.stream import error_event
from everturn.twin.values import ApiError, HttpResponse

FaultEndpoint = Literal["messages", "count_tokens", "compaction"]
FaultKind = Literal[
    "overloaded",
    "rate_limit",
    "server_error",
    "request_too_large",
    "timeout",
    "prompt_too_long",
    "compaction_unavailable",
    "slow_first_byte",
    "slow_stream",
    "cut_stream",
    "stream_error",
    "garbage",
    "lost_cache",
    "empty_summary",
    "refusing_summary",
    "tool_calling_summary",
]
FaultVendor = Literal["anthropic", "bedrock", "bedrock_new", "vertex", "openai", "openai_responses", "gemini"]
FAULT_KINDS: Final[tuple[FaultKind, ...]] = get_args(FaultKind)
FAULT_VENDORS: Final[tuple[FaultVendor, ...]] = get_args(FaultVendor)
FAULT_ENDPOINTS: Final[tuple[FaultEndpoint, ...]] = get_args(FaultEndpoint)
SUMMARY_FAULT_KINDS: Final[frozenset[FaultKind]] = frozenset(
    {"empty_summary", "refusing_summary", "tool_calling_summary"}
)

# Status, error type and message (api-facts 5). The messages of 429, 500 and 504 are not published.
_ERRORS: Final[dict[str, tuple[int, str, str]]] = {
    "overloaded": (529, "overloaded_error", "Overloaded"),
    "rate_limit": (
        429,
        "rate_limit_error",
        "This request would exceed your organization's rate limit of 50 requests per minute.",
    ),
    "server_error": (500, "api_error", "Internal server error"),
    "request_too_large": (413, "request_too_large", "Request exceeds the maximum size"),
    "timeout": (504, "timeout_error", "The request timed out."),
    "compaction_unavailable": (529, "overloaded_error", "Overloaded"),
}
# Example limits, because they differ by account. The names are the API's (api-facts 5).
_PER_MINUTE: Final = {"requests": 50, "tokens": 38_000, "input-tokens": 30_000, "output-tokens": 8_000}
_STREAM_ERRORS: Final = {kind: (error, message) for kind, (_, error, message) in _ERRORS.items()}

# The message of each vendor for a prompt that is too long (api-facts 5): {x} tokens sent, {y} allowed.
_TOO_LONG: Final[dict[FaultVendor, str]] = {
    "anthropic": "prompt is too long: {x} tokens > {y} maximum",
    "bedrock": "Input is too long for requested model.",
    "bedrock_new": "The model returned the following errors: prompt is too long: {x} tokens > {y} maximum",
    "vertex": "Prompt is too long",
    "openai": (
        "This model's maximum context length is {y} tokens. However, your messages resulted in {x} tokens. "
        "Please reduce the length of the messages."
    ),
    "openai_responses": (
        "Your input exceeds the context window of this model. Please adjust your input and try again."
    ),
    "gemini": "The input token count ({x}) exceeds the maximum number of tokens allowed ({y}).",
}
# Tokens above the window if a fault does not give a number: as in the example in api-facts 5.
_TOKENS_OVER: Final = 123

GARBAGE: Final = b"<html><head><title>502 Bad Gateway</title></head><body>upstream</body></html>"
GARBAGE_EVENT: Final = (
    b'event: content_block_delta\ndata: {"type": "content_block_delta", "index": 0, "del\n\n'
)


@dataclass(frozen=True, slots=True)
class InjectedFault:
    """One fault. The fields are the keys of a fault in `POST /twin/faults`."""

    kind: FaultKind
    times: int = 1
    # How many matching requests are skipped first.
    after: int = 0
    endpoint: FaultEndpoint | None = None
    message: str | None = None
    # Seconds. None omits the header, as the API does for a spend cap (api-facts 5).
    retry_after: float | None = 1
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    vendor: FaultVendor = "anthropic"
    tokens: int | None = None
    limit: int | None = None
    # Seconds before the first byte, before each event, or before the connection closes.
    delay_s: float = 1.0
    # timeout only: no response; the connection closes after `delay_s`.
    hangs_up: bool = False
    # cut_stream, stream_error, garbage: how many events are sent first.
    after_events: int = 3
    # stream_error only: which error the event carries.
    error: str = "overloaded"

    @property
    def drops_cache(self) -> bool:
        return self.kind == "lost_cache"

    @property
    def breaks_off(self) -> bool:
        """Whether the client gets no complete message, so that it will send the request again."""
        return self.kind in ("cut_stream", "stream_error", "garbage") or self.hangs_up

    def applies_to(self, endpoint: str, *, is_compaction: bool) -> bool:
        actual: str = "compaction" if is_compaction else endpoint
        default = "compaction" if self.kind == "compaction_unavailable" else "messages"
        return self.kind not in SUMMARY_FAULT_KINDS and actual == (self.endpoint or default)

    def to_error(self, model: Model, *, at: datetime) -> ApiError | None:
        """The error response, if this kind of fault is one."""
        if self.kind == "prompt_too_long":
            return self._too_long(model)
        if self.kind not in _ERRORS or self.hangs_up:
            return None
        status, kind, message = _ERRORS[self.kind]
        code = "compaction_unavailable" if self.kind == "compaction_unavailable" else None
        return ApiError(
            status, kind, self.message or message, error_code=code, headers=self._error_headers(at)
        )

    def alter_response(self, response: HttpResponse) -> HttpResponse:
        """The response after this fault."""
        match self.kind:
            case "slow_first_byte":
                return replace(response, delay=response.delay + self.delay_s)
            case "timeout":
                return self._time_out(response)
            case "slow_stream" if response.stream is not None:
                return replace(response, stream=_slow_down(response.stream, self.delay_s))
            case "slow_stream":
                return replace(response, delay=response.delay + self.delay_s)
            case "cut_stream":
                return _cut_short(response, self.after_events)
            case "stream_error":
                return self._end_with_error(response)
            case "garbage":
                return _corrupt(response, self.after_events)
            case _:
                return response

    def _error_headers(self, at: datetime) -> dict[str, str]:
        if self.kind != "rate_limit" or self.retry_after is None:
            return dict(self.headers)
        return (
            {"retry-after": f"{self.retry_after:g}"}
            | _rate_limit_headers(self.retry_after, at)
            | dict(self.headers)
        )

    def _too_long(self, model: Model) -> ApiError:
        limit = self.limit or model.window
        sent = self.tokens or limit + _TOKENS_OVER
        message = self.message or _TOO_LONG[self.vendor].format(x=sent, y=limit)
        code = "context_length_exceeded" if self.vendor.startswith("openai") else None
        return ApiError(400, "invalid_request_error", message, error_code=code, headers=dict(self.headers))

    def _time_out(self, response: HttpResponse) -> HttpResponse:
        waited = replace(response, delay=response.delay + self.delay_s)
        return replace(waited, body=b"", stream=None, hangs_up=True) if self.hangs_up else waited

    def _end_with_error(self, response: HttpResponse) -> HttpResponse:
        kind, message = _STREAM_ERRORS[self.error]
        if response.stream is None:
            # Without streaming, the same error is the whole response.
            status = _ERRORS[self.error][0]
            return build_error_response(
                ApiError(status, kind, self.message or message), response.headers.get("request-id", "")
            )
        last = (0.0, error_event(kind, self.message or message))
        return replace(response, stream=chain(_first_events(response.stream, self.after_events), [last]))


def _rate_limit_headers(seconds: float, at: datetime) -> dict[str, str]:
    """The rate limit headers: the limits, nothing remaining, and when they reset."""
    reset = format_time(at + timedelta(seconds=seconds))
    headers: dict[str, str] = {}
    for what, limit in _PER_MINUTE.items():
        name = f"anthropic-ratelimit-{what}"
        headers |= {f"{name}-limit": str(limit), f"{name}-remaining": "0", f"{name}-reset": reset}
    return headers


def _first_events(stream: Iterable[tuple[float, bytes]], count: int) -> Iterator[tuple[float, bytes]]:
    """At most `count` events and never the last one, because a complete stream is not cut."""
    held: tuple[float, bytes] | None = None
    for index, event in enumerate(stream):
        if held is not None:
            yield held
        if index >= count:
            return
        held = event


def _slow_down(stream: Iterable[tuple[float, bytes]], delay: float) -> Iterator[tuple[float, bytes]]:
    for wait, event in stream:
        yield wait + delay, event


def _cut_short(response: HttpResponse, count: int) -> HttpResponse:
    """Close the connection early: after some events, or after half of the body."""
    if response.stream is not None:
        return replace(response, stream=_first_events(response.stream, count), hangs_up=True)
    return replace(response, body=response.body[: len(response.body) // 2], hangs_up=True)


def _corrupt(response: HttpResponse, count: int) -> HttpResponse:
    if response.stream is not None:
        return replace(response, stream=chain(_first_events(response.stream, count), [(0.0, GARBAGE_EVENT)]))
    return replace(response, status=200, body=GARBAGE)


class FaultInjector:
    """The queued faults, in order, and the chances of random ones."""

    def __init__(
        self,
        faults: Iterable[InjectedFault] = (),
        *,
        chances: Mapping[FaultKind, float] | None = None,
        seed: int = 0,
    ):
        self._initial = (tuple(faults), dict(chances or {}), seed)
        self.reset()

    def reset(self) -> None:
        """Restore the faults that the twin was started with."""
        faults, chances, seed = self._initial
        self._queued: list[tuple[str | None, InjectedFault]] = [(None, fault) for fault in faults]
        self.set_chances(chances, seed=seed)

    def add(self, faults: Iterable[InjectedFault], *, workspace: str | None = None) -> None:
        """Queue faults for one workspace, or for all."""
        self._queued += [(workspace, fault) for fault in faults]

    def clear(self, *, workspace: str | None = None) -> None:
        """Remove the queued faults of one workspace, or all."""
        self._queued = [item for item in self._queued if workspace is not None and item[0] != workspace]

    def set_chances(self, chances: Mapping[FaultKind, float], *, seed: int) -> None:
        """Inject random faults: each kind with its chance per request. Equal seeds hit equal requests."""
        self._chances: dict[FaultKind, float] = dict(chances)
        self._rng = random.Random(seed)

    def pending(self, workspace: str | None = None) -> int:
        """How often queued faults will still be injected into requests of a workspace."""
        return sum(fault.times for owner, fault in self._queued if owner in (None, workspace))

    def take(self, endpoint: str, workspace: str, is_compaction: bool) -> InjectedFault | None:
        """The fault for this request, or None. Call it once per valid request."""
        for index, (owner, fault) in enumerate(self._queued):
            if owner in (None, workspace) and fault.applies_to(endpoint, is_compaction=is_compaction):
                return self._use(index)
        return self._draw(endpoint, is_compaction=is_compaction)

    def take_summary_fault(self, workspace: str) -> InjectedFault | None:
        """The fault for this summary, or None."""
        for index, (owner, fault) in enumerate(self._queued):
            if owner in (None, workspace) and fault.kind in SUMMARY_FAULT_KINDS:
                return self._use(index)
        return self._draw_kind([kind for kind in self._chances if kind in SUMMARY_FAULT_KINDS])

    def _use(self, index: int) -> InjectedFault | None:
        owner, fault = self._queued[index]
        if fault.after > 0:
            self._queued[index] = (owner, replace(fault, after=fault.after - 1))
            return None
        if fault.times > 1:
            self._queued[index] = (owner, replace(fault, times=fault.times - 1))
        else:
            del self._queued[index]
        return fault

    def _draw(self, endpoint: str, *, is_compaction: bool) -> InjectedFault | None:
        return self._draw_kind(
            k for k in self._chances if InjectedFault(k).applies_to(endpoint, is_compaction=is_compaction)
        )

    def _draw_kind(self, kinds: Iterable[FaultKind]) -> InjectedFault | None:
        # One random number per kind, so that the chance of one kind does not shift the results of another.
        drawn: list[FaultKind] = [kind for kind in kinds if self._rng.random() < self._chances[kind]]
        return InjectedFault(drawn[0]) if drawn else None
