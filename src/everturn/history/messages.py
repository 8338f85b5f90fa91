"""Messages: a role and content blocks, as a request carries them (TR-11)."""

from typing import Literal

import msgspec

from everturn.history.blocks import Block, text_of

Role = Literal["user", "assistant"]


class Message(msgspec.Struct, frozen=True):
    role: Role
    blocks: tuple[Block, ...]

    @property
    def calls(self) -> tuple[str, ...]:
        return tuple(block.call for block in self.blocks if block.is_call)

    @property
    def results(self) -> tuple[str, ...]:
        return tuple(block.call for block in self.blocks if block.is_result)


def is_blank(block: Block) -> bool:
    """Whether it is a text block without a visible character, which the API refuses."""
    return block.kind == "text" and not text_of(block).strip()
