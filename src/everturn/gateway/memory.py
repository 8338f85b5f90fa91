"""How many conversations may be in memory, of all tenants together: their bytes, and their number.

A conversation is removed from memory when it was not used for the longest time. It is read from its store
when it is needed again, which takes longer and loses nothing.
"""

import sys
import time
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from everturn.adapters.tracking import ConversationTracker
from everturn.adapters.tracking.caller_request import count_bytes
from everturn.adapters.tracking.conversation import TrackedConversation

# What a record takes besides the bytes of its blocks: its ids, its links, its counts. Measured.
RECORD_BYTES: Final = 1_000
# When the limit is exceeded, so much is removed that this share of it is left: removing one conversation for
# every request would look at all of them every time. Our choice.
KEPT_SHARE: Final = 0.9
# Conversations that wait for a response are kept up to this many times the limit. A request that the API
# refuses never gets one. Our choice.
MAX_AWAITING_FACTOR: Final = 2


class _Size(NamedTuple):
    bytes: int = 0
    # How many records of the conversation these are.
    records: int = 0
    # When it was used last, on the monotonic clock.
    used: float = 0.0


class _Held(NamedTuple):
    """A conversation in memory."""

    used: float
    bytes: int
    tracker: ConversationTracker
    tracked: TrackedConversation


class MemoryUse(NamedTuple):
    conversations: int
    bytes: int

    def plus(self, conversations: int, bytes: int) -> "MemoryUse":
        return MemoryUse(self.conversations + conversations, self.bytes + bytes)

    def fits(self, most: "MemoryUse", share: float = 1) -> bool:
        return self.conversations <= most.conversations * share and self.bytes <= most.bytes * share


class ConversationMemory:
    """Counts what conversations take, and evicts. Safe to use from threads."""

    def __init__(
        self,
        max_bytes: int,
        list_trackers: Callable[[], Sequence[ConversationTracker]],
        max_conversations: int = sys.maxsize,
    ) -> None:
        self._max = MemoryUse(max_conversations, max_bytes)
        self._list_trackers = list_trackers
        self._sizes: WeakKeyDictionary[TrackedConversation, _Size] = WeakKeyDictionary()
        # At most this much is in memory. It does not say what others have removed since it was counted.
        self._at_most = MemoryUse(0, 0)
        self._lock = Lock()
        self._evicting = Lock()

    def note(self, tracked: TrackedConversation) -> None:
        """It was used and may have grown. Removes others if all of them take too much."""
        with self._lock:
            is_new = tracked not in self._sizes
            before = self._sizes.get(tracked, _Size())
            now = self._sizes[tracked] = _measure(tracked, before)
            self._at_most = self._at_most.plus(is_new, now.bytes - before.bytes)
            is_exceeded = not self._at_most.fits(self._max)
        # One thread at a time; the others need not wait for it.
        if is_exceeded and self._evicting.acquire(blocking=False):
            try:
                self._evict(tracked)
            finally:
                self._evicting.release()

    def measure(self) -> MemoryUse:
        held = self._list_held()
        return MemoryUse(len(held), sum(each.bytes for each in held))

    def _list_held(self) -> list[_Held]:
        found: list[_Held] = []
        for tracker in self._list_trackers():
            for tracked in tracker:
                with self._lock:
                    size = self._sizes.get(tracked, _Size(used=time.monotonic()))
                found.append(_Held(size.used, size.bytes, tracker, tracked))
        return found

    def _evict(self, newest: TrackedConversation) -> None:
        with self._lock:
            before = self._at_most
        held = sorted(self._list_held(), key=lambda each: each.used)
        use = MemoryUse(len(held), sum(each.bytes for each in held))
        for even_awaiting, factor in ((False, 1), (True, MAX_AWAITING_FACTOR)):
            if use.fits(self._max, factor):
                break
            for each in held:
                if use.fits(self._max, factor * KEPT_SHARE):
                    break
                if each.tracked is not newest and each.tracker.evict(
                    each.tracked, even_awaiting=even_awaiting
                ):
                    use = use.plus(-1, -each.bytes)
        with self._lock:
            # What was noted meanwhile may be counted twice now, until the next time.
            self._at_most = self._at_most.plus(
                use.conversations - before.conversations, use.bytes - before.bytes
            )


def _measure(tracked: TrackedConversation, before: _Size) -> _Size:
    """Only the new records are looked at."""
    records = tracked.records
    added = records[before.records :]
    size = before.bytes if before.records else count_bytes(tracked.preamble)
    for each in added:
        size += RECORD_BYTES
        for block in each.blocks:
            size += len(block.raw)
    return _Size(size, len(records), time.monotonic())
