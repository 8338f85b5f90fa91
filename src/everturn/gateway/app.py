"""The gateway as an ASGI application: routes, access, limits, and the two modes."""

import asyncio
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from traceback import extract_tb
from typing import Any, Final

import aiohttp

from everturn.adapters.tracking.scopes import make_scope
from everturn.errors import StoreUnavailable, UsageError
from everturn.gateway.access import find_tenant
from everturn.gateway.access_log import NOT_LOGGED, LogRequest, describe_unlogged
from everturn.gateway.bodies import TooLarge, UnreadableBody, decompress
from everturn.gateway.caps import SummaryCaps
from everturn.gateway.counting import CountRequest
from everturn.gateway.exchange import AsgiMessage, AsgiReceive, AsgiSend, HttpExchange
from everturn.gateway.failures import ClientGone, GatewayError
from everturn.gateway.headers import (
    AGENT_ID,
    SESSION_ID,
    find_header,
    make_request_headers,
    read_betas,
    read_mode,
)
from everturn.gateway.managing import ManagedRequest
from everturn.gateway.metrics import GatewayMetrics
from everturn.gateway.recording import PENDING, Call, Recorder
from everturn.gateway.relay import RelayedPieces, is_recorded, make_relayed_reply, relay_response
from everturn.gateway.routes import CLIENT_ROUTES, find_route
from everturn.gateway.stores import ConversationStores, SharedStores, TenantFolders, find_folder_problem
from everturn.gateway.summaries import GatewaySummaries, make_post
from everturn.gateway.tenants import ClientRequest, NotUnderstood, Tenants
from everturn.gateway.tokens import Tokens
from everturn.gateway.upstream import Upstream, is_api
from everturn.gateway.values import GatewaySettings

# Bodies without one: the upstream would otherwise be sent an empty one in chunks.
_WITHOUT_BODY: Final = ("GET", "HEAD", "DELETE", "OPTIONS")
_DEFECT: Final = GatewayError(
    500, "internal_error", "The gateway has a defect and could not serve this request. Its operator is told."
)
# Relayed, it would lose the name of its coding (RFC 9112 6.1).
_CODED: Final = GatewayError(
    501,
    "unknown_transfer_coding",
    "The request has a transfer coding other than 'chunked', which the gateway does not decode. Send the "
    "body without it, or name its compression in content-encoding.",
)
_ENDING: Final = GatewayError(
    503, "ending", "The gateway ends, and this request was not answered in time. Send it again."
)


class Gateway:
    """One gateway. Make it with `make_gateway`; `start` and `stop` belong to the server's event loop."""

    def __init__(
        self,
        settings: GatewaySettings,
        *,
        tokens: Tokens | None,
        stores: ConversationStores,
        caps: SummaryCaps,
        log_request: LogRequest,
        warn: Callable[[str], None],
    ) -> None:
        self.settings = settings
        self.metrics = GatewayMetrics()
        self.tenants = Tenants(settings, stores, self.metrics)
        self._stores = stores
        self.is_ready = False
        self._tokens = tokens
        self._caps = caps
        self._log_request = log_request
        self._warn = warn
        self._is_log_failing = False
        # Without tokens of its own the gateway has no use for one. It is meant for a gateway behind this one,
        # and never for the API.
        self._keeps_token = tokens is None and not is_api(settings.upstream)
        self._upstream = Upstream(settings.upstream, settings.timing)
        self.recorder = Recorder(self.tenants, self.metrics, settings.limits)
        self._running: Counter[str] = Counter()

    def check_store(self) -> str:
        """Open the store of conversations. Returns why it does not answer now, which may pass; raises for
        what the operator has to change."""
        chosen, folder = self.settings.parts.options.store, self.settings.parts.folder
        if folder is not None and not chosen.url and (problem := find_folder_problem(folder)):
            # A folder that nobody chose may be missing for good, as in a container: relaying works without.
            if chosen.folder:
                raise UsageError(f"{problem} Choose another folder with --set store.folder=PATH.")
            return problem
        try:
            self._stores.open()
        except StoreUnavailable as problem:
            return str(problem)
        return ""

    async def start(self) -> None:
        await self._upstream.connect()
        self.is_ready = True

    async def stop(self) -> None:
        self.is_ready = False
        await self._upstream.close()
        await self.recorder.close()
        self.tenants.close()

    async def serve(self, scope: AsgiMessage, receive: AsgiReceive, send: AsgiSend) -> None:
        """The ASGI application."""
        if scope["type"] == "lifespan":
            await _run_lifespan(self, receive, send)
        elif scope["type"] == "http":
            await self._serve(HttpExchange(scope, receive, send, self.settings.limits))

    async def _serve(self, exchange: HttpExchange) -> None:
        self.metrics.begin()
        exchange.mode = self.settings.mode
        try:
            await self._dispatch(exchange)
        except GatewayError as error:
            await exchange.fail(error)
        except ClientGone:
            pass
        except asyncio.CancelledError:
            # The gateway ends, and this request took too long. What has begun is cut off.
            if not exchange.is_started:
                await exchange.fail(_ENDING)
            raise
        except Exception as problem:
            self._report_defect(exchange, problem)
            # After the beginning of a response only its end can tell: the server closes the connection.
            if exchange.is_started:
                raise
            await exchange.fail(_DEFECT)
        finally:
            self.metrics.end(exchange.endpoint, exchange.mode, exchange.status)
            self._log(exchange)

    def _report_defect(self, exchange: HttpExchange, problem: Exception) -> None:
        """Without the words of the error, which may have content or a key in them."""
        self.metrics.degrade("a request failed by a defect")
        at = extract_tb(problem.__traceback__)[-1]
        self._warn(
            f"A request ({exchange.method} {exchange.endpoint or 'before its route'}) failed by a defect of "
            f"the gateway: {type(problem).__name__} in {os.path.basename(at.filename)}, line {at.lineno}. "
            "Please report it."
        )

    def _log(self, exchange: HttpExchange) -> None:
        """A log that cannot be written ends no request. Each request tries again."""
        try:
            self._log_request(exchange)
            self._is_log_failing = False
        except OSError as problem:
            self.metrics.degrade(NOT_LOGGED)
            if not self._is_log_failing:
                self._is_log_failing = True
                self._warn(describe_unlogged(problem))

    async def _dispatch(self, exchange: HttpExchange) -> None:
        self._check_headers(exchange)
        exchange.tenant = find_tenant(exchange.headers, self._tokens, self.settings.allowed_hosts)
        exchange.mode = read_mode(exchange.headers) or exchange.tenant.mode or self.settings.mode
        route = find_route(CLIENT_ROUTES, exchange.method, exchange.path)
        exchange.endpoint = route.endpoint
        tenant = exchange.tenant.name
        if self._running[tenant] >= self.settings.limits.requests:
            raise GatewayError(
                429,
                "too_many_requests",
                f"{self._running[tenant]} requests of this tenant are running. Wait until one has ended.",
            )
        self._running[tenant] += 1
        serve = self._relay
        if route.endpoint == "messages":
            serve = self._serve_messages
        elif route.endpoint == "count_tokens" and exchange.mode == "manage":
            serve = self._serve_count
        try:
            await serve(exchange)
        finally:
            self._running[tenant] -= 1

    def _check_headers(self, exchange: HttpExchange) -> None:
        """Again here: a server of another kind may not have checked them."""
        limits, hosts, size = exchange.limits, 0, 0
        for name, value in exchange.headers:
            hosts += name == b"host"
            if name == b"transfer-encoding" and value.strip().lower() != b"chunked":
                raise _CODED
            size += len(name) + len(value) + 4
        if hosts > 1:
            raise GatewayError(400, "invalid_host", "The request has several Host headers. Send one.")
        if len(exchange.headers) > limits.headers or size > limits.header_bytes:
            raise GatewayError(
                431, "headers_too_large",
                f"The headers are larger than {limits.header_bytes:,} bytes or more than {limits.headers}.",
            )  # fmt: skip

    # ── other endpoints ──────────────────────────────────────────────────────────────────────────

    async def _relay(self, exchange: HttpExchange) -> None:
        headers = self._make_headers(exchange, is_read=False)
        body = None
        length = find_header(exchange.headers, b"content-length")
        has_body = length not in (b"", b"0") or bool(find_header(exchange.headers, b"transfer-encoding"))
        if has_body or exchange.method not in _WITHOUT_BODY:
            # Not kept in memory: it may be a large file.
            body = exchange.pass_on_body(exchange.limits.upload_bytes)
            if length:
                headers.append(("content-length", length.decode("latin-1")))
        else:
            await exchange.read_body(0)
        self._note_sent(exchange)
        async with exchange.abort_on_disconnect():
            try:
                response = await self._upstream.send(exchange.method, exchange.target, headers, body)
            except GatewayError as error:
                raise exchange.body_problem or error from None
            try:
                await relay_response(exchange, response, silence=self.settings.timing.silence)
            finally:
                response.close()

    # ── messages ─────────────────────────────────────────────────────────────────────────────────

    async def _serve_messages(self, exchange: HttpExchange) -> None:
        given = await self._read_request(exchange)
        self.recorder.take_late_note(exchange, given)
        async with exchange.abort_on_disconnect():
            await (self._manage if exchange.mode == "manage" else self._observe)(exchange, given)

    async def _read_request(self, exchange: HttpExchange) -> ClientRequest:
        body = await exchange.read_body(exchange.limits.body_bytes)
        encoding = find_header(exchange.headers, b"content-encoding").decode("latin-1")
        if encoding:
            await self.recorder.run(lambda: self._check_decompressed(body, encoding))
        session, agent = find_header(exchange.headers, SESSION_ID), find_header(exchange.headers, AGENT_ID)
        scope = make_scope(session.decode("latin-1"), agent.decode("latin-1"))
        return ClientRequest(body, encoding, read_betas(exchange.headers), scope)

    def _check_decompressed(self, body: bytes, encoding: str) -> None:
        try:
            for _ in decompress([body], encoding, self.settings.limits.decompressed_bytes):
                pass
        except TooLarge:
            limit = self.settings.limits.decompressed_bytes
            raise GatewayError(
                413, "request_too_large", f"The body is larger than {limit:,} bytes when decompressed."
            ) from None
        except UnreadableBody:
            # Relayed and not understood, which is counted where it is read.
            return

    async def _serve_count(self, exchange: HttpExchange) -> None:
        given = await self._read_request(exchange)
        request = CountRequest(
            exchange,
            given,
            self._make_headers(exchange, is_read=False),
            upstream=self._upstream,
            recorder=self.recorder,
            conversations=self.tenants.find(exchange.tenant.name),
            metrics=self.metrics,
            on_sent=lambda: self._note_sent(exchange),
            seconds=self.settings.timing.count,
        )
        async with exchange.abort_on_disconnect():
            response = await request.answer()
            try:
                await relay_response(exchange, response, silence=self.settings.timing.silence)
            finally:
                response.close()

    async def _observe(self, exchange: HttpExchange, given: ClientRequest) -> None:
        call = self.recorder.observe(exchange, given)
        copy = RelayedPieces(exchange.limits.reply_bytes)
        headers = self._make_headers(exchange, is_read=True)
        self._note_sent(exchange)
        response = await self._upstream.send("POST", exchange.target, headers, given.body)
        try:
            if isinstance(call, asyncio.Task):
                await self._wait_for_session(exchange, call)
            await relay_response(
                exchange, response, copy, before_end=self._recorded(exchange, given, call, response, copy),
                silence=self.settings.timing.silence,
            )  # fmt: skip
        finally:
            if not response.closed:
                response.close()
            self._record_later(exchange, given, call, response, copy)

    def _record_later(
        self,
        exchange: HttpExchange,
        given: ClientRequest,
        call: Call | None,
        response: aiohttp.ClientResponse,
        copy: RelayedPieces,
    ) -> None:
        if copy.is_too_long:
            self.recorder.report_too_long(exchange, given)
        elif not copy.is_taken and is_recorded(response, copy):
            self.recorder.finish(exchange, given, call, make_relayed_reply(response, copy))

    async def _wait_for_session(self, exchange: HttpExchange, call: "asyncio.Task[Any]") -> None:
        """A response names its conversation, unless that takes too long."""
        if not call.done():
            await asyncio.wait({call}, timeout=self.settings.timing.session)
        if not call.done():
            exchange.session = PENDING
            exchange.notes.append("the record of this request is late")
            self.metrics.degrade("a record is late")

    async def _manage(self, exchange: HttpExchange, given: ClientRequest) -> None:
        timing = self.settings.timing
        headers = self._make_headers(exchange, is_read=True)
        summaries = GatewaySummaries(
            make_post(self._upstream, exchange.target, headers),
            caps=self._caps,
            metrics=self.metrics,
            clock=self.settings.parts.clock,
            seconds=timing.summary,
        )
        request = ManagedRequest(
            exchange,
            given,
            headers,
            upstream=self._upstream,
            recorder=self.recorder,
            conversations=self.tenants.find(exchange.tenant.name),
            summaries=summaries,
            metrics=self.metrics,
            on_sent=lambda: self._note_sent(exchange),
            seconds=timing.prepare,
        )
        response, call, body = await request.answer_in_time(timing.quiet, timing.ping)
        copy = RelayedPieces(exchange.limits.reply_bytes)
        try:
            before_end = self._recorded(exchange, given, call, response, copy) if call else None
            await relay_response(exchange, response, copy, body, before_end, silence=timing.silence)
        finally:
            response.close()
            self._record_later(exchange, given, call, response, copy)

    def _recorded(
        self,
        exchange: HttpExchange,
        given: ClientRequest,
        call: Call,
        response: aiohttp.ClientResponse,
        copy: RelayedPieces,
    ) -> Callable[[], Awaitable[None]] | None:
        """Where replicas share conversations, a reply is recorded before it ends: the client's next request
        may arrive at another one. A store that is slow delays the end for a moment only."""
        if not self._stores.is_shared or isinstance(call, NotUnderstood):
            return None

        async def record() -> None:
            if is_recorded(response, copy):
                copy.is_taken = True
                reply = make_relayed_reply(response, copy)
                if (task := self.recorder.finish(exchange, given, call, reply)) is not None:
                    done, _ = await asyncio.wait({task}, timeout=self.settings.timing.record)
                    if not done:
                        self.metrics.degrade("a reply ended before it was recorded")

        return record

    def _make_headers(self, exchange: HttpExchange, *, is_read: bool) -> list[tuple[str, str]]:
        return make_request_headers(exchange.headers, is_read=is_read, keeps_token=self._keeps_token)

    def _note_sent(self, exchange: HttpExchange) -> None:
        self.metrics.observe_added(exchange.mode, time.perf_counter() - exchange.began)


async def _run_lifespan(gateway: Gateway, receive: AsgiReceive, send: AsgiSend) -> None:
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            await gateway.start()
            await send({"type": "lifespan.startup.complete"})
        else:
            await gateway.stop()
            await send({"type": "lifespan.shutdown.complete"})
            return


def _open_stores(settings: GatewaySettings) -> ConversationStores:
    chosen = settings.parts.options.store
    return SharedStores(chosen) if chosen.url else TenantFolders(settings.parts.folder)


def make_gateway(
    settings: GatewaySettings,
    *,
    tokens: Tokens | None = None,
    stores: ConversationStores | None = None,
    log_request: LogRequest = lambda _: None,
    warn: Callable[[str], None] = lambda _: None,
) -> Gateway:
    """A gateway. Without tokens every local program may use it. `warn` tells the operator what no client can
    change."""
    stores = stores or _open_stores(settings)
    return Gateway(
        settings,
        tokens=tokens,
        stores=stores,
        caps=SummaryCaps(settings.caps, stores.open),
        log_request=log_request,
        warn=warn,
    )
