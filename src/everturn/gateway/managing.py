"""Manage mode: the engine decides which messages are sent, and the rest of the request goes as it came.

prepare      in a worker thread; a summary may take minutes
send         the prepared body; after "too long" a smaller one, once; after another 400 without the
             compaction, once; then the client's own
relay        as in observe mode
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import aiohttp

from everturn.adapters.tracking import CallerRequest, ConversationTracker, PreparedCall
from everturn.adapters.tracking.api_responses import BAD_REQUEST, is_too_long, read_error
from everturn.decide.compact.values import Compaction, CompactionFailed
from everturn.engine.values import WAITS
from everturn.gateway.bodies import UnreadableBody, read_error_body, without_thinking
from everturn.gateway.exchange import HttpExchange
from everturn.gateway.failures import GatewayError
from everturn.gateway.headers import replace_header, set_betas
from everturn.gateway.metrics import GatewayMetrics
from everturn.gateway.recording import Recorder
from everturn.gateway.summaries import GatewaySummaries
from everturn.gateway.tenants import ClientRequest, NotUnderstood, TenantConversations
from everturn.gateway.upstream import Upstream

PING = b'event: ping\ndata: {"type": "ping"}\n\n'


class Answer(NamedTuple):
    """The upstream's response, and the call that it answers; None if it is not recorded."""

    response: aiohttp.ClientResponse
    call: PreparedCall | None
    # The body, where it had to be read.
    body: bytes | None = None


class ManagedRequest:
    """One request of a client in manage mode."""

    def __init__(
        self,
        exchange: HttpExchange,
        given: ClientRequest,
        headers: list[tuple[str, str]],
        *,
        upstream: Upstream,
        recorder: Recorder,
        conversations: TenantConversations,
        summaries: GatewaySummaries,
        metrics: GatewayMetrics,
        on_sent: Callable[[], None],
        seconds: float,
    ) -> None:
        """`seconds` is how long the request may be prepared, where no summary is written."""
        self._exchange, self._given, self._headers = exchange, given, headers
        self._upstream, self._recorder = upstream, recorder
        self._conversations, self._summaries = conversations, summaries
        self._metrics = metrics
        self._on_sent = on_sent
        self._seconds = seconds
        self.is_streamed = False

    @property
    def _tracker(self) -> ConversationTracker:
        return self._conversations.tracker

    async def answer(self) -> Answer:
        """Prepare the request and send it."""
        found = await self._prepare_in_time()
        self._recorder.count(self._exchange, found)
        if isinstance(found, NotUnderstood):
            if not found.is_failure:
                return Answer(await self._send_own(), None)
            self._exchange.mode = "observe"
            return await self._answer_unprepared()
        self._note_decisions(found)
        response = await self._send(found)
        if response.status != BAD_REQUEST:
            return Answer(response, found)
        return await self._handle_bad_request(response, found)

    async def _prepare_in_time(self) -> PreparedCall | NotUnderstood:
        """The prepared request. Only a summary may take longer than the deadline; a store that is slow may
        not (GW-15)."""
        task = asyncio.create_task(self._prepare())
        done, _ = await asyncio.wait({task}, timeout=self._seconds)
        if done or self._summaries.is_used:
            return await task
        self._summaries.cancel()
        task.cancel()
        return NotUnderstood("it could not be prepared in time", is_failure=True)

    async def _prepare(self) -> PreparedCall | NotUnderstood:
        await self._recorder.wait_for_replies(self._exchange, self._given)
        return await self._recorder.run(
            lambda: self._conversations.prepare(
                self._given,
                self._summaries,
                self._note_request,
                self._summaries.hold,
                is_wanted=lambda: not self._summaries.is_cancelled,
            )
        )

    def _note_request(self, read: CallerRequest, is_streamed: bool) -> None:
        self.is_streamed = is_streamed
        self._summaries.tenant = self._exchange.tenant.name
        self._summaries.session = self._given.scope or read.chain[0].hex()

    def _note_decisions(self, call: PreparedCall) -> None:
        if call.prepared is None:
            return
        turn, notes = call.prepared.turn, self._exchange.notes
        notes.extend(note for note in turn.notes if note.endswith(WAITS))
        if turn.plan.edits or turn.plan.delete:
            notes.append(f"micro-compaction: {turn.plan.kind}")
        if isinstance(turn.compacted, Compaction):
            notes.append(f"compacted: {turn.compacted.tokens_before} to {turn.compacted.tokens_after} tokens")
        elif isinstance(turn.compacted, CompactionFailed):
            notes.append("a compaction failed")
            self._metrics.degrade("a compaction failed")
        if self._summaries.exceeded:
            notes.append(f"no summary: the cap {self._summaries.exceeded} is used up")
            self._metrics.degrade(f"the cap {self._summaries.exceeded} is used up")

    # ── sending ──────────────────────────────────────────────────────────────────────────────────

    async def _send(self, call: PreparedCall) -> aiohttp.ClientResponse:
        headers = replace_header(set_betas(self._headers, call.betas), "content-encoding", "")
        body = call.body
        if self.is_streamed:
            # Events can be sent on after an early start only as they are.
            headers = replace_header(headers, "accept-encoding", "identity")
            body = b"".join((b'{"stream":true,', memoryview(body)[1:]))
        self._on_sent()
        return await self._upstream.send("POST", self._exchange.target, headers, body)

    async def _send_own(self) -> aiohttp.ClientResponse:
        headers = self._headers
        if self.is_streamed:
            headers = replace_header(headers, "accept-encoding", "identity")
        self._on_sent()
        return await self._upstream.send("POST", self._exchange.target, headers, self._given.body)

    async def _answer_unprepared(self) -> Answer:
        """Everturn has failed, so the client's own request is sent. If it was managed before, the thinking in
        it may be bound to what was sent then, and the API refuses that: the request is sent once more without
        its thinking."""
        response = await self._send_own()
        if response.status != BAD_REQUEST:
            return Answer(response, None)
        refusal = await _read_refusal(response)
        is_thinking = "thinking" in read_error(_decode(response, refusal))
        body = await self._recorder.run(self._leave_out_thinking) if is_thinking else None
        if body is None:
            return Answer(response, None, refusal)
        headers = replace_header(self._headers, "content-encoding", "")
        again = await self._upstream.send("POST", self._exchange.target, headers, body)
        if again.status == BAD_REQUEST:
            again.close()
            return Answer(response, None, refusal)
        self._exchange.notes.append("sent again: without thinking")
        return Answer(again, None)

    def _leave_out_thinking(self) -> bytes | None:
        try:
            return without_thinking(self._conversations.read_fields(self._given))
        except UnreadableBody:
            return None

    async def _handle_bad_request(self, response: aiohttp.ClientResponse, call: PreparedCall) -> Answer:
        """Status 400, as in the SDK's middleware: each remedy once, then the client's own request, unless
        that cannot fit."""
        handled: set[bool] = set()
        while True:
            body = await _read_refusal(response)
            refusal = _decode(response, body)
            too_long = is_too_long(response.status, refusal)
            if too_long in handled:
                break
            handled.add(too_long)
            other = await self._recorder.run(partial(self._find_remedy, call, refusal, too_long=too_long))
            if other is None:
                break
            self._exchange.notes.append("sent again: too long" if too_long else "sent again: refused")
            call, response = other, await self._send(other)
            if response.status != BAD_REQUEST:
                return Answer(response, call)
        if too_long or not call.tracked.fits_unchanged():
            return Answer(response, None, body)
        own = await self._send_own()
        if own.status < BAD_REQUEST:
            self._tracker.report_failure(
                RuntimeError(f"the API rejected the prepared request: {read_error(refusal)}"), call
            )
            self._metrics.degrade("the API rejected the prepared request")
            self._exchange.notes.append("sent unchanged: the prepared request was refused")
        return Answer(own, None)

    def _find_remedy(self, call: PreparedCall, refusal: bytes, *, too_long: bool) -> PreparedCall | None:
        """In a worker thread: what to send after a refusal; None if nothing would help."""
        try:
            if too_long:
                return self._tracker.compact_after_overflow(call, self._summaries)
            return self._tracker.undo_after_refusal(call, read_error(refusal), self._summaries)
        except Exception as problem:
            self._tracker.report_failure(problem)
            self._metrics.degrade("everturn failed")
            return None

    # ── waiting ──────────────────────────────────────────────────────────────────────────────────

    async def answer_in_time(self, quiet: float, ping: float) -> Answer:
        """The answer. While a summary is written nothing is sent for some time; then the response begins,
        with pings (GW-5)."""
        task = asyncio.create_task(self.answer())
        try:
            done, _ = await asyncio.wait({task}, timeout=quiet)
            while not done and not (self.is_streamed and self._summaries.is_used):
                done, _ = await asyncio.wait({task}, timeout=ping)
            if not done:
                await self._exchange.start(200, _EARLY_HEADERS)
            while not done:
                await self._exchange.write(PING)
                done, _ = await asyncio.wait({task}, timeout=ping)
            return await task
        except asyncio.CancelledError:
            self._summaries.cancel()
            task.cancel()
            task.add_done_callback(_close_response)
            raise


_EARLY_HEADERS = ((b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache"))


async def _read_refusal(response: aiohttp.ClientResponse) -> bytes:
    try:
        return await response.read()
    except (aiohttp.ClientError, OSError, TimeoutError) as problem:
        raise GatewayError(
            502,
            "upstream_invalid",
            f"The upstream refused the request with status {response.status}, and its answer was cut off. "
            "Send the request again.",
        ) from problem


def _decode(response: aiohttp.ClientResponse, body: bytes) -> bytes:
    """What a refusal says. The client gets it as it came."""
    return read_error_body(body, response.headers.get("content-encoding", ""))


def _close_response(task: "asyncio.Task[Answer]") -> None:
    if not task.cancelled() and task.exception() is None:
        task.result().response.close()
