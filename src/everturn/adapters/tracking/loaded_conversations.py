"""The conversations in memory: which one a request continues, who works on each, and which are removed.

`known_conversations.py` is the index by which they are found; here is what several threads need in addition.
Their number is limited: the least recently used one without a user is removed. A conversation that was
removed is read from its file when a request continues it.
"""

import asyncio
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Final, TypeVar

from everturn.adapters.tracking.caller_request import CallerRequest
from everturn.adapters.tracking.conversation import TrackedConversation
from everturn.adapters.tracking.known_conversations import ConversationMatch, KnownConversations

T = TypeVar("T")
# Another caller may continue the conversation while this one waits for its lock. Our choice of a limit.
MAX_TRIES: Final = 100
ALWAYS_CHANGED: Final = (
    f"Another request changed the conversation {MAX_TRIES} times while this one waited for it. Send it again."
)


class LoadedConversations:
    """Safe to use from threads. `limit` is how many are kept."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known = KnownConversations()
        # Held briefly, for state in memory.
        self._guard = RLock()

    def __iter__(self) -> Iterator[TrackedConversation]:
        """The most recently used last."""
        return iter(self._known)

    # ── finding ──────────────────────────────────────────────────────────────────────────────────

    def get(self, id: str) -> TrackedConversation | None:
        with self._guard:
            return self._known.get(id)

    def find(self, request: CallerRequest, *, rewrites: bool = True) -> ConversationMatch | None:
        """The conversation that has most of this request. `rewrites`: a message of what is summarized there
        may have been written anew."""
        with self._guard:
            last = request.last_reply
            found = self._known.find(request.chain, request.preamble_digest, request.scope, last)
            if not last or _continues_up_to(last, request, found):
                return found
            if (respelled := self._known.find_respelled(request)) is not None:
                return respelled
            covered = found.covered if found else 0
            return self._known.find_summarized(request, covered, rewrites=rewrites) or found

    def find_reply(self, message_id: str) -> ConversationMatch | None:
        """The conversation with this reply, up to and including the reply."""
        with self._guard:
            return self._known.find_reply(message_id)

    def list_unshared_paths(self) -> set[str]:
        """The transcripts of which memory has everything. Of conversations that replicas share, the store may
        have more."""
        with self._guard:
            return {each.transcript.path for each in self._known if not each.transcript.is_shared}

    # ── users ────────────────────────────────────────────────────────────────────────────────────

    def take(self, request: CallerRequest) -> TrackedConversation | None:
        """The conversation that this request continues, if it is here. The caller then counts as a user of it
        and must release it with `in_use`."""
        with self._guard:
            found = self.find(request)
            if found is None or not _continues_up_to(request.last_reply, request, found):
                return None
            found.tracked.users += 1
            self.remember(found.tracked)
            return found.tracked

    def add(self, tracked: TrackedConversation) -> None:
        """The caller counts as a user of it. What was in memory of the same conversation is out of date."""
        with self._guard:
            old = self._known.get(tracked.id)
            tracked.users += 1
            self.remember(tracked)
        if old not in (None, tracked) and not tracked.is_evicted:
            self.forget(old)

    @contextmanager
    def in_use(self, tracked: TrackedConversation) -> Generator[TrackedConversation, None, None]:
        """A conversation with users is not removed. On exit there is one user less."""
        try:
            yield tracked
        finally:
            with self._guard:
                tracked.users -= 1

    def work_at_once(
        self, request: CallerRequest, work: Callable[[TrackedConversation], T | None]
    ) -> T | None:
        """`work` on the conversation that this request continues, for a caller that may not wait: None if it
        is not here, or if somebody works on it. `work` has its lock, and touches no file."""
        if not self._guard.acquire(blocking=False):
            return None
        try:
            last = request.last_reply
            found = self._known.find(request.chain, request.preamble_digest, request.scope, last)
            if found is None or not _continues_up_to(last, request, found):
                return None
            tracked = found.tracked
            if not tracked.lock.take_if_free():
                return None
            try:
                done = work(tracked)
            except Exception:
                self.forget(tracked)
                raise
            finally:
                tracked.lock.release()
            # Without `remember`: to remove another conversation may take long.
            self._known.remember(tracked)
            return done
        finally:
            self._guard.release()

    # ── keeping and removing ─────────────────────────────────────────────────────────────────────

    def remember(self, tracked: TrackedConversation) -> None:
        """Index what is new in it and make it the most recently used."""
        with self._guard:
            if tracked.is_evicted:
                # Another thread has removed it meanwhile.
                return
            self._known.remember(tracked)
            while (old := self._known.oldest_beyond(self._limit)) is not None:
                self._keep_and_forget_if_free(old)

    def forget_on_error(self, tracked: TrackedConversation) -> "_ForgetOnError":
        """Around a change of a conversation. After an error it may be incomplete in memory: remove it, and
        read its file later."""
        return _ForgetOnError(self, tracked)

    def resume(self, tracked: TrackedConversation) -> bool:
        """Before a conversation is changed: False if another replica has continued it since. What this one
        has in memory is then of no use; the store has all of it."""
        if tracked.transcript.resume():
            return True
        self.forget(tracked)
        return False

    async def resume_async(self, tracked: TrackedConversation) -> bool:
        """The same without blocking the event loop while a database is asked."""
        return not tracked.transcript.is_shared or await asyncio.to_thread(self.resume, tracked)

    def forget(self, tracked: TrackedConversation) -> None:
        """Remove it. It is read from its file again when a request continues it."""
        with self._guard:
            tracked.is_evicted = True
            self._known.forget(tracked)
        # Not with the guard of this call: a database may be slow. `evict` and `remember` do hold it.
        if tracked.is_state_owed:
            tracked.write_state()
        tracked.transcript.close()

    def evict(self, tracked: TrackedConversation, *, even_awaiting: bool) -> bool:
        """Remove it, unless somebody works on it, or it waits for a response. `even_awaiting`: it may wait
        for one, because abandoned requests never get one."""
        with self._guard:
            is_awaiting = tracked.is_awaiting_reply and not even_awaiting
            if tracked.is_evicted or tracked.users or is_awaiting:
                return False
            return self._keep_and_forget_if_free(tracked)

    def _keep_and_forget_if_free(self, tracked: TrackedConversation) -> bool:
        """With its lock: a reply that arrives meanwhile waits, and finds it removed."""
        if not tracked.lock.take_if_free():
            return False
        try:
            self._keep_and_forget(tracked)
        finally:
            tracked.lock.release()
        return True

    def _keep_and_forget(self, tracked: TrackedConversation) -> None:
        """A request that waits for its reply may not be written yet."""
        try:
            tracked.runner.keep_appended()
        finally:
            self.forget(tracked)

    def close(self) -> None:
        for tracked in self:
            self._keep_and_forget(tracked)


class _ForgetOnError:
    """A class, because every call needs one: a generator costs more."""

    def __init__(self, loaded: LoadedConversations, tracked: TrackedConversation) -> None:
        self._loaded, self._tracked = loaded, tracked

    def __enter__(self) -> None:
        return

    def __exit__(self, _kind: object, problem: BaseException | None, _trace: object) -> None:
        if problem is None:
            self._loaded.remember(self._tracked)
        elif isinstance(problem, Exception):
            self._loaded.forget(self._tracked)


def _continues_up_to(last_reply: int, request: CallerRequest, found: ConversationMatch | None) -> bool:
    """Whether the request continues what was found, and no reply in it is unknown there."""
    return found is not None and found.covered >= last_reply and found.is_continued_by(request)
