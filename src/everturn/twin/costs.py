"""The twin's token counts as `TokenCosts`, to predict its bill exactly."""

from everturn.history.blocks import Block, fields_of
from everturn.measure.model_table import Model
from everturn.twin.count import make_block_counter
from everturn.twin.options import TwinOptions
from everturn.twin.parse import make_block
from everturn.twin.request_layout import TURN_TOKENS


class TwinCosts:
    """Implements `measure.outline.TokenCosts` with the counts that the twin bills."""

    def __init__(self, model: Model, options: TwinOptions | None = None) -> None:
        self._options = options or TwinOptions()
        self._count = make_block_counter(model, self._options)
        self.turn = TURN_TOKENS
        self.tool_prompt = model.tool_prompt
        self.trailing = self._options.trailing_tokens
        self.keeps_thinking = model.keeps_thinking

    def block(self, block: Block, /) -> int:
        if block.kind == "cache_edits":
            return 0
        return self._count(make_block(fields_of(block), kind=block.kind))
