"""Indexes a session once: every use of every call, traced to the blocks that contain it (RP-6).

First the strings that outputs could need are collected, which are few compared with tool results. Then every
block is searched for just those. So no full-text index is built, and the result is small enough to be sent to
other processes. What a use is: `outputs.py` and `strings.py`.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import Final, Protocol

import msgspec

from everturn.history.blocks import Block
from everturn.history.records import Record
from everturn.history.threads import Thread
from everturn.measure.tokens import estimate_block
from everturn.replay.refetches.outputs import block_text, find_needs, shown_blocks
from everturn.replay.refetches.strings import NeededString, StringMatcher

# A name in more blocks than this is vocabulary of the session and not specific to one block.
MAX_HOLDERS: Final = 3

CountBlock = Callable[[Block], int]


class HasThreads(Protocol):
    """The part of a session that is needed here (`replay/sessions.py`)."""

    @property
    def threads(self) -> tuple[Thread, ...]: ...


class CallUses(msgspec.Struct, frozen=True, gc=False):
    """What one response used. `start` is the number of blocks before it."""

    number: int
    start: int
    uses: tuple[int, ...]


class HeldBlock(msgspec.Struct, frozen=True, gc=False):
    """A block of the conversation (record uuid and position in the record), and the needed strings it
    contains.

    `answers` is the call that a tool result answers; empty for other blocks.
    """

    name: str
    tokens: int
    holds: tuple[int, ...]
    answers: str = ""

    @property
    def record(self) -> str:
        return self.name.rpartition(":")[0]


class ThreadUses(msgspec.Struct, frozen=True):
    """The uses of one conversation. Strings, blocks and calls have numbers; calls count from 1."""

    agent: str
    strings: tuple[NeededString, ...]
    # For each string, the blocks that contain it, oldest first.
    holders: tuple[tuple[int, ...], ...]
    blocks: tuple[HeldBlock, ...]
    calls: tuple[CallUses, ...]
    # The blocks of each record that has any.
    members: dict[str, tuple[int, ...]]
    # The call that an assistant record belongs to.
    numbers: dict[str, int]
    # Text in the preamble of every request, always visible: the working directory.
    always: str = ""

    def uses_of(self, call: int) -> tuple[NeededString, ...]:
        """What that call used, in the order of its output."""
        return tuple(self.strings[string] for string in self.calls[call - 1].uses)

    def last_holder(self, string: int, before: int) -> int:
        """The most recent block before `before` that contains a string."""
        holders = self.holders[string]
        return holders[bisect_left(holders, before) - 1]


class SessionUses(msgspec.Struct, frozen=True):
    """The uses of every conversation of a session, in the order of its threads."""

    threads: tuple[ThreadUses, ...]

    def thread(self, which: str | int) -> ThreadUses:
        """By agent (empty for the main one), or by position if two agents have the same name."""
        if isinstance(which, int):
            return self.threads[which]
        for thread in self.threads:
            if thread.agent == which:
                return thread
        known = ", ".join(repr(thread.agent) for thread in self.threads) or "none"
        raise LookupError(f"No conversation of agent {which!r} found. Known agents: {known}.")


def index_session(session: HasThreads, count: CountBlock = estimate_block) -> SessionUses:
    """`count` returns the tokens of a block, with the counts that refetches are charged by."""
    return index_threads(session.threads, count)


def index_threads(threads: Iterable[Thread], count: CountBlock = estimate_block) -> SessionUses:
    return SessionUses(tuple(_Indexing(thread).finished(count) for thread in threads))


class _Indexing:
    """Collects one conversation while it is read."""

    def __init__(self, thread: Thread) -> None:
        self._agent = thread.agent
        self._blocks: list[tuple[str, Block]] = []
        self._texts: list[str] = []
        self._members: dict[str, list[int]] = {}
        self._numbers: dict[str, int] = {}
        self._calls: list[tuple[int, dict[NeededString, None]]] = []
        self._by_message: dict[str, int] = {}
        # The current response if it has no id.
        self._unnamed = 0
        self._always = _working_folder(thread.records)
        for record in thread.records:
            self._read(record)

    def _read(self, record: Record) -> None:
        # A recorded summary was written by the recorded policy; under another policy it does not exist.
        blocks = () if record.compact_summary else shown_blocks(record)
        if not blocks:
            return
        if record.kind != "assistant":
            self._unnamed = 0
        elif not (record.reply and record.reply.is_synthetic):
            self._hear(record, blocks)
        for at, block in enumerate(blocks):
            self._members.setdefault(record.uuid, []).append(len(self._blocks))
            self._blocks.append((f"{record.uuid}:{at}", block))
            self._texts.append(block_text(block))

    def _hear(self, record: Record, blocks: Iterable[Block]) -> None:
        """Records of one response are one call, even if results were recorded between them."""
        known = self._by_message.get(record.message_id) if record.message_id else self._unnamed
        number = known or self._new_call()
        if record.message_id:
            self._by_message[record.message_id] = number
        self._unnamed = 0 if record.message_id else number
        self._numbers[record.uuid] = number
        needs = self._calls[number - 1][1]
        for block in blocks:
            needs.update(dict.fromkeys(find_needs(block)))

    def _new_call(self) -> int:
        self._calls.append((len(self._blocks), {}))
        return len(self._calls)

    def finished(self, count: CountBlock) -> ThreadUses:
        sieve = StringMatcher(need for _, needs in self._calls for need in needs)
        held = [sieve.held(text) for text in self._texts]
        holders: dict[NeededString, list[int]] = {}
        for at, found in enumerate(held):
            for need in found:
                holders.setdefault(need, []).append(at)
        used = [[need for need in needs if _is_use(need, holders, start)] for start, needs in self._calls]
        ids = {need: at for at, need in enumerate(dict.fromkeys(need for needs in used for need in needs))}
        return ThreadUses(
            agent=self._agent,
            strings=tuple(ids),
            holders=tuple(tuple(holders[need]) for need in ids),
            blocks=tuple(self._held_block(at, found, ids, count) for at, found in enumerate(held)),
            calls=tuple(
                CallUses(number, start, tuple(ids[need] for need in needs))
                for number, ((start, _), needs) in enumerate(zip(self._calls, used, strict=True), start=1)
            ),
            members={uuid: tuple(blocks) for uuid, blocks in self._members.items()},
            numbers=self._numbers,
            always=self._always,
        )

    def _held_block(
        self, at: int, found: set[NeededString], ids: dict[NeededString, int], count: CountBlock
    ) -> HeldBlock:
        name, block = self._blocks[at]
        holds = tuple(sorted(ids[need] for need in found if need in ids))
        # Only blocks that contain a needed string can be missing, and counting tokens is expensive.
        tokens = count(block) if holds else 0
        return HeldBlock(name, tokens, holds, block.call if block.is_result else "")


def _is_use(need: NeededString, holders: dict[NeededString, list[int]], start: int) -> bool:
    """Whether it can be traced to a block before its call; a name only while few blocks contain it."""
    before = bisect_left(holders.get(need, ()), start)
    return before > 0 and (need[0] != "identifier" or before <= MAX_HOLDERS)


class _Place(msgspec.Struct):
    cwd: str = ""


def _working_folder(records: Iterable[Record]) -> str:
    """Every preamble names it, although recordings do not hold preambles."""
    for record in records:
        try:
            if folder := msgspec.json.decode(record.raw, type=_Place).cwd:
                return folder
        except (msgspec.DecodeError, RecursionError):
            return ""
    return ""
