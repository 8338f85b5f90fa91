"""Sizes of blocks that are learned after a turn count from the next one on."""

import builders as b
from engine.alone import Alone
from engine.held import model_of

from everturn.history.blocks import Block
from everturn.twin.costs import TwinCosts


class LearnedCosts(TwinCosts):
    """The twin's, until somebody knows better."""

    def __init__(self, model: str) -> None:
        super().__init__(model_of(model))
        self.learned: dict[bytes, int] = {}

    def block(self, block: Block) -> int:
        return self.learned.get(block.raw, super().block(block))


def test_what_was_measured_is_measured_again_after_a_recount_and_not_before():
    costs = LearnedCosts("claude-sonnet-4-5")
    said = b.user("Mend the parser.", uuid="u1")
    alone = Alone([said], costs=costs)
    before = alone.turn().prediction.total
    usual = costs.block(said.blocks[0])
    costs.learned[said.blocks[0].raw] = usual + 1_000
    kept = alone.turn().prediction.total
    alone.conversation.recount()
    assert (kept - before, alone.turn().prediction.total - before) == (0, 1_000)
