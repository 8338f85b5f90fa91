"""All conversations of one adapter: recognise each request, prepare it, record the response, add up the cost.

    request = tracker.read(body, betas)                      an `UnsupportedRequest` is sent unchanged
    call = tracker.prepare(request, send)                    the request that the adapter sends
    other = tracker.compact_after_overflow(call, send)       once, after "too long"; None: return the error
    tracker.record_response(call, response)                  only if a response arrived

Each method has an async variant. `send` is used for summary requests; the adapter sends the prepared request
itself. A lock per conversation lets one caller work on it at a time. The lock is not held while a response is
pending: a second request for the same conversation may arrive, and whichever response comes second is
recorded in a fork.
"""

import asyncio
import logging
import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock, RLock
from typing import Any, Final, TypeVar

import msgspec

from everturn.adapters.tracking.caller_request import (
    CallerRequest,
    KnownPrefix,
    UnsupportedRequest,
    read_request,
)
from everturn.adapters.tracking.chain import build_record_chain, common_prefix_length
from everturn.adapters.tracking.conversation import PreparedCall, TrackedConversation
from everturn.adapters.tracking.effect_handler import (
    AsyncSend,
    AsyncTrackingEffectHandler,
    TrackingEffectHandler,
    refuse_to_send,
)
from everturn.adapters.tracking.known_conversations import ConversationMatch, KnownConversations
from everturn.adapters.tracking.parts import TrackerParts
from everturn.adapters.tracking.transcript_folder import TranscriptFile, TranscriptFolder
from everturn.decide.cache_breaks import Baseline, CacheBreakDetector, DetectedBreak
from everturn.decide.effects import AskModel
from everturn.decide.events import Event, EventContext, PassedThrough
from everturn.engine import Conversation, ConversationSettings, Flow
from everturn.errors import StoreError, UsageError
from everturn.history.records import Record, Usage
from everturn.session.bill import Bill, BillPurpose, Ledger, UsageTotals
from everturn.session.cache_break_reports import ReportNotWritten, write_cache_break_report
from everturn.session.conversation_runner import ConversationRunner, Exchange
from everturn.session.drivers import drive, drive_async
from everturn.session.events.build import build_sinks, with_session
from everturn.session.state_file import SessionState, read_state, write_state
from everturn.session.store.jsonl_store import FILES_SUFFIX
from everturn.session.upstream import RawResponse, Send
from everturn.wire.anthropic import read_response

T = TypeVar("T")
Asides = Mapping[BillPurpose, UsageTotals]
# Another caller may continue the conversation while this one waits for its lock. Our choice of a limit.
MAX_TRIES: Final = 100
ALWAYS_CHANGED: Final = (
    f"Another request changed the conversation {MAX_TRIES} times while this one waited for it. Send it again."
)
log: Final = logging.getLogger("everturn")


class ConversationTracker:
    """The conversations of one adapter. Safe to use from threads and event loops at the same time."""

    def __init__(self, parts: TrackerParts) -> None:
        self.parts = parts
        self._known = KnownConversations()
        self._transcripts = TranscriptFolder(parts.folder, self.report_problem)
        self._ledger = Ledger()
        # `_guard` is held briefly, for state in memory; `_load_lock` while conversations are read from files.
        self._guard = RLock()
        self._load_lock = Lock()
        self._warned: set[str] = set()
        # No transcript sink: it writes to one transcript, and there are many here. Others get a session id.
        self._sinks = build_sinks(
            msgspec.structs.replace(parts.options.events, transcript=False),
            append=lambda _: None,
            new_id=parts.new_id,
            last=lambda: None,
            report=lambda problem: log.warning("everturn: the event sink %s %s", problem.sink, problem.what),
        )
        for note in parts.notes:
            log.warning("everturn: %s", note)

    def find(self, conversation: str = "") -> TrackedConversation:
        """Find a conversation in memory by its id; without an id, the most recently used one."""
        found = [each for each in self if conversation in ("", each.id)]
        if not found:
            raise UsageError(f"No conversation {conversation!r} is in memory; see `conversations`.")
        return found[-1]

    def __iter__(self) -> Iterator[TrackedConversation]:
        """The conversations in memory, the most recently used last."""
        return iter(self._known)

    @property
    def bill(self) -> Bill:
        """What all calls of this adapter have cost, including summaries."""
        return self._ledger.bill

    def read(self, body: Mapping[str, Any], betas: Sequence[str] = ()) -> CallerRequest | UnsupportedRequest:
        """Read a caller's request; `betas` are those in its header."""
        return read_request(
            body, betas=betas, breakpoints=self.parts.breakpoints, find_prefix=self._find_known_prefix
        )

    def _find_known_prefix(self, reply: str) -> KnownPrefix | None:
        with self._guard:
            found = self._known.find_reply(reply)
        if found is None:
            return None
        tracked = found.tracked
        return KnownPrefix(tuple(tracked.chain[: found.links]), tracked.preamble, tracked.preamble_digest)

    # ── one request ──────────────────────────────────────────────────────────────────────────────

    def prepare(self, request: CallerRequest, send: Send) -> PreparedCall:
        for _ in range(MAX_TRIES):
            with self._in_use(self.recognise(request)) as tracked, tracked.lock.acquire():
                if tracked.can_continue(request):
                    flow = tracked.prepare_flow(request, self._settings(request, tracked.transcript))
                    return self._run_flow(tracked, flow, send)
        raise StoreError(ALWAYS_CHANGED)

    async def prepare_async(self, request: CallerRequest, send: AsyncSend) -> PreparedCall:
        for _ in range(MAX_TRIES):
            with self._in_use(
                self.find_in_memory(request) or await self._recognise_async(request)
            ) as tracked:
                async with tracked.lock.acquire_async():
                    if tracked.can_continue(request):
                        flow = tracked.prepare_flow(request, self._settings(request, tracked.transcript))
                        return await self._run_flow_async(tracked, flow, send)
        raise StoreError(ALWAYS_CHANGED)

    def compact_after_overflow(self, call: PreparedCall, send: Send) -> PreparedCall | None:
        tracked = call.tracked
        with tracked.lock.acquire():
            return self._run_flow(tracked, tracked.compact_after_overflow_flow(call), send)

    async def compact_after_overflow_async(self, call: PreparedCall, send: AsyncSend) -> PreparedCall | None:
        tracked = call.tracked
        async with tracked.lock.acquire_async():
            return await self._run_flow_async(tracked, tracked.compact_after_overflow_flow(call), send)

    def record_response(self, call: PreparedCall, raw: RawResponse) -> None:
        with call.tracked.lock.acquire():
            self._record(call, raw)

    async def record_response_async(self, call: PreparedCall, raw: RawResponse) -> None:
        async with call.tracked.lock.acquire_async():
            self._record(call, raw)

    # ── recognising conversations ────────────────────────────────────────────────────────────────

    def recognise(self, request: CallerRequest) -> TrackedConversation:
        """Find or create the conversation of this request: in memory, read from its file, a fork, or new.
        Only a conversation in memory needs no disk access. The caller counts as a user, see `_in_use`."""
        if (tracked := self.find_in_memory(request)) is not None:
            return tracked
        with self._load_lock:
            # Another caller may have loaded it while this one waited.
            if (tracked := self.find_in_memory(request)) is None:
                tracked = self._load_or_create(request)
                with self._guard:
                    tracked.users += 1
                    self._remember(tracked)
            return tracked

    def find_in_memory(self, request: CallerRequest) -> TrackedConversation | None:
        """The conversation in memory that this request continues, if there is one. The caller then counts as
        a user of it and must release it with `_in_use`."""
        with self._guard:
            found = self._known.find(request.chain, request.preamble_digest)
            if found is None or not found.is_continuation or found.links < _last_reply(request):
                return None
            found.tracked.users += 1
            self._remember(found.tracked)
            return found.tracked

    async def _recognise_async(self, request: CallerRequest) -> TrackedConversation:
        """Recognise in a thread, because files may be read. If cancelled, release the result later."""
        loading = asyncio.ensure_future(asyncio.to_thread(self.recognise, request))
        try:
            return await asyncio.shield(loading)
        except asyncio.CancelledError:
            loading.add_done_callback(self._release)
            raise

    def _release(self, loading: "asyncio.Future[TrackedConversation]") -> None:
        if not loading.cancelled() and loading.exception() is None:
            with self._in_use(loading.result()):
                pass

    @contextmanager
    def _in_use(self, tracked: TrackedConversation) -> Generator[TrackedConversation, None, None]:
        """A conversation with users is not evicted. On exit there is one user less."""
        try:
            yield tracked
        finally:
            with self._guard:
                tracked.users -= 1

    def _load_or_create(self, request: CallerRequest) -> TrackedConversation:
        with self._guard:
            found = self._known.find(request.chain, request.preamble_digest)
        if found is None or found.links < _last_reply(request):
            found = self._find_on_disk(request, found)
        if found is None:
            return self._new(request)
        return found.tracked if found.is_continuation else self._fork(request, found.tracked, found.links)

    def _new(self, request: CallerRequest) -> TrackedConversation:
        name = self.parts.new_id()
        transcript = self._transcripts.new(request.chain[0], name, self.parts.clock())
        return self._create(name, self._conversation(request, transcript), transcript)

    def _fork(
        self, request: CallerRequest, parent: TrackedConversation, links: int, records: int | None = None
    ) -> TrackedConversation:
        """Create a conversation that starts with the parent's first records. It inherits the parent's cache
        baselines if system prompt and tools, which are part of the cache key, have not changed."""
        length = parent.records_before(links) if records is None else records
        name, shared = self.parts.new_id(), list(parent.records[:length])
        is_same = parent.had_same_preamble(links, request.preamble_digest)
        baselines = parent.runner.conversation.detector.baselines if is_same else None
        transcript = self._transcripts.new(parent.chain[0], name, self.parts.clock())
        transcript.append(shared)
        conversation = self._conversation(request, transcript, shared, baselines)
        # A fork reads less from the cache than its parent did. That is expected, not a cache break.
        conversation.detector.deleted(conversation.setting.source)
        fork = self._create(name, conversation, transcript)
        fork.inherit_preamble(parent)
        return fork

    def _conversation(
        self,
        request: CallerRequest,
        transcript: TranscriptFile,
        records: Sequence[Record] = (),
        baselines: Mapping[str, Baseline] | None = None,
    ) -> Conversation:
        detector = CacheBreakDetector(self.parts.options.cache.breaks, baselines or {})
        return Conversation(self._settings(request, transcript), records, detector=detector)

    def _settings(self, request: CallerRequest, transcript: TranscriptFile) -> ConversationSettings:
        return self.parts.settings_for(request, transcript.path)

    def _create(
        self, name: str, conversation: Conversation, transcript: TranscriptFile, asides: Asides | None = None
    ) -> TrackedConversation:
        def tell(event: Event) -> None:
            self._tell(with_session(event, name))

        runner = ConversationRunner(
            conversation,
            refuse_to_send,
            clock=self.parts.clock,
            new_id=self.parts.new_id,
            keep=transcript.append,
            tell=tell,
            session=name,
        )
        return TrackedConversation(name, runner, transcript, Ledger(conversation.log.records, asides))

    # ── after a restart ──────────────────────────────────────────────────────────────────────────

    def _find_on_disk(
        self, request: CallerRequest, found: ConversationMatch | None
    ) -> ConversationMatch | None:
        """The conversation whose file matches most of the request, if that is more than memory does."""
        best, longest = None, found.links if found else 0
        with self._guard:
            open_paths = {tracked.transcript.path for tracked in self._known}
        for transcript in self._transcripts.candidates(request.chain[0], open_paths):
            chain, before = build_record_chain(transcript.records)
            links = common_prefix_length(chain, request.chain)
            is_better = links > longest and before < links
            loser, best, longest = (best, transcript, links) if is_better else (transcript, best, longest)
            if loser is not None:
                loser.close()
        return ConversationMatch(self._resume_conversation(request, best), longest) if best else found

    def _resume_conversation(self, request: CallerRequest, transcript: TranscriptFile) -> TrackedConversation:
        state = read_state(transcript.store) if transcript.store else SessionState()
        conversation = self._conversation(request, transcript, transcript.records, state.baselines)
        conversation.compaction_state.remember(state.breaker, state.refill)
        return self._create(transcript.name, conversation, transcript, state.asides)

    # ── responses ────────────────────────────────────────────────────────────────────────────────

    def _record(self, call: PreparedCall, raw: RawResponse) -> None:
        response = read_response(raw.body, request_id=raw.request_id)
        tracked, usage = call.tracked, response.reply.usage or Usage()
        self._add_usage("conversation", usage, response.reply.model, self._ledger)
        if not response.blocks:
            # An empty reply is not recorded: the next request shows what the caller kept of it.
            return
        if not tracked.is_waiting_for(call) or tracked.is_evicted:
            tracked = self._fork(call.request, tracked, call.links, call.records)
        self._report_break(tracked, tracked.record_response(call, raw))
        self._add_usage("conversation", usage, response.reply.model, tracked.ledger)
        with self._guard:
            self._remember(tracked)
        self._write_state(tracked)

    def _add_usage(self, purpose: BillPurpose, usage: Usage, model: str, *ledgers: Ledger) -> None:
        # Adding to a total reads and then writes it: one thread at a time.
        with self._guard:
            for ledger in ledgers:
                ledger.paid(purpose, usage, model, self.parts.clock().date())

    def _report_break(self, tracked: TrackedConversation, exchange: Exchange) -> None:
        """Write the difference between the two prompts to a file, if there is a transcript (CB-4)."""
        verdict, detector = exchange.settled.verdict, tracked.runner.conversation.detector
        preambles = detector.preambles(tracked.runner.conversation.setting.source)
        if (
            isinstance(verdict, DetectedBreak)
            and preambles is not None
            and tracked.transcript.store is not None
        ):
            folder = Path(tracked.transcript.path + FILES_SUFFIX)
            written = write_cache_break_report(verdict, preambles, folder, at=self.parts.clock())
            if isinstance(written, ReportNotWritten):
                self.report_problem("a cache break report could not be written", written.why)

    def _write_state(self, tracked: TrackedConversation) -> None:
        if tracked.transcript.store is not None:
            conversation = tracked.runner.conversation
            compaction, baselines = conversation.compaction_state, dict(conversation.detector.baselines)
            state = SessionState(baselines, tracked.ledger.asides, compaction.breaker, compaction.refill)
            write_state(tracked.transcript.store, state)

    def _remember(self, tracked: TrackedConversation) -> None:
        self._known.remember(tracked)
        while (old := self._known.oldest_beyond(self.parts.options.limits.conversations)) is not None:
            self.forget(old)

    def forget(self, tracked: TrackedConversation) -> None:
        """Remove it from memory. It is read from its file again when a request continues it."""
        with self._guard:
            tracked.is_evicted = True
            self._known.forget(tracked)
            tracked.transcript.close()

    def close(self) -> None:
        for tracked in self._known:
            self.forget(tracked)

    # ── problems ─────────────────────────────────────────────────────────────────────────────────

    def report_failure(self, problem: Exception, call: PreparedCall | None = None) -> None:
        """Report that everturn failed and the caller's own request is sent instead. The conversation in
        memory may be incomplete, so it is removed and read from its file when it is needed again."""
        self.report_problem("everturn failed; the caller's request was sent unchanged", repr(problem))
        if call is not None:
            self.forget(call.tracked)

    def report_problem(self, why: str, detail: str = "") -> None:
        """Log each kind of problem once; send an event every time."""
        if why not in self._warned:
            self._warned.add(why)
            log.warning("everturn: %s%s", why, f" ({detail})" if detail else "")
        self._tell(PassedThrough(moment=EventContext(at=self.parts.clock()), why=why, detail=detail))

    def _tell(self, event: Event) -> None:
        """An error in a listener must not fail the request."""
        self._sinks(event)
        try:
            self.parts.listen(event)
        except Exception as problem:
            if "listen" not in self._warned:
                self._warned.add("listen")
                log.warning("everturn: the `listen` callback raised an error: %r", problem)

    # ── running flows ────────────────────────────────────────────────────────────────────────────

    def _run_flow(self, tracked: TrackedConversation, flow: Flow[T], send: Send) -> T:
        handler = TrackingEffectHandler(send, **self._handler_options(tracked))
        with self._forget_on_error(tracked):
            return drive(flow, handler, tracked.runner.keep_appended)

    async def _run_flow_async(self, tracked: TrackedConversation, flow: Flow[T], send: AsyncSend) -> T:
        handler = AsyncTrackingEffectHandler(send, **self._handler_options(tracked))
        with self._forget_on_error(tracked):
            return await drive_async(flow, handler, tracked.runner.keep_appended)

    @contextmanager
    def _forget_on_error(self, tracked: TrackedConversation) -> Generator[None, None, None]:
        """After an error the conversation in memory may be incomplete: remove it, and read its file later."""
        try:
            yield
        except Exception:
            self.forget(tracked)
            raise
        with self._guard:
            if not tracked.is_evicted:
                self._remember(tracked)

    def _handler_options(self, tracked: TrackedConversation) -> dict[str, Any]:
        def add_usage(effect: AskModel, usage: Usage) -> None:
            self._add_usage(effect.purpose, usage, effect.request.model, self._ledger, tracked.ledger)

        def tell(event: Event) -> None:
            self._tell(with_session(event, tracked.id))

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


def _last_reply(request: CallerRequest) -> int:
    """The number of links up to the last assistant message; 0 if there is none."""
    replies = (at for at, message in enumerate(request.messages, 1) if message["role"] == "assistant")
    return max(replies, default=0)
