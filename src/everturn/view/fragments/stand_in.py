"""The replacement for a block that a summary request cannot contain: an image, a document, or a summary that
the provider signed and accepts only in its own form (CP-2, CP-35).
"""

from everturn.history.blocks import Block, text_block, text_of

_WORDS = {"image": "[image]", "document": "[document]"}


def stand_in(block: Block) -> Block | None:
    """A placeholder for a block that cannot be summarized; None for any other."""
    words = _WORDS.get(block.kind) or (text_of(block) if block.kind == "compaction" else "")
    return text_block(words) if words else None
