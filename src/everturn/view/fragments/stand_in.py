"""What stands for a block that a request for a summary cannot carry: a picture, a document, or a summary that
the provider signed and takes back only in its own form (CP-2, CP-35)."""

from everturn.history.blocks import Block, text_block, text_of

_WORDS = {"image": "[image]", "document": "[document]"}


def stand_in(block: Block) -> Block | None:
    """A marker for a block that cannot be summarized; None for any other."""
    words = _WORDS.get(block.kind) or (text_of(block) if block.kind == "compaction" else "")
    return text_block(words) if words else None
