"""Summary requests of managed conversations: with the client's headers, in time, and within the caps.

A worker thread asks for a summary and waits; the request runs on the event loop, where it can be cancelled.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import CancelledError as FutureCancelled
from concurrent.futures import Future
from datetime import datetime

import aiohttp

from everturn.adapters.tracking.api_responses import read_response_body
from everturn.adapters.tracking.summary_retries import SendError
from everturn.errors import StoreError
from everturn.gateway.bodies import read_answered_usage
from everturn.gateway.caps import CapKey, SummaryCaps
from everturn.gateway.failures import GatewayError
from everturn.gateway.headers import replace_header, set_betas
from everturn.gateway.holds import HoldSender
from everturn.gateway.metrics import GatewayMetrics
from everturn.gateway.upstream import Upstream
from everturn.session.bill import price_usage
from everturn.session.upstream import RawResponse

Post = Callable[[bytes, Sequence[str]], Awaitable[RawResponse]]


def make_post(upstream: Upstream, target: str, headers: list[tuple[str, str]]) -> Post:
    """Sends a summary request to the endpoint of the client's request, with its headers."""
    plain = replace_header(replace_header(headers, "accept-encoding", "identity"), "content-encoding", "")
    # It names one request of the client, and this is another one.
    plain = replace_header(plain, "idempotency-key", "")

    async def post(body: bytes, betas: Sequence[str]) -> RawResponse:
        try:
            async with await upstream.send("POST", target, set_betas(plain, betas), body) as response:
                return read_response_body(response.status, response.headers, await response.read())
        except (GatewayError, aiohttp.ClientError, OSError) as problem:
            raise SendError(0, "connection", str(problem), is_lost=True) from None

    return post


class GatewaySummaries:
    """The `send` of one request, for a worker thread."""

    def __init__(
        self,
        post: Post,
        *,
        caps: SummaryCaps,
        metrics: GatewayMetrics,
        clock: Callable[[], datetime],
        seconds: float,
    ) -> None:
        self._post = post
        self._caps = caps
        self._metrics = metrics
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._ends = time.monotonic() + seconds
        self._running: Future[RawResponse] | None = None
        self.is_cancelled = False
        # Whose summary it is; set when the request has been read.
        self.tenant = self.session = ""
        self.is_used = False
        # Which cap has stopped a summary.
        self.exceeded = ""

    def __call__(self, body: bytes, betas: Sequence[str]) -> RawResponse:
        key = CapKey(self.tenant, self.session, self._clock().date())
        self._check(key)
        self.is_used = True
        self._running = running = asyncio.run_coroutine_threadsafe(
            _awaited(self._post, body, betas), self._loop
        )
        try:
            raw = running.result(max(0.0, self._ends - time.monotonic()))
        except TimeoutError:
            running.cancel()
            raise SendError(0, "late", "the summary took too long and was abandoned") from None
        except (asyncio.CancelledError, FutureCancelled):
            raise SendError(0, "cancelled", "the client has disconnected") from None
        self._count(key, raw)
        return raw

    @property
    def hold(self) -> HoldSender:
        """The `send` of holds after this request: with its headers, whatever becomes of its connection."""
        return HoldSender(self._post, self._loop, self._metrics, self._clock)

    def cancel(self) -> None:
        """The client has gone: end the running request, and allow no other."""
        self.is_cancelled = True
        if self._running is not None:
            self._running.cancel()

    def _check(self, key: CapKey) -> None:
        if self.is_cancelled:
            raise SendError(0, "cancelled", "the client has disconnected")
        if time.monotonic() >= self._ends:
            raise SendError(0, "late", "there is no time left for a summary")
        try:
            self.exceeded = self._caps.begin(key)
        except StoreError as problem:
            # Not sent: nobody knows what it would be on top of.
            raise SendError(0, "cap", f"the caps on summaries cannot be read: {problem}") from None
        if self.exceeded:
            raise SendError(0, "cap", f"the cap {self.exceeded} on summaries is used up")

    def _count(self, key: CapKey, raw: RawResponse) -> None:
        said = read_answered_usage(raw.body)
        spent = price_usage(said.usage, said.model, key.day)
        try:
            self._caps.end(key, spent)
        except StoreError:
            self._metrics.degrade("the cost of a summary was not counted")
        self._metrics.add_usage(said.usage)
        self._metrics.add_dollars("summary", spent.dollars)


async def _awaited(post: Post, body: bytes, betas: Sequence[str]) -> RawResponse:
    return await post(body, betas)
