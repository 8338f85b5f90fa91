"""Finds the conversation that a request belongs to, or makes one: in memory, on disk, a fork, or new.

    in memory     `known_conversations.py` compares chains; needs no disk access
    on disk       `stored_conversations.py`, for a conversation of an earlier process or an evicted one
    shared        another process writes it: a copy, which gets what the other recorded since
    a fork        the request differs from a known conversation after a common beginning
    new           nothing is shared

Conversations in memory are limited; the least recently used one without a user is evicted.
"""

import asyncio
import logging
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock, RLock
from typing import Any, Final

from everturn.adapters.tracking.caller_list import CallerList, read_caller_list
from everturn.adapters.tracking.caller_request import CallerRequest, KnownPrefix
from everturn.adapters.tracking.chain import is_caller_message
from everturn.adapters.tracking.conversation import PreparedCall, TrackedConversation
from everturn.adapters.tracking.effect_handler import refuse_to_send
from everturn.adapters.tracking.fork_records import take_shared_records
from everturn.adapters.tracking.fork_watch import ForkWatch, describe_difference
from everturn.adapters.tracking.known_conversations import ConversationMatch, KnownConversations
from everturn.adapters.tracking.parts import SettingsSource, TrackerParts
from everturn.adapters.tracking.reporter import Reporter
from everturn.adapters.tracking.scopes import is_in_scope, name_conversation
from everturn.adapters.tracking.store_transcripts import StoreTranscripts
from everturn.adapters.tracking.stored_conversations import StoredMatch, find_stored, find_stored_prefix
from everturn.adapters.tracking.transcript_folder import TranscriptFile, TranscriptFolder, Transcripts
from everturn.decide.cache_breaks import Baseline, CacheBreakDetector
from everturn.decide.events import Event, EventContext, ForksRepeated, TranscriptShared
from everturn.engine import Conversation, ConversationSettings
from everturn.errors import SessionLocked, UsageError
from everturn.history.records import Record
from everturn.session.bill import BillPurpose, Ledger, UsageTotals
from everturn.session.conversation_runner import ConversationRunner
from everturn.session.events.build import with_session
from everturn.session.state_file import SessionState, read_state
from everturn.session.store.factory import StoreFactory
from everturn.session.store.places import open_configured

Asides = Mapping[BillPurpose, UsageTotals]
log: Final = logging.getLogger("everturn")
# So many conversations can begin at the same time. Our choice.
_BEGIN_LOCKS: Final = 16


@contextmanager
def _closed_on_error(transcript: TranscriptFile) -> Generator[None, None, None]:
    """Nobody else will release its lease."""
    try:
        yield
    except BaseException:
        transcript.close()
        raise


class Recogniser:
    """`note` adds a remark to the bill of all conversations."""

    def __init__(self, parts: TrackerParts, reporter: Reporter, note: Callable[[str], None]) -> None:
        self._parts = parts
        self._reporter = reporter
        self._note = note
        self._known = KnownConversations()
        self._settings = SettingsSource(parts)
        self._transcripts = self._open_transcripts()
        self._forks = ForkWatch()
        # `_guard` is held briefly, for state in memory; `_load_lock` while conversations are read from files.
        # That is one at a time: whoever looks for a conversation opens files that may be of another one, and
        # who wants that one meanwhile would find it locked. What begins needs no file, and waits only for
        # what begins alike.
        self._guard = RLock()
        self._load_lock = Lock()
        self._begin_locks = tuple(Lock() for _ in range(_BEGIN_LOCKS))

    def _open_transcripts(self) -> Transcripts:
        stores, settings = self._parts.stores, self._parts.options.store
        report = self._reporter.report_problem
        if self._parts.transcripts is not None:
            return self._parts.transcripts(report, self._report_damage)
        if stores is not None:
            return StoreTranscripts(lambda: stores, settings.tenant, report, is_ours=False)
        if settings.url:
            # No fsync: the caller still has what a power failure loses, and sends it again.
            return StoreTranscripts(lambda: open_configured(settings, fsync="never"), settings.tenant, report)
        return TranscriptFolder(self._parts.folder, self._reporter.report_problem, self._report_damage)

    def _report_damage(self, path: str, problems: Sequence[str]) -> None:
        self._reporter.report_damage(path, problems, self._note)

    def counters(self) -> tuple[StoreFactory, str] | None:
        """Where everybody who keeps conversations in the same place counts together, and as which tenant."""
        return self._transcripts.counters()

    def __iter__(self) -> Iterator[TrackedConversation]:
        """The conversations in memory, the most recently used last."""
        return iter(self._known)

    def recognise(
        self, request: CallerRequest, check: Callable[[], None] = lambda: None
    ) -> TrackedConversation:
        """Find or create the conversation of this request: in memory, read from its file, a fork, or new.
        Only a conversation in memory needs no disk access. The caller counts as a user, see `in_use`.
        `check` raises if the request is not wanted any more, when its turn has come to read files."""
        if (tracked := self.find_in_memory(request)) is not None:
            return tracked
        with self._lock_for(request):
            check()
            # Another caller may have loaded it while this one waited.
            if (tracked := self.find_in_memory(request)) is None:
                tracked = self._load_or_create(request)
                self._take(tracked)
            return tracked

    def _lock_for(self, request: CallerRequest) -> Lock:
        if request.last_reply:
            return self._load_lock
        return self._begin_locks[request.chain[0][0] % _BEGIN_LOCKS]

    def _take(self, tracked: TrackedConversation) -> None:
        """The caller counts as a user of it. What was in memory of the same conversation is out of date."""
        with self._guard:
            old = self._known.get(tracked.id)
            tracked.users += 1
            self._remember(tracked)
        if old not in (None, tracked) and not tracked.is_evicted:
            self.forget(old)

    def find_in_memory(self, request: CallerRequest) -> TrackedConversation | None:
        """The conversation in memory that this request continues, if there is one. The caller then counts as
        a user of it and must release it with `in_use`."""
        with self._guard:
            found = self._find_known(request)
            if found is None or not found.is_continued_by(request) or found.covered < request.last_reply:
                return None
            found.tracked.users += 1
            self._remember(found.tracked)
            self._forks.count_call(found.tracked.lineage)
            return found.tracked

    def _find_known(self, request: CallerRequest) -> ConversationMatch | None:
        """The conversation in memory that has most of this request."""
        last = request.last_reply
        found = self._known.find(request.chain, request.preamble_digest, request.scope, last)
        if not last or (found is not None and found.is_continued_by(request) and found.covered >= last):
            return found
        return self._known.find_respelled(request) or found

    async def recognise_async(self, request: CallerRequest) -> TrackedConversation:
        """Recognise in a thread, because files may be read. If cancelled, release the result later."""
        loading = asyncio.ensure_future(asyncio.to_thread(self.recognise, request))
        try:
            return await asyncio.shield(loading)
        except asyncio.CancelledError:
            loading.add_done_callback(self._release)
            raise

    def _release(self, loading: "asyncio.Future[TrackedConversation]") -> None:
        if not loading.cancelled() and loading.exception() is None:
            with self.in_use(loading.result()):
                pass

    @contextmanager
    def in_use(self, tracked: TrackedConversation) -> Generator[TrackedConversation, None, None]:
        """A conversation with users is not evicted. On exit there is one user less."""
        try:
            yield tracked
        finally:
            with self._guard:
                tracked.users -= 1

    def find_prefix(self, reply: str) -> KnownPrefix | None:
        """What is known of a conversation up to and including a reply: in memory, or in the store, where
        another replica may have recorded it."""
        with self._guard:
            found = self._known.find_reply(reply)
        if found is None:
            return find_stored_prefix(self._transcripts, reply)
        tracked = found.tracked
        return KnownPrefix(
            tuple(tracked.known.chain[: found.links]), tracked.preamble, tracked.preamble_digest
        )

    def remember(self, tracked: TrackedConversation) -> None:
        """Index what is new in it and make it the most recently used."""
        with self._guard:
            self._remember(tracked)

    def _remember(self, tracked: TrackedConversation) -> None:
        if tracked.is_evicted:
            # Another thread has removed it meanwhile.
            return
        self._known.remember(tracked)
        while (old := self._known.oldest_beyond(self._parts.options.limits.conversations)) is not None:
            self.forget(old)

    def load_again(self, call: PreparedCall) -> TrackedConversation | None:
        """The conversation of a call, after it was removed from memory, as the store has it now. None where
        replicas share nothing. Raises `SessionLocked` while another one writes it. The caller counts as a
        user, see `in_use`."""
        with self._load_lock:
            with self._guard:
                again = self._known.get(call.tracked.id)
            if again is None:
                transcript = self._transcripts.open_again(call.tracked.transcript)
                if transcript is None:
                    return None
                with _closed_on_error(transcript):
                    is_longer = any(map(is_caller_message, transcript.records[call.records :]))
                    known = None if is_longer else call.tracked.known.first(call.links)
                    again = self._restore(call.request, transcript, known)
            self._take(again)
            return again

    def forget(self, tracked: TrackedConversation) -> None:
        """Remove it from memory. It is read from its file again when a request continues it."""
        with self._guard:
            tracked.is_evicted = True
            self._known.forget(tracked)
        # A database may be slow: nobody waits for it who wants another conversation.
        if tracked.is_state_owed:
            tracked.write_state()
        tracked.transcript.close()

    def evict(self, tracked: TrackedConversation, *, even_awaiting: bool) -> bool:
        """Remove it from memory, unless somebody works on it, or it waits for a response. `even_awaiting`: it
        may wait for one, because abandoned requests never get one."""
        with self._guard:
            is_used = tracked.users or tracked.lock.is_held
            if tracked.is_evicted or is_used or (tracked.is_awaiting_reply and not even_awaiting):
                return False
            self.forget(tracked)
        return True

    def close(self) -> None:
        for tracked in self._known:
            self.forget(tracked)
        self._transcripts.close()

    def settings(self, request: CallerRequest, transcript: TranscriptFile) -> ConversationSettings:
        return self._settings.settings_for(request, transcript.told_path)

    # ── new conversations and forks ──────────────────────────────────────────────────────────────

    def _load_or_create(self, request: CallerRequest) -> TrackedConversation:
        with self._guard:
            found = self._find_known(request)
        # A file is recognised by a reply in it, so a request without one needs none to be read.
        if request.last_reply and (found is None or found.covered < request.last_reply):
            covered = found.covered if found else 0
            stored = find_stored(self._transcripts, request, self._open_paths(), covered)
            if stored is not None and stored.transcript.is_writable:
                with _closed_on_error(stored.transcript):
                    return self._load(request, stored)
            if stored is not None and stored.transcript.is_written_elsewhere:
                # No copy: the other replica may be compacting it, and its view must not be compacted twice.
                stored.transcript.close()
                raise SessionLocked(f"Another replica is writing the conversation {stored.transcript.name}.")
            if stored is not None:
                return self._share(request, stored, found)
        if found is None:
            return self._new(request)
        if found.is_continued_by(request):
            return found.tracked
        return self._fork_at(request, found.tracked, found.links)

    def _open_paths(self) -> set[str]:
        """Transcripts that need not be looked at. Of conversations that replicas share, memory may have less
        than the store."""
        with self._guard:
            return {each.transcript.path for each in self._known if not each.transcript.is_shared}

    def _new(self, request: CallerRequest) -> TrackedConversation:
        name = name_conversation(self._parts.new_id(), request.scope)
        transcript = self._transcripts.new(request.chain[0], name, self._parts.clock())
        with _closed_on_error(transcript):
            return self._create(name, self._conversation(request, transcript), transcript)

    def _fork_at(
        self, request: CallerRequest, parent: TrackedConversation, links: int
    ) -> TrackedConversation:
        """A fork of a conversation in memory, where the request differs from it."""
        shared = parent.known.fork_point(links)
        fork = self.fork(request, parent, parent.known.first(shared), parent.known.records_before(shared))
        self._watch_fork(request, parent, links)
        return fork

    def fork(
        self, request: CallerRequest, parent: TrackedConversation, shared: CallerList, cut: int
    ) -> TrackedConversation:
        """Create a conversation that starts with the parent's records before `cut`, which are `shared` in the
        caller's list. It inherits the parent's cache baselines if system prompt and tools, which are part of
        the cache key, have not changed."""
        name = name_conversation(self._parts.new_id(), request.scope)
        records = take_shared_records(parent.records, cut)
        is_same = parent.known.had_same_preamble(len(shared.chain), request.preamble_digest)
        baselines = parent.runner.conversation.detector.baselines if is_same else None
        transcript = self._transcripts.new(request.chain[0], name, self._parts.clock())
        with _closed_on_error(transcript):
            transcript.append(records)
            conversation = self._conversation(request, transcript, records, baselines)
            # A fork reads less from the cache than its parent did. That is expected, not a cache break.
            conversation.detector.deleted(conversation.setting.source)
            fork = self._create(name, conversation, transcript, caller_list=shared, lineage=parent.lineage)
            fork.inherit_preamble(parent)
            return fork

    def rewind(self, tracked: TrackedConversation, uuid: str) -> list[dict[str, Any]]:
        """A fork before one of the caller's messages, by default the last one. Returns its messages."""
        with tracked.lock.acquire(), self._load_lock:
            request, cut = tracked.last_request, tracked.find_message(uuid)
            if request is None:
                raise UsageError(f"The conversation {tracked.id!r} has had no request here yet.")
            shared = read_caller_list(tracked.records[:cut])
            if not shared.chain:
                return []
            fork = self.fork(request, tracked, shared, cut)
            fork.last_request = request
            self.remember(fork)
            return fork.known.list_messages()

    def _watch_fork(self, request: CallerRequest, parent: TrackedConversation, links: int) -> None:
        """Report a caller whose lists keep differing from what it sent before (GW-11)."""
        difference = describe_difference(request, links, len(parent.known.chain))
        with self._guard:
            repeated = self._forks.count_fork(parent.lineage, difference)
        if repeated is None:
            return
        log.warning("everturn: %s", repeated.text)
        self._note(repeated.text)
        parent.ledger.note(repeated.text)
        self._reporter.tell(
            ForksRepeated(
                moment=EventContext(at=self._parts.clock(), session=parent.id, model=request.model),
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
        detector = CacheBreakDetector(self._parts.options.cache.breaks, baselines or {})
        return Conversation(self.settings(request, transcript), records, detector=detector)

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
            self._reporter.tell(with_session(event, name))

        runner = ConversationRunner(
            conversation,
            refuse_to_send,
            clock=self._parts.clock,
            new_id=self._parts.new_id,
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
        if stored.is_whole and is_in_scope(transcript.name, request.scope):
            return self._restore(request, transcript, stored.shared)
        parent = self._restore(request, transcript)
        try:
            return self.fork(request, parent, stored.shared, stored.cut)
        finally:
            transcript.close()

    def _restore(
        self, request: CallerRequest, transcript: TranscriptFile, caller_list: CallerList | None = None
    ) -> TrackedConversation:
        """A conversation as its file and its state have it."""
        state = read_state(transcript.store) if transcript.store else SessionState()
        conversation = self._conversation(request, transcript, transcript.records, state.baselines)
        conversation.compaction_state.remember(state.breaker, state.refill)
        economy = conversation.economy
        economy.state, economy.decisions = state.economy, state.decisions
        economy.lost_holds = dict(state.lost_holds)
        transcript.preamble = state.preamble
        return self._create(transcript.name, conversation, transcript, state.asides, caller_list=caller_list)

    # ── several processes ────────────────────────────────────────────────────────────────────────

    def _share(
        self, request: CallerRequest, stored: StoredMatch, found: ConversationMatch | None
    ) -> TrackedConversation:
        """Continue a conversation that another process is writing, in a copy: a copy that this process made
        earlier gets the new records, otherwise a new copy is made."""
        transcript = stored.transcript
        try:
            self._report_shared(transcript)
            own = found.tracked if found and found.is_continued_by(request) else None
            if own is not None and stored.is_whole and self._catch_up(own, stored):
                return own
            conversation = self._conversation(request, transcript, transcript.records)
            parent = self._create(transcript.name, conversation, transcript)
            return self.fork(request, parent, stored.shared, stored.cut)
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
        self._reporter.warn_once(
            "shared",
            f"{holder} writes a conversation that this process continues too; each keeps a copy in the "
            "folder, and reads what the others recorded (docs/middleware.md, several processes)",
        )
        self._reporter.tell(
            TranscriptShared(
                moment=EventContext(at=self._parts.clock(), session=transcript.name),
                holder=holder,
                records=len(transcript.records),
                path=path,
            )
        )
