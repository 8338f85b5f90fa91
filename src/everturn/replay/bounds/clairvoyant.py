"""The clairvoyant plan: what a session costs if the future is known (EC-12).

The plan may reset the context before any call, for nothing: it then keeps exactly the blocks that are used
later, and no summary. It may keep the cache alive during a pause, in the cheapest way, if that costs less
than writing again. What the next call reads has to be written to the cache; only what the next call does not
read is paid as plain input. Which resets are best is found by dynamic programming over the calls. No policy
that can run knows enough to follow it, and a reset that costs nothing is more than foresight could do: the
plan is a bound, not an aim.
"""

from bisect import bisect_right
from collections.abc import Sequence
from decimal import Decimal
from math import ceil
from typing import Final

import msgspec

from everturn.measure.prefix_cache import SECONDS
from everturn.measure.pricing import PER_MILLION
from everturn.replay.playing.counting import ScaledCosts, sent_blocks
from everturn.replay.playing.prepared import prepare
from everturn.replay.playing.steps import ReplayStep
from everturn.replay.playing.thread_models import ThreadModels
from everturn.replay.policies import ReplayPolicy
from everturn.replay.refetches import SessionUses, ThreadUses
from everturn.replay.refetches.cover import COUNTED_ALONE
from everturn.replay.sessions import ReplaySession

# A refresh is sent this long after the last use of a five-minute entry.
_REFRESH_EVERY: Final = SECONDS["5m"] - 10


class PlannedCall(msgspec.Struct, frozen=True):
    """What the plan knows of one call. Dollars are per token."""

    # Tokens that are new before this call, and of earlier blocks that are used at this call or later.
    new: int
    needed: int
    # Seconds since the call before.
    pause: float
    read: float
    # New input that a later call reads, and that none does.
    write: float
    plain: float
    output: Decimal
    # Tokens from the beginning that were in the provider's cache, whoever had written them.
    held: int = 0


def compute_clairvoyant(session: ReplaySession, policy: ReplayPolicy, uses: SessionUses) -> Decimal:
    prepared = prepare(session)
    total = Decimal(0)
    for at, thread in enumerate(prepared.whole):
        if thread.calls:
            models = prepared.thread_models(at, policy)
            calls = _planned(thread.calls, models, uses.thread(at))
            # A bound may not be too high: the smallest preamble, if models have different ones.
            sizes = (models.preamble, *models.preambles.values())
            total += cheapest_plan(calls, min(each.tokens for each in sizes))
    return total


def cheapest_plan(calls: Sequence[PlannedCall], preamble: int) -> Decimal:
    """The least that these calls can cost, over all choices of resets."""
    best = [0.0] + [float("inf")] * len(calls)
    for start in range(len(calls)):
        spent, context = best[start], 0
        for at in range(start, len(calls)):
            call = calls[at]
            if at > start:
                known, new = context, call.new
            elif start:
                known, new = preamble, call.needed + call.new
            else:
                known, new = 0, preamble + call.new
            # Before a reset, and after the last call, nobody reads what this call has written.
            best[at + 1] = min(best[at + 1], spent + _price_input(call, known, new, call.plain))
            spent += _price_input(call, known, new, call.write)
            context = known + new
    return Decimal(str(best[-1])) + sum((call.output for call in calls), Decimal(0))


def _price_input(call: PlannedCall, known: int, new: int, rate: float) -> float:
    """What was sent before and what is new; or less, if others had kept the beginning in the cache."""
    total = known + new
    held = min(call.held, total)
    return min(_keep(call, known, rate) + new * rate, held * call.read + (total - held) * rate)


def _keep(call: PlannedCall, context: int, rate: float) -> float:
    """Reading what was sent before, after a pause in which it was kept alive, or writing it again."""
    again = call.read * context
    if call.pause <= SECONDS["5m"]:
        return again
    refreshes = ceil(call.pause / _REFRESH_EVERY) - 1
    hours = ceil(call.pause / SECONDS["1h"])
    return min(again + min(refreshes, hours) * call.read * context, rate * context)


def _planned(calls: Sequence[ReplayStep], models: ThreadModels, uses: ThreadUses) -> list[PlannedCall]:
    needed = _needed_before(uses, len(calls))
    found: list[PlannedCall] = []
    last: ReplayStep | None = None
    for at, step in enumerate(calls):
        model, costs = models.models[step.model], models.costs[step.model]
        # A bound may not be too high: the rates of a short prompt.
        rates = model.rates(on=step.at.date(), prompt_tokens=0)
        said = _said(last, costs)
        found.append(
            PlannedCall(
                new=costs.all(sent_blocks(step.before)) + said,
                needed=needed[at],
                pause=(step.at - last.at).total_seconds() if last else 0.0,
                read=float(rates.read / PER_MILLION),
                write=float(min(rates.write_5m, rates.write_1h) / PER_MILLION),
                plain=float(min(rates.input, rates.write_5m, rates.write_1h) / PER_MILLION),
                output=costs.all(sent_blocks(step.reply)) * rates.output / PER_MILLION,
                held=_held(models, step.number),
            )
        )
        last = step
    return found


def _held(models: ThreadModels, call: int) -> int:
    event = models.events.get(call)
    found = event.tokens if event is not None and event.kind == "found" else 0
    return max(models.warm.get(call, 0), found)


def _said(last: ReplayStep | None, costs: ScaledCosts) -> int:
    """The reply before, without thinking, which need not be sent again."""
    blocks = sent_blocks(last.reply) if last else ()
    return costs.all(block for block in blocks if not block.is_thinking)


def _needed_before(uses: ThreadUses, count: int) -> list[int]:
    """For each call, the tokens of blocks from before it that are used at it or later."""
    starts = [call.start for call in uses.calls]
    last_use: dict[int, int] = {}
    for call in uses.calls:
        for string in call.uses:
            if uses.strings[string][0] in COUNTED_ALONE:
                last_use[uses.last_holder(string, call.start)] = call.number
    found = [0] * count
    for block, until in last_use.items():
        # The first call that can see the block.
        first = bisect_right(starts, block)
        for at in range(first + 1, min(until, count)):
            found[at] += uses.blocks[block].tokens
    return found
