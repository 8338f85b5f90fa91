"""Indexes a session once: every use of every call, traced to the blocks that contain it (RP-6, RP-14).

A string is a use only if the recorded agent had it in its own sight at that call: in a block that was visible
in the recording, or in its recorded summary. Otherwise it knew it from elsewhere.

First the strings that outputs could need are collected, which are few compared with tool results. Then every
block is searched for just those. So no full-text index is built, and the result is small enough to be sent to
other processes. What a use is: `outputs.py` and `strings.py`.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

import msgspec

from everturn.history.blocks import Block
from everturn.history.edits import Cleared
from everturn.history.log import Log
from everturn.history.records import Record
from everturn.history.threads import Thread
from everturn.measure.tokens import estimate_block
from everturn.replay.refetches.outputs import (
    MIN_QUOTED_CHARS,
    block_text,
    file_of_call,
    find_needs,
    read_files,
    shown_blocks,
    thinking_text,
)
from everturn.replay.refetches.strings import (
    NEVER_OWN,
    NeededString,
    StringMatcher,
    UseKind,
    count_visible_chars,
    occurs_in,
)

# A name in more blocks than this, or a line in more files, is vocabulary of the session and not specific to
# one block.
MAX_HOLDERS: Final = 3
_LINES: Final[tuple[UseKind, ...]] = ("quoted", "copied")
_WHOLE_LINES: Final[tuple[UseKind, ...]] = ("old_text", *_LINES)

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
    # The files that the response itself reads.
    reads: tuple[str, ...] = ()
    # The file of each line that it replaces.
    targets: tuple[tuple[int, str], ...] = ()


class HeldBlock(msgspec.Struct, frozen=True, gc=False):
    """A block of the conversation (record uuid and position in the record), and the needed strings it
    contains.

    `answers` is the call that a tool result answers; empty for other blocks. `file` is the file that a call
    or its result is about. The assistant's own prose makes a string visible, but nobody fetches it again;
    `is_own` is its prose and its calls. Thinking makes a string visible as long as it is sent.
    """

    name: str
    tokens: int
    holds: tuple[int, ...]
    answers: str = ""
    file: str = ""
    is_prose: bool = False
    is_own: bool = False
    is_thinking: bool = False

    @property
    def record(self) -> str:
        return self.name.rpartition(":")[0]


class ThreadUses(msgspec.Struct, frozen=True):
    """The uses of one conversation. Strings, blocks and calls have numbers; calls count from 1."""

    agent: str
    strings: tuple[NeededString, ...]
    # For each string, the blocks that contain it, oldest first. Nothing is traced to thinking.
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
        return self.holders_before(string, before)[-1]

    def holders_before(self, string: int, before: int) -> tuple[int, ...]:
        """The blocks before `before` that contain a string, oldest first."""
        holders = self.holders[string]
        return holders[: bisect_left(holders, before)]


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


class _Heard:
    """One response while it is read."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.needs: dict[NeededString, None] = {}
        self.reads: list[str] = []
        self.targets: dict[NeededString, str] = {}

    def add(self, block: Block) -> None:
        file = file_of_call(block) if block.is_call else ""
        for need in find_needs(block):
            self.needs[need] = None
            if file and need[0] in ("old_text", "partial"):
                self.targets[need] = file
        self.reads += read_files(block)


class _Indexing:
    """Collects one conversation while it is read."""

    def __init__(self, thread: Thread) -> None:
        self._agent = thread.agent
        self._blocks: list[tuple[str, Block]] = []
        self._texts: list[str] = []
        self._is_prose: list[bool] = []
        self._is_own: list[bool] = []
        self._files: list[str] = []
        self._file_of: dict[str, str] = {}
        self._members: dict[str, list[int]] = {}
        self._numbers: dict[str, int] = {}
        self._calls: list[_Heard] = []
        self._by_message: dict[str, int] = {}
        # The current response if it has no id.
        self._unnamed = 0
        self._always = _working_folder(thread.records)
        # The call from which on the recording no longer showed a block, and its summaries.
        self._hidden_from: dict[int, int] = {}
        self._summaries: list[tuple[int, str]] = []
        log = Log()
        for record in thread.records:
            self._read(record)
            if log.append(record) == "replaced":
                self._show_only({shown.uuid for shown in log.view.records})
            if isinstance(record.edit, Cleared):
                self._hide_results(set(record.edit.calls))

    def _read(self, record: Record) -> None:
        if record.compact_summary:
            # Written by the recorded policy; under another policy it does not exist.
            text = "\n".join(map(block_text, record.blocks))
            self._summaries.append((len(self._calls) + 1, text))
            return
        blocks = shown_blocks(record)
        if not blocks:
            return
        if record.kind != "assistant":
            self._unnamed = 0
        elif not (record.reply and record.reply.is_synthetic):
            self._hear(record, blocks)
        for at, block in enumerate(blocks):
            self._members.setdefault(record.uuid, []).append(len(self._blocks))
            self._blocks.append((f"{record.uuid}:{at}", block))
            self._texts.append(thinking_text(block) if block.is_thinking else block_text(block))
            self._is_own.append(record.kind == "assistant")
            self._is_prose.append(record.kind == "assistant" and not block.is_call)
            self._files.append(self._file(block))

    def _file(self, block: Block) -> str:
        if block.is_call:
            self._file_of[block.call] = file_of_call(block)
        return self._file_of.get(block.call, "") if block.call else ""

    def _show_only(self, uuids: set[str]) -> None:
        shown = {at for uuid in uuids for at in self._members.get(uuid, ())}
        for at in range(len(self._blocks)):
            if at not in shown:
                self._hidden_from.setdefault(at, len(self._calls) + 1)

    def _hide_results(self, calls: set[str]) -> None:
        for at, (_, block) in enumerate(self._blocks):
            if block.is_result and block.call in calls:
                self._hidden_from.setdefault(at, len(self._calls) + 1)

    def _hear(self, record: Record, blocks: Iterable[Block]) -> None:
        """Records of one response are one call, even if results were recorded between them."""
        known = self._by_message.get(record.message_id) if record.message_id else self._unnamed
        number = known or self._new_call()
        if record.message_id:
            self._by_message[record.message_id] = number
        self._unnamed = 0 if record.message_id else number
        self._numbers[record.uuid] = number
        for block in blocks:
            self._calls[number - 1].add(block)

    def _new_call(self) -> int:
        self._calls.append(_Heard(len(self._blocks)))
        return len(self._calls)

    def finished(self, count: CountBlock) -> ThreadUses:
        sieve = StringMatcher(need for heard in self._calls for need in heard.needs)
        asked = {block.call: self._texts[at] for at, (_, block) in enumerate(self._blocks) if block.is_call}
        held = [
            sieve.held(text, asked.get(block.call, "") if block.is_result else "")
            for text, (_, block) in zip(self._texts, self._blocks, strict=True)
        ]
        holders: dict[NeededString, list[int]] = {}
        for at, found in enumerate(held):
            if not self._blocks[at][1].is_thinking:
                for need in found:
                    holders.setdefault(need, []).append(at)
        used = [
            [need for need in heard.needs if self._is_use(need, holders, number, heard.start)]
            for number, heard in enumerate(self._calls, start=1)
        ]
        numbers = {
            need: at for at, need in enumerate(dict.fromkeys(need for needs in used for need in needs))
        }
        self._add_inner_lines(held, numbers)
        return ThreadUses(
            agent=self._agent,
            strings=tuple(numbers),
            holders=tuple(tuple(holders[need]) for need in numbers),
            blocks=tuple(self._held_block(at, found, numbers, count) for at, found in enumerate(held)),
            calls=tuple(
                CallUses(
                    number,
                    heard.start,
                    tuple(numbers[need] for need in needs),
                    tuple(dict.fromkeys(heard.reads)),
                    tuple((numbers[need], heard.targets[need]) for need in needs if need in heard.targets),
                )
                for number, (heard, needs) in enumerate(zip(self._calls, used, strict=True), start=1)
            ),
            members={uuid: tuple(blocks) for uuid, blocks in self._members.items()},
            numbers=self._numbers,
            always=self._always,
        )

    def _add_inner_lines(self, held: Sequence[set[NeededString]], used: Iterable[NeededString]) -> None:
        """The agent repeats lines in the middle of its own: in thinking, and long ones in scripts that it
        writes. A short one can be part of another line by chance.
        """
        whole = [need for need in used if need[0] in _WHOLE_LINES]
        long = [need for need in whole if count_visible_chars(need[1]) >= MIN_QUOTED_CHARS]
        for at, (_, block) in enumerate(self._blocks):
            if self._is_own[at]:
                wanted = whole if block.is_thinking else long
                held[at].update(need for need in wanted if need[1] in self._texts[at])

    def _held_block(
        self, at: int, found: set[NeededString], numbers: dict[NeededString, int], count: CountBlock
    ) -> HeldBlock:
        name, block = self._blocks[at]
        holds = tuple(sorted(numbers[need] for need in found if need in numbers))
        # Only blocks that contain a needed string can be missing, and counting tokens is expensive.
        tokens = count(block) if holds and not block.is_thinking else 0
        answers = block.call if block.is_result else ""
        return HeldBlock(
            name,
            tokens,
            holds,
            answers,
            self._files[at],
            self._is_prose[at],
            self._is_own[at],
            block.is_thinking,
        )

    def _is_use(
        self, need: NeededString, holders: dict[NeededString, list[int]], number: int, start: int
    ) -> bool:
        """Whether a string can be traced to a block before its call that the recorded agent had in sight; a
        name or line only while few blocks contain it.
        """
        kind, held = need[0], holders.get(need, [])
        earlier = held[: bisect_left(held, start)]
        if not earlier or (kind in NEVER_OWN and self._is_own[earlier[0]]):
            return False
        before = [at for at in earlier if not (self._is_own if kind in NEVER_OWN else self._is_prose)[at]]
        if not before or self._is_vocabulary(kind, before):
            return False
        if any(self._hidden_from.get(at, number + 1) > number for at in before):
            return True
        seen = [text for since, text in self._summaries if since <= number]
        return bool(seen) and occurs_in(need, seen[-1])

    def _is_vocabulary(self, kind: UseKind, holders: Sequence[int]) -> bool:
        if kind == "name":
            return len(holders) > MAX_HOLDERS
        # A file that was read several times is one place.
        return kind in _LINES and len({self._files[at] or at for at in holders}) > MAX_HOLDERS


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
