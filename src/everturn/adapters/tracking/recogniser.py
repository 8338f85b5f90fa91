"""Finds the conversation that a request belongs to, or makes one: in memory, on disk, a fork, or new.

    in memory     `loaded_conversations.py` compares chains; needs no disk access
    on disk       `stored_conversations.py`, for a conversation of an earlier process or an evicted one
    shared        another process writes it: a copy, which gets what the other recorded since
    a fork        the request differs from a known conversation after a common beginning
    new           nothing is shared

`conversation_factory.py` makes what is read, forked or new.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Final

from everturn.adapters.tracking.caller_list import read_caller_list
from everturn.adapters.tracking.caller_request import CallerRequest, KnownPrefix
from everturn.adapters.tracking.chain import is_caller_message
from everturn.adapters.tracking.conversation import PreparedCall, TrackedConversation
from everturn.adapters.tracking.conversation_factory import ConversationFactory, close_on_error
from everturn.adapters.tracking.counting import ConversationBusy, KnownRecords
from everturn.adapters.tracking.fair_lock import FairLock
from everturn.adapters.tracking.fork_records import take_shared_records
from everturn.adapters.tracking.fork_watch import ForkWatch, describe_difference
from everturn.adapters.tracking.known_conversations import ConversationMatch
from everturn.adapters.tracking.loaded_conversations import LoadedConversations
from everturn.adapters.tracking.parts import TrackerParts
from everturn.adapters.tracking.reporter import Reporter
from everturn.adapters.tracking.rewriting import RewrittenRecords
from everturn.adapters.tracking.scopes import is_in_scope
from everturn.adapters.tracking.store_transcripts import StoreTranscripts
from everturn.adapters.tracking.stored_conversations import StoredMatch, find_stored, find_stored_prefix
from everturn.adapters.tracking.transcript_folder import TranscriptFile, TranscriptFolder, Transcripts
from everturn.decide.events import EventContext, ForksRepeated, TranscriptShared
from everturn.errors import SessionLocked, UsageError
from everturn.session.state_file import SessionState, read_state
from everturn.session.store.factory import StoreFactory
from everturn.session.store.places import open_configured

log: Final = logging.getLogger("everturn")
# So many conversations can begin at the same time. Our choice.
_BEGIN_LOCKS: Final = 16
# How often somebody who cannot wait for ever asks for a lock. Our choice.
_LOCK_PAUSE: Final = 0.01


class Recogniser:
    """`note` adds a remark to the bill of all conversations."""

    def __init__(
        self,
        parts: TrackerParts,
        loaded: LoadedConversations,
        reporter: Reporter,
        note: Callable[[str], None],
    ) -> None:
        self._parts = parts
        self._loaded = loaded
        self._reporter = reporter
        self._note = note
        self._transcripts = self._open_transcripts()
        self.factory = ConversationFactory(parts, reporter, self._transcripts)
        self._forks = ForkWatch()
        # `_load_lock` is held while conversations are read from files. That is one at a time: whoever looks
        # for a conversation opens files that may be of another one, and who wants that one meanwhile would
        # find it locked. What begins needs no file, and waits only for what begins alike.
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
        return TranscriptFolder(self._parts.folder, report, self._report_damage)

    def _report_damage(self, path: str, problems: Sequence[str]) -> None:
        self._reporter.report_damage(path, problems, self._note)

    def counters(self) -> tuple[StoreFactory, str] | None:
        """Where everybody who keeps conversations in the same place counts together, and as which tenant."""
        return self._transcripts.counters()

    def close(self) -> None:
        self._loaded.close()
        self._transcripts.close()

    # ── the conversation of a request ────────────────────────────────────────────────────────────

    def recognise(
        self, request: CallerRequest, check: Callable[[], None] = lambda: None
    ) -> TrackedConversation:
        """Find or create the conversation of this request: in memory, read from its file, a fork, or new.
        Only a conversation in memory needs no disk access. The caller counts as a user, see
        `LoadedConversations.in_use`. `check` raises if the request is not wanted any more, when its turn has
        come to read files."""
        if (tracked := self._find_in_memory(request)) is not None:
            return tracked
        with self._lock_for(request):
            check()
            # Another caller may have loaded it while this one waited.
            if (tracked := self._find_in_memory(request)) is None:
                tracked = self._load_or_create(request)
                self._loaded.add(tracked)
            return tracked

    async def recognise_async(self, request: CallerRequest) -> TrackedConversation:
        """In a thread if it is not in memory, because files may be read. If cancelled, release the result
        later."""
        if (tracked := self._find_in_memory(request)) is not None:
            return tracked
        loading = asyncio.ensure_future(asyncio.to_thread(self.recognise, request))
        try:
            return await asyncio.shield(loading)
        except asyncio.CancelledError:
            loading.add_done_callback(self._release)
            raise

    def _release(self, loading: "asyncio.Future[TrackedConversation]") -> None:
        if not loading.cancelled() and loading.exception() is None:
            with self._loaded.in_use(loading.result()):
                pass

    def _find_in_memory(self, request: CallerRequest) -> TrackedConversation | None:
        tracked = self._loaded.take(request)
        if tracked is not None:
            self.count_call(tracked)
        return tracked

    def count_call(self, tracked: TrackedConversation) -> None:
        """A request continues a conversation in memory."""
        self._forks.count_call(tracked.lineage)

    def _lock_for(self, request: CallerRequest) -> Lock:
        if request.last_reply:
            return self._load_lock
        return self._begin_locks[request.chain[0][0] % _BEGIN_LOCKS]

    def _load_or_create(self, request: CallerRequest) -> TrackedConversation:
        found, rewritten = self._find_to_load(request)
        # A file is recognised by a reply in it, so a request without one needs none to be read.
        if request.last_reply and (found is None or found.covered < request.last_reply):
            covered, open_paths = found.covered if found else 0, self._loaded.list_unshared_paths()
            stored = find_stored(self._transcripts, request, open_paths, covered)
            if stored is not None:
                return self._continue_stored(request, stored)
        if found is None:
            return self.factory.new(request)
        if found.is_continued_by(request):
            return found.tracked
        return self._fork_at(request, found, rewritten)

    def _find_to_load(
        self, request: CallerRequest
    ) -> tuple[ConversationMatch | None, RewrittenRecords | None]:
        """The conversation that has most of the request; if a message was written anew, with the records of
        its fork."""
        found = self._loaded.find(request)
        if found is None or found.summarized is None or found.rewriting is None:
            return found, None
        rewritten = found.tracked.rewrite(request, found.rewriting, found.summarized.cut)
        return (found, rewritten) if rewritten else (self._loaded.find(request, rewrites=False), None)

    def find_prefix(self, reply: str) -> KnownPrefix | None:
        """What is known of a conversation up to and including a reply: in memory, or in the store, where
        another replica may have recorded it."""
        found = self._loaded.find_reply(reply)
        if found is None:
            return find_stored_prefix(self._transcripts, reply)
        tracked, last = found.tracked, found.tracked.last_request
        return KnownPrefix(
            tuple(tracked.known.chain[: found.links]),
            tracked.preamble,
            tracked.preamble_digest,
            has_system_messages=last is None or last.has_system_messages,
            has_message_config=last is None or last.has_message_config,
        )

    def find_records(self, request: CallerRequest, ends: float | None = None) -> KnownRecords | None:
        """What is known of this request, in memory or in a file; None if nothing is. Nothing is created or
        loaded, and a conversation that somebody works on is waited for, until `ends`."""
        found = self._loaded.find(request, rewrites=False)
        if request.last_reply and (found is None or found.covered < request.last_reply):
            with _held(self._load_lock, ends):
                covered, open_paths = found.covered if found else 0, self._loaded.list_unshared_paths()
                stored = find_stored(self._transcripts, request, open_paths, covered)
                if stored is not None:
                    try:
                        records = take_shared_records(stored.transcript.records, stored.cut)
                    finally:
                        stored.transcript.close()
                    return KnownRecords(records, len(stored.shared.chain))
        if found is None:
            return None
        with _held(found.tracked.lock, ends):
            return self._find_shared_records(request, found)

    def _find_shared_records(self, request: CallerRequest, found: ConversationMatch) -> KnownRecords | None:
        tracked, known = found.tracked, found.tracked.known
        if found.is_continuation:
            if not tracked.can_continue(request):
                # Another request has continued it meanwhile.
                return None
            respelled = tracked.respelled_links(request)
            return KnownRecords(tuple(tracked.records), len(known.chain) if respelled is None else respelled)
        if found.summarized is not None:
            return KnownRecords(take_shared_records(tracked.records, found.summarized.cut), found.covered)
        links = known.fork_point(found.links)
        return KnownRecords(take_shared_records(tracked.records, known.records_before(links)), links)

    # ── forks ────────────────────────────────────────────────────────────────────────────────────

    def rewind(self, tracked: TrackedConversation, uuid: str) -> TrackedConversation | None:
        """A fork before one of the caller's messages, by default the last one; None if it was the first."""
        with tracked.lock.acquire(), self._load_lock:
            request, cut = tracked.last_request, tracked.find_message(uuid)
            if request is None:
                raise UsageError(f"The conversation {tracked.id!r} has had no request here yet.")
            shared = read_caller_list(tracked.records[:cut])
            if not shared.chain:
                return None
            fork = self.factory.fork(request, tracked, shared, cut)
            fork.last_request = request
            self._loaded.remember(fork)
            return fork

    def _fork_at(
        self, request: CallerRequest, found: ConversationMatch, rewritten: RewrittenRecords | None
    ) -> TrackedConversation:
        """A fork of a conversation in memory, where the request differs from it."""
        parent, known = found.tracked, found.tracked.known
        if found.summarized is not None:
            shared, cut = found.summarized.shared, found.summarized.cut
        else:
            links = known.fork_point(found.links)
            shared, cut = known.first(links), known.records_before(links)
        fork = self.factory.fork(request, parent, shared, cut, rewritten=rewritten)
        self._watch_fork(request, found)
        return fork

    def _watch_fork(self, request: CallerRequest, found: ConversationMatch) -> None:
        """Report a caller whose lists keep differing from what it sent before (GW-11)."""
        parent = found.tracked
        # What is left out of the list has no link in the request, but counts as known.
        known = len(parent.known.chain) + found.covered - found.links
        same = found.rewriting.first if found.rewriting else found.covered
        difference = describe_difference(request, same, known)
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

    # ── from files ───────────────────────────────────────────────────────────────────────────────

    def _continue_stored(self, request: CallerRequest, stored: StoredMatch) -> TrackedConversation:
        """Continue a conversation that a file has more of than memory."""
        transcript = stored.transcript
        if transcript.is_writable:
            with close_on_error(transcript):
                return self._load(request, stored)
        if transcript.is_written_elsewhere:
            # No copy: the other replica may be compacting it, and its view must not be compacted twice.
            transcript.close()
            raise SessionLocked(f"Another replica is writing the conversation {transcript.name}.")
        return self._share(request, stored)

    def _load(self, request: CallerRequest, stored: StoredMatch) -> TrackedConversation:
        """Continue a conversation from its file. If the request has only a part of it, in a fork."""
        transcript = stored.transcript
        if stored.is_whole and is_in_scope(transcript.name, request.scope):
            return self.factory.restore(request, transcript, stored.shared)
        parent = self.factory.restore(request, transcript)
        try:
            return self.factory.fork(request, parent, stored.shared, stored.cut)
        finally:
            transcript.close()

    def load_again(self, call: PreparedCall) -> TrackedConversation | None:
        """The conversation of a call, after it was removed from memory, as the store has it now. None where
        replicas share nothing. Raises `SessionLocked` while another one writes it. The caller counts as a
        user, see `LoadedConversations.in_use`."""
        with self._load_lock:
            again = self._loaded.get(call.tracked.id)
            if again is None:
                transcript = self._transcripts.open_again(call.tracked.transcript)
                if transcript is None:
                    return None
                with close_on_error(transcript):
                    is_longer = any(map(is_caller_message, transcript.records[call.records :]))
                    known = None if is_longer else call.tracked.known.first(call.links)
                    again = self.factory.restore(call.request, transcript, known)
            self._loaded.add(again)
            return again

    # ── several processes ────────────────────────────────────────────────────────────────────────

    def _share(self, request: CallerRequest, stored: StoredMatch) -> TrackedConversation:
        """Continue a conversation that another process is writing, in a copy: a copy that this process made
        earlier gets the new records, otherwise a new copy is made."""
        transcript = stored.transcript
        try:
            self._report_shared(transcript)
            own = self._find_copy(request, stored) if stored.is_whole else None
            if own is not None and self._catch_up(own, stored):
                return own
            parent = self.factory.read_records(request, transcript)
            return self.factory.fork(request, parent, stored.shared, stored.cut, is_whole=stored.is_whole)
        finally:
            transcript.close()

    def _find_copy(self, request: CallerRequest, stored: StoredMatch) -> TrackedConversation | None:
        """The longest copy in memory that may be the beginning of a transcript. Its list may still have what
        the caller has left out since, so it is found by its last record."""
        records = stored.transcript.records
        copies = [
            each
            for each in self._loaded
            if is_in_scope(each.id, request.scope)
            and 0 < len(each.records) <= len(records)
            and each.records[-1].uuid == records[len(each.records) - 1].uuid
        ]
        return max(copies, key=lambda each: len(each.records), default=None)

    def _catch_up(self, own: TrackedConversation, stored: StoredMatch) -> bool:
        """Append what another process has recorded since this copy was made; False if the two differ, or
        somebody works on the copy: who holds its lock may be waiting for files to be read."""
        records = stored.transcript.records
        if not own.lock.take_if_free():
            return False
        try:
            known = [record.uuid for record in own.records]
            if own.is_evicted or known != [record.uuid for record in records[: len(known)]]:
                return False
            store = stored.transcript.store
            state = read_state(store) if store is not None else SessionState()
            own.append_records(records[len(known) :], stored.shared, state)
            return True
        finally:
            own.lock.release()

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


@contextmanager
def _held(lock: "Lock | FairLock", ends: float | None) -> Generator[None, None, None]:
    """With this lock. If the wait has an end, the lock is asked for again and again instead: a place in its
    queue cannot be left, and a thread would wait there as long as a summary is written."""
    if ends is None:
        with lock:
            yield
        return
    take = lock.take_if_free if isinstance(lock, FairLock) else lambda: lock.acquire(blocking=False)
    while not take():
        if time.monotonic() >= ends:
            raise ConversationBusy("Somebody works on the conversation. Count it again later.")
        time.sleep(_LOCK_PAUSE)
    try:
        yield
    finally:
        lock.release()
