"""Tokens in a replay: the twin's counting, corrected by what the session itself reported (RP-2).

Between two calls the reported context grows by what was appended. The ratio of the reported growth to the
twin's count of the same blocks corrects every count of that model in that session; it is stated with the
results. System prompt and tools are not in a recording: what the first call reported beyond its messages is
one block of constant size. `measure/calibration.py` does the first half for the rough estimate.
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
    """`measure.outline.Costs`, scaled; blocks whose size is known otherwise have that size."""

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
        """This block is so large, whatever its bytes say."""
        self._counted[block.raw] = tokens

    def all(self, blocks: Iterable[Block]) -> int:
        return sum(map(self.block, blocks))


class CountRatio(msgspec.Struct, frozen=True):
    """What a session's own usage says about the twin's counting of one model."""

    ratio: float = 1.0
    samples: int = 0


def fit_ratio(threads: Iterable[Sequence[ReplayStep]], model: str, plain: ScaledCosts) -> CountRatio:
    """Learned from pairs of calls with nothing but new records between them."""
    counted = reported = samples = 0
    for acts in threads:
        for last, act in pairwise(acts):
            if not (last.context and act.context and last.model == act.model == model) or act.is_edited:
                continue
            grown, more = plain.all(sent_blocks(last.reply, act.before)), act.context - last.context
            if 0 < grown <= more * MAX_FACTOR and 0 < more <= grown * MAX_FACTOR:
                counted, reported, samples = counted + grown, reported + more, samples + 1
    return CountRatio(reported / counted, samples) if samples >= MIN_SAMPLES else CountRatio(samples=samples)


def sent_blocks(*records: Iterable[Record]) -> Iterable[Block]:
    return (block for some in records for record in some if is_sent(record) for block in record.blocks)


def estimate_preamble_tokens(acts: Sequence[ReplayStep], costs: ScaledCosts) -> int:
    """What the first call was shown beyond its messages; 0 where it reported nothing."""
    if not acts or not acts[0].context:
        return 0
    return max(0, acts[0].context - costs.all(sent_blocks(acts[0].before)) - costs.turn - costs.trailing)


def make_stand_in_preamble(thread: str, tokens: int, recorded: str = "") -> tuple[Preamble, Block]:
    """One block for all of it: what was recorded of it, else a stand-in. That names its thread: no recording
    tells which threads share a prompt."""
    block = text_block(recorded or f"[system prompt and tools of {thread}, not recorded: {tokens} tokens]")
    return Preamble(system=(block,), marked=(0,)), block
