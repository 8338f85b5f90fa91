"""The replacement for an oversized tool result: its beginning, and the path of the full text (MC-17)."""

from everturn.history.blocks import Block, with_field
from everturn.history.edits import Offloaded


def offloaded(block: Block, edit: Offloaded) -> Block:
    return with_field(block, "content", offloaded_words(edit.characters, edit.path, edit.preview))


def offloaded_words(characters: int, path: str, preview: str) -> str:
    return (
        f"[This result has {characters:,} characters, too many to show. "
        f"All of it is in {path}; read it there. It begins:]\n{preview}"
    )
