"""Two bounds for every policy (RP-9); the other one is `oracle.py`.

The floor: every token that the session holds is paid once, at the cheapest rate that a first payment can
have, and the recorded output is added. Reading anything a second time is free: nobody gets there.
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
from everturn.replay.playing.player import ThreadModels
from everturn.replay.playing.prepared import prepare
from everturn.replay.playing.steps import ReplayStep
from everturn.replay.policies import ReplayPolicy
from everturn.replay.sessions import ReplaySession

_OVERSIZE: Final = OversizeSettings()


def compute_floor(
    session: ReplaySession, scheme: ReplayPolicy, made: Mapping[str, int] | None = None
) -> Decimal:
    """`made` are the calls that a run made of each thread, where it ended early."""
    prepared = prepare(session)
    total = Decimal(0)
    for at, acts in enumerate(prepared.whole):
        count = len(acts.calls) if made is None else made.get(acts.thread, 0)
        if acts.calls[:count]:
            total += _floor_of(acts.calls[:count], prepared.thread_models(at, scheme))
    return total


def _floor_of(calls: Sequence[ReplayStep], cast: ThreadModels) -> Decimal:
    first = cast.models[calls[0].model]
    total = cast.head_tokens * _cheapest(first, calls[0])
    for number, act in enumerate(calls, start=1):
        model, costs = cast.models[act.model], cast.costs[act.model]
        shown = sum(_least(block, costs) for block in _blocks(act.before))
        said = list(_blocks(act.reply))
        # The last reply is never sent again, and old thinking need not be.
        again = [] if number == len(calls) else [block for block in said if not block.is_thinking]
        output = sum(map(costs.block, said)) * _rates(model, act).output
        total += (shown + sum(map(costs.block, again))) * _cheapest(model, act) + output
    return total / PER_MILLION


def _blocks(records: Sequence[Record]) -> list[Block]:
    return [block for record in records if is_sent(record) for block in record.blocks]


def _least(block: Block, costs: ScaledCosts) -> int:
    """A result so large that a policy may show only its beginning counts as that."""
    tokens = costs.block(block)
    if not block.is_result or len(text := text_of(block)) <= _OVERSIZE.single:
        return tokens
    return tokens * _OVERSIZE.preview // len(text)


def _rates(model: Model, act: ReplayStep) -> Rates:
    """Of a short prompt: a long one may cost more."""
    return model.rates(on=act.at.date(), prompt_tokens=0)


def _cheapest(model: Model, act: ReplayStep) -> Decimal:
    rates = _rates(model, act)
    return min(rates.input, rates.write_5m, rates.write_1h)
