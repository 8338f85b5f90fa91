"""The middleware for the Anthropic SDK:

    client = anthropic.Anthropic(middleware=[everturn.middleware()])        or AsyncAnthropic

The SDK calls a middleware once per HTTP attempt, inside its retry loop. A retried request therefore gives the
same bytes, and only a reply is recorded. If everturn fails, it reports the error and sends the caller's own
request (`docs/middleware.md`).
"""

import os
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

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
    ADAPTER_CAPABILITIES,
    AsyncSend,
    BreakpointOwner,
    CallerRequest,
    ConversationOverview,
    ConversationTracker,
    PreparedCall,
    UnsupportedRequest,
    make_overview,
    make_parts,
    recall_conversation,
)
from everturn.decide.events import Event
from everturn.decide.options import Options
from everturn.measure.capabilities import Capabilities
from everturn.measure.outline import TokenCosts
from everturn.measure.tokens import Estimator
from everturn.session.bill import Bill
from everturn.session.config.load import ConfigChoice
from everturn.session.hooks.run import Hooks
from everturn.session.upstream import RawResponse, Send

if TYPE_CHECKING:
    import httpx2

    from everturn.session.recall.search import Hit

R = TypeVar("R", bound="anthropic.APIResponse[Any] | anthropic.AsyncAPIResponse[Any]")


class AnthropicSDKMiddleware(anthropic.Middleware):
    """Created by `everturn.middleware`. One can serve any number of clients, threads and event loops."""

    def __init__(self, tracker: ConversationTracker) -> None:
        self._tracker = tracker

    @property
    def bill(self) -> Bill:
        """What all calls of this middleware have cost so far, including summaries."""
        return self._tracker.bill

    @property
    def conversations(self) -> tuple[ConversationOverview, ...]:
        """The conversations in memory, the most recently used last."""
        return tuple(map(make_overview, self._tracker))

    def recall(self, query: str, limit: int = 8, *, conversation: str = "") -> "tuple[Hit, ...]":
        """Search the full history of a conversation, by default the most recently used one."""
        return recall_conversation(self._tracker.find(conversation), query, limit)

    def compact(self, instructions: str = "", *, conversation: str = "") -> None:
        """Compact a conversation, by default the most recently used one, before its next request."""
        self._tracker.find(conversation).request_compaction(instructions)

    def close(self) -> None:
        """Close the transcripts, so that other processes can use them. The next request opens them again."""
        self._tracker.close()

    # ── sync client ──────────────────────────────────────────────────────────────────────────────

    def handle(
        self, request: anthropic.APIRequest, call_next: anthropic.CallNext
    ) -> anthropic.APIResponse[Any]:
        read = self._read(request)
        if read is None:
            return call_next(request)
        send = _make_send(request, call_next)
        try:
            prepared = self._tracker.prepare(read, send)
            attempt = apply_prepared_call(request, prepared)
        except Exception as problem:
            self._tracker.report_failure(problem)
            return call_next(request)
        response = call_next(attempt)
        if response.status_code == BAD_REQUEST:
            response, prepared = self._handle_bad_request(request, response, prepared, send, call_next)
        if prepared is not None and response.http_response.is_success:
            self._record(response.http_response, prepared)
        return response

    def _handle_bad_request(
        self,
        request: anthropic.APIRequest,
        response: anthropic.APIResponse[Any],
        prepared: PreparedCall,
        send: Send,
        call_next: anthropic.CallNext,
    ) -> tuple[anthropic.APIResponse[Any], PreparedCall | None]:
        """Status 400. If the prompt is too long: compact once and send again. Otherwise send the caller's own
        request: if that is accepted, the change was at fault."""
        body = response.http_response.read()
        if not is_too_long(response.status_code, body):
            return self._report_rejection(call_next(request), body, prepared), None
        try:
            other = self._tracker.compact_after_overflow(prepared, send)
        except Exception as problem:
            self._tracker.report_failure(problem)
            return response, None
        return (response, None) if other is None else (call_next(apply_prepared_call(request, other)), other)

    def _record(self, http: "httpx2.Response", prepared: PreparedCall) -> None:
        def complete(body: bytes) -> None:
            try:
                self._tracker.record_response(prepared, RawResponse(body, headers.get(REQUEST_ID_HEADER, "")))
            except Exception as problem:
                self._tracker.report_failure(problem, prepared)

        headers = http.headers
        if http.is_stream_consumed:
            complete(http.content)
        else:
            tap(http, complete)

    # ── async client ─────────────────────────────────────────────────────────────────────────────

    async def handle_async(
        self, request: anthropic.APIRequest, call_next: anthropic.AsyncCallNext
    ) -> anthropic.AsyncAPIResponse[Any]:
        read = self._read(request)
        if read is None:
            return await call_next(request)
        send = _make_send_async(request, call_next)
        try:
            prepared = await self._tracker.prepare_async(read, send)
            attempt = apply_prepared_call(request, prepared)
        except Exception as problem:
            self._tracker.report_failure(problem)
            return await call_next(request)
        response = await call_next(attempt)
        if response.status_code == BAD_REQUEST:
            response, prepared = await self._handle_bad_request_async(
                request, response, prepared, send, call_next
            )
        if prepared is not None and response.http_response.is_success:
            await self._record_async(response.http_response, prepared)
        return response

    async def _handle_bad_request_async(
        self,
        request: anthropic.APIRequest,
        response: anthropic.AsyncAPIResponse[Any],
        prepared: PreparedCall,
        send: AsyncSend,
        call_next: anthropic.AsyncCallNext,
    ) -> tuple[anthropic.AsyncAPIResponse[Any], PreparedCall | None]:
        body = await response.http_response.aread()
        if not is_too_long(response.status_code, body):
            return self._report_rejection(await call_next(request), body, prepared), None
        try:
            other = await self._tracker.compact_after_overflow_async(prepared, send)
        except Exception as problem:
            self._tracker.report_failure(problem)
            return response, None
        return (
            (response, None)
            if other is None
            else (await call_next(apply_prepared_call(request, other)), other)
        )

    async def _record_async(self, http: "httpx2.Response", prepared: PreparedCall) -> None:
        async def complete(body: bytes) -> None:
            try:
                await self._tracker.record_response_async(
                    prepared, RawResponse(body, headers.get(REQUEST_ID_HEADER, ""))
                )
            except Exception as problem:
                self._tracker.report_failure(problem, prepared)

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
            read = self._tracker.read(body, read_betas(request))
        except Exception as problem:
            self._tracker.report_failure(problem)
            return None
        return None if isinstance(read, UnsupportedRequest) else read

    def _report_rejection(self, response: R, refusal: bytes, prepared: PreparedCall) -> R:
        """If the caller's own request is accepted, the prepared one was at fault."""
        if response.http_response.is_success:
            self._tracker.report_failure(
                RuntimeError(f"the API rejected the prepared request: {refusal.decode(errors='replace')}"),
                prepared,
            )
        return response


def _make_send(request: anthropic.APIRequest, call_next: anthropic.CallNext) -> Send:
    def send(body: bytes, betas: Sequence[str]) -> RawResponse:
        try:
            http = call_next(build_summary_request(request, body, betas)).http_response
            return read_response_body(http.status_code, http.headers, http.read())
        except anthropic.AnthropicError as problem:
            raise to_upstream_error(problem) from problem

    return send


def _make_send_async(request: anthropic.APIRequest, call_next: anthropic.AsyncCallNext) -> AsyncSend:
    async def send(body: bytes, betas: Sequence[str]) -> RawResponse:
        try:
            http = (await call_next(build_summary_request(request, body, betas))).http_response
            return read_response_body(http.status_code, http.headers, await http.aread())
        except anthropic.AnthropicError as problem:
            raise to_upstream_error(problem) from problem

    return send


def middleware(
    options: Options | str | None = None,
    *,
    config: ConfigChoice = "auto",
    folder: str | os.PathLike[str] | None = "",
    readable: Sequence[str | os.PathLike[str]] = (),
    breakpoints: BreakpointOwner = "everturn",
    hooks: Hooks | None = None,
    listen: Callable[[Event], None] = lambda _: None,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
    costs: TokenCosts | None = None,
    estimator: Estimator | None = None,
    capabilities: Capabilities = ADAPTER_CAPABILITIES,
    **overrides: Any,
) -> AnthropicSDKMiddleware:
    """A middleware for `anthropic.Anthropic` and `anthropic.AsyncAnthropic`: unlimited conversation length.

    `options` is an `Options` tree or the name of a policy; any config key can be a keyword argument
    (`window=200_000`, `compact={"summary_model": "..."}`). Other values come from the environment and the
    user's configuration file, unless `config` is None. `folder` is the folder for transcripts: the user's
    data folder by default, None to keep conversations in memory only. `readable` lists folders from which
    files may be read again after a compaction. `breakpoints` says who places `cache_control`. `new_id`,
    `costs`, `estimator` and `capabilities` are for tests and other providers (`docs/middleware.md`).
    """
    parts = make_parts(
        options,
        overrides,
        config=config,
        folder=folder,
        readable=readable,
        breakpoints=breakpoints,
        hooks=hooks or Hooks(),
        listen=listen,
        clock=clock,
        new_id=new_id,
        costs=costs,
        estimator=estimator,
        capabilities=capabilities,
    )
    return AnthropicSDKMiddleware(ConversationTracker(parts))
