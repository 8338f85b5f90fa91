"""One line for users of the Anthropic SDK:

    client = anthropic.Anthropic(middleware=[everturn.middleware()])        and AsyncAnthropic

The SDK calls a middleware once for each HTTP attempt, inside its own retries. So this one decides nothing
twice: the same request again gives the same bytes, and only a reply is recorded. What goes wrong in here is
told and then passed over; the caller's own request takes its place (`docs/middleware.md`).
"""

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import anthropic

from everturn.adapters.anthropic_sdk.response_tap import tap, tap_async
from everturn.adapters.anthropic_sdk.sdk_requests import (
    BAD_REQUEST,
    REQUEST_ID_HEADER,
    apply_prepared_call,
    build_summary_request,
    is_too_long,
    read_betas,
    read_body,
    read_response_body,
    to_upstream_error,
)
from everturn.adapters.tracking import (
    AsyncSend,
    BreakpointOwner,
    CallerRequest,
    ConversationOverview,
    ConversationTracker,
    PreparedCall,
    UnsupportedRequest,
    default_folder,
    make_overview,
    manner_of,
    recall_conversation,
)
from everturn.decide.events import Event
from everturn.decide.policy import Policy
from everturn.errors import UsageError
from everturn.session.bill import Bill
from everturn.session.config.shape import Config
from everturn.session.upstream import RawResponse, Send

if TYPE_CHECKING:
    from everturn.session.recall.search import Hit


class AnthropicSDKMiddleware(anthropic.Middleware):
    """Made by `everturn.middleware`. One can serve any number of clients, threads and event loops."""

    def __init__(self, shadows: ConversationTracker) -> None:
        self._shadows = shadows

    @property
    def bill(self) -> Bill:
        """What all calls through here have cost so far, those for summaries included."""
        return self._shadows.bill

    @property
    def conversations(self) -> tuple[ConversationOverview, ...]:
        """Those in memory, the one used last at the end."""
        return tuple(map(make_overview, self._shadows))

    def recall(self, query: str, limit: int = 8, *, conversation: str = "") -> "tuple[Hit, ...]":
        """Where a conversation, the one used last if none is named, has these words."""
        held = [each for each in self._shadows if conversation in ("", each.id)]
        if not held:
            raise UsageError(f"There is no conversation {conversation!r} in memory; see `conversations`.")
        return recall_conversation(held[-1], query, limit)

    def close(self) -> None:
        """Let other processes go on with the transcripts. The next request opens what it needs again."""
        self._shadows.close()

    # ── without awaits ───────────────────────────────────────────────────────────────────────────

    def handle(self, request: anthropic.APIRequest, call_next: Any) -> Any:
        read = self._read(request)
        if read is None:
            return call_next(request)
        send = _sends(request, call_next)
        try:
            ticket = self._shadows.prepare(read, send)
            attempt = apply_prepared_call(request, ticket)
        except Exception as problem:
            self._shadows.failed(problem)
            return call_next(request)
        response = call_next(attempt)
        if response.status_code == BAD_REQUEST:
            response, ticket = self._refused(request, response, ticket, send, call_next)
        if ticket is not None and response.http_response.is_success:
            self._listen(response.http_response, ticket)
        return response

    def _refused(
        self, request: anthropic.APIRequest, response: Any, ticket: PreparedCall, send: Send, call_next: Any
    ) -> tuple[Any, PreparedCall | None]:
        """Too long: room is made, once. Refused otherwise: the caller's own request decides whose fault
        it is."""
        body = response.http_response.read()
        if not is_too_long(response.status_code, body):
            return self._without_us(call_next(request), body, ticket), None
        try:
            other = self._shadows.compact_after_overflow(ticket, send)
        except Exception as problem:
            self._shadows.failed(problem)
            return response, None
        return (response, None) if other is None else (call_next(apply_prepared_call(request, other)), other)

    def _listen(self, http: Any, ticket: PreparedCall) -> None:
        def complete(body: bytes) -> None:
            try:
                self._shadows.record_response(
                    ticket, RawResponse(body, http_headers.get(REQUEST_ID_HEADER, ""))
                )
            except Exception as problem:
                self._shadows.failed(problem, ticket)

        http_headers = http.headers
        if http.is_stream_consumed:
            complete(http.content)
        else:
            tap(http, complete)

    # ── with awaits ──────────────────────────────────────────────────────────────────────────────

    async def handle_async(self, request: anthropic.APIRequest, call_next: Any) -> Any:
        read = self._read(request)
        if read is None:
            return await call_next(request)
        send = _sends_async(request, call_next)
        try:
            ticket = await self._shadows.prepare_async(read, send)
            attempt = apply_prepared_call(request, ticket)
        except Exception as problem:
            self._shadows.failed(problem)
            return await call_next(request)
        response = await call_next(attempt)
        if response.status_code == BAD_REQUEST:
            response, ticket = await self._refused_async(request, response, ticket, send, call_next)
        if ticket is not None and response.http_response.is_success:
            await self._listen_async(response.http_response, ticket)
        return response

    async def _refused_async(
        self,
        request: anthropic.APIRequest,
        response: Any,
        ticket: PreparedCall,
        send: AsyncSend,
        call_next: Any,
    ) -> tuple[Any, PreparedCall | None]:
        body = await response.http_response.aread()
        if not is_too_long(response.status_code, body):
            return self._without_us(await call_next(request), body, ticket), None
        try:
            other = await self._shadows.compact_after_overflow_async(ticket, send)
        except Exception as problem:
            self._shadows.failed(problem)
            return response, None
        return (
            (response, None)
            if other is None
            else (await call_next(apply_prepared_call(request, other)), other)
        )

    async def _listen_async(self, http: Any, ticket: PreparedCall) -> None:
        async def complete(body: bytes) -> None:
            try:
                await self._shadows.record_response_async(
                    ticket, RawResponse(body, headers.get(REQUEST_ID_HEADER, ""))
                )
            except Exception as problem:
                self._shadows.failed(problem, ticket)

        headers = http.headers
        if http.is_stream_consumed:
            await complete(http.content)
        else:
            tap_async(http, complete)

    # ── both ─────────────────────────────────────────────────────────────────────────────────────

    def _read(self, request: anthropic.APIRequest) -> CallerRequest | None:
        try:
            body = read_body(request)
            if body is None:
                return None
            read = self._shadows.read(body, read_betas(request))
        except Exception as problem:
            self._shadows.failed(problem)
            return None
        return None if isinstance(read, UnsupportedRequest) else read

    def _without_us(self, response: Any, refusal: bytes, ticket: PreparedCall) -> Any:
        """Where the caller's own request is taken, the fault was ours."""
        if response.http_response.is_success:
            self._shadows.failed(RuntimeError(f"refused: {refusal.decode(errors='replace')}"), ticket)
        return response


def _sends(request: anthropic.APIRequest, call_next: Any) -> Send:
    def send(body: bytes, betas: Sequence[str]) -> RawResponse:
        try:
            http = call_next(build_summary_request(request, body, betas)).http_response
            return read_response_body(http.status_code, http.headers, http.read())
        except anthropic.AnthropicError as problem:
            raise to_upstream_error(problem) from problem

    return send


def _sends_async(request: anthropic.APIRequest, call_next: Any) -> AsyncSend:
    async def send(body: bytes, betas: Sequence[str]) -> RawResponse:
        try:
            http = (await call_next(build_summary_request(request, body, betas))).http_response
            return read_response_body(http.status_code, http.headers, await http.aread())
        except anthropic.AnthropicError as problem:
            raise to_upstream_error(problem) from problem

    return send


def middleware(
    policy: str | Policy | Config = "claude-code",
    *,
    folder: str | os.PathLike[str] | None = "",
    readable: Sequence[str | os.PathLike[str]] = (),
    listen: Callable[[Event], None] = lambda _: None,
    markers: BreakpointOwner = "ours",
    **more: Any,
) -> AnthropicSDKMiddleware:
    """A middleware for `anthropic.Anthropic` and `anthropic.AsyncAnthropic`: conversations without an end.

    `folder` is where transcripts are kept: the usual place for data if not given, memory alone for None.
    `readable` are folders that files may be read from again after a compaction; `listen` hears every event;
    `markers` says whose `cache_control` is sent. More options, for tests and other providers: `ways`,
    `most`, `clock`, `new_id`, `costs`, `capabilities` (`docs/middleware.md`).
    """
    kept = default_folder() if folder == "" else folder
    more |= {"listen": listen, "markers": markers}
    return AnthropicSDKMiddleware(
        ConversationTracker(manner_of(policy, folder=kept, readable=readable, **more))
    )
