"""The provider's prompt cache: what a request reads, writes and pays in full, and which entries it leaves.

The rule (api-facts 1.3): entries exist only where an earlier request had a breakpoint. A request searches
from each of its breakpoints, last one first, going back at most `LOOKBACK` positions including the breakpoint
itself; the first entry found is the hit. The request reads up to the hit, writes from there to its last
breakpoint, and pays the rest in full.

    keys     k0 ── k1 ── k2 ── k3 ── k4 ── k5 ── k6      one per block, each naming the whole prefix up to it
    breakpoints          1h                5m
    hit            A                                     an entry that an earlier request wrote at k1
    billed   read──┘     └B: 1h write      └C: 5m write  └ plain input

The engine calls `look` to predict; the twin takes the same three steps to answer: `look`, then `refresh` when
the request starts, then `write` when its response begins, because only then can others read what it wrote.
Two requests in flight therefore both write. Time is an argument, in seconds. The callers make the keys
(`twin/request_layout.py`, `view/`); `pricing.py` computes what the tokens cost.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Final, Literal

import msgspec

Ttl = Literal["5m", "1h"]

SECONDS: Final[dict[Ttl, float]] = {"5m": 300.0, "1h": 3600.0}
LOOKBACK: Final = 20
# Below this many entries, expired ones are not removed: sweeping costs more than keeping them.
_SWEEP_FROM: Final = 4096


class Breakpoint(msgspec.Struct, frozen=True):
    """A `cache_control` on the block at `index`."""

    index: int
    ttl: Ttl


class PromptLayout(msgspec.Struct, frozen=True):
    """A request as the cache sees it: three parallel sequences over its blocks, and the breakpoints."""

    scope: Hashable
    keys: Sequence[Hashable]
    # Tokens of the prompt up to and including each block.
    ends: Sequence[int]
    # Lookback position of each block: never decreasing, equal within a run that counts as one.
    positions: Sequence[int]
    markers: Sequence[Breakpoint]
    # All tokens, including those after the last block.
    total: int
    # Breakpoints with a shorter prefix are ignored, without an error.
    minimum: int = 0
    lookback: int = LOOKBACK
    # Whether missing entries at breakpoints before the hit are written again, free (api-facts 1.3: not
    # proven).
    rewrites_below_hit: bool = True
    # Three more assumptions that are not proven: whether an entry can be read at exactly its TTL, whether a
    # 1h breakpoint that hits a 5m entry makes it a 1h entry, and whether a 1h entry that was written on top
    # of a 5m entry outlives it.
    alive_at_ttl: bool = True
    longer_marker_lengthens: bool = False
    hour_survives_prefix: bool = True


class CacheEntry(msgspec.Struct, frozen=True):
    scope: Hashable
    key: Hashable
    index: int
    tokens: int
    ttl: Ttl
    expires: float

    def alive(self, now: float) -> bool:
        """Valid at exactly its TTL, expired after it."""
        return now <= self.expires


class CacheLookup(msgspec.Struct, frozen=True):
    """The four disjoint parts of the prompt in tokens, and the effect of the request on the entries."""

    read: int
    write_1h: int
    write_5m: int
    plain: int
    # Index of the block at which the hit ends; None if nothing was found.
    hit: int | None
    refreshed: CacheEntry | None
    written: tuple[CacheEntry, ...]


def group_positions(kinds: Sequence[str]) -> tuple[int, ...]:
    """Lookback positions where a run of tool_use, or of tool_result, counts as one (api-facts 1.3)."""
    positions: list[int] = []
    last = ""
    for kind in kinds:
        joins = kind == last and kind in ("tool_use", "tool_result")
        positions.append(positions[-1] + (0 if joins else 1) if positions else 0)
        last = kind
    return tuple(positions)


class PrefixCache:
    def __init__(self) -> None:
        self._entries: dict[tuple[Hashable, Hashable], CacheEntry] = {}
        self._sweep_at = _SWEEP_FROM

    def look(self, prompt: PromptLayout, now: float) -> CacheLookup:
        """What the request would read and write if it started now. Changes nothing."""
        markers = [m for m in prompt.markers if prompt.ends[m.index] >= prompt.minimum]
        found = self._highest_hit(prompt, markers, now)
        index, hit = found if found is not None else (None, None)
        read, write_1h, write_5m, plain = _billed(prompt, markers, index)
        return CacheLookup(
            read,
            write_1h,
            write_5m,
            plain,
            hit=index,
            refreshed=_refreshed(prompt, markers, index, hit, now)
            if index is not None and hit is not None
            else None,
            written=tuple(
                _at(prompt, marker.index, _lifetime(prompt, marker, hit), now)
                for marker in markers
                if self._alive(prompt, marker.index, now) is None
                and (prompt.rewrites_below_hit or index is None or marker.index > index)
            ),
        )

    def refresh(self, outcome: CacheLookup) -> None:
        """Extend the life of the entries that were read by their own TTL, from the start of the request."""
        if outcome.refreshed is not None:
            self._keep(outcome.refreshed)

    def write(self, outcome: CacheLookup, now: float) -> None:
        """Add the entries of a request whose response has begun: from now on others can read them."""
        for entry in outcome.written:
            self._keep(entry)
        self._sweep(now)

    def lose(self, doomed: Callable[[CacheEntry], bool]) -> tuple[CacheEntry, ...]:
        """Remove entries before they expire, as a provider under load does."""
        lost = tuple(entry for entry in self._entries.values() if doomed(entry))
        for entry in lost:
            del self._entries[entry.scope, entry.key]
        return lost

    def entries(self, now: float) -> tuple[CacheEntry, ...]:
        return tuple(entry for entry in self._entries.values() if entry.alive(now))

    def _highest_hit(
        self, prompt: PromptLayout, markers: list[Breakpoint], now: float
    ) -> tuple[int, CacheEntry] | None:
        positions, keys, lookback = prompt.positions, prompt.keys, prompt.lookback
        scope, entries = prompt.scope, self._entries
        for marker in reversed(markers):
            nearest = positions[marker.index]
            for index in range(marker.index, -1, -1):
                if nearest - positions[index] >= lookback:
                    break
                if (scope, keys[index]) in entries and (entry := self._alive(prompt, index, now)) is not None:
                    return index, entry
        return None

    def _alive(self, prompt: PromptLayout, index: int, now: float) -> CacheEntry | None:
        entry = self._entries.get((prompt.scope, prompt.keys[index]))
        if entry is None or not entry.alive(now):
            return None
        return entry if prompt.alive_at_ttl or now < entry.expires else None

    def _keep(self, entry: CacheEntry) -> None:
        """If two requests in flight wrote the same prefix, keep the entry that lives longer."""
        place = (entry.scope, entry.key)
        present = self._entries.get(place)
        if present is None or present.expires <= entry.expires:
            self._entries[place] = entry

    def _sweep(self, now: float) -> None:
        if len(self._entries) >= self._sweep_at:
            self._entries = {place: entry for place, entry in self._entries.items() if entry.alive(now)}
            self._sweep_at = max(_SWEEP_FROM, 2 * len(self._entries))


def _at(prompt: PromptLayout, index: int, ttl: Ttl, now: float) -> CacheEntry:
    return CacheEntry(prompt.scope, prompt.keys[index], index, prompt.ends[index], ttl, now + SECONDS[ttl])


def _lifetime(prompt: PromptLayout, marker: Breakpoint, below: CacheEntry | None) -> Ttl:
    dies_with_it = not prompt.hour_survives_prefix and below is not None and below.ttl == "5m"
    return "5m" if dies_with_it else marker.ttl


def _refreshed(
    prompt: PromptLayout, markers: Sequence[Breakpoint], index: int, hit: CacheEntry, now: float
) -> CacheEntry:
    """A read extends an entry by its own TTL, whatever TTL the breakpoint that found it has."""
    lengthens = prompt.longer_marker_lengthens and any(m == Breakpoint(index, "1h") for m in markers)
    return _at(prompt, index, "1h" if lengthens else hit.ttl, now)


def _billed(
    prompt: PromptLayout, markers: Sequence[Breakpoint], hit: int | None
) -> tuple[int, int, int, int]:
    """Read, 1h write, 5m write, plain: the A-B-C rule for mixed TTLs (api-facts 1.3)."""
    a = prompt.ends[hit] if hit is not None else 0
    b = max((prompt.ends[m.index] for m in markers if m.ttl == "1h"), default=a)
    b = max(a, b)
    c = max(b, prompt.ends[markers[-1].index]) if markers else b
    return a, b - a, c - b, prompt.total - c
