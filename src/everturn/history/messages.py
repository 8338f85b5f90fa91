"""Messages: a role and content blocks, as a request carries them (TR-11)."""

from collections.abc import Sequence
from typing import Literal, Protocol

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


class _HasKind(Protocol):
    @property
    def kind(self) -> str: ...


class _HasBlocks(Protocol):
    @property
    def role(self) -> str: ...
    @property
    def blocks(self) -> Sequence[_HasKind]: ...


def is_user_prompt(message: _HasBlocks) -> bool:
    """A user message with content other than tool results. It starts a new turn."""
    return message.role == "user" and any(block.kind != "tool_result" for block in message.blocks)


def find_last_prompt(messages: Sequence[_HasBlocks], first: int = 0, otherwise: int = 0) -> int:
    """The last prompt from `first` on, or `otherwise`. Models that keep only the last turn's thinking are
    shown none before it (api-facts 1.10). The API decides so for itself, whatever a request holds.
    """
    places = range(len(messages) - 1, first - 1, -1)
    return next((at for at in places if is_user_prompt(messages[at])), otherwise)


def is_blank(block: Block) -> bool:
    """Whether it is a text block without a visible character, which the API refuses."""
    return block.kind == "text" and not text_of(block).strip()
