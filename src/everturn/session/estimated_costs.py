"""Estimated token counts of blocks, for providers that do not document how they count.

A prediction made with these estimates is right about which blocks are read from the cache and which are
written, but not exact in tokens. The usage of each reply corrects it (`measure/prediction.py`). The twin's
exact counts are in `twin/costs.py`.
"""

from typing import Final

from everturn.history.blocks import Block
from everturn.measure.model import Model
from everturn.measure.tokens import estimate_block, estimator_for

# Tokens that the API adds between two messages. Not documented; reported usage shows about this many.
TURN: Final = 4


class EstimatedCosts:
    """`measure.outline.TokenCosts`, from the average characters per token of a model's tokenizer."""

    def __init__(self, model: Model) -> None:
        self._estimator = estimator_for(model)
        self.turn = TURN
        self.tool_prompt = model.tool_prompt
        self.trailing = 0
        self.keeps_thinking = model.keeps_thinking

    def block(self, block: Block, /) -> int:
        return 0 if block.kind == "cache_edits" else estimate_block(block, self._estimator)
