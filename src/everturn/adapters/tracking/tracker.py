"""All conversations of one adapter: recognised, prepared, answered, billed.

    request = shadows.read(body, betas)          what a caller asks for; `NotOurs` passes untouched
    ticket = shadows.prepare(request, send)      the request as it is to be sent, for whoever sends it
    other = shadows.make_room(ticket, send)      after "too long", once; None: the refusal is the caller's
    shadows.received(ticket, answered)           what came back; without an answer, nothing was said

and the same with awaits. `send` is the way to the model for summaries; the request itself is sent by the
adapter, by its own means. Each conversation is worked on by one at a time, and not while its answer is
being waited for: a second request for it may come, and whichever answer comes second belongs to a fork.
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock, RLock
from typing import Any, Final, TypeVar

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
from everturn.adapters.tracking.manner import Manner
from everturn.adapters.tracking.transcript_folder import TranscriptFile, TranscriptFolder
from everturn.decide.cache_breaks import Baseline, CacheBreakDetector
from everturn.decide.effects import AskModel
from everturn.decide.events import Event, EventContext, PassedThrough
from everturn.engine import Conversation, Flow
from everturn.errors import StoreError
from everturn.history.records import Record, Usage
from everturn.session.bill import Bill, BillPurpose, Ledger, UsageTotals
from everturn.session.conversation_runner import ConversationRunner
from everturn.session.drivers import drive, drive_async
from everturn.session.state_file import SessionState, read_state, write_state
from everturn.session.upstream import RawResponse, Send
from everturn.wire.anthropic import read_response

T = TypeVar("T")
Asides = Mapping[BillPurpose, UsageTotals]
FILES_SUFFIX: Final = ".files"
# Somebody else may go on with a conversation while one waits for it; not this often.
MAX_TRIES: Final = 100
ALWAYS_ELSEWHERE: Final = f"A conversation had gone on elsewhere {MAX_TRIES} times when it was our turn."
log: Final = logging.getLogger("everturn")


class ConversationTracker:
    def __init__(self, manner: Manner) -> None:
        self.manner = manner
        self._known = KnownConversations()
        self._transcripts = TranscriptFolder(manner.folder, self.trouble)
        self._ledger = Ledger()
        # Held for moments; files are read and forks made under the other one.
        self._guard = RLock()
        self._one_fetches = Lock()
        self._warned: set[str] = set()

    def __iter__(self) -> Iterator[TrackedConversation]:
        """Those in memory, the one used last at the end."""
        return iter(self._known)

    @property
    def bill(self) -> Bill:
        """What all calls through here have cost, those for summaries included."""
        return self._ledger.bill

    def read(self, body: Mapping[str, Any], betas: Sequence[str] = ()) -> CallerRequest | UnsupportedRequest:
        """A caller's request; `betas` are those of its header."""
        return read_request(body, betas=betas, markers=self.manner.markers, begun=self._find_known_prefix)

    def _find_known_prefix(self, reply: str) -> KnownPrefix | None:
        with self._guard:
            found = self._known.find_reply(reply)
        if found is None:
            return None
        shadow = found.tracked
        return KnownPrefix(tuple(shadow.chain[: found.links]), shadow.head, shadow.preamble_digest)

    # ── one request ──────────────────────────────────────────────────────────────────────────────

    def prepare(self, request: CallerRequest, send: Send) -> PreparedCall:
        for _ in range(MAX_TRIES):
            with self._in_use(self.recognise(request)) as shadow, shadow.turns.held():
                if shadow.fits(request):
                    flow = shadow.prepare_flow(request, self.manner.setting_for(request))
                    return self._run_flow(shadow, flow, send)
        raise StoreError(ALWAYS_ELSEWHERE)

    async def prepare_async(self, request: CallerRequest, send: AsyncSend) -> PreparedCall:
        for _ in range(MAX_TRIES):
            with self._in_use(self.find_in_memory(request) or await self._recognise_async(request)) as shadow:
                async with shadow.turns.held_async():
                    if shadow.fits(request):
                        flow = shadow.prepare_flow(request, self.manner.setting_for(request))
                        return await self._run_flow_async(shadow, flow, send)
        raise StoreError(ALWAYS_ELSEWHERE)

    def compact_after_overflow(self, ticket: PreparedCall, send: Send) -> PreparedCall | None:
        shadow = ticket.tracked
        with shadow.turns.held():
            return self._run_flow(shadow, shadow.compact_after_overflow_flow(ticket), send)

    async def compact_after_overflow_async(
        self, ticket: PreparedCall, send: AsyncSend
    ) -> PreparedCall | None:
        shadow = ticket.tracked
        async with shadow.turns.held_async():
            return await self._run_flow_async(shadow, shadow.compact_after_overflow_flow(ticket), send)

    def record_response(self, ticket: PreparedCall, answered: RawResponse) -> None:
        with ticket.tracked.turns.held():
            self._record(ticket, answered)

    async def record_response_async(self, ticket: PreparedCall, answered: RawResponse) -> None:
        async with ticket.tracked.turns.held_async():
            self._record(ticket, answered)

    # ── whose request it is ──────────────────────────────────────────────────────────────────────

    def recognise(self, request: CallerRequest) -> TrackedConversation:
        """The conversation that this request goes on with: known, read again from its file, forked, new.
        Only the first of these reads no file."""
        if (shadow := self.find_in_memory(request)) is not None:
            return shadow
        with self._one_fetches:
            # Somebody may have fetched it while we waited.
            if (shadow := self.find_in_memory(request)) is None:
                shadow = self._fetched(request)
                with self._guard:
                    shadow.wanted += 1
                    self._noted(shadow)
            return shadow

    def find_in_memory(self, request: CallerRequest) -> TrackedConversation | None:
        """The conversation in memory that goes on with this request, if one does. From here on it is wanted:
        whoever asked lets it go again (`_wanted`)."""
        with self._guard:
            found = self._known.find(request.chain, request.preamble_digest)
            if found is None or not found.goes_on or found.links < _last_reply(request):
                return None
            found.tracked.wanted += 1
            self._noted(found.tracked)
            return found.tracked

    async def _recognise_async(self, request: CallerRequest) -> TrackedConversation:
        """In a thread, because files may be read. Cancelled meanwhile, nobody wants what it finds."""
        fetching = asyncio.ensure_future(asyncio.to_thread(self.recognise, request))
        try:
            return await asyncio.shield(fetching)
        except asyncio.CancelledError:
            fetching.add_done_callback(self._let_go)
            raise

    def _let_go(self, fetching: "asyncio.Future[TrackedConversation]") -> None:
        if not fetching.cancelled() and fetching.exception() is None:
            with self._in_use(fetching.result()):
                pass

    @contextmanager
    def _in_use(self, shadow: TrackedConversation) -> Iterator[TrackedConversation]:
        """While somebody waits for it or works on it, it stays in memory."""
        try:
            yield shadow
        finally:
            with self._guard:
                shadow.wanted -= 1

    def _fetched(self, request: CallerRequest) -> TrackedConversation:
        with self._guard:
            found = self._known.find(request.chain, request.preamble_digest)
        if found is None or found.links < _last_reply(request):
            found = self._find_on_disk(request, found)
        if found is None:
            return self._new(request)
        return found.tracked if found.goes_on else self._fork(request, found.tracked, found.links)

    def _new(self, request: CallerRequest) -> TrackedConversation:
        name = self.manner.new_id()
        kept = self._transcripts.new(request.chain[0], name, self.manner.clock())
        return self._made(name, Conversation(self.manner.setting_for(request)), kept)

    def _fork(
        self, request: CallerRequest, parent: TrackedConversation, links: int, records: int | None = None
    ) -> TrackedConversation:
        """A conversation that begins like its parent. The parent's picture of the cache holds for it where
        nothing that shapes the key has changed since it began."""
        length = parent.records_before(links) if records is None else records
        name, begun = self.manner.new_id(), list(parent.records[:length])
        is_same = parent.had_same_preamble(links, request.preamble_digest)
        baselines = parent.runner.conversation.detector.baselines if is_same else {}
        kept = self._transcripts.new(parent.chain[0], name, self.manner.clock())
        kept.append(begun)
        conversation = self._resumed(request, begun, baselines)
        # It reads less than its parent did, and that is no break.
        conversation.detector.deleted(conversation.setting.source)
        made = self._made(name, conversation, kept)
        made.inherit_preamble(parent)
        return made

    def _resumed(
        self, request: CallerRequest, records: list[Record], baselines: Mapping[str, Baseline]
    ) -> Conversation:
        detector = CacheBreakDetector(self.manner.config.breaks, baselines)
        return Conversation(self.manner.setting_for(request), records, detector=detector)

    def _made(
        self, name: str, conversation: Conversation, kept: TranscriptFile, asides: Asides | None = None
    ) -> TrackedConversation:
        live = ConversationRunner(
            conversation,
            refuse_to_send,
            clock=self.manner.clock,
            new_id=self.manner.new_id,
            keep=kept.append,
            tell=self._tell,
            session=name,
        )
        return TrackedConversation(name, live, kept, Ledger(conversation.log.records, asides))

    # ── after a restart ──────────────────────────────────────────────────────────────────────────

    def _find_on_disk(
        self, request: CallerRequest, found: ConversationMatch | None
    ) -> ConversationMatch | None:
        """The conversation whose file knows most of the request, where that is more than memory does."""
        best, most = None, found.links if found else 0
        with self._guard:
            held = {shadow.kept.path for shadow in self._known}
        for kept in self._transcripts.candidates(request.chain[0], held):
            chain, before = build_record_chain(kept.records)
            links = common_prefix_length(chain, request.chain)
            better = links > most and before < links
            loser, best, most = (best, kept, links) if better else (kept, best, most)
            if loser is not None:
                loser.close()
        return ConversationMatch(self._reload(request, best), most) if best else found

    def _reload(self, request: CallerRequest, kept: TranscriptFile) -> TrackedConversation:
        state = read_state(kept.path)
        conversation = self._resumed(request, kept.records, state.baselines)
        return self._made(kept.name, conversation, kept, state.asides)

    # ── what came of it ──────────────────────────────────────────────────────────────────────────

    def _record(self, ticket: PreparedCall, answered: RawResponse) -> None:
        response = read_response(answered.body, request_id=answered.request_id)
        shadow, usage = ticket.tracked, response.reply.usage or Usage()
        self._paid("conversation", usage, response.reply.model, self._ledger)
        if not response.blocks:
            # Nothing was said; what the caller asks next tells what it made of that.
            return
        if not shadow.is_waiting_for(ticket) or shadow.is_evicted:
            shadow = self._fork(ticket.request, shadow, ticket.links, ticket.records)
        shadow.record_response(ticket, answered)
        self._paid("conversation", usage, response.reply.model, shadow.ledger)
        with self._guard:
            self._noted(shadow)
        self._write_state(shadow)

    def _paid(self, purpose: BillPurpose, usage: Usage, model: str, *ledgers: Ledger) -> None:
        # A sum is read and then written: one thread at a time.
        with self._guard:
            for ledger in ledgers:
                ledger.paid(purpose, usage, model, self.manner.clock().date())

    def _write_state(self, shadow: TrackedConversation) -> None:
        if shadow.kept.store is not None:
            state = SessionState(dict(shadow.runner.conversation.detector.baselines), shadow.ledger.asides)
            write_state(shadow.kept.path, state)

    def _noted(self, shadow: TrackedConversation) -> None:
        self._known.note(shadow)
        while (old := self._known.oldest_beyond(self.manner.most)) is not None:
            self.forget(old)

    def forget(self, shadow: TrackedConversation) -> None:
        """Take it out of memory; its file brings it back."""
        with self._guard:
            shadow.is_evicted = True
            self._known.forget(shadow)
            shadow.kept.close()

    def close(self) -> None:
        for shadow in self._known:
            self.forget(shadow)

    # ── trouble ──────────────────────────────────────────────────────────────────────────────────

    def failed(self, problem: Exception, ticket: PreparedCall | None = None) -> None:
        """Our own code failed, and the caller's request goes on without it. What we know of that conversation
        may be half of it, so it is read again when it comes again."""
        self.trouble("the engine failed, the request went on as the caller made it", repr(problem))
        if ticket is not None:
            self.forget(ticket.tracked)

    def trouble(self, why: str, detail: str = "") -> None:
        """Told once to the log, every time to whoever listens."""
        if why not in self._warned:
            self._warned.add(why)
            log.warning("everturn: %s%s", why, f" ({detail})" if detail else "")
        self._tell(PassedThrough(moment=EventContext(at=self.manner.clock()), why=why, detail=detail))

    def _tell(self, event: Event) -> None:
        """A listener's own error must not cost a request."""
        try:
            self.manner.listen(event)
        except Exception as problem:
            if "listen" not in self._warned:
                self._warned.add("listen")
                log.warning("everturn: a listener failed: %r", problem)

    # ── driving ──────────────────────────────────────────────────────────────────────────────────

    def _run_flow(self, shadow: TrackedConversation, flow: Flow[T], send: Send) -> T:
        world = TrackingEffectHandler(send, **self._surroundings(shadow))
        with self._whole(shadow):
            return drive(flow, world)

    async def _run_flow_async(self, shadow: TrackedConversation, flow: Flow[T], send: AsyncSend) -> T:
        world = AsyncTrackingEffectHandler(send, **self._surroundings(shadow))
        with self._whole(shadow):
            return await drive_async(flow, world)

    @contextmanager
    def _whole(self, shadow: TrackedConversation) -> Iterator[None]:
        """What fails in the middle may leave us with half of what was said: it is read again next time."""
        try:
            yield
        except Exception:
            self.forget(shadow)
            raise
        with self._guard:
            if not shadow.is_evicted:
                self._noted(shadow)

    def _surroundings(self, shadow: TrackedConversation) -> dict[str, Any]:
        def paid(effect: AskModel, usage: Usage) -> None:
            self._paid(effect.purpose, usage, effect.request.model, self._ledger, shadow.ledger)

        return {
            "folder": Path(shadow.kept.path + FILES_SUFFIX),
            "readable": self.manner.readable,
            "listen": self._tell,
            "paid": paid,
        }


def _last_reply(request: CallerRequest) -> int:
    """How many links there are up to the last message of the assistant's; 0 where it said nothing yet."""
    said = (at for at, message in enumerate(request.messages, 1) if message["role"] == "assistant")
    return max(said, default=0)
