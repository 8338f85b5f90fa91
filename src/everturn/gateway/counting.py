"""`count_tokens` in manage mode: what is counted are the messages that everturn would send.

After a compaction the client's own list has thinking in it that is bound to another prompt, and models that
bind thinking refuse to count it. As in the SDK's middleware, after a refusal the list is counted without any
thinking, and at the end the client gets the answer to its own list.

Nothing is decided and nothing is recorded. A count must not be late for that: whatever takes longer than a
moment, is too large, or fails, leads to the client's own bytes; and after a refusal of these, to the same
without thinking.
"""

import time
from collections.abc import Callable

import aiohttp

from everturn.adapters.tracking.api_responses import BAD_REQUEST
from everturn.gateway.exchange import Deadline, HttpExchange
from everturn.gateway.headers import replace_header
from everturn.gateway.metrics import GatewayMetrics
from everturn.gateway.recording import Recorder
from everturn.gateway.tenants import (
    MAX_COUNT_BYTES,
    NOT_IN_TIME,
    ClientRequest,
    NotUnderstood,
    PlannedCount,
    TenantConversations,
)
from everturn.gateway.upstream import Upstream


class CountRequest:
    """One count of a client in manage mode."""

    def __init__(
        self,
        exchange: HttpExchange,
        given: ClientRequest,
        headers: list[tuple[str, str]],
        *,
        upstream: Upstream,
        recorder: Recorder,
        conversations: TenantConversations,
        metrics: GatewayMetrics,
        on_sent: Callable[[], None],
        seconds: float,
    ) -> None:
        """`seconds` is how long it may take to find out what is to be counted."""
        self._exchange, self._given, self._headers = exchange, given, headers
        self._upstream, self._recorder = upstream, recorder
        self._conversations = conversations
        self._metrics = metrics
        self._on_sent = on_sent
        self._seconds = seconds

    async def answer(self) -> aiohttp.ClientResponse:
        """The response for the client. Whoever gets it closes it."""
        planned = await self._plan_in_time()
        self._on_sent()
        if isinstance(planned, NotUnderstood):
            self._note(planned)
        first = await self._send(None if isinstance(planned, NotUnderstood) else planned.body)
        if first.status != BAD_REQUEST or (isinstance(planned, NotUnderstood) and not planned.is_failure):
            return first
        last = None
        try:
            last = await self._answer_refused(planned, first)
            return last
        finally:
            if last is not first:
                first.close()

    async def _plan_in_time(self, *, has_thinking: bool = True) -> PlannedCount | NotUnderstood:
        if len(self._given.body) > MAX_COUNT_BYTES:
            return NotUnderstood("it is too large", is_failure=True)
        ends = time.monotonic() + self._seconds

        def plan() -> PlannedCount | NotUnderstood:
            return self._conversations.plan_count(self._given, ends, has_thinking=has_thinking)

        try:
            with Deadline(self._seconds):
                # The list may have a reply in it that is being recorded.
                await self._recorder.wait_for_replies(self._exchange, self._given)
                return await self._recorder.run_count(self._given, plan)
        except TimeoutError:
            return NOT_IN_TIME

    def _note(self, found: NotUnderstood) -> None:
        self._exchange.notes.append(f"counted as it came: {found.why}")
        if found.is_failure:
            self._exchange.mode = "observe"
            self._metrics.degrade(f"a list was counted as it came: {found.why}")

    async def _answer_refused(
        self, planned: PlannedCount | NotUnderstood, first: aiohttp.ClientResponse
    ) -> aiohttp.ClientResponse:
        body = await self._build_without_thinking(planned)
        if body is not None:
            again = await self._send(body)
            if again.status != BAD_REQUEST:
                self._exchange.notes.append("counted without thinking")
                return again
            again.close()
        # Whatever is wrong with it, the client is told about its own list.
        is_own = isinstance(planned, NotUnderstood) or planned.body is None
        return first if is_own else await self._send(None)

    async def _build_without_thinking(self, planned: PlannedCount | NotUnderstood) -> bytes | None:
        """What is sent after a refusal; None if thinking cannot be the reason."""
        if not isinstance(planned, NotUnderstood):
            planned = await self._plan_in_time(has_thinking=False)
            if not isinstance(planned, NotUnderstood):
                return planned.body
        try:
            with Deadline(self._seconds):
                return await self._recorder.run_count(
                    self._given, lambda: self._conversations.leave_out_thinking(self._given)
                )
        except TimeoutError:
            return None

    async def _send(self, body: bytes | None) -> aiohttp.ClientResponse:
        """Send a count with this body; None for the client's own."""
        headers = self._headers
        if body is not None:
            headers = replace_header(headers, "content-encoding", "")
        sent = self._given.body if body is None else body
        return await self._upstream.send("POST", self._exchange.target, headers, sent)
