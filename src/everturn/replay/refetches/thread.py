"""The uses of one conversation: what each call needs, and which blocks hold it (RP-6).

Built once by `index.py` and never changed; what is visible of it under a policy is kept in `visibility.py`.
"""

from bisect import bisect_left

import msgspec

from everturn.replay.refetches.strings import NeededString


class CallUses(msgspec.Struct, frozen=True, gc=False):
    """What one response used. `start` is the number of blocks that were there before it."""

    number: int
    start: int
    uses: tuple[int, ...]


class HeldBlock(msgspec.Struct, frozen=True, gc=False):
    """A block of the conversation, by its record's uuid and its place in it, and the needed strings it holds.

    `answers` is the call that a tool result answers; a block that is no result answers none.
    """

    name: str
    tokens: int
    holds: tuple[int, ...]
    answers: str = ""

    @property
    def record(self) -> str:
        return self.name.rpartition(":")[0]


class ThreadUses(msgspec.Struct, frozen=True):
    """Strings, blocks and calls are named by their numbers here; calls count from one."""

    agent: str
    strings: tuple[NeededString, ...]
    # For each string the blocks that hold it, oldest first.
    holders: tuple[tuple[int, ...], ...]
    blocks: tuple[HeldBlock, ...]
    calls: tuple[CallUses, ...]
    # How many blocks came before a record, for every record; and the blocks of those that have any.
    starts: dict[str, int]
    members: dict[str, tuple[int, ...]]
    # The call that an assistant's record is a piece of.
    numbers: dict[str, int]
    # Words of the head of every request, always in sight: the working folder.
    always: str = ""

    def uses_of(self, call: int) -> tuple[NeededString, ...]:
        """What that call used, in the order of its output."""
        return tuple(self.strings[string] for string in self.calls[call - 1].uses)

    def last_holder(self, string: int, before: int) -> int:
        """The most recent block before that one that holds a string."""
        holders = self.holders[string]
        return holders[bisect_left(holders, before) - 1]
