"""A bounded, thread-safe cache for values that are computed from one message.

A conversation sends all its messages again with every request, so blocks, digests and counts are computed
once per message. When the limit is reached, everything is dropped.
"""

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_memos: "list[Memo[Any, Any]]" = []


def clear_memos() -> None:
    """Free what all memos hold."""
    for each in _memos:
        each.clear()


class Memo(Generic[K, V]):
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.clear()
        _memos.append(self)

    def clear(self) -> None:
        self._entries: dict[K, V] = {}
        self._held = 0

    def get(self, key: K, compute: Callable[[], V], *, weight: int = 1) -> V:
        """The cached value of `key`, computed if it is missing. If `compute` raises, nothing is cached."""
        entries = self._entries
        try:
            return entries[key]
        except KeyError:
            value = compute()
        if self._held + weight > self._limit:
            # Evicting single entries would need a lock; starting over costs one slow request.
            self.clear()
            entries = self._entries
        entries[key] = value
        self._held += weight
        return value
