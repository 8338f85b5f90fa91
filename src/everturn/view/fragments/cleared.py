"""What stands where the content of a cleared tool result stood."""

from everturn.history.blocks import Block, block_from_fields, fields_of

TEXT = "[Old tool result content cleared]"


def cleared(block: Block) -> Block:
    """The same result without its content: the call stays answered, and the model may call again."""
    return block_from_fields({**fields_of(block), "content": TEXT})
