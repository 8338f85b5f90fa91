"""All conversations of one adapter: recognise each request, prepare it, record the response, add up the cost.

    request = tracker.read(body, betas)                      an `UnsupportedRequest` is sent unchanged
    call = tracker.prepare(request, send)                    the request that the adapter sends
    other = tracker.compact_after_overflow(call, send)       once, after "too long"; None: return the error
    other = tracker.undo_after_refusal(call, message, send)  once, after another 400; None: the caller's own
    tracker.record_response(call, response)                  only if a response arrived

Each method has an async variant. `send` is used for summary requests; the adapter sends the prepared request
itself. A lock per conversation lets one caller work on it at a time. The lock is not held while a response is
pending: a second request for the same conversation may arrive, and whichever response comes second is
recorded in a fork.
"""

import asyncio
import os
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from everturn.adapters.tracking.caller_request import CallerRequest, UnsupportedRequest, read_request
from everturn.adapters.tracking.chain import is_caller_message, is_reply
from everturn.adapters.tracking.conversation import PreparedCall, TrackedConversation
from everturn.adapters.tracking.effect_handler import (
    AsyncSend,
    AsyncTrackingEffectHandler,
    DeferredEffectHandler,
    TrackingEffectHandler,
)
from everturn.adapters.tracking.holds import TrackedHolds
from everturn.adapters.tracking.parts import TrackerParts
from everturn.adapters.tracking.recogniser import Recogniser
from everturn.adapters.tracking.reporter import Reporter
from everturn.decide.cache_breaks import DetectedBreak, NoBreak
from everturn.decide.economy.trust import HoldCheck
from everturn.decide.effects import AskModel
from everturn.decide.events import Event
from everturn.engine import Flow
from everturn.engine.wire import ParsedReply
from everturn.errors import EverturnError, SessionLocked, StoreError, UsageError
from everturn.history.records import Usage
from everturn.session.bill import Bill, BillPurpose, Ledger, UsageTotals, price_usage
from everturn.session.cache_break_reports import ReportNotWritten, write_cache_break_report
from everturn.session.cache_holder import HoldConnection
from everturn.session.drivers import drive, drive_async
from everturn.session.events.build import with_session
from everturn.session.store.jsonl_store import FILES_SUFFIX
from everturn.session.upstream import RawResponse, Send

T = TypeVar("T")
# Another caller may continue the conversation while this one waits for its lock. Our choice of a limit.
MAX_TRIES: Final = 100
# How old the state of an observed conversation may be. Our choice.
STATE_SECONDS: Final = 10.0
# How long a request waits for another replica to release its conversation, and how often it asks. Most leases
# are held for milliseconds; one under which a summary is written is not waited for. Our choice.
LEASE_SECONDS: Final = 2.0
LEASE_PAUSE: Final = 0.05
ALWAYS_CHANGED: Final = (
    f"Another request changed the conversation {MAX_TRIES} times while this one waited for it. Send it again."
)


class _LeaseWaits:
    """The pauses of one request while another replica writes its conversation."""

    def __init__(self) -> None:
        self._ends = time.monotonic() + LEASE_SECONDS

    def next_pause(self, locked: SessionLocked) -> float:
        if time.monotonic() > self._ends:
            raise locked
        return LEASE_PAUSE


class RequestAbandoned(EverturnError):
    """Nothing was recorded of the request: nobody waits for it any more."""


class _PaidReply(NamedTuple):
    parsed: ParsedReply
    spent: UsageTotals


class ConversationTracker:
    """The conversations of one adapter. Safe to use from threads and event loops at the same time."""

    def __init__(self, parts: TrackerParts) -> None:
        self.parts = parts
        self._ledger = Ledger()
        self._reporter = Reporter(parts)
        self._recogniser = Recogniser(parts, self._reporter, self._ledger.note)
        self._holds = TrackedHolds(
            parts,
            tell=lambda event, tracked: self._reporter.tell(with_session(event, tracked.id)),
            paid=self._add_hold,
            counters=self._recogniser.counters,
            settle=self._settle_hold,
            settle_async=self._settle_hold_async,
        )
        # Requests that were sent unchanged, by reason.
        self.unsupported: Counter[str] = Counter()
        # Held briefly, for counts and bills.
        self._guard = Lock()

    def find(self, conversation: str = "") -> TrackedConversation:
        """Find a conversation in memory by its id; without an id, the most recently used one."""
        found = [each for each in self if conversation in ("", each.id)]
        if not found:
            raise UsageError(f"No conversation {conversation!r} is in memory; see `conversations`.")
        return found[-1]

    def __iter__(self) -> Iterator[TrackedConversation]:
        """The conversations in memory, the most recently used last."""
        return iter(self._recogniser)

    def evict(self, tracked: TrackedConversation, *, even_awaiting: bool = False) -> bool:
        """Remove a conversation from memory, if nobody needs it now. It is read again when it is needed."""
        return self._recogniser.evict(tracked, even_awaiting=even_awaiting)

    @property
    def bill(self) -> Bill:
        """What all calls of this adapter have cost, including summaries."""
        return self._ledger.bill

    def read(
        self, body: Mapping[str, Any], betas: Sequence[str] = (), *, scope: str = "", observe: bool = False
    ) -> CallerRequest | UnsupportedRequest:
        """Read a caller's request; `betas` are those in its header. `scope` names who sent it, where callers
        say so. With `observe`, nothing is decided: the adapter sends the caller's own bytes."""
        read = read_request(
            body,
            betas=betas,
            breakpoints="caller" if observe else self.parts.breakpoints,
            find_prefix=self._recogniser.find_prefix,
            scope=scope,
            is_observed=observe,
        )
        if isinstance(read, UnsupportedRequest):
            with self._guard:
                self.unsupported[read.why] += 1
        return read

    def find_call(self, given: Mapping[str, Any], call: str = "") -> TrackedConversation | None:
        """The conversation whose last reply calls the recall tool like this. Without the id of the call, None
        if several do: an answer must not come from another conversation."""
        found = [each for each in self if each.has_open_recall(given, call)]
        return found[-1] if len(found) == 1 or (found and call) else None

    def rewind(self, tracked: TrackedConversation, uuid: str = "") -> list[dict[str, Any]]:
        """A fork before one of the caller's messages, by default the last one. Returns its messages."""
        return self._recogniser.rewind(tracked, uuid)

    # ── one request ──────────────────────────────────────────────────────────────────────────────

    def prepare(
        self,
        request: CallerRequest,
        send: Send,
        hold: Send | None = None,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> PreparedCall:
        """`send` asks for a summary on the caller's connection; `hold` sends holds, None if there are to be
        none. `is_wanted` is asked before the conversation is changed: requests whose caller has gone must not
        delay the others."""

        def check() -> None:
            if not is_wanted():
                raise RequestAbandoned("The caller does not wait for this request any more.")

        waits = _LeaseWaits()
        for _ in range(MAX_TRIES):
            check()
            try:
                with (
                    self._recogniser.in_use(self._recogniser.recognise(request, check)) as tracked,
                    tracked.lock.acquire(),
                ):
                    check()
                    if tracked.can_continue(request) and self._resume(tracked):
                        self._holds.connect(tracked, HoldConnection(send=hold))
                        flow = tracked.prepare_flow(
                            request, self._recogniser.settings(request, tracked.transcript)
                        )
                        return self._run_flow(tracked, flow, send)
            except SessionLocked as locked:
                time.sleep(waits.next_pause(locked))
        raise StoreError(ALWAYS_CHANGED)

    async def prepare_async(
        self, request: CallerRequest, send: AsyncSend, hold: AsyncSend | None = None
    ) -> PreparedCall:
        waits = _LeaseWaits()
        for _ in range(MAX_TRIES):
            try:
                with self._recogniser.in_use(
                    self._recogniser.find_in_memory(request)
                    or await self._recogniser.recognise_async(request)
                ) as tracked:
                    async with tracked.lock.acquire_async():
                        if tracked.can_continue(request) and await self._resume_async(tracked):
                            self._holds.connect(tracked, HoldConnection(send_async=hold))
                            flow = tracked.prepare_flow(
                                request, self._recogniser.settings(request, tracked.transcript)
                            )
                            return await self._run_flow_async(tracked, flow, send)
            except SessionLocked as locked:
                await asyncio.sleep(waits.next_pause(locked))
        raise StoreError(ALWAYS_CHANGED)

    def compact_after_overflow(self, call: PreparedCall, send: Send) -> PreparedCall | None:
        tracked = call.tracked
        with tracked.lock.acquire():
            if not self._resume(tracked):
                return None
            return self._run_flow(tracked, tracked.compact_after_overflow_flow(call), send)

    async def compact_after_overflow_async(self, call: PreparedCall, send: AsyncSend) -> PreparedCall | None:
        tracked = call.tracked
        async with tracked.lock.acquire_async():
            if not await self._resume_async(tracked):
                return None
            return await self._run_flow_async(tracked, tracked.compact_after_overflow_flow(call), send)

    def undo_after_refusal(self, call: PreparedCall, refusal: str, send: Send) -> PreparedCall | None:
        tracked = call.tracked
        with tracked.lock.acquire():
            if not self._resume(tracked):
                return None
            return self._run_flow(tracked, tracked.undo_after_refusal_flow(call, refusal), send)

    async def undo_after_refusal_async(
        self, call: PreparedCall, refusal: str, send: AsyncSend
    ) -> PreparedCall | None:
        tracked = call.tracked
        async with tracked.lock.acquire_async():
            if not await self._resume_async(tracked):
                return None
            return await self._run_flow_async(tracked, tracked.undo_after_refusal_flow(call, refusal), send)

    def record_response(self, call: PreparedCall, raw: RawResponse) -> None:
        waits = _LeaseWaits()
        with call.tracked.lock.acquire():
            reply = self._read_reply(call, raw)
            while reply is not None:
                try:
                    self._resume(call.tracked)
                    self._record(call, reply)
                    break
                except SessionLocked as locked:
                    time.sleep(waits.next_pause(locked))
            call.tracked.transcript.release()

    async def record_response_async(self, call: PreparedCall, raw: RawResponse) -> None:
        waits = _LeaseWaits()
        async with call.tracked.lock.acquire_async():
            reply = self._read_reply(call, raw)
            while reply is not None:
                try:
                    await self._resume_async(call.tracked)
                    self._record(call, reply)
                    break
                except SessionLocked as locked:
                    await asyncio.sleep(waits.next_pause(locked))
            call.tracked.transcript.release()

    def _resume(self, tracked: TrackedConversation) -> bool:
        """Before a conversation is changed: False if another replica has continued it since. What this one
        has in memory is then of no use; the store has all of it."""
        if tracked.transcript.resume():
            return True
        self._recogniser.forget(tracked)
        return False

    async def _resume_async(self, tracked: TrackedConversation) -> bool:
        """The same without blocking the event loop while a database is asked."""
        return not tracked.transcript.is_shared or await asyncio.to_thread(self._resume, tracked)

    def record_partial(self, call: PreparedCall, raw: RawResponse) -> None:
        """Keep what arrived of a response that was cut off: it is paid, and stored beside the transcript. It
        is not part of the conversation: the next request shows what the caller kept of it."""
        tracked = call.tracked
        reply = tracked.wire.parse_reply(raw.body, request_id=raw.request_id).response.reply
        spent = price_usage(reply.usage or Usage(), reply.model, self.parts.clock().date())
        with tracked.lock.acquire():
            self._add_to("conversation", spent, self._ledger, tracked.ledger)
            if tracked.transcript.store is not None:
                name = f"partial-{reply.message_id or self.parts.new_id()}.json"
                tracked.transcript.store.write_blob(name, raw.body)

    # ── responses ────────────────────────────────────────────────────────────────────────────────

    def _read_reply(self, call: PreparedCall, raw: RawResponse) -> _PaidReply | None:
        """The reply, which is paid; None if there is nothing to record."""
        try:
            parsed = call.tracked.wire.parse_reply(raw.body, request_id=raw.request_id)
        except msgspec.DecodeError as problem:
            # The provider's fault: the caller has the same bytes, and asks again or gives up.
            self._reporter.report_problem(
                "the provider's answer could not be read and is not recorded", str(problem)
            )
            return None
        response = parsed.response
        usage = response.reply.usage or Usage()
        spent = price_usage(usage, response.reply.model, self.parts.clock().date())
        self._add_to("conversation", spent, self._ledger)
        # An empty reply is not recorded: the next request shows what the caller kept of it.
        return _PaidReply(parsed, spent) if response.blocks else None

    def _record(self, call: PreparedCall, reply: _PaidReply) -> None:
        tracked = call.tracked
        if tracked.is_evicted and self._record_in_store(call, reply):
            return
        if not tracked.is_waiting_for(call) or tracked.is_evicted:
            tracked = self._recogniser.fork(
                call.request, tracked, tracked.known.first(call.links), call.records
            )
        self._record_in(tracked, call, reply)

    def _record_in_store(self, call: PreparedCall, reply: _PaidReply) -> bool:
        """For a conversation that was removed from memory, because of an error or because another replica has
        continued it: record the reply where the store has its request. False if a fork has to be made."""
        for _ in range(MAX_TRIES):
            again = self._recogniser.load_again(call)
            if again is None:
                return False
            with self._recogniser.in_use(again), again.lock.acquire():
                if not self._resume(again):
                    continue
                after = again.records[call.records :]
                if len(again.records) >= call.records and not any(map(is_caller_message, after)):
                    # Another replica that got the same request may have compacted the conversation.
                    self._record_in(again, call, reply)
                    return True
                again.transcript.release()
                # The caller's next request has brought it, or the caller got another reply to this one.
                return is_reply(after, reply.parsed.response.blocks)
        raise StoreError(ALWAYS_CHANGED)

    def _record_in(self, tracked: TrackedConversation, call: PreparedCall, reply: _PaidReply) -> None:
        with self._forget_on_error(tracked):
            recorded = tracked.record_response(call, reply.parsed)
            self._report_break(tracked, recorded.verdict)
            self._begin_holds(tracked, call, recorded.hold_check)
            if call.request.is_in_thread:
                tracked.keep_preamble()
            self._add_to("conversation", reply.spent, tracked.ledger)
        # An observed call has decided nothing: what the state says of it only helps to explain later ones.
        is_recent = time.monotonic() - tracked.state_written < STATE_SECONDS
        tracked.is_state_owed = call.request.is_observed and is_recent
        if not tracked.is_state_owed:
            tracked.write_state()
        tracked.transcript.release()

    def _begin_holds(self, tracked: TrackedConversation, call: PreparedCall, check: HoldCheck | None) -> None:
        try:
            if tracked is not call.tracked:
                tracked.hold_connection = call.tracked.hold_connection
            self._holds.begin(tracked, call, check)
        except Exception as problem:
            # The reply is recorded; a pause without holds only costs money.
            self._reporter.report_problem("holds could not be planned", repr(problem))

    def _add_hold(self, tracked: TrackedConversation, usage: Usage) -> None:
        model = tracked.runner.conversation.setting.model.id
        spent = price_usage(usage, model, self.parts.clock().date())
        self._add_to("hold", spent, self._ledger, tracked.ledger)

    def _settle_hold(self, tracked: TrackedConversation, collect: Callable[[], object]) -> None:
        """After a hold was answered, in its own thread. While a reply is awaited, nothing is touched: the
        hold is collected with the next request."""
        with tracked.lock.acquire():
            if tracked.is_evicted or tracked.is_awaiting_reply or not self._resume(tracked):
                return
            collect()
            tracked.write_state()
            tracked.transcript.release()

    async def _settle_hold_async(self, tracked: TrackedConversation, collect: Callable[[], object]) -> None:
        async with tracked.lock.acquire_async():
            if tracked.is_evicted or tracked.is_awaiting_reply or not await self._resume_async(tracked):
                return
            collect()
            tracked.write_state()
            tracked.transcript.release()

    def _add_to(self, purpose: BillPurpose, spent: UsageTotals, *ledgers: Ledger) -> None:
        # Adding to a total reads and then writes it: one thread at a time.
        with self._guard:
            for ledger in ledgers:
                ledger.add(purpose, spent)

    def _report_break(self, tracked: TrackedConversation, verdict: DetectedBreak | NoBreak) -> None:
        """Write the difference between the two prompts to a file, if there is a transcript (CB-4)."""
        if not isinstance(verdict, DetectedBreak):
            return
        conversation = tracked.runner.conversation
        preambles = conversation.detector.preambles(conversation.setting.source)
        if preambles is not None and tracked.transcript.store is not None:
            folder = Path(tracked.transcript.path + FILES_SUFFIX)
            written = write_cache_break_report(verdict, preambles, folder, at=self.parts.clock())
            if isinstance(written, ReportNotWritten):
                self._reporter.report_problem("a cache break report could not be written", written.why)

    def close(self) -> None:
        self._holds.close()
        self._recogniser.close()

    def report_failure(
        self, problem: Exception, call: PreparedCall | None = None, *, why: str = "everturn failed"
    ) -> None:
        """Report that everturn failed and the caller's own request is sent instead. The conversation in
        memory may be incomplete, so it is removed and read from its file when it is needed again."""
        self._reporter.report_problem(f"{why}; the caller's request was sent unchanged", repr(problem))
        if call is not None:
            self._recogniser.forget(call.tracked)

    def report_problem(self, why: str, detail: str = "") -> None:
        self._reporter.report_problem(why, detail)

    # ── running flows ────────────────────────────────────────────────────────────────────────────

    def _run_flow(self, tracked: TrackedConversation, flow: Flow[T], send: Send) -> T:
        handler = DeferredEffectHandler(lambda: TrackingEffectHandler(send, **self._handler_options(tracked)))
        with self._forget_on_error(tracked):
            done = drive(flow, handler, tracked.runner.keep_appended)
        tracked.transcript.release()
        return done

    async def _run_flow_async(self, tracked: TrackedConversation, flow: Flow[T], send: AsyncSend) -> T:
        handler = DeferredEffectHandler(
            lambda: AsyncTrackingEffectHandler(send, **self._handler_options(tracked))
        )
        with self._forget_on_error(tracked):
            done = await drive_async(flow, handler, tracked.runner.keep_appended)
        tracked.transcript.release()
        return done

    @contextmanager
    def _forget_on_error(self, tracked: TrackedConversation) -> Generator[None, None, None]:
        """After an error the conversation in memory may be incomplete: remove it, and read its file later."""
        try:
            yield
        except Exception:
            self._recogniser.forget(tracked)
            raise
        self._recogniser.remember(tracked)

    def _handler_options(self, tracked: TrackedConversation) -> dict[str, Any]:
        def add_usage(effect: AskModel, usage: Usage) -> None:
            spent = price_usage(usage, effect.request.model, self.parts.clock().date())
            self._add_to(effect.purpose, spent, self._ledger, tracked.ledger)

        def tell(event: Event) -> None:
            self._reporter.tell(with_session(event, tracked.id))

        payload = {"session_id": tracked.id, "transcript_path": tracked.transcript.path, "cwd": os.getcwd()}
        hooks = self.parts.hooks
        return {
            "folder": Path(tracked.transcript.path + FILES_SUFFIX),
            "readable": self.parts.readable,
            "hooks": msgspec.structs.replace(hooks, told={**payload, **hooks.told}),
            "listen": tell,
            "on_usage": add_usage,
            "moment": tracked.event_context,
        }
