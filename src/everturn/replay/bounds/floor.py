"""The floor: a lower bound for the cost of any policy (RP-9). Other bounds: `clairvoyant.py`,
`clears_only.py`.

Every token of the session is paid once, at the cheapest rate for new input; system prompt and tools are read
from the cache on every further call, because every request has them; and the recorded output is added. All
other reading is free. No real policy can reach this.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final

from everturn.decide.settings import OversizeSettings
from everturn.history.blocks import Block, text_of
from everturn.history.records import Record, is_sent
from everturn.measure.model import Model, Rates
from everturn.measure.pricing import PER_MILLION
from everturn.replay.playing.counting import ScaledCosts
from everturn.replay.playing.prepared import prepare
from everturn.replay.playing.steps import ReplayStep
from everturn.replay.playing.thread_models import ThreadModels
from everturn.replay.policies import ReplayPolicy
from everturn.replay.sessions import ReplaySession

_OVERSIZE: Final = OversizeSettings()


def compute_floor(
    session: ReplaySession, policy: ReplayPolicy, made: Mapping[str, int] | None = None
) -> Decimal:
    """`made` is the number of calls per thread, for a run that ended early."""
    prepared = prepare(session)
    total = Decimal(0)
    for at, thread in enumerate(prepared.whole):
        count = len(thread.calls) if made is None else made.get(thread.name, 0)
        if thread.calls[:count]:
            total += _floor_of(thread.calls[:count], prepared.thread_models(at, policy))
    return total


def _floor_of(calls: Sequence[ReplayStep], thread_models: ThreadModels) -> Decimal:
    first = thread_models.models[calls[0].model]
    # The first call may find them in the cache, if others of the same agent have written them.
    total = thread_models.preamble.tokens * _rates(first, calls[0]).read
    for number, step in enumerate(calls, start=1):
        model, costs = thread_models.models[step.model], thread_models.costs[step.model]
        shown = sum(_least(block, costs) for block in _blocks(step.before))
        said = list(_blocks(step.reply))
        # The last reply is never sent again, and earlier thinking need not be.
        again = [] if number == len(calls) else [block for block in said if not block.is_thinking]
        output = sum(map(costs.block, said)) * _rates(model, step).output
        total += (shown + sum(map(costs.block, again))) * _cheapest(model, step) + output
        preamble = thread_models.preamble_at(step.number).tokens
        total += preamble * _rates(model, step).read if number > 1 else 0
    return total / PER_MILLION


def _blocks(records: Sequence[Record]) -> list[Block]:
    return [block for record in records if is_sent(record) for block in record.blocks]


def _least(block: Block, costs: ScaledCosts) -> int:
    """An oversized result counts as its preview, because a policy may show only that."""
    tokens = costs.block(block)
    if not block.is_result or len(text := text_of(block)) <= _OVERSIZE.single:
        return tokens
    return tokens * _OVERSIZE.preview // len(text)


def _rates(model: Model, step: ReplayStep) -> Rates:
    """Rates of a short prompt, because a long one may cost more."""
    return model.rates(on=step.at.date(), prompt_tokens=0)


def _cheapest(model: Model, step: ReplayStep) -> Decimal:
    rates = _rates(model, step)
    return min(rates.input, rates.write_5m, rates.write_1h)
