"""All conversations of one adapter: recognise each request, prepare it, record the response, add up the cost.

    request = tracker.read(body, betas)                      an `UnsupportedRequest` is sent unchanged
    call = tracker.prepare(request, send)                    the request that the adapter sends
    other = tracker.compact_after_overflow(call, send)       once, after "too long"; None: return the error
    other = tracker.undo_after_refusal(call, message, send)  once, after another 400; None: the caller's own
    tracker.record_response(call, response)                  only if a response arrived

Most methods have an async variant. `send` is used for summary requests; the adapter sends the prepared
request itself. A lock per conversation lets one caller work on it at a time. The lock is not held while a
response is pending: a second request for the same conversation may arrive, and whichever response comes
second is recorded in a fork.
"""

import asyncio
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Final, TypeVar

import msgspec

from everturn.adapters.tracking.adapter_bill import AdapterBill
from everturn.adapters.tracking.caller_request import CallerRequest, UnsupportedRequest, read_request
from everturn.adapters.tracking.conversation import PreparedCall, TrackedConversation
from everturn.adapters.tracking.counting import CountPlan
from everturn.adapters.tracking.effect_handler import (
    AsyncSend,
    AsyncTrackingEffectHandler,
    DeferredEffectHandler,
    TrackingEffectHandler,
)
from everturn.adapters.tracking.holds import TrackedHolds
from everturn.adapters.tracking.loaded_conversations import ALWAYS_CHANGED, MAX_TRIES, LoadedConversations
from everturn.adapters.tracking.parts import TrackerParts
from everturn.adapters.tracking.recogniser import Recogniser
from everturn.adapters.tracking.reporter import Reporter
from everturn.adapters.tracking.response_recorder import ResponseRecorder
from everturn.decide.effects import AskModel
from everturn.decide.events import Event
from everturn.engine import Flow
from everturn.errors import EverturnError, SessionLocked, StoreError, UsageError
from everturn.history.records import Usage
from everturn.session.bill import Bill, UsageTotals
from everturn.session.cache_holder import HoldConnection
from everturn.session.drivers import drive, drive_async
from everturn.session.events.build import with_session
from everturn.session.store.jsonl_store import FILES_SUFFIX
from everturn.session.upstream import RawResponse, Send

T = TypeVar("T")
# How long a request waits for another replica to release its conversation, and how often it asks. Most leases
# are held for milliseconds; one under which a summary is written is not waited for. Our choice.
LEASE_SECONDS: Final = 2.0
LEASE_PAUSE: Final = 0.05
# What became of a call when everturn failed.
SENT_UNCHANGED: Final = "the caller's request was sent unchanged"
REFUSAL_RETURNED: Final = "the API's refusal was returned"
NOT_WRITTEN: Final = "the request was not written"
NOT_RECORDED: Final = "the reply was not recorded"
NOT_PAID: Final = "a reply to an unchanged request is not in the bill"


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


class ConversationTracker:
    """The conversations of one adapter. Safe to use from threads and event loops at the same time."""

    def __init__(self, parts: TrackerParts) -> None:
        self.parts = parts
        self._bill = AdapterBill(parts.clock)
        self._reporter = Reporter(parts)
        self._loaded = LoadedConversations(parts.options.limits.conversations)
        self._recogniser = Recogniser(parts, self._loaded, self._reporter, self._bill.note)
        self._holds = TrackedHolds(parts, self._loaded, self._bill, self._reporter, self._recogniser.counters)
        self._recorder = ResponseRecorder(
            parts, self._loaded, self._recogniser, self._bill, self._holds, self._reporter
        )
        # Requests that were sent unchanged, by reason.
        self.unsupported: Counter[str] = Counter()
        self._unsupported_guard = Lock()

    # ── one request ──────────────────────────────────────────────────────────────────────────────

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
            with self._unsupported_guard:
                self.unsupported[read.why] += 1
        return read

    def plan_count(
        self,
        body: Mapping[str, Any],
        betas: Sequence[str] = (),
        *,
        scope: str = "",
        ends: float | None = None,
    ) -> CountPlan | None:
        """What to count for a caller's list, without changing anything; None for the list as it came. Files
        may be read, and a conversation that somebody works on is waited for: until `ends`, by the monotonic
        clock, if that is given; raises `ConversationBusy` then."""
        read = read_request(
            body,
            betas=betas,
            breakpoints=self.parts.breakpoints,
            find_prefix=self._recogniser.find_prefix,
            scope=scope,
        )
        if isinstance(read, UnsupportedRequest):
            return None
        factory = self._recogniser.factory
        return CountPlan(read, self._recogniser.find_records(read, ends), factory.binds_thinking(read))

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
                    self._loaded.in_use(self._recogniser.recognise(request, check)) as tracked,
                    tracked.lock.acquire(),
                ):
                    check()
                    if tracked.can_continue(request) and self._loaded.resume(tracked):
                        flow = self._prepare_flow(tracked, request, HoldConnection(send=hold))
                        return self._run_flow(tracked, flow, send)
            except SessionLocked as locked:
                time.sleep(waits.next_pause(locked))
        raise StoreError(ALWAYS_CHANGED)

    def observe_at_once(self, request: CallerRequest) -> PreparedCall | None:
        """`prepare` of an observed request for a caller that may not wait, such as an event loop: for nobody
        who works on the conversation, and for no file. None if it cannot be done like that. The request is
        written with its response, or by `keep_request`."""

        def observe(tracked: TrackedConversation) -> PreparedCall | None:
            if not tracked.can_observe(request):
                return None
            settings = self._recogniser.factory.settings(request, tracked.transcript)
            return tracked.observe(request, settings)

        call = None if self._holds.is_on else self._loaded.work_at_once(request, observe)
        if call is not None:
            self._recogniser.count_call(call.tracked)
        return call

    def keep_request(self, call: PreparedCall) -> None:
        """Write a request that waits for its response."""
        with call.tracked.lock.acquire(), self._loaded.forget_on_error(call.tracked):
            if not call.tracked.is_evicted:
                call.tracked.runner.keep_appended()

    async def prepare_async(
        self, request: CallerRequest, send: AsyncSend, hold: AsyncSend | None = None
    ) -> PreparedCall:
        waits = _LeaseWaits()
        for _ in range(MAX_TRIES):
            try:
                with self._loaded.in_use(await self._recogniser.recognise_async(request)) as tracked:
                    async with tracked.lock.acquire_async():
                        if tracked.can_continue(request) and await self._loaded.resume_async(tracked):
                            flow = self._prepare_flow(tracked, request, HoldConnection(send_async=hold))
                            return await self._run_flow_async(tracked, flow, send)
            except SessionLocked as locked:
                await asyncio.sleep(waits.next_pause(locked))
        raise StoreError(ALWAYS_CHANGED)

    def _prepare_flow(
        self, tracked: TrackedConversation, request: CallerRequest, connection: HoldConnection
    ) -> Flow[PreparedCall]:
        self._holds.connect(tracked, connection)
        settings = self._recogniser.factory.settings(request, tracked.transcript)
        return tracked.prepare_flow(request, settings)

    def compact_after_overflow(self, call: PreparedCall, send: Send) -> PreparedCall | None:
        return self._prepare_again(call, call.tracked.compact_after_overflow_flow(call), send)

    async def compact_after_overflow_async(self, call: PreparedCall, send: AsyncSend) -> PreparedCall | None:
        flow = call.tracked.compact_after_overflow_flow(call)
        return await self._prepare_again_async(call, flow, send)

    def undo_after_refusal(self, call: PreparedCall, refusal: str, send: Send) -> PreparedCall | None:
        return self._prepare_again(call, call.tracked.undo_after_refusal_flow(call, refusal), send)

    async def undo_after_refusal_async(
        self, call: PreparedCall, refusal: str, send: AsyncSend
    ) -> PreparedCall | None:
        flow = call.tracked.undo_after_refusal_flow(call, refusal)
        return await self._prepare_again_async(call, flow, send)

    def _prepare_again(
        self, call: PreparedCall, flow: Flow[PreparedCall | None], send: Send
    ) -> PreparedCall | None:
        """Run a flow that changes a refused request; None if another replica has continued since."""
        with call.tracked.lock.acquire():
            if not self._loaded.resume(call.tracked):
                return None
            return self._run_flow(call.tracked, flow, send)

    async def _prepare_again_async(
        self, call: PreparedCall, flow: Flow[PreparedCall | None], send: AsyncSend
    ) -> PreparedCall | None:
        async with call.tracked.lock.acquire_async():
            if not await self._loaded.resume_async(call.tracked):
                return None
            return await self._run_flow_async(call.tracked, flow, send)

    def record_response(self, call: PreparedCall, raw: RawResponse) -> UsageTotals | None:
        """Returns what it has cost; None if it could not be read, or has nothing in it."""
        waits = _LeaseWaits()
        with call.tracked.lock.acquire():
            reply = self._recorder.read(call, raw)
            while reply is not None:
                try:
                    self._loaded.resume(call.tracked)
                    self._recorder.record(call, reply)
                    break
                except SessionLocked as locked:
                    time.sleep(waits.next_pause(locked))
            call.tracked.transcript.release()
        return reply.spent if reply is not None else None

    async def record_response_async(self, call: PreparedCall, raw: RawResponse) -> None:
        waits = _LeaseWaits()
        async with call.tracked.lock.acquire_async():
            reply = self._recorder.read(call, raw)
            while reply is not None:
                try:
                    await self._loaded.resume_async(call.tracked)
                    self._recorder.record(call, reply)
                    break
                except SessionLocked as locked:
                    await asyncio.sleep(waits.next_pause(locked))
            call.tracked.transcript.release()

    def record_partial(self, call: PreparedCall, raw: RawResponse) -> None:
        """Keep what arrived of a response that was cut off. It is paid, and not part of the conversation."""
        self._recorder.record_partial(call, raw)

    def pay_abandoned(self, call: PreparedCall, raw: RawResponse) -> None:
        """The caller has stopped reading a response: what is known of its usage is paid, and nothing of it is
        kept. Does not wait for the conversation."""
        self._recorder.pay_abandoned(call, raw)

    def note_lost_reply(self) -> None:
        """A reply has ended before it has said what it used."""
        self._bill.note_lost_reply()

    def pay_unchanged(self, body: bytes) -> None:
        """A caller's own request was answered that everturn did not read or could not prepare: what is known
        of its usage is paid. It belongs to no conversation."""
        self._bill.pay_unchanged(body)

    def report_failure(
        self,
        problem: Exception,
        call: PreparedCall | None = None,
        *,
        why: str = "everturn failed",
        outcome: str = SENT_UNCHANGED,
    ) -> None:
        """Report that everturn failed, and what became of the call. The conversation in memory may be
        incomplete, so it is removed and read from its file when it is needed again."""
        self._reporter.report_problem(f"{why}; {outcome}", repr(problem))
        if call is not None:
            self._loaded.forget(call.tracked)

    def report_problem(self, why: str, detail: str = "") -> None:
        self._reporter.report_problem(why, detail)

    # ── the conversations ────────────────────────────────────────────────────────────────────────

    def __iter__(self) -> Iterator[TrackedConversation]:
        """The conversations in memory, the most recently used last."""
        return iter(self._loaded)

    def find(self, conversation: str = "") -> TrackedConversation:
        """Find a conversation in memory by its id; without an id, the most recently used one."""
        found = [each for each in self if conversation in ("", each.id)]
        if not found:
            raise UsageError(f"No conversation {conversation!r} is in memory; see `conversations`.")
        return found[-1]

    def find_call(self, given: Mapping[str, Any], call: str = "") -> TrackedConversation | None:
        """The conversation whose last reply calls the recall tool like this. Without the id of the call, None
        if several do: an answer must not come from another conversation."""
        found = [each for each in self if each.has_open_recall(given, call)]
        return found[-1] if len(found) == 1 or (found and call) else None

    def rewind(self, tracked: TrackedConversation, uuid: str = "") -> TrackedConversation | None:
        """A fork before one of the caller's messages, by default the last one; None if it was the first."""
        return self._recogniser.rewind(tracked, uuid)

    def evict(self, tracked: TrackedConversation, *, even_awaiting: bool = False) -> bool:
        """Remove a conversation from memory, if nobody needs it now. It is read again when it is needed."""
        return self._loaded.evict(tracked, even_awaiting=even_awaiting)

    @property
    def bill(self) -> Bill:
        """What all calls of this adapter have cost, including summaries."""
        return self._bill.bill

    def close(self) -> None:
        self._holds.close()
        self._recogniser.close()

    # ── running flows ────────────────────────────────────────────────────────────────────────────

    def _run_flow(self, tracked: TrackedConversation, flow: Flow[T], send: Send) -> T:
        handler = DeferredEffectHandler(lambda: TrackingEffectHandler(send, **self._handler_options(tracked)))
        with self._loaded.forget_on_error(tracked):
            done = drive(flow, handler, tracked.runner.keep_appended)
        tracked.transcript.release()
        return done

    async def _run_flow_async(self, tracked: TrackedConversation, flow: Flow[T], send: AsyncSend) -> T:
        handler = DeferredEffectHandler(
            lambda: AsyncTrackingEffectHandler(send, **self._handler_options(tracked))
        )
        with self._loaded.forget_on_error(tracked):
            done = await drive_async(flow, handler, tracked.runner.keep_appended)
        tracked.transcript.release()
        return done

    def _handler_options(self, tracked: TrackedConversation) -> dict[str, Any]:
        def add_usage(effect: AskModel, usage: Usage, model: str) -> None:
            self._bill.pay(effect.purpose, usage, model, tracked)

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
            "encode": tracked.encode_summary,
        }
