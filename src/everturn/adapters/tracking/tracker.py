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
import logging
import os
from collections import Counter
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
from everturn.adapters.tracking.conversation import (
    CallerList,
    PreparedCall,
    TrackedConversation,
    read_caller_list,
)
from everturn.adapters.tracking.effect_handler import (
    AsyncSend,
    AsyncTrackingEffectHandler,
    TrackingEffectHandler,
    refuse_to_send,
)
from everturn.adapters.tracking.fork_records import take_shared_records
from everturn.adapters.tracking.fork_watch import ForkWatch, describe_difference
from everturn.adapters.tracking.known_conversations import ConversationMatch, KnownConversations
from everturn.adapters.tracking.parts import TrackerParts
from everturn.adapters.tracking.stored_conversations import StoredMatch, find_stored
from everturn.adapters.tracking.transcript_folder import TranscriptFile, TranscriptFolder
from everturn.decide.cache_breaks import Baseline, CacheBreakDetector, DetectedBreak
from everturn.decide.effects import AskModel
from everturn.decide.events import Event, EventContext, ForksRepeated, PassedThrough, TranscriptShared
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
        # Requests that were sent unchanged, by reason.
        self.unsupported: Counter[str] = Counter()
        self._ledger = Ledger()
        self._forks = ForkWatch()
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
        read = read_request(
            body, betas=betas, breakpoints=self.parts.breakpoints, find_prefix=self._find_known_prefix
        )
        if isinstance(read, UnsupportedRequest):
            with self._guard:
                self.unsupported[read.why] += 1
        return read

    def _find_known_prefix(self, reply: str) -> KnownPrefix | None:
        with self._guard:
            found = self._known.find_reply(reply)
        if found is None:
            return None
        tracked = found.tracked
        return KnownPrefix(tuple(tracked.chain[: found.links]), tracked.preamble, tracked.preamble_digest)

    def find_call(self, given: Mapping[str, Any], call: str = "") -> TrackedConversation | None:
        """The conversation whose last reply calls the recall tool like this. Without the id of the call, None
        if several do: an answer must not come from another conversation."""
        found = [each for each in self if each.has_open_recall(given, call)]
        return found[-1] if len(found) == 1 or (found and call) else None

    def rewind(self, tracked: TrackedConversation, uuid: str = "") -> list[dict[str, Any]]:
        """A fork before one of the caller's messages, by default the last one. Returns its messages."""
        with self._load_lock, tracked.lock.acquire():
            request, cut = tracked.last_request, tracked.find_message(uuid)
            if request is None:
                raise UsageError(f"The conversation {tracked.id!r} has had no request here yet.")
            shared = read_caller_list(tracked.records[:cut])
            if not shared.chain:
                return []
            fork = self._fork(request, tracked, shared, cut)
            fork.last_request = request
            with self._guard:
                self._remember(fork)
            return fork.list_messages()

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

    def undo_after_refusal(self, call: PreparedCall, refusal: str, send: Send) -> PreparedCall | None:
        tracked = call.tracked
        with tracked.lock.acquire():
            return self._run_flow(tracked, tracked.undo_after_refusal_flow(call, refusal), send)

    async def undo_after_refusal_async(
        self, call: PreparedCall, refusal: str, send: AsyncSend
    ) -> PreparedCall | None:
        tracked = call.tracked
        async with tracked.lock.acquire_async():
            return await self._run_flow_async(tracked, tracked.undo_after_refusal_flow(call, refusal), send)

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
            found = self._find_known(request)
            if found is None or not found.is_continuation or found.covered < request.last_reply:
                return None
            found.tracked.users += 1
            self._remember(found.tracked)
            self._forks.count_call(found.tracked.lineage)
            return found.tracked

    def _find_known(self, request: CallerRequest) -> ConversationMatch | None:
        """The conversation in memory that has most of this request."""
        found = self._known.find(request.chain, request.preamble_digest)
        last = request.last_reply
        if not last or (found is not None and found.is_continuation and found.covered >= last):
            return found
        return self._known.find_respelled(request) or found

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
            found = self._find_known(request)
        if found is None or found.covered < request.last_reply:
            covered = found.covered if found else 0
            stored = find_stored(self._transcripts, request, self._open_paths(), covered)
            if stored is not None and stored.transcript.is_writable:
                return self._load(request, stored)
            if stored is not None:
                return self._share(request, stored, found)
        if found is None:
            return self._new(request)
        if found.is_continuation:
            return found.tracked
        return self._fork_at(request, found.tracked, found.links)

    def _open_paths(self) -> set[str]:
        with self._guard:
            return {tracked.transcript.path for tracked in self._known}

    def _new(self, request: CallerRequest) -> TrackedConversation:
        name = self.parts.new_id()
        transcript = self._transcripts.new(request.chain[0], name, self.parts.clock())
        return self._create(name, self._conversation(request, transcript), transcript)

    def _fork_at(
        self, request: CallerRequest, parent: TrackedConversation, links: int
    ) -> TrackedConversation:
        """A fork of a conversation in memory, where the request differs from it."""
        shared = parent.fork_point(links)
        fork = self._fork(request, parent, parent.caller_list(shared), parent.records_before(shared))
        self._watch_fork(request, parent, links)
        return fork

    def _fork(
        self, request: CallerRequest, parent: TrackedConversation, shared: CallerList, cut: int
    ) -> TrackedConversation:
        """Create a conversation that starts with the parent's records before `cut`, which are `shared` in the
        caller's list. It inherits the parent's cache baselines if system prompt and tools, which are part of
        the cache key, have not changed."""
        name, records = self.parts.new_id(), take_shared_records(parent.records, cut)
        is_same = parent.had_same_preamble(len(shared.chain), request.preamble_digest)
        baselines = parent.runner.conversation.detector.baselines if is_same else None
        transcript = self._transcripts.new(request.chain[0], name, self.parts.clock())
        transcript.append(records)
        conversation = self._conversation(request, transcript, records, baselines)
        # A fork reads less from the cache than its parent did. That is expected, not a cache break.
        conversation.detector.deleted(conversation.setting.source)
        fork = self._create(name, conversation, transcript, caller_list=shared, lineage=parent.lineage)
        fork.inherit_preamble(parent)
        return fork

    def _watch_fork(self, request: CallerRequest, parent: TrackedConversation, links: int) -> None:
        """Report a caller whose lists keep differing from what it sent before (GW-11)."""
        difference = describe_difference(request, links, len(parent.chain))
        with self._guard:
            repeated = self._forks.count_fork(parent.lineage, difference)
        if repeated is None:
            return
        log.warning("everturn: %s", repeated.text)
        self._ledger.note(repeated.text)
        parent.ledger.note(repeated.text)
        self._tell(
            ForksRepeated(
                moment=EventContext(at=self.parts.clock(), session=parent.id, model=request.model),
                forks=repeated.forks,
                calls=repeated.calls,
                where=difference.where,
                difference=difference.what,
            )
        )

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
        self,
        name: str,
        conversation: Conversation,
        transcript: TranscriptFile,
        asides: Asides | None = None,
        *,
        caller_list: CallerList | None = None,
        lineage: str = "",
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
        ledger = Ledger(conversation.log.records, asides)
        return TrackedConversation(name, runner, transcript, ledger, caller_list=caller_list, lineage=lineage)

    # ── after a restart ──────────────────────────────────────────────────────────────────────────

    def _load(self, request: CallerRequest, stored: StoredMatch) -> TrackedConversation:
        """Continue a conversation from its file. If the request has only a part of it, in a fork."""
        transcript = stored.transcript
        state = read_state(transcript.store) if transcript.store else SessionState()
        conversation = self._conversation(request, transcript, transcript.records, state.baselines)
        conversation.compaction_state.remember(state.breaker, state.refill)
        name = transcript.name
        if stored.is_whole:
            return self._create(
                name, conversation, transcript, state.asides, caller_list=stored.shared, lineage=name
            )
        parent = self._create(name, conversation, transcript, state.asides)
        try:
            return self._fork(request, parent, stored.shared, stored.cut)
        finally:
            transcript.close()

    # ── several processes ────────────────────────────────────────────────────────────────────────

    def _share(
        self, request: CallerRequest, stored: StoredMatch, found: ConversationMatch | None
    ) -> TrackedConversation:
        """Continue a conversation that another process is writing, in a copy: a copy that this process made
        earlier gets the new records, otherwise a new copy is made."""
        transcript = stored.transcript
        try:
            self._report_shared(transcript)
            own = found.tracked if found and found.is_continuation else None
            if own is not None and stored.is_whole and self._catch_up(own, stored):
                return own
            conversation = self._conversation(request, transcript, transcript.records)
            parent = self._create(transcript.name, conversation, transcript)
            return self._fork(request, parent, stored.shared, stored.cut)
        finally:
            transcript.close()

    def _catch_up(self, own: TrackedConversation, stored: StoredMatch) -> bool:
        """Append what another process has recorded since this copy was made; False if the two differ."""
        records = stored.transcript.records
        with own.lock.acquire():
            known = [record.uuid for record in own.records]
            if own.is_evicted or known != [record.uuid for record in records[: len(known)]]:
                return False
            own.append_records(records[len(known) :], stored.shared)
            return True

    def _report_shared(self, transcript: TranscriptFile) -> None:
        holder, path = transcript.holder, transcript.path
        if "shared" not in self._warned:
            self._warned.add("shared")
            log.warning(
                "everturn: %s writes a conversation that this process continues too; each keeps a copy in "
                "the folder, and reads what the others recorded (docs/middleware.md, several processes)",
                holder,
            )
        self._tell(
            TranscriptShared(
                moment=EventContext(at=self.parts.clock(), session=transcript.name),
                holder=holder,
                records=len(transcript.records),
                path=path,
            )
        )

    # ── responses ────────────────────────────────────────────────────────────────────────────────

    def _record(self, call: PreparedCall, raw: RawResponse) -> None:
        response = read_response(raw.body, request_id=raw.request_id)
        tracked, usage = call.tracked, response.reply.usage or Usage()
        self._add_usage("conversation", usage, response.reply.model, self._ledger)
        if not response.blocks:
            # An empty reply is not recorded: the next request shows what the caller kept of it.
            return
        if not tracked.is_waiting_for(call) or tracked.is_evicted:
            tracked = self._fork(call.request, tracked, tracked.caller_list(call.links), call.records)
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
