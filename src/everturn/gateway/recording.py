"""Records what is relayed, beside the relay: in the order of each conversation.

A request that continues a conversation in memory is recorded there at once, and written with its reply, or
after a moment. Everything else happens in worker threads: a disk, or a database, may be slow. A request that
arrives waits, for its record only, until the replies before it in its session are recorded.
Nothing that fails here reaches the client, except as a note in a header.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

from everturn.adapters.tracking import PreparedCall
from everturn.adapters.tracking.conversation import TrackedConversation
from everturn.gateway.exchange import HttpExchange
from everturn.gateway.limits import Limits
from everturn.gateway.metrics import GatewayMetrics
from everturn.gateway.tenants import (
    MAX_COUNT_BYTES,
    ClientRequest,
    NotUnderstood,
    RelayedReply,
    TenantConversations,
    Tenants,
)
from everturn.gateway.workers import WorkerThreads

T = TypeVar("T")
# Stands for the conversation in a response that begins before its request is recorded.
PENDING: Final = "pending"
# The disk is full, or somebody has removed the file.
NOT_KEPT: Final = "in memory only: the transcript cannot be written"

# A thread waits while a summary is written, and while another request of its conversation is prepared.
MAX_THREADS: Final = 128
MAX_LATE_NOTES: Final = 1000
# A reply that takes longer to be recorded than this is not waited for.
MAX_WAIT: Final = 30.0
# Counts that are planned at the same time, and the bytes of their lists; further ones wait. Our choice.
MAX_COUNTS: Final = 16
MAX_COUNTS_BYTES: Final = MAX_COUNT_BYTES
# A request whose reply takes longer than this is written without it. Our choice.
MAX_UNWRITTEN: Final = 0.5


# A request that is prepared, or will be.
Call = PreparedCall | NotUnderstood | asyncio.Task[PreparedCall | NotUnderstood]


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
        # What is being recorded; of replies, also by session. Each results in why it was not, or "".
        self._replies: dict[SessionKey, set[asyncio.Future[str]]] = {}
        self._running: set[asyncio.Future[Any]] = set()
        # Requests that wait to be recorded, and the bytes of what waits.
        self._observing = 0
        self._waiting_bytes = 0
        # Counts that are planned, their bytes, and those that wait until there is room.
        self._counts = 0
        self._count_bytes = 0
        self._waiting_counts: deque[asyncio.Future[None]] = deque()
        # Conversations with a request that is not written yet, and what will write it.
        self._unwritten: dict[TrackedConversation, asyncio.TimerHandle] = {}
        # What went wrong after a response had begun, for the next response of the session.
        self._late: OrderedDict[SessionKey, str] = OrderedDict()

    @property
    def is_busy(self) -> bool:
        """Whether replies wait to be recorded."""
        return bool(self._running)

    async def run(self, work: Callable[[], T]) -> T:
        """Run something in a worker thread."""
        return await self._workers.run(work)

    async def run_count(self, given: ClientRequest, work: Callable[[], T]) -> T:
        """Run something for a count in a worker thread, when there is room for its list. Work that has begun
        takes its room until it ends, also if nobody waits for it any more."""
        # What a compressed list has in it is not known yet.
        size = MAX_COUNT_BYTES if given.encoding else min(len(given.body), MAX_COUNT_BYTES)
        while self._counts >= MAX_COUNTS or self._count_bytes + size > MAX_COUNTS_BYTES:
            room: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting_counts.append(room)
            try:
                await room
            except asyncio.CancelledError:
                if not room.cancelled():
                    # It was this one's turn.
                    self._admit_counts()
                raise
        self._counts += 1
        self._count_bytes += size
        working = self._workers.submit(work)
        working.add_done_callback(lambda _: self._end_count(size))
        return await asyncio.shield(working)

    def _end_count(self, size: int) -> None:
        self._counts -= 1
        self._count_bytes -= size
        self._admit_counts()

    def _admit_counts(self) -> None:
        """Each looks again whether there is room for it."""
        waiting, self._waiting_counts = self._waiting_counts, deque()
        for room in waiting:
            if not room.done():
                room.set_result(None)

    def observe(self, exchange: HttpExchange, given: ClientRequest) -> Call:
        """Record a request that is relayed as it came, or begin to."""
        conversations = self._tenants.find(exchange.tenant.name)
        found = conversations.observe_at_once(given)
        if found is None:
            return asyncio.create_task(self._observe(exchange, given))
        self.count(exchange, found)
        if isinstance(found, PreparedCall):
            self._write_later(conversations, found)
        return found

    def _write_later(self, conversations: TenantConversations, call: PreparedCall) -> None:
        if call.tracked not in self._unwritten:
            loop = asyncio.get_running_loop()
            self._unwritten[call.tracked] = loop.call_later(
                MAX_UNWRITTEN, self._write_now, conversations, call
            )

    def _write_now(self, conversations: TenantConversations, call: PreparedCall) -> None:
        self._unwritten.pop(call.tracked).cancel()
        if not call.tracked.runner.is_kept:
            writing = self._workers.submit(lambda: conversations.keep_request(call))
            self._running.add(writing)
            writing.add_done_callback(self._running.discard)

    def _note_written(self, tracked: TrackedConversation) -> None:
        """Nothing has to be written later, if a reply has brought its request along."""
        if tracked in self._unwritten and tracked.runner.is_kept:
            self._unwritten.pop(tracked).cancel()

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
            if found.tracked.transcript.is_failing:
                exchange.notes.append(NOT_KEPT)
                self._metrics.degrade(NOT_KEPT)
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
        call: Call | None,
        reply: RelayedReply,
    ) -> "asyncio.Future[str] | None":
        """Record a reply, later. `call` is its request; of a request that is not recorded, only the cost of
        the reply is counted. None if there is no time for that."""
        # The request is needed until its reply is recorded.
        size = len(given.body) + sum(map(len, reply.pieces))
        if len(self._running) >= self._limits.recordings or not self._has_room(size):
            # Of a request that was not understood, this was said before.
            if call is not None and not isinstance(call, NotUnderstood):
                self._report(exchange, given, "a reply was not recorded: too many are waiting")
            return None
        key = _key(exchange, given)
        conversations = self._tenants.find(exchange.tenant.name)
        if call is None or isinstance(call, NotUnderstood):
            recording = self._workers.submit(lambda: conversations.count_unrecorded(reply))
        elif isinstance(call, PreparedCall):
            recording = self._workers.submit(lambda: conversations.record(call, given, reply))
        else:
            recording = asyncio.create_task(self._finish(exchange, given, call, reply))
        self._running.add(recording)
        self._waiting_bytes += size
        self._replies.setdefault(key, set()).add(recording)
        recording.add_done_callback(lambda done: self._end(exchange, given, call, done, size))
        return recording

    def report_too_long(self, exchange: HttpExchange, given: ClientRequest) -> None:
        """A reply was larger than what is kept: neither it nor its cost is known."""
        self._report(exchange, given, "a reply was not recorded: it is larger than the limit reply_bytes")

    async def _finish(
        self,
        exchange: HttpExchange,
        given: ClientRequest,
        call: "asyncio.Task[PreparedCall | NotUnderstood]",
        reply: RelayedReply,
    ) -> str:
        found = await call
        conversations = self._tenants.find(exchange.tenant.name)
        if isinstance(found, NotUnderstood):
            # Where the response had begun when it failed, nobody was told yet.
            is_late = found.is_failure and exchange.session == PENDING
            await self.run(lambda: conversations.count_unrecorded(reply))
            return f"a reply was not recorded: {found.why}" if is_late else ""
        return await self.run(lambda: conversations.record(found, given, reply))

    def _end(
        self,
        exchange: HttpExchange,
        given: ClientRequest,
        call: Call | None,
        done: "asyncio.Future[str]",
        size: int,
    ) -> None:
        """A reply was recorded, or could not be."""
        key = _key(exchange, given)
        self._running.discard(done)
        self._waiting_bytes -= size
        replies = self._replies.get(key, set())
        replies.discard(done)
        if not replies:
            self._replies.pop(key, None)
        if isinstance(call, PreparedCall):
            self._note_written(call.tracked)
        if done.cancelled():
            return
        if (problem := done.exception()) is not None:
            self._metrics.degrade(f"a reply was not recorded: {type(problem).__name__}")
        elif why := done.result():
            self._report(exchange, given, why)

    def _report(self, exchange: HttpExchange, given: ClientRequest, why: str) -> None:
        self._metrics.degrade(why)
        self._late[_key(exchange, given)] = f"before this: {why}"
        while len(self._late) > MAX_LATE_NOTES:
            self._late.popitem(last=False)

    async def close(self) -> None:
        """When all replies are recorded. A request without a reply is written when its conversation is
        closed."""
        for timer in self._unwritten.values():
            timer.cancel()
        self._unwritten.clear()
        while self.is_busy:
            await asyncio.wait(self._running)
        await self._workers.close()


def _key(exchange: HttpExchange, given: ClientRequest) -> SessionKey:
    return SessionKey(exchange.tenant.name, given.scope)
