"""Token counts in a replay: the twin's counts, scaled to match the usage that the session reported (RP-2).

Between two calls the reported context grows by what was appended. The ratio of that growth to the twin's
count of the same blocks scales all counts of that model in that session; it is reported with the results. A
recording does not hold system prompt and tools, so what the first call reported beyond its messages becomes
one block of constant size. `measure/calibration.py` scales the rough estimate in the same way.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec

from everturn.history.blocks import Block, text_block
from everturn.history.records import Record, is_sent
from everturn.measure.calibration import MAX_FACTOR, MIN_SAMPLES
from everturn.measure.model import Model
from everturn.measure.outline import Preamble
from everturn.replay.playing.steps import ReplayStep
from everturn.twin.costs import TwinCosts


class ScaledCosts:
    """`measure.outline.Costs`, scaled. Blocks with a known size keep it."""

    def __init__(self, model: Model, ratio: float = 1.0) -> None:
        self._twin = TwinCosts(model)
        self._counted: dict[bytes, int] = {}
        self.ratio = ratio
        self.turn = self._twin.turn
        self.tool_prompt = self._twin.tool_prompt
        self.trailing = self._twin.trailing

    def block(self, block: Block, /) -> int:
        known = self._counted.get(block.raw)
        if known is None:
            known = self._counted[block.raw] = max(1, round(self._twin.block(block) * self.ratio))
        return known

    def set_tokens(self, block: Block, tokens: int) -> None:
        """Sets the size of this block, regardless of its bytes."""
        self._counted[block.raw] = tokens

    def all(self, blocks: Iterable[Block]) -> int:
        return sum(map(self.block, blocks))


class CountRatio(msgspec.Struct, frozen=True):
    """The scale for the twin's counts of one model, from the usage of a session."""

    ratio: float = 1.0
    samples: int = 0


def fit_ratio(threads: Iterable[Sequence[ReplayStep]], model: str, plain: ScaledCosts) -> CountRatio:
    """Fitted on pairs of calls with only new records between them."""
    counted = reported = samples = 0
    for steps in threads:
        for last, step in pairwise(steps):
            if not (last.context and step.context and last.model == step.model == model) or step.is_edited:
                continue
            grown, more = plain.all(sent_blocks(last.reply, step.before)), step.context - last.context
            if 0 < grown <= more * MAX_FACTOR and 0 < more <= grown * MAX_FACTOR:
                counted, reported, samples = counted + grown, reported + more, samples + 1
    return CountRatio(reported / counted, samples) if samples >= MIN_SAMPLES else CountRatio(samples=samples)


def sent_blocks(*records: Iterable[Record]) -> Iterable[Block]:
    return (block for some in records for record in some if is_sent(record) for block in record.blocks)


def estimate_preamble_tokens(steps: Sequence[ReplayStep], costs: ScaledCosts) -> int:
    """What the first call reported beyond its messages; 0 if it reported nothing."""
    if not steps or not steps[0].context:
        return 0
    return max(0, steps[0].context - costs.all(sent_blocks(steps[0].before)) - costs.turn - costs.trailing)


def make_stand_in_preamble(thread: str, tokens: int, recorded: str = "") -> tuple[Preamble, Block]:
    """One block for system prompt and tools: the recorded text, else a placeholder. The placeholder names its
    thread, because a recording does not show which threads share a prompt.
    """
    block = text_block(recorded or f"[system prompt and tools of {thread}, not recorded: {tokens} tokens]")
    return Preamble(system=(block,), marked=(0,)), block
