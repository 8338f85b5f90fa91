"""Notices a cache key that changes again and again: a clock in the system prompt, tools in changing order.

Where the key changes with every call, nothing is ever read from the cache, so reads do not drop either, and
there is no cache break to explain (CB-2). What was paid for it is therefore counted here (CB-3).
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from everturn.decide.cache_breaks import Baseline, BreakSettings
from everturn.decide.cache_key_snapshot import CacheKeyChange
from everturn.history.blocks import Block
from everturn.history.records import CacheCreation, Usage
from everturn.measure.money import format_dollars
from everturn.measure.outline import Preamble
from everturn.measure.prefix_cache import SECONDS, Ttl

# Calls with a changed key within the last calls that are told. Our choice, as for forks.
CHANGES: Final = 3
CALLS: Final = 10
_ABOUT_THE_REST: Final = (
    "Send the same system prompt and tools in the same order, and put what changes into the newest message."
)
_ABOUT_PICTURES: Final = (
    "A picture that is added or removed makes the provider write all messages again: add several at once, or "
    "text instead."
)


class RepeatedKeyChanges(msgspec.Struct, frozen=True, kw_only=True):
    """What a key that keeps changing has cost since the first call here. `what` is its last change;
    `is_new` the first time that there is something to tell."""

    changed: int
    calls: int
    parts: tuple[str, ...]
    what: str
    tokens_lost: int
    dollars: float
    is_new: bool = False

    @property
    def text(self) -> str:
        price = f" and {format_dollars(self.dollars)}" if self.dollars else ""
        advice = _ABOUT_PICTURES if self.parts == ("pictures",) else _ABOUT_THE_REST
        return (
            f"{self.changed} of {self.calls} calls of one conversation could not read what the calls before "
            f"them had cached, because the cache key had changed: {self.what}. That has cost "
            f"{self.tokens_lost:,} tokens{price} so far. {advice}"
        )


class KeyChangeWatch:
    """The calls of one conversation in this process. A call counts as changed if it has missed more than both
    thresholds of a cache break, whatever the model: here the cause is known."""

    def __init__(self, settings: BreakSettings) -> None:
        self._settings = settings
        self._recent: deque[bool] = deque(maxlen=CALLS)
        self._calls = self._changed = self._lost = 0
        self._dollars = 0.0
        # What the last call has left in the cache, and for how long.
        self._cached = 0
        self._ttl: Ttl = "5m"
        self._preamble = Preamble()
        self._is_told = False

    def after_call(
        self,
        baseline: Baseline | None,
        preamble: Preamble,
        usage: Usage,
        price: Callable[[Usage], float],
    ) -> RepeatedKeyChanges | None:
        """Assess an answered call. `baseline` is that of the break detector before it has assessed the call,
        `preamble` was sent with it, and `price` is what a usage costs. Returns what there is to tell, after
        every call that adds to it."""
        lost = self._count_lost(baseline, usage)
        self._cached = usage.cache_read_input_tokens + usage.cache_creation_input_tokens
        self._ttl = "1h" if _written_1h(usage) else "5m"
        before, self._preamble = self._preamble, preamble
        self._calls += 1
        self._recent.append(lost > 0)
        if baseline is None or not lost:
            return None
        self._changed += 1
        self._lost += lost
        self._dollars += price(usage) - price(_as_read(usage, lost))
        if not self._is_told and sum(self._recent) < CHANGES:
            return None
        is_new, self._is_told = not self._is_told, True
        return RepeatedKeyChanges(
            changed=self._changed,
            calls=self._calls,
            parts=tuple(dict.fromkeys(change.part for change in baseline.pending)),
            what="; ".join(_describe(change, before, preamble) for change in baseline.pending),
            tokens_lost=self._lost,
            dollars=self._dollars,
            is_new=is_new,
        )

    def _count_lost(self, baseline: Baseline | None, usage: Usage) -> int:
        """Tokens that the call before had cached, and that were not read because the key has changed. Another
        model has a cache of its own, and a context that was made smaller on purpose is not what was cached.
        """
        if baseline is None or baseline.answered is None or baseline.under_way is None:
            return 0
        is_other_model = any(change.part == "model" for change in baseline.pending)
        if not baseline.pending or is_other_model or baseline.passes_over != "nothing":
            return 0
        if baseline.under_way.at - baseline.answered.at > SECONDS[self._ttl]:
            return 0
        lost = min(self._cached, usage.context) - usage.cache_read_input_tokens
        return lost if lost > self._settings.tokens and lost > self._cached * self._settings.share else 0


def _written_1h(usage: Usage) -> int:
    written, by_ttl = usage.cache_creation_input_tokens, usage.cache_creation
    return min(written, by_ttl.ephemeral_1h_input_tokens) if by_ttl else 0


def _as_read(usage: Usage, tokens: int) -> Usage:
    """The same call if these tokens had been read: less was written, and then less sent at the full price."""
    long = _written_1h(usage)
    short = usage.cache_creation_input_tokens - long
    of_short = min(tokens, short)
    of_long = min(tokens - of_short, long)
    plain = min(tokens - of_short - of_long, usage.input_tokens)
    return msgspec.structs.replace(
        usage,
        input_tokens=usage.input_tokens - plain,
        cache_creation_input_tokens=short + long - of_short - of_long,
        cache_read_input_tokens=usage.cache_read_input_tokens + of_short + of_long + plain,
        cache_creation=CacheCreation(
            ephemeral_5m_input_tokens=short - of_short, ephemeral_1h_input_tokens=long - of_long
        ),
    )


def _describe(change: CacheKeyChange, before: Preamble, after: Preamble) -> str:
    """Which block of the system prompt, or which tool; without their texts."""
    if change.part == "system" and (at := _first_difference(before.system, after.system)) is not None:
        return f"block {at + 1} of {len(after.system)} of the system prompt"
    if change.part == "tools" and {tool.raw for tool in before.tools} == {tool.raw for tool in after.tools}:
        at = _first_difference(before.tools, after.tools) or 0
        return f"the order of the tools, from {after.tools[at].tool!r} at position {at + 1} on"
    # These may hold a schema of the caller's.
    return "another output format" if change.part == "extra" else change.what


def _first_difference(before: Sequence[Block], after: Sequence[Block]) -> int | None:
    pairs = enumerate(zip(before, after, strict=False))
    found = next((at for at, (old, new) in pairs if old.raw != new.raw), min(len(before), len(after)))
    return found if found < len(after) else None
