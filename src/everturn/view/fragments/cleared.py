"""What stands where the content of a cleared tool result stood."""

from everturn.history.blocks import Block, with_field

TEXT = "[Old tool result content cleared]"


def cleared(block: Block) -> Block:
    """The same result without its content: the call stays answered, and the model may call again."""
    return with_field(block, "content", TEXT)
