"""What stands for a picture or a document in a request for a summary (CP-2)."""

from everturn.history.blocks import Block, text_block

_WORDS = {"image": "[image]", "document": "[document]"}


def stand_in(block: Block) -> Block | None:
    """A marker for a block that cannot be summarized; None for any other."""
    words = _WORDS.get(block.kind)
    return text_block(words) if words else None
