"""What goes wrong, and when: faults by script or by seeded chance (TW-10).

A request that passed validation asks once, `Faults.take`, whether it is struck. A fault then acts in one of
three places, and the service calls all three:

    fault.refusal(model, at=...)   before the model speaks: an error in place of an answer
    fault.drops_cache              before the cache is asked: the workspace's entries are gone
    fault.bend(answer)             after the answer is made: late, slow, cut, spoiled

Summaries that fail (`take_summary`) are the speaker's business: there the model itself says the wrong thing.
Refused requests strike nothing off the list. A fault without `endpoint` means plain `/v1/messages`
requests; count_tokens and compaction requests are struck only by faults that name them.
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

# Status, error type and wording (api-facts 5). The wordings of 429, 500 and 504 are not on the sheet.
_REFUSALS: Final[dict[str, tuple[int, str, str]]] = {
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
# Ours, as the limits of an account are its own; the names are the API's (api-facts 5).
_PER_MINUTE: Final = {"requests": 50, "tokens": 38_000, "input-tokens": 30_000, "output-tokens": 8_000}
_IN_STREAM: Final = {kind: (error, words) for kind, (_, error, words) in _REFUSALS.items()}

# How each vendor says that a prompt is too long (api-facts 5). {x} tokens were sent, {y} are allowed.
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
# Sent above the window when a fault does not say how many: the 123 of the sheet's own example.
_TOKENS_OVER: Final = 123

GARBAGE: Final = b"<html><head><title>502 Bad Gateway</title></head><body>upstream</body></html>"
GARBAGE_EVENT: Final = (
    b'event: content_block_delta\ndata: {"type": "content_block_delta", "index": 0, "del\n\n'
)


@dataclass(frozen=True, slots=True)
class InjectedFault:
    kind: FaultKind
    times: int = 1
    # How many matching requests pass before the first is struck.
    after: int = 0
    endpoint: FaultEndpoint | None = None
    message: str | None = None
    # Seconds; None leaves the header out, as a spend cap does (api-facts 5).
    retry_after: float | None = 1
    headers: Mapping[str, str] = field(default_factory=dict)
    vendor: FaultVendor = "anthropic"
    tokens: int | None = None
    limit: int | None = None
    # Seconds to wait: before the first byte, between events, or before the connection is closed.
    delay_s: float = 1.0
    # timeout only: no answer at all, the connection closes after `delay_s`.
    hangs_up: bool = False
    # cut_stream, stream_error, garbage: how many events get through.
    after_events: int = 3
    # stream_error only: which error the event carries.
    error: str = "overloaded"

    @property
    def drops_cache(self) -> bool:
        return self.kind == "lost_cache"

    def applies_to(self, endpoint: str, *, is_compaction: bool) -> bool:
        met: str = "compaction" if is_compaction else endpoint
        named = "compaction" if self.kind == "compaction_unavailable" else "messages"
        return self.kind not in SUMMARY_FAULT_KINDS and met == (self.endpoint or named)

    def refusal(self, model: Model, *, at: datetime) -> ApiError | None:
        """The error that stands in place of an answer, if this kind of fault is one."""
        if self.kind == "prompt_too_long":
            return self._too_long(model)
        if self.kind not in _REFUSALS or self.hangs_up:
            return None
        status, kind, words = _REFUSALS[self.kind]
        code = "compaction_unavailable" if self.kind == "compaction_unavailable" else None
        return ApiError(status, kind, self.message or words, error_code=code, headers=self._error_headers(at))

    def alter_response(self, answer: HttpResponse) -> HttpResponse:
        """The answer as the client gets it."""
        match self.kind:
            case "slow_first_byte":
                return replace(answer, delay=answer.delay + self.delay_s)
            case "timeout":
                return self._timed_out(answer)
            case "slow_stream" if answer.stream is not None:
                return replace(answer, stream=_slowed(answer.stream, self.delay_s))
            case "slow_stream":
                return replace(answer, delay=answer.delay + self.delay_s)
            case "cut_stream":
                return _cut(answer, self.after_events)
            case "stream_error":
                return self._ends_in_error(answer)
            case "garbage":
                return _spoiled(answer, self.after_events)
            case _:
                return answer

    def _error_headers(self, at: datetime) -> dict[str, str]:
        if self.kind != "rate_limit" or self.retry_after is None:
            return dict(self.headers)
        return {"retry-after": f"{self.retry_after:g}"} | _limits(self.retry_after, at) | dict(self.headers)

    def _too_long(self, model: Model) -> ApiError:
        limit = self.limit or model.window
        sent = self.tokens or limit + _TOKENS_OVER
        words = self.message or _TOO_LONG[self.vendor].format(x=sent, y=limit)
        code = "context_length_exceeded" if self.vendor.startswith("openai") else None
        return ApiError(400, "invalid_request_error", words, error_code=code, headers=dict(self.headers))

    def _timed_out(self, answer: HttpResponse) -> HttpResponse:
        waited = replace(answer, delay=answer.delay + self.delay_s)
        return replace(waited, body=b"", stream=None, hangs_up=True) if self.hangs_up else waited

    def _ends_in_error(self, answer: HttpResponse) -> HttpResponse:
        kind, words = _IN_STREAM[self.error]
        if answer.stream is None:
            # Nothing was sent yet, so the same error can still be the whole answer.
            status = _REFUSALS[self.error][0]
            return build_error_response(
                ApiError(status, kind, self.message or words), answer.headers.get("request-id", "")
            )
        ending = (0.0, error_event(kind, self.message or words))
        return replace(answer, stream=chain(_first(answer.stream, self.after_events), [ending]))


def _limits(seconds: float, at: datetime) -> dict[str, str]:
    """What was allowed, that none of it is left, and when there is more."""
    reset = format_time(at + timedelta(seconds=seconds))
    headers: dict[str, str] = {}
    for what, limit in _PER_MINUTE.items():
        name = f"anthropic-ratelimit-{what}"
        headers |= {f"{name}-limit": str(limit), f"{name}-remaining": "0", f"{name}-reset": reset}
    return headers


def _first(stream: Iterable[tuple[float, bytes]], count: int) -> Iterator[tuple[float, bytes]]:
    """At most `count` events, and never the last one: a finished stream was not cut."""
    held: tuple[float, bytes] | None = None
    for index, part in enumerate(stream):
        if held is not None:
            yield held
        if index >= count:
            return
        held = part


def _slowed(stream: Iterable[tuple[float, bytes]], delay: float) -> Iterator[tuple[float, bytes]]:
    for wait, part in stream:
        yield wait + delay, part


def _cut(answer: HttpResponse, count: int) -> HttpResponse:
    """The line goes dead: some events, or half a body, and no proper end."""
    if answer.stream is not None:
        return replace(answer, stream=_first(answer.stream, count), hangs_up=True)
    return replace(answer, body=answer.body[: len(answer.body) // 2], hangs_up=True)


def _spoiled(answer: HttpResponse, count: int) -> HttpResponse:
    if answer.stream is not None:
        return replace(answer, stream=chain(_first(answer.stream, count), [(0.0, GARBAGE_EVENT)]))
    return replace(answer, status=200, body=GARBAGE)


class FaultInjector:
    """The faults that wait, in the order they were given, and the chances of more."""

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
        """Back to what the twin was started with."""
        faults, chances, seed = self._initial
        self._waiting: list[tuple[str | None, InjectedFault]] = [(None, fault) for fault in faults]
        self.draw(chances, seed=seed)

    def add(self, faults: Iterable[InjectedFault], *, workspace: str | None = None) -> None:
        """More faults. They strike the requests of one workspace, or of all."""
        self._waiting += [(workspace, fault) for fault in faults]

    def clear(self, *, workspace: str | None = None) -> None:
        """Forget what waits for one workspace, or everything."""
        self._waiting = [item for item in self._waiting if workspace is not None and item[0] != workspace]

    def draw(self, chances: Mapping[FaultKind, float], *, seed: int) -> None:
        """Strike at random: each kind with its chance per request, the same requests for the same seed."""
        self._chances: dict[FaultKind, float] = dict(chances)
        self._rng = random.Random(seed)

    def waiting(self, workspace: str | None = None) -> int:
        """How many strikes are left for a workspace."""
        return sum(fault.times for owner, fault in self._waiting if owner in (None, workspace))

    def take(self, endpoint: str, workspace: str, is_compaction: bool) -> InjectedFault | None:
        """The fault that strikes this request, if one does. Call it once per accepted request."""
        for index, (owner, fault) in enumerate(self._waiting):
            if owner in (None, workspace) and fault.applies_to(endpoint, is_compaction=is_compaction):
                return self._used(index)
        return self._drawn(endpoint, is_compaction=is_compaction)

    def take_summary_fault(self, workspace: str) -> InjectedFault | None:
        """The fault that spoils this summary, if one does."""
        for index, (owner, fault) in enumerate(self._waiting):
            if owner in (None, workspace) and fault.kind in SUMMARY_FAULT_KINDS:
                return self._used(index)
        return self._one_of([kind for kind in self._chances if kind in SUMMARY_FAULT_KINDS])

    def _used(self, index: int) -> InjectedFault | None:
        owner, fault = self._waiting[index]
        if fault.after > 0:
            self._waiting[index] = (owner, replace(fault, after=fault.after - 1))
            return None
        if fault.times > 1:
            self._waiting[index] = (owner, replace(fault, times=fault.times - 1))
        else:
            del self._waiting[index]
        return fault

    def _drawn(self, endpoint: str, *, is_compaction: bool) -> InjectedFault | None:
        return self._one_of(
            k for k in self._chances if InjectedFault(k).applies_to(endpoint, is_compaction=is_compaction)
        )

    def _one_of(self, kinds: Iterable[FaultKind]) -> InjectedFault | None:
        # Every kind rolls once, struck or not, so that one chance does not shift the fate of another.
        struck: list[FaultKind] = [kind for kind in kinds if self._rng.random() < self._chances[kind]]
        return InjectedFault(struck[0]) if struck else None
