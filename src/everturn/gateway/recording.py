"""Records what is relayed, beside the relay: in worker threads, in the order of each conversation.

A request that arrives waits, for its record only, until the replies before it in its session are recorded.
Nothing that fails here reaches the client, except as a note in a header.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from everturn.adapters.tracking import PreparedCall
from everturn.gateway.exchange import HttpExchange
from everturn.gateway.limits import Limits
from everturn.gateway.metrics import GatewayMetrics
from everturn.gateway.tenants import ClientRequest, NotUnderstood, RelayedReply, Tenants
from everturn.gateway.workers import WorkerThreads

T = TypeVar("T")
# Stands for the conversation in a response that begins before its request is recorded.
PENDING: Final = "pending"

# A thread waits while a summary is written, and while another request of its conversation is prepared.
MAX_THREADS: Final = 128
MAX_LATE_NOTES: Final = 1000
# A reply that takes longer to be recorded than this is not waited for.
MAX_WAIT: Final = 30.0


# A request that is prepared, or will be.
Call = PreparedCall | asyncio.Task[PreparedCall | NotUnderstood]


class SessionKey(NamedTuple):
    tenant: str
    scope: str


class Recorder:
    """Used on one event loop."""

    def __init__(self, tenants: Tenants, metrics: GatewayMetrics, limits: Limits) -> None:
        self._tenants = tenants
        self._metrics = metrics
        self._limits = limits
        self._workers = WorkerThreads(MAX_THREADS, "everturn-gateway")
        self._replies: dict[SessionKey, set[asyncio.Task[None]]] = {}
        self._running: set[asyncio.Task[None]] = set()
        # Requests that wait to be recorded, and the bytes of what waits.
        self._observing = 0
        self._waiting_bytes = 0
        # What went wrong after a response had begun, for the next response of the session.
        self._late: OrderedDict[SessionKey, str] = OrderedDict()

    @property
    def is_busy(self) -> bool:
        """Whether replies wait to be recorded."""
        return bool(self._running)

    async def run(self, work: Callable[[], T]) -> T:
        """Run something in a worker thread."""
        return await self._workers.run(work)

    def observe(
        self, exchange: HttpExchange, given: ClientRequest
    ) -> "asyncio.Task[PreparedCall | NotUnderstood]":
        """Begin to record a request that is relayed as it came."""
        return asyncio.create_task(self._observe(exchange, given))

    async def _observe(self, exchange: HttpExchange, given: ClientRequest) -> PreparedCall | NotUnderstood:
        size = len(given.body)
        if self._observing >= self._limits.recordings or not self._has_room(size):
            found = NotUnderstood("too many requests wait to be recorded", is_failure=True)
            self.count(exchange, found)
            return found
        self._observing += 1
        self._waiting_bytes += size
        try:
            await self.wait_for_replies(exchange, given)
            conversations = self._tenants.find(exchange.tenant.name)
            found = await self.run(lambda: conversations.observe(given))
        finally:
            self._observing -= 1
            self._waiting_bytes -= size
        self.count(exchange, found)
        return found

    def _has_room(self, size: int) -> bool:
        """One is always let in, however large it is."""
        waiting = self._waiting_bytes
        return not waiting or waiting + size <= self._limits.recording_bytes

    def count(self, exchange: HttpExchange, found: PreparedCall | NotUnderstood) -> None:
        """Note which conversation it is, or why it is none."""
        if isinstance(found, PreparedCall):
            exchange.session = found.tracked.id
            return
        self._metrics.pass_through(found.why)
        if found.is_failure:
            self._metrics.degrade(found.why)
        exchange.notes.append(f"not tracked: {found.why}")

    async def wait_for_replies(self, exchange: HttpExchange, given: ClientRequest) -> None:
        """Until the replies that were complete when the request arrived are recorded."""
        pending = self._replies.get(_key(exchange, given))
        if pending:
            await asyncio.wait(pending, timeout=MAX_WAIT)

    def take_late_note(self, exchange: HttpExchange, given: ClientRequest) -> None:
        if note := self._late.pop(_key(exchange, given), ""):
            exchange.notes.append(note)

    def finish(
        self,
        exchange: HttpExchange,
        given: ClientRequest,
        call: Call,
        reply: RelayedReply,
    ) -> "asyncio.Task[None] | None":
        """Record a reply, later. `call` is its request. None if it is not recorded."""
        # The request is needed until its reply is recorded.
        size = len(given.body) + sum(map(len, reply.pieces))
        if len(self._running) >= self._limits.recordings or not self._has_room(size):
            self._report(exchange, given, "a reply was not recorded: too many are waiting")
            return None
        key = _key(exchange, given)
        task = asyncio.create_task(self._finish(exchange, given, call, reply))
        self._running.add(task)
        self._waiting_bytes += size
        self._replies.setdefault(key, set()).add(task)
        task.add_done_callback(lambda done: self._forget(key, done, size))
        return task

    async def _finish(
        self,
        exchange: HttpExchange,
        given: ClientRequest,
        call: Call,
        reply: RelayedReply,
    ) -> None:
        found = await call if isinstance(call, asyncio.Task) else call
        if isinstance(found, NotUnderstood):
            if found.is_failure and exchange.session == PENDING:
                # The response had begun when it failed.
                self._report(exchange, given, f"a reply was not recorded: {found.why}")
            return
        conversations = self._tenants.find(exchange.tenant.name)
        if why := await self.run(lambda: conversations.record(found, given, reply)):
            self._report(exchange, given, why)

    def _forget(self, key: SessionKey, done: "asyncio.Task[None]", size: int) -> None:
        self._running.discard(done)
        self._waiting_bytes -= size
        replies = self._replies.get(key, set())
        replies.discard(done)
        if not replies:
            self._replies.pop(key, None)
        if not done.cancelled() and (problem := done.exception()) is not None:
            self._metrics.degrade(f"a reply was not recorded: {type(problem).__name__}")

    def _report(self, exchange: HttpExchange, given: ClientRequest, why: str) -> None:
        self._metrics.degrade(why)
        self._late[_key(exchange, given)] = f"before this: {why}"
        while len(self._late) > MAX_LATE_NOTES:
            self._late.popitem(last=False)

    async def close(self) -> None:
        """When all replies are recorded."""
        while self.is_busy:
            await asyncio.wait(self._running)
        await self._workers.close()


def _key(exchange: HttpExchange, given: ClientRequest) -> SessionKey:
    return SessionKey(exchange.tenant.name, given.scope)
