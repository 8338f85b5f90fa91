"""Billing of a replay: one cache, one price list, every call billed once (RP-4).

The cache is empty when a session starts and runs on virtual time. A call of the engine is billed as
predicted, because prediction and bill come from the same `measure/prefix_cache.py`. Calls outside the
conversation (summaries, refreshes) are looked up here.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Hashable
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from math import ceil
from typing import Final, Literal

import msgspec

from everturn.history.blocks import Block
from everturn.history.messages import Message
from everturn.history.records import CacheCreation, Usage
from everturn.measure.capabilities import Capabilities
from everturn.measure.model import Model, Rates
from everturn.measure.outline import BlockLocation, CacheKeySalts, Outline, Preamble
from everturn.measure.prediction import Forecast, Prediction, PredictionCheck
from everturn.measure.prefix_cache import (
    SECONDS,
    Breakpoint,
    CacheEntry,
    CacheLookup,
    PrefixCache,
    PromptLayout,
    Ttl,
)
from everturn.measure.pricing import BilledTokens, price_tokens
from everturn.replay.playing.counting import ScaledCosts
from everturn.wire.anthropic import Request

# The end of an entry in the recording and in our count differ a little.
_SAME_END: Final = 0.002
_MIN_SAME_END: Final = 20
# How long before expiry a refresh is sent, because a request takes a moment to start.
_AHEAD: Final = timedelta(seconds=10)
_MARKED: Final = b',"cache_control":'


class CacheEvent(msgspec.Struct, frozen=True):
    """Something that the provider's cache did and the recording does not explain (RP-12).

    lost: entries behind this position were gone early. found: an entry up to this position was there that no
    recorded call wrote or kept alive. `dollars` is what it added to the bill of the recording.
    """

    kind: Literal["lost", "found"]
    tokens: int
    dollars: Decimal = Decimal(0)

    @property
    def loses_all(self) -> bool:
        """Nothing was read, not even system prompt and tools. An entry that was used a moment ago is hardly
        lost as a whole: the agent changed the start of its requests, which no file tells.
        """
        return self.kind == "lost" and self.tokens == 0


class LastPromptForecast(Forecast):
    """A forecast that remembers the last prompt, which a refresh has to send again, and that knows what the
    provider's cache did on its own before the next call.
    """

    def __init__(self, cache: PrefixCache, *, finds_new: bool = False) -> None:
        super().__init__(cache)
        self.prompt: PromptLayout | None = None
        self.event: CacheEvent | None = None
        # Tokens of the preamble that others keep in the cache.
        self.warm = 0
        # What happened to the cache before the current call: entries by scope and key, with their last block,
        # and the position behind which entries were gone.
        self._found: dict[tuple[Hashable, Hashable], int] = {}
        self.lost_behind: int | None = None
        # Whether an entry can be found for content that was not sent before. Only the recording shows that.
        self._finds_new = finds_new
        self._answered: PromptLayout | None = None

    def predict(self, prompt: PromptLayout, now: float) -> Prediction:
        self.prompt = prompt
        if self.event is not None:
            self._apply(self.event, prompt, now)
        if self.warm:
            self._find(prompt, _last_before(prompt, self.warm), now)
        return super().predict(prompt, now)

    @property
    def found(self) -> tuple[int, ...]:
        """The ends in tokens of entries that no call before wrote, and that the last prompt contains. A call
        may be planned several times, and what an edit has removed since then is not in the prompt.
        """
        return self._found_in(self.prompt) if self.prompt is not None else ()

    def _found_in(self, prompt: PromptLayout) -> tuple[int, ...]:
        return tuple(
            sorted({prompt.ends[at] for place, at in self._found.items() if _has(prompt, place, at)})
        )

    def hand_over(self, other: PromptLayout) -> tuple[tuple[int, ...], int | None]:
        """What happened to the cache before the current call, if another request with the same prefix goes
        first: a summary, which then finds it.
        """
        if _last_common(self.prompt, other) < 0:
            return (), None
        handed = self._found_in(other), self.lost_behind
        self._found = {place: at for place, at in self._found.items() if not _has(other, place, at)}
        self.lost_behind = None
        return handed

    def settle(self, usage: Usage, now: float, cleared: str = "") -> PredictionCheck | None:
        self._answered, self.event = self.prompt, None
        self._found, self.lost_behind = {}, None
        return super().settle(usage, now, cleared)

    def _apply(self, event: CacheEvent, prompt: PromptLayout, now: float) -> None:
        most = event.tokens + max(_MIN_SAME_END, round(event.tokens * _SAME_END))
        if event.kind == "lost":
            self._lose(prompt, most, now)
        last = len(prompt.ends) - 1 if self._finds_new else _last_common(self._answered, prompt)
        if event.tokens:
            self._find(prompt, _nearest_in_reach(prompt, event.tokens, last), now)

    def _lose(self, prompt: PromptLayout, most: int, now: float) -> None:
        """The entries of this prompt that end behind a position are gone."""
        self.lost_behind = most
        seen = self._cache.look(prompt, now)
        while seen.read > most and (lost := seen.refreshed) is not None:
            place = lost.scope, lost.key
            self._cache.lose(lambda entry, place=place: (entry.scope, entry.key) == place)
            seen = self._cache.look(prompt, now)

    def _find(self, prompt: PromptLayout, last: int, now: float) -> None:
        """An entry that ends at the block `last` is in the cache, whoever wrote it."""
        if last < 0 or self._cache.look(prompt, now).read >= prompt.ends[last]:
            return
        ttl = prompt.markers[-1].ttl if prompt.markers else "5m"
        entry = CacheEntry(prompt.scope, prompt.keys[last], last, prompt.ends[last], ttl, now + SECONDS[ttl])
        self._cache.write(CacheLookup(0, 0, 0, 0, None, None, (entry,)), now)
        self._found[entry.scope, entry.key] = last


def _has(prompt: PromptLayout, place: tuple[Hashable, Hashable], last: int) -> bool:
    """Whether an entry with this scope and key, which ends at the block `last`, is a prefix of a prompt."""
    return last < len(prompt.keys) and (prompt.scope, prompt.keys[last]) == place


def _last_before(prompt: PromptLayout, tokens: int) -> int:
    """The last block that ends at or before a position; -1 if there is none."""
    return bisect_right(prompt.ends, tokens) - 1


def _nearest_in_reach(prompt: PromptLayout, tokens: int, last: int) -> int:
    """The block up to `last` whose end is nearest to a position, of those that a breakpoint of this prompt
    can find; -1 if there is none. The agent had breakpoints of its own, or fewer blocks between them, so what
    it read may be out of the reach of ours.
    """
    before = _last_before(prompt, tokens)
    reach: set[int] = set()
    for marker in prompt.markers:
        if prompt.ends[marker.index] >= prompt.minimum:
            first = prompt.positions[marker.index] - prompt.lookback + 1
            start = bisect_left(prompt.positions, first)
            reach.update(min(max(start, at), marker.index) for at in (before, before + 1))
    found = ((abs(prompt.ends[at] - tokens), at) for at in reach if at <= last)
    return min(found, default=(0, -1))[1]


def _last_common(old: PromptLayout | None, new: PromptLayout) -> int:
    """The last block of the prefix that two prompts have in common; -1 if there is none."""
    if old is None or old.scope != new.scope:
        return -1
    size = min(len(old.keys), len(new.keys))
    return bisect_left(range(size), True, key=lambda at: old.keys[at] != new.keys[at]) - 1


def rates_at(model: Model, at: datetime, tokens: int) -> Rates:
    return model.rates(on=at.date(), prompt_tokens=tokens)


def price_call(model: Model, at: datetime, parts: Prediction, output: int) -> Decimal:
    tokens = BilledTokens(parts.plain, parts.read, parts.write_5m, parts.write_1h, output)
    return sum(
        (line.dollars for line in price_tokens(tokens, rates_at(model, at, tokens.prompt))), Decimal(0)
    )


def usage_from_prediction(parts: Prediction, output: int) -> Usage:
    written = CacheCreation(parts.write_5m, parts.write_1h)
    return Usage(parts.plain, parts.write_5m + parts.write_1h, parts.read, output, written)


class BlockTokens(msgspec.Struct, frozen=True):
    """Tokens of each block of a request in prefix order. `trailing` of those of the last one come after it:
    they belong to no block and are never cached.
    """

    counts: tuple[int, ...]
    trailing: int = 0
    # Blocks by index that are in the request and not shown to the model: earlier thinking.
    hidden: tuple[int, ...] = ()


def count_blocks(prompt: PromptLayout) -> BlockTokens:
    ends = [0, *prompt.ends[:]]
    trailing, ends[-1] = prompt.total - ends[-1], prompt.total
    # What is not shown does not change the key of the prefix.
    hidden = tuple(at for at, (one, other) in enumerate(pairwise(prompt.keys[:]), 1) if one == other)
    return BlockTokens(tuple(end - start for start, end in pairwise(ends)), trailing, hidden)


def build_prompt(
    request: Request, costs: ScaledCosts, salts: CacheKeySalts, able: Capabilities, minimum: int
) -> PromptLayout:
    """A request as the cache sees it, with its `cache_control` fields removed from the bytes."""
    outline = Outline(costs, lookback=able.lookback, runs_are_one=able.runs_are_one)
    places: list[tuple[BlockLocation, Breakpoint]] = []
    system: list[Block] = []
    for at, block in enumerate(request.system):
        bare, ttl = _unmarked(block.raw)
        places += [(BlockLocation(-1, at), Breakpoint(-1, ttl))] if ttl else []
        system.append(msgspec.structs.replace(block, raw=bare))
    messages: list[Message] = []
    for number, message in enumerate(request.messages):
        blocks: list[Block] = []
        for at, block in enumerate(message.blocks):
            bare, ttl = _unmarked(block.raw)
            places += [(BlockLocation(number, at), Breakpoint(-1, ttl))] if ttl else []
            blocks.append(msgspec.structs.replace(block, raw=bare) if ttl else block)
        messages.append(Message(message.role, tuple(blocks)))
    outline.set_preamble(Preamble(system=tuple(system)))
    outline.replace_from(0, messages)
    return outline.prompt(salts, places, minimum=minimum)


def _unmarked(raw: bytes) -> tuple[bytes, Ttl | None]:
    """The block before `view/breakpoints.py` added a breakpoint, and the TTL of that breakpoint."""
    start, found, control = raw.rpartition(_MARKED)
    if not found or not control.startswith(b'{"type":"ephemeral"') or not control.endswith(b"}}"):
        return raw, None
    return start + b"}", "1h" if b'"1h"' in control else "5m"


def bill_request(cache: PrefixCache, prompt: PromptLayout, at: datetime) -> Prediction:
    """The bill of a call that is sent now. The cache keeps what it wrote."""
    seen = cache.look(prompt, at.timestamp())
    cache.refresh(seen)
    cache.write(seen, at.timestamp())
    return Prediction(seen.read, seen.write_5m, seen.write_1h, seen.plain, seen.hit)


def refresh_times(last: datetime, now: datetime | None, ttl: Ttl, *, most: int) -> tuple[datetime, ...]:
    """When to refresh so that an entry last used at `last` is still alive at `now`: at most this often, and
    that often if nobody knows when the next call comes.
    """
    life = timedelta(seconds=SECONDS[ttl])
    times: list[datetime] = []
    while len(times) < most and (now is None or now - (times[-1] if times else last) > life):
        times.append((times[-1] if times else last) + life - _AHEAD)
    return tuple(times)


def max_refreshes(held: int, rest: int, rates: Rates, ttl: Ttl, *, output: int = 0) -> int:
    """How many refreshes of `held` tokens cost less than writing them again instead of reading them.
    `output` are the tokens that each of them writes.
    """
    write = rates.write_1h if ttl == "1h" else rates.write_5m
    once = held * rates.read + rest * rates.input + output * rates.output
    return max(0, ceil(held * (write - rates.read) / once) - 1) if once else 0
