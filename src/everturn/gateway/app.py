"""The gateway as an ASGI application: routes, access, limits, and the two modes."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final

import aiohttp

from everturn.adapters.tracking.scopes import make_scope
from everturn.errors import StoreUnavailable
from everturn.gateway.access import find_tenant
from everturn.gateway.access_log import LogRequest
from everturn.gateway.bodies import TooLarge, UnreadableBody, decompress
from everturn.gateway.caps import SummaryCaps
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
from everturn.gateway.routes import CLIENT_ROUTES, Route, find_route
from everturn.gateway.stores import ConversationStores, SharedStores, TenantFolders
from everturn.gateway.summaries import GatewaySummaries, make_post
from everturn.gateway.tenants import ClientRequest, Tenants
from everturn.gateway.tokens import Tokens
from everturn.gateway.upstream import Upstream
from everturn.gateway.values import GatewaySettings

# Bodies without one: the upstream would otherwise be sent an empty one in chunks.
_WITHOUT_BODY: Final = ("GET", "HEAD", "DELETE", "OPTIONS")


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
    ) -> None:
        self.settings = settings
        self.metrics = GatewayMetrics()
        self.tenants = Tenants(settings, stores, self.metrics)
        self._stores = stores
        self.is_ready = False
        self._tokens = tokens
        self._caps = caps
        self._log_request = log_request
        self._upstream = Upstream(settings.upstream, settings.timing)
        self.recorder = Recorder(self.tenants, self.metrics, settings.limits)
        self._running: Counter[str] = Counter()

    def check_store(self) -> str:
        """Open the store of conversations. Returns why it does not answer now, which may pass; raises for
        what the operator has to change."""
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
        finally:
            self.metrics.end(exchange.endpoint, exchange.mode, exchange.status)
            self._log_request(exchange)

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
        try:
            await self._handler(route)(exchange)
        finally:
            self._running[tenant] -= 1

    def _check_headers(self, exchange: HttpExchange) -> None:
        """Again here: a server of another kind may not have checked them."""
        limits = exchange.limits
        if sum(name == b"host" for name, _ in exchange.headers) > 1:
            raise GatewayError(400, "invalid_host", "The request has several Host headers. Send one.")
        size = sum(len(name) + len(value) + 4 for name, value in exchange.headers)
        if len(exchange.headers) > limits.headers or size > limits.header_bytes:
            raise GatewayError(
                431, "headers_too_large",
                f"The headers are larger than {limits.header_bytes:,} bytes or more than {limits.headers}.",
            )  # fmt: skip

    def _handler(self, route: Route) -> Callable[[HttpExchange], Awaitable[None]]:
        return self._serve_messages if route.endpoint == "messages" else self._relay

    # ── other endpoints ──────────────────────────────────────────────────────────────────────────

    async def _relay(self, exchange: HttpExchange) -> None:
        headers = make_request_headers(exchange.headers, is_read=False)
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
                await relay_response(exchange, response)
            finally:
                response.close()

    # ── messages ─────────────────────────────────────────────────────────────────────────────────

    async def _serve_messages(self, exchange: HttpExchange) -> None:
        body = await exchange.read_body(exchange.limits.body_bytes)
        encoding = find_header(exchange.headers, b"content-encoding").decode("latin-1")
        if encoding:
            await self.recorder.run(lambda: self._check_decompressed(body, encoding))
        names = (find_header(exchange.headers, each).decode("latin-1") for each in (SESSION_ID, AGENT_ID))
        given = ClientRequest(body, encoding, read_betas(exchange.headers), make_scope(*names))
        self.recorder.take_late_note(exchange, given)
        async with exchange.abort_on_disconnect():
            await (self._manage if exchange.mode == "manage" else self._observe)(exchange, given)

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

    async def _observe(self, exchange: HttpExchange, given: ClientRequest) -> None:
        call = self.recorder.observe(exchange, given)
        copy = RelayedPieces(exchange.limits.reply_bytes)
        headers = make_request_headers(exchange.headers, is_read=True)
        self._note_sent(exchange)
        response = await self._upstream.send("POST", exchange.target, headers, given.body)
        try:
            if not call.done():
                await asyncio.wait({call}, timeout=self.settings.timing.session)
            if not call.done():
                exchange.session = PENDING
                exchange.notes.append("the record of this request is late")
                self.metrics.degrade("a record is late")
            await relay_response(
                exchange, response, copy, before_end=self._recorded(exchange, given, call, response, copy)
            )
        finally:
            response.close()
            if not copy.is_taken and is_recorded(response, copy):
                self.recorder.finish(exchange, given, call, make_relayed_reply(response, copy))

    async def _manage(self, exchange: HttpExchange, given: ClientRequest) -> None:
        timing = self.settings.timing
        headers = make_request_headers(exchange.headers, is_read=True)
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
            await relay_response(exchange, response, copy, body, before_end)
        finally:
            response.close()
            if call is not None and not copy.is_taken and is_recorded(response, copy):
                self.recorder.finish(exchange, given, call, make_relayed_reply(response, copy))

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
        if not self._stores.is_shared:
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
) -> Gateway:
    """A gateway. Without tokens every local program may use it."""
    stores = stores or _open_stores(settings)
    return Gateway(
        settings,
        tokens=tokens,
        stores=stores,
        caps=SummaryCaps(settings.caps, stores.open),
        log_request=log_request,
    )
