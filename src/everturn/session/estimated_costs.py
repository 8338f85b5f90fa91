"""What blocks cost, estimated: for providers that do not tell how they count.

A prediction made with it is right about what is read and written, and off in how many tokens that is; the
usage of every reply settles it (`measure/prediction.py`). The twin's own counting is `twin/costs.py`.
"""

from typing import Final

from everturn.history.blocks import Block
from everturn.measure.model import Model
from everturn.measure.tokens import estimate_block, estimator_for

# Between two speakers; what the API adds there is not documented, a handful is what usage shows.
TURN: Final = 4


class EstimatedCosts:
    """`measure.outline.Costs` by the average of a model's tokenizer."""

    def __init__(self, model: Model) -> None:
        self._estimator = estimator_for(model)
        self.turn = TURN
        self.tool_prompt = model.tool_prompt
        self.trailing = 0

    def block(self, block: Block, /) -> int:
        return 0 if block.kind == "cache_edits" else estimate_block(block, self._estimator)
