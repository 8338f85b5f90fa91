"""Billing of a replay: one cache, one price list, every call billed once (RP-4).

The cache is empty when a session starts and runs on virtual time. A call of the engine is billed as
predicted, because prediction and bill come from the same `measure/prefix_cache.py`. Calls outside the
conversation (summaries, refreshes) are looked up here.
"""

from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from math import ceil
from typing import Final

import msgspec

from everturn.history.blocks import Block
from everturn.history.messages import Message
from everturn.history.records import CacheCreation, Usage
from everturn.measure.capabilities import Capabilities
from everturn.measure.model import Model, Rates
from everturn.measure.outline import BlockLocation, CacheKeySalts, Outline, Preamble
from everturn.measure.prediction import Forecast, Prediction
from everturn.measure.prefix_cache import SECONDS, Breakpoint, PrefixCache, PromptLayout, Ttl
from everturn.measure.pricing import BilledTokens, price_tokens
from everturn.replay.playing.counting import ScaledCosts
from everturn.wire.anthropic import Request

# How long before expiry a refresh is sent, because a request takes a moment to start.
_AHEAD: Final = timedelta(seconds=10)
_MARKED: Final = b',"cache_control":'


class LastPromptForecast(Forecast):
    """A forecast that remembers the last prompt, which a refresh has to send again."""

    def __init__(self, cache: PrefixCache) -> None:
        super().__init__(cache)
        self.prompt: PromptLayout | None = None

    def predict(self, prompt: PromptLayout, now: float) -> Prediction:
        self.prompt = prompt
        return super().predict(prompt, now)


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


def block_sizes(prompt: PromptLayout) -> tuple[int, ...]:
    """Tokens of each block in prefix order; tokens after the last block are counted with it."""
    ends = [0, *prompt.ends[:]]
    ends[-1] = prompt.total
    return tuple(end - start for start, end in pairwise(ends))


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


def refresh_times(last: datetime, now: datetime, ttl: Ttl) -> tuple[datetime, ...]:
    """When to refresh so that an entry last used at `last` is still alive at `now`."""
    life = timedelta(seconds=SECONDS[ttl])
    times: list[datetime] = []
    while now - (times[-1] if times else last) > life:
        times.append((times[-1] if times else last) + life - _AHEAD)
    return tuple(times)


def max_refreshes(held: int, rest: int, rates: Rates, ttl: Ttl) -> int:
    """How many refreshes of `held` tokens cost less than writing them again instead of reading them."""
    write = rates.write_1h if ttl == "1h" else rates.write_5m
    once, saved = held * rates.read + rest * rates.input, held * (write - rates.read)
    return max(0, ceil(saved / once) - 1) if once else 0
