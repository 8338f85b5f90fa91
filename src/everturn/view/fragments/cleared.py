"""The replacement for the content of a cleared tool result."""

from everturn.history.blocks import Block, with_field

TEXT = "[Old tool result content cleared]"


def cleared(block: Block) -> Block:
    """The same result without its content: the call stays answered, and the model may repeat it."""
    return with_field(block, "content", TEXT)
