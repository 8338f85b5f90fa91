"""The middleware for the Anthropic SDK:

    client = anthropic.Anthropic(middleware=[everturn.middleware()])        or AsyncAnthropic

The SDK calls a middleware once per HTTP attempt, inside its retry loop. A retried request therefore gives the
same bytes, and only a reply is recorded. If everturn fails, it reports the error and sends the caller's own
request (`docs/middleware.md`).
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anthropic

from everturn.adapters.anthropic_sdk.response_tap import Endings, tap, tap_async
from everturn.adapters.anthropic_sdk.sdk_requests import (
    COUNT_PATH,
    apply_prepared_call,
    build_summary_request,
    read_betas,
    read_body,
    replace_messages,
)
from everturn.adapters.tracking import (
    ADAPTER_CAPABILITIES,
    AsyncSend,
    BreakpointOwner,
    CallerRequest,
    ConversationTracker,
    PreparedCall,
    TrackedConversations,
    UnsupportedRequest,
    make_parts,
)
from everturn.adapters.tracking.api_responses import (
    BAD_REQUEST,
    REQUEST_ID_HEADER,
    is_too_long,
    read_error,
    read_response_body,
)
from everturn.adapters.tracking.counting import CountPlan
from everturn.adapters.tracking.summary_retries import make_send_error
from everturn.adapters.tracking.tracker import NOT_PAID, NOT_RECORDED, REFUSAL_RETURNED
from everturn.decide.events import Event
from everturn.decide.options import Options
from everturn.measure.capabilities import Capabilities
from everturn.measure.outline import TokenCosts
from everturn.measure.tokens import Estimator
from everturn.session.config.load import ConfigChoice
from everturn.session.hold_timers import THREADS, HoldTimer
from everturn.session.hooks.load import HooksArgument
from everturn.session.new_ids import new_uuid
from everturn.session.upstream import RawResponse, Send

if TYPE_CHECKING:
    import httpx2

NOT_COUNTED: Final = "everturn failed; the caller's list was counted as it came"
R = TypeVar("R", bound="anthropic.APIResponse[Any] | anthropic.AsyncAPIResponse[Any]")


class AnthropicSDKMiddleware(TrackedConversations, anthropic.Middleware):
    """Created by `everturn.middleware`. One can serve any number of clients, threads and event loops."""

    # ── sync client ──────────────────────────────────────────────────────────────────────────────

    def handle(
        self, request: anthropic.APIRequest, call_next: anthropic.CallNext
    ) -> anthropic.APIResponse[Any]:
        read = self._read(request)
        if read is None:
            return self._count(request, call_next)
        send = _make_send(request, call_next)
        try:
            prepared = self.tracker.prepare(read, send, hold=send)
            attempt = apply_prepared_call(request, prepared, call_next)
        except Exception as problem:
            self.tracker.report_failure(problem)
            return self._pay_unchanged(request, call_next(request))
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
        """Status 400. Compact once if the prompt is too long; undo the compaction once if a compacted view is
        refused for another reason; and send again. If that does not help, send the caller's own request,
        unless that cannot fit: if it is accepted, the change was at fault."""
        handled: set[bool] = set()
        while response.status_code == BAD_REQUEST:
            body = response.http_response.read()
            too_long = is_too_long(response.status_code, body)
            if too_long in handled:
                break
            handled.add(too_long)
            try:
                other = (
                    self.tracker.compact_after_overflow(prepared, send)
                    if too_long
                    else self.tracker.undo_after_refusal(prepared, read_error(body), send)
                )
            except Exception as problem:
                self.tracker.report_failure(problem, outcome=REFUSAL_RETURNED)
                return response, None
            if other is None:
                break
            prepared, response = other, call_next(apply_prepared_call(request, other, call_next))
        else:
            return response, prepared
        if too_long or not prepared.tracked.fits_unchanged():
            return response, None
        response = self._pay_unchanged(request, call_next(request))
        return self._report_rejection(response, body, prepared), None

    def _record(self, http: "httpx2.Response", prepared: PreparedCall) -> None:
        def complete(body: bytes) -> None:
            try:
                self.tracker.record_response(prepared, RawResponse(body, headers.get(REQUEST_ID_HEADER, "")))
            except Exception as problem:
                self.tracker.report_failure(problem, prepared, outcome=NOT_RECORDED)

        headers = http.headers
        _watch(http, complete, self._endings(lambda known: self._pay_abandoned(prepared, known)))

    def _pay_unchanged(self, request: anthropic.APIRequest, response: R) -> R:
        """The response to the caller's own request: it is in the bill, and nowhere else."""
        if response.http_response.is_success and self._is_message_request(request):
            _watch(response.http_response, self._pay, self._endings(self._pay))
        return response

    def _count(
        self, request: anthropic.APIRequest, call_next: anthropic.CallNext
    ) -> anthropic.APIResponse[Any]:
        """A count of a list, or any other request that everturn does not change."""
        plan = self._plan_count(request)
        if plan is None:
            return self._pay_unchanged(request, call_next(request))
        response = call_next(self._counted(request, plan))
        if response.status_code != BAD_REQUEST:
            return response
        response.http_response.read()
        other = self._counted(request, plan, has_thinking=False)
        if other is not request:
            retried = call_next(other)
            if retried.status_code != BAD_REQUEST:
                return retried
            retried.http_response.read()
        # Whatever is wrong with it, the caller is told about its own list.
        return response if plan.known is None else call_next(request)

    # ── async client ─────────────────────────────────────────────────────────────────────────────

    async def handle_async(
        self, request: anthropic.APIRequest, call_next: anthropic.AsyncCallNext
    ) -> anthropic.AsyncAPIResponse[Any]:
        read = self._read(request)
        if read is None:
            return await self._count_async(request, call_next)
        send = _make_send_async(request, call_next)
        try:
            prepared = await self.tracker.prepare_async(read, send, hold=send)
            attempt = apply_prepared_call(request, prepared, call_next)
        except Exception as problem:
            self.tracker.report_failure(problem)
            return await self._pay_unchanged_async(request, await call_next(request))
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
        handled: set[bool] = set()
        while response.status_code == BAD_REQUEST:
            body = await response.http_response.aread()
            too_long = is_too_long(response.status_code, body)
            if too_long in handled:
                break
            handled.add(too_long)
            try:
                other = (
                    await self.tracker.compact_after_overflow_async(prepared, send)
                    if too_long
                    else await self.tracker.undo_after_refusal_async(prepared, read_error(body), send)
                )
            except Exception as problem:
                self.tracker.report_failure(problem, outcome=REFUSAL_RETURNED)
                return response, None
            if other is None:
                break
            prepared, response = other, await call_next(apply_prepared_call(request, other, call_next))
        else:
            return response, prepared
        if too_long or not prepared.tracked.fits_unchanged():
            return response, None
        response = await self._pay_unchanged_async(request, await call_next(request))
        return self._report_rejection(response, body, prepared), None

    async def _record_async(self, http: "httpx2.Response", prepared: PreparedCall) -> None:
        async def complete(body: bytes) -> None:
            try:
                await self.tracker.record_response_async(
                    prepared, RawResponse(body, headers.get(REQUEST_ID_HEADER, ""))
                )
            except Exception as problem:
                self.tracker.report_failure(problem, prepared, outcome=NOT_RECORDED)

        headers = http.headers
        await _watch_async(http, complete, self._endings(lambda known: self._pay_abandoned(prepared, known)))

    async def _pay_unchanged_async(self, request: anthropic.APIRequest, response: R) -> R:
        async def pay(body: bytes) -> None:
            self._pay(body)

        if response.http_response.is_success and self._is_message_request(request):
            await _watch_async(response.http_response, pay, self._endings(self._pay))
        return response

    async def _count_async(
        self, request: anthropic.APIRequest, call_next: anthropic.AsyncCallNext
    ) -> anthropic.AsyncAPIResponse[Any]:
        # In a thread: files may be read, and another task may have the conversation.
        is_count = read_body(request, COUNT_PATH) is not None
        plan = await asyncio.to_thread(self._plan_count, request) if is_count else None
        if plan is None:
            return await self._pay_unchanged_async(request, await call_next(request))
        response = await call_next(self._counted(request, plan))
        if response.status_code != BAD_REQUEST:
            return response
        await response.http_response.aread()
        other = self._counted(request, plan, has_thinking=False)
        if other is not request:
            retried = await call_next(other)
            if retried.status_code != BAD_REQUEST:
                return retried
            await retried.http_response.aread()
        return response if plan.known is None else await call_next(request)

    # ── both ─────────────────────────────────────────────────────────────────────────────────────

    def _read(self, request: anthropic.APIRequest) -> CallerRequest | None:
        try:
            body = read_body(request)
            if body is None:
                return None
            read = self.tracker.read(body, read_betas(request))
        except Exception as problem:
            self.tracker.report_failure(problem)
            return None
        return None if isinstance(read, UnsupportedRequest) else read

    def _plan_count(self, request: anthropic.APIRequest) -> CountPlan | None:
        try:
            body = read_body(request, COUNT_PATH)
            return None if body is None else self.tracker.plan_count(body, read_betas(request))
        except Exception as problem:
            self.tracker.report_problem(NOT_COUNTED, repr(problem))
            return None

    def _counted(
        self, request: anthropic.APIRequest, plan: CountPlan, *, has_thinking: bool = True
    ) -> anthropic.APIRequest:
        """The caller's count with the messages that would be sent; the caller's own if there are none."""
        try:
            messages = plan.messages() if has_thinking else plan.messages_without_thinking()
            return request if messages is None else replace_messages(request, messages)
        except Exception as problem:
            self.tracker.report_problem(NOT_COUNTED, repr(problem))
            return request

    def _endings(self, abandoned: Callable[[bytes], None]) -> Endings:
        return Endings(abandoned, self.tracker.note_lost_reply)

    def _pay_abandoned(self, prepared: PreparedCall, known: bytes) -> None:
        try:
            self.tracker.pay_abandoned(prepared, RawResponse(known))
        except Exception as problem:
            self.tracker.report_problem("an abandoned reply is not in the bill", repr(problem))

    def _is_message_request(self, request: anthropic.APIRequest) -> bool:
        try:
            return read_body(request) is not None
        except Exception:
            # Whatever is wrong with it, `_read` has reported it.
            return False

    def _pay(self, body: bytes) -> None:
        try:
            self.tracker.pay_unchanged(body)
        except Exception as problem:
            self.tracker.report_problem(NOT_PAID, repr(problem))

    def _report_rejection(self, response: R, refusal: bytes, prepared: PreparedCall) -> R:
        """If the caller's own request is accepted, the prepared one was at fault."""
        if response.http_response.is_success:
            self.tracker.report_failure(
                RuntimeError(f"the API rejected the prepared request: {refusal.decode(errors='replace')}"),
                prepared,
            )
        return response


def _watch(http: "httpx2.Response", complete: Callable[[bytes], None], endings: Endings) -> None:
    """See `tap`; a body that has been read is complete now."""
    if http.is_stream_consumed:
        complete(http.content)
    else:
        tap(http, complete, endings)


async def _watch_async(
    http: "httpx2.Response", complete: Callable[[bytes], Awaitable[None]], endings: Endings
) -> None:
    if http.is_stream_consumed:
        await complete(http.content)
    else:
        tap_async(http, complete, endings)


def _make_send(request: anthropic.APIRequest, call_next: anthropic.CallNext) -> Send:
    def send(body: bytes, betas: Sequence[str]) -> RawResponse:
        try:
            http = call_next(build_summary_request(request, body, betas, call_next)).http_response
            return read_response_body(http.status_code, http.headers, http.read())
        except anthropic.AnthropicError as problem:
            raise make_send_error(problem) from problem

    return send


def _make_send_async(request: anthropic.APIRequest, call_next: anthropic.AsyncCallNext) -> AsyncSend:
    async def send(body: bytes, betas: Sequence[str]) -> RawResponse:
        try:
            http = (await call_next(build_summary_request(request, body, betas, call_next))).http_response
            return read_response_body(http.status_code, http.headers, await http.aread())
        except anthropic.AnthropicError as problem:
            raise make_send_error(problem) from problem

    return send


def middleware(
    options: Options | str | None = None,
    *,
    summary_model: str = "",
    config: ConfigChoice = "auto",
    folder: str | os.PathLike[str] | None = "",
    readable: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    breakpoints: BreakpointOwner = "everturn",
    hooks: HooksArgument = None,
    listen: Callable[[Event], None] = lambda _: None,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    new_id: Callable[[], str] = new_uuid,
    costs: TokenCosts | None = None,
    estimator: Estimator | None = None,
    capabilities: Capabilities = ADAPTER_CAPABILITIES,
    hold_timer: HoldTimer = THREADS,
    **overrides: Any,
) -> AnthropicSDKMiddleware:
    """A middleware for `anthropic.Anthropic` and `anthropic.AsyncAnthropic`: unlimited conversation length.

    `options` is an `Options` tree or the name of a policy; any config key can be a keyword argument
    (`window=200_000`, `limits={"conversations": 64}`). `summary_model` is short for the key
    `compact.summary_model` and overrides it. Other values come from the environment and the user's
    configuration file, unless `config` is None. `folder` is the folder for transcripts: the user's
    data folder by default, None to keep conversations in memory only. `readable` lists folders from which
    files may be read again after a compaction. `breakpoints` says who places `cache_control`. `new_id`,
    `costs`, `estimator`, `capabilities` and `hold_timer` are for tests and other providers
    (`docs/middleware.md`).
    """
    parts = make_parts(
        options,
        summary_model=summary_model,
        config=config,
        folder=folder,
        readable=readable,
        breakpoints=breakpoints,
        hooks=hooks,
        listen=listen,
        clock=clock,
        new_id=new_id,
        costs=costs,
        estimator=estimator,
        capabilities=capabilities,
        hold_timer=hold_timer,
        **overrides,
    )
    return AnthropicSDKMiddleware(ConversationTracker(parts))
