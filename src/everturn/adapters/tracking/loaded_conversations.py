"""The conversations in memory: which one a request continues, who works on each, and which are removed.

`known_conversations.py` is the index by which they are found; here is what several threads need in addition.
Their number is limited: the least recently used one without a user is removed. A conversation that was
removed is read from its file when a request continues it.
"""

import asyncio
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Final

from everturn.adapters.tracking.caller_request import CallerRequest
from everturn.adapters.tracking.conversation import TrackedConversation
from everturn.adapters.tracking.known_conversations import ConversationMatch, KnownConversations

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

    def find(self, request: CallerRequest) -> ConversationMatch | None:
        """The conversation that has most of this request."""
        with self._guard:
            last = request.last_reply
            found = self._known.find(request.chain, request.preamble_digest, request.scope, last)
            if not last or _continues_all_replies(request, found):
                return found
            if (respelled := self._known.find_respelled(request)) is not None:
                return respelled
            return self._known.find_summarized(request, found.covered if found else 0) or found

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
            if found is None or not _continues_all_replies(request, found):
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

    # ── keeping and removing ─────────────────────────────────────────────────────────────────────

    def remember(self, tracked: TrackedConversation) -> None:
        """Index what is new in it and make it the most recently used."""
        with self._guard:
            if tracked.is_evicted:
                # Another thread has removed it meanwhile.
                return
            self._known.remember(tracked)
            while (old := self._known.oldest_beyond(self._limit)) is not None:
                self.forget(old)

    @contextmanager
    def forget_on_error(self, tracked: TrackedConversation) -> Generator[None, None, None]:
        """Around a change of a conversation. After an error it may be incomplete in memory: remove it, and
        read its file later."""
        try:
            yield
        except Exception:
            self.forget(tracked)
            raise
        self.remember(tracked)

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
        # A database may be slow: nobody waits for it who wants another conversation.
        if tracked.is_state_owed:
            tracked.write_state()
        tracked.transcript.close()

    def evict(self, tracked: TrackedConversation, *, even_awaiting: bool) -> bool:
        """Remove it, unless somebody works on it, or it waits for a response. `even_awaiting`: it may wait
        for one, because abandoned requests never get one."""
        with self._guard:
            is_used = tracked.users or tracked.lock.is_held
            if tracked.is_evicted or is_used or (tracked.is_awaiting_reply and not even_awaiting):
                return False
            self.forget(tracked)
        return True

    def close(self) -> None:
        for tracked in self:
            self.forget(tracked)


def _continues_all_replies(request: CallerRequest, found: ConversationMatch | None) -> bool:
    """Whether the request continues what was found, and no reply in it is unknown there."""
    return found is not None and found.is_continued_by(request) and found.covered >= request.last_reply
