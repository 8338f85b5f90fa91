"""What stands where an oversized tool result stood: its beginning, and where the whole of it is (MC-17)."""

from everturn.history.blocks import Block, with_field
from everturn.history.edits import Offloaded


def offloaded(block: Block, edit: Offloaded) -> Block:
    words = (
        f"[This result has {edit.characters:,} characters, too many to show. "
        f"All of it is in {edit.path}; read it there. It begins:]\n{edit.preview}"
    )
    return with_field(block, "content", words)
