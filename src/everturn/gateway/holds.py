"""Holds of the gateway: for the tenants that the operator names, with the headers of the client's last
request, within a budget per tenant and day (EC-11).

A client's key is used for calls that the client did not make, so nobody is held by default.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError as FutureCancelled
from datetime import datetime
from typing import TYPE_CHECKING, Final

import msgspec

from everturn.adapters.tracking.summary_retries import SendError
from everturn.decide.options import Options
from everturn.gateway.bodies import read_answered_usage
from everturn.gateway.metrics import GatewayMetrics
from everturn.session.bill import price_usage
from everturn.session.upstream import RawResponse

if TYPE_CHECKING:
    from everturn.gateway.summaries import Post

# Every tenant.
ALL: Final = "*"
# A hold asks for nothing, so its answer comes soon or is not worth waiting for.
SECONDS: Final = 60.0


def options_of_tenant(options: Options, tenant: str) -> Options:
    """The options of one tenant: holds only where the operator allows them."""
    named = options.gateway.hold_tenants
    economy = msgspec.structs.replace(options.economy, holds=ALL in named or tenant in named)
    return msgspec.structs.replace(options, economy=economy)


class HoldSender:
    """The `send` of holds, for a thread; the request runs on the gateway's event loop."""

    def __init__(
        self,
        post: "Post",
        loop: asyncio.AbstractEventLoop,
        metrics: GatewayMetrics,
        clock: Callable[[], datetime],
    ) -> None:
        self._post, self._loop, self._metrics, self._clock = post, loop, metrics, clock

    def __call__(self, body: bytes, betas: Sequence[str]) -> RawResponse:
        if self._loop.is_closed():
            raise SendError(0, "closed", "the gateway has ended")
        running = asyncio.run_coroutine_threadsafe(self._send(body, betas), self._loop)
        try:
            raw = running.result(SECONDS)
        except TimeoutError:
            running.cancel()
            raise SendError(0, "late", "the hold took too long and was abandoned") from None
        except (asyncio.CancelledError, FutureCancelled):
            raise SendError(0, "cancelled", "the gateway ends") from None
        self._count(raw)
        return raw

    async def _send(self, body: bytes, betas: Sequence[str]) -> RawResponse:
        return await self._post(body, betas)

    def _count(self, raw: RawResponse) -> None:
        said = read_answered_usage(raw.body)
        self._metrics.add_usage(said.usage)
        spent = price_usage(said.usage, said.model, self._clock().date())
        self._metrics.add_dollars("hold", spent.dollars)
