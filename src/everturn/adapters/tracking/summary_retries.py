"""When a failed summary request is sent again, and after how long.

A `Session` sends with the SDK, which retries. The requests of a caller are retried by the caller's own
client, but a summary request is everturn's: it must not use up the caller's retries, and one overloaded
moment must not lead to a strategy that costs more. The delays are those of the SDK.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

from everturn.errors import UpstreamError

T = TypeVar("T")

MAX_RETRIES: Final = 4
# Seconds after which no request is sent again: a client gives up after 300 s without content (GW-5).
DEADLINE: Final = 240.0
FIRST_DELAY: Final = 0.5
MAX_DELAY: Final = 8.0
_STATUSES: Final = frozenset({408, 409, 425, 429})
_LOST: Final = (
    "Timeout", "TimeoutError", "TimeoutException", "ConnectionError", "ConnectError", "ReadError",
    "WriteError", "NetworkError", "ProtocolError",
)  # fmt: skip

# Replaced in tests.
sleep: Callable[[float], None] = time.sleep
sleep_async: Callable[[float], Awaitable[None]] = asyncio.sleep


class SendError(UpstreamError):
    """A request that failed, and what is needed to decide whether to send it again."""

    def __init__(
        self, status: int, kind: str, message: str, *, retry_after: float | None = None, is_lost: bool = False
    ) -> None:
        super().__init__(status, kind, message)
        self.retry_after = retry_after
        # No answer arrived: the connection failed or timed out.
        self.is_lost = is_lost


def make_send_error(problem: Exception) -> SendError:
    """From an error of a client library: its status, its headers, or the name of its class."""
    chain = list(list_causes(problem))
    status = next((code for each in chain if (code := getattr(each, "status_code", 0))), 0)
    headers = next((found for each in chain if (found := _headers(each)) is not None), None)
    is_lost = not status and any(type(each).__name__.endswith(_LOST) for each in chain)
    return SendError(
        status,
        type(problem).__name__,
        str(problem),
        retry_after=parse_retry_after(headers) if headers is not None else None,
        is_lost=is_lost,
    )


def parse_retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds to wait that a response asks for; None if it asks for none, or in a form that is not a
    number."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            return max(0.0, float(headers[name]) / unit)
        except (KeyError, ValueError):
            continue
    return None


def plan_retry(problem: UpstreamError, retries: int, elapsed: float, jitter: float) -> float | None:
    """The seconds to wait before the request is sent again; None if it is not. `retries` is how often it was
    sent again already, `jitter` is between 0 and 1."""
    is_lost = isinstance(problem, SendError) and problem.is_lost
    is_transient = problem.status in _STATUSES or problem.status >= 500 or is_lost
    if not is_transient or retries >= MAX_RETRIES:
        return None
    asked = problem.retry_after if isinstance(problem, SendError) else None
    delay = min(FIRST_DELAY * 2**retries, MAX_DELAY) * (1 - 0.25 * jitter) if asked is None else asked
    return delay if elapsed + delay < DEADLINE else None


class RetryClock:
    """Plans the retries of one summary request. `began` is when the compaction began: all its requests have
    one deadline."""

    def __init__(self, began: float) -> None:
        self._began = began
        self._retries = 0

    def next_delay(self, problem: UpstreamError) -> float:
        """The seconds to wait; raises the error if the request is not sent again."""
        elapsed = time.monotonic() - self._began
        delay = plan_retry(problem, self._retries, elapsed, random.random())
        if delay is None:
            raise problem
        self._retries += 1
        return delay


def retry(send: Callable[[], T], clock: RetryClock) -> T:
    while True:
        try:
            return send()
        except UpstreamError as problem:
            sleep(clock.next_delay(problem))


async def retry_async(send: Callable[[], Awaitable[T]], clock: RetryClock) -> T:
    while True:
        try:
            return await send()
        except UpstreamError as problem:
            delay = clock.next_delay(problem)
        await sleep_async(delay)


def list_causes(problem: BaseException | None) -> Iterator[BaseException]:
    while problem is not None:
        yield problem
        problem = problem.__cause__


def _headers(problem: BaseException) -> Mapping[str, str] | None:
    response: Any = getattr(problem, "response", None)
    return getattr(response, "headers", None)
