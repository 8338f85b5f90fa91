"""A memo that forgets everything once it holds too much: simple, bounded, safe between threads.

What depends on the bytes of one message alone (blocks, digests, per-message checks) is computed once, because
a conversation re-sends all its messages with every request.
"""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Memo(Generic[K, V]):
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: dict[K, V] = {}
        self._held = 0

    def get(self, key: K, compute: Callable[[], V], *, weight: int = 1) -> V:
        """The remembered value of `key`; a `compute` that raises is not remembered."""
        entries = self._entries
        try:
            return entries[key]
        except KeyError:
            value = compute()
        if self._held + weight > self._limit:
            # Evicting one by one would need a lock; starting over costs one slow request.
            self._entries = entries = {}
            self._held = 0
        entries[key] = value
        self._held += weight
        return value
