"""Bounded, thread-safe caches for values that are computed from one message, or from the start of a list.

A conversation sends all its messages again with every request, so blocks, digests and counts are computed
once per message, and the layout of the prompt only for the messages that are new.
"""

import threading
from collections.abc import Callable, Hashable, Sequence
from operator import is_
from typing import Any, Final, Generic, Protocol, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

# How many lists with the same beginning are compared with a new one, such as the forks of a conversation.
_MAX_FORKS: Final = 4


class _Clearable(Protocol):
    def clear(self) -> None: ...


_memos: list[_Clearable] = []


def clear_memos() -> None:
    """Free what all memos hold."""
    for each in _memos:
        each.clear()


class Memo(Generic[K, V]):
    """Values by key. When the limit is reached, everything is dropped."""

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


class LatestMemo(Generic[K, V]):
    """The latest value for each key. The least recently stored ones are dropped at the limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self.clear()
        _memos.append(self)

    def clear(self) -> None:
        self._entries: dict[K, tuple[V, int]] = {}
        self._held = 0

    def get(self, key: K) -> V | None:
        found = self._entries.get(key)
        return found[0] if found is not None else None

    def put(self, key: K, value: V, *, weight: int) -> None:
        with self._lock:
            replaced = self._entries.pop(key, None)
            self._entries[key] = (value, weight)
            self._held += weight - (replaced[1] if replaced is not None else 0)
            while self._held > self._limit and len(self._entries) > 1:
                self._held -= self._entries.pop(next(iter(self._entries)))[1]


class PrefixMemo(Generic[V]):
    """Values that were computed along a list, found again by any list that starts with the same objects.

    The least recently added lists are dropped when all lists together weigh more than `limit`.
    """

    def __init__(self, limit: int) -> None:
        self._lists: LatestMemo[Hashable, list[tuple[tuple[Any, ...], V, int]]] = LatestMemo(limit)

    def find(self, key: Hashable, items: tuple[Any, ...]) -> tuple[int, V | None]:
        """How many first items are known, and the value that was computed along them (and maybe beyond)."""
        best: tuple[int, V | None] = (0, None)
        for known, value, _ in self._lists.get((key, id(items[0]))) or ():
            count = _count_common(known, items)
            if count > best[0]:
                best = (count, value)
        return best

    def add(self, key: Hashable, items: tuple[Any, ...], value: V, *, weight: int) -> None:
        # The entry holds the items, so their ids cannot belong to other objects while it is there.
        lists = self._lists.get((key, id(items[0]))) or []
        forks = [entry for entry in lists if _count_common(entry[0], items) < len(entry[0])]
        kept = [*forks[-_MAX_FORKS + 1 :], (items, value, weight)]
        self._lists.put((key, id(items[0])), kept, weight=sum(each for _, _, each in kept))


def _count_common(known: Sequence[Any], items: Sequence[Any]) -> int:
    """How many first items are the same objects in both."""
    length = min(len(known), len(items))
    if all(map(is_, known, items)):
        return length
    return next((at for at in range(length) if known[at] is not items[at]), length)
