"""What the model saw at a call, how two requests differ, and what a compaction replaced (DB-4).

These need the transcript itself. The session that was read last is kept for a while: a person looks at
several calls of the same session.
"""

import os
import threading
from collections.abc import Sequence
from itertools import dropwhile, takewhile, zip_longest
from pathlib import Path
from typing import Final

import msgspec

from everturn.errors import InputError
from everturn.history.blocks import Block, fields_of, text_of
from everturn.history.edits import CacheDeleted, Cleared, Offloaded
from everturn.history.log import Log
from everturn.history.messages import Message
from everturn.history.records import Record
from everturn.history.threads import Thread
from everturn.replay.calls import with_calls
from everturn.replay.sessions import ReplaySession, Unreadable, read_session
from everturn.session.recall.expand import expand_compactions, select_compaction
from everturn.session.recall.passages import iter_searchable_texts
from everturn.view.flatten import flatten

# A longer text is cut on the page, with a note; the export has all of it.
MAX_CHARACTERS: Final = 4_000
# How many blocks a page shows: the newest.
MAX_BLOCKS: Final = 300
# Larger sessions are not kept in memory between two requests.
_MAX_KEPT_BYTES: Final = 64 << 20


class SeenBlock(msgspec.Struct, frozen=True):
    """A block as text. `left` is how many characters are not shown."""

    role: str
    kind: str
    text: str
    left: int = 0


class SeenRequest(msgspec.Struct, frozen=True):
    """The messages of a request. `hidden` counts the oldest blocks that are not listed."""

    number: int
    messages: int
    blocks: tuple[SeenBlock, ...]
    hidden: int = 0


class RequestDifference(msgspec.Struct, frozen=True):
    """Two requests in a row: how many blocks they share, and what follows in each of them."""

    number: int
    common: int
    removed: tuple[SeenBlock, ...]
    added: tuple[SeenBlock, ...]
    removed_count: int
    added_count: int


class Replaced(msgspec.Struct, frozen=True):
    """What an edit took out of view, and what it put there instead: a summary with its receipt and what was
    restored; nothing for cleared results."""

    instead: tuple[SeenBlock, ...]
    replaced: tuple[SeenBlock, ...]
    count: int
    hidden: int = 0
    is_undone: bool = False


class TranscriptReader:
    """Reads one session at a time; several requests wait for each other, so that memory stays bounded."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._key: tuple[str, int, int] | None = None
        self._session: ReplaySession | None = None

    def thread(self, path: str, file: str, agent: str) -> Thread:
        """A thread of a session. Raises InputError if the file cannot be read any more."""
        session = self.session(path, file)
        found = next((each for each in session.threads if each.agent == agent), None)
        if found is None:
            raise InputError(f"The session has no sub-agent {agent!r}.")
        return found

    def session(self, path: str, file: str) -> ReplaySession:
        with self._lock:
            return self._read(path, file)

    def _read(self, path: str, file: str) -> ReplaySession:
        try:
            state = os.stat(file)
        except OSError as problem:
            raise InputError(f"{file} cannot be read: {problem.strerror}.") from None
        key = path, state.st_size, state.st_mtime_ns
        if self._session is not None and key == self._key:
            return self._session
        self._session = None
        found = read_session(Path(path))
        if isinstance(found, Unreadable):
            raise InputError(f"{found.path} cannot be read: {found.why}.")
        if state.st_size <= _MAX_KEPT_BYTES:
            self._key, self._session = key, found
        return found


def seen_at(thread: Thread, number: int, *, most: int = MAX_BLOCKS) -> SeenRequest:
    """What call `number` sent, as text. System prompt and tools are rarely in a transcript."""
    messages = _messages_at(thread, number)
    blocks = [(message.role, block) for message in messages for block in message.blocks]
    shown = blocks[-most:]
    return SeenRequest(
        number,
        len(messages),
        tuple(_seen(role, block) for role, block in shown),
        len(blocks) - len(shown),
    )


def compare_with_previous(thread: Thread, number: int, *, most: int = 12) -> RequestDifference:
    """Call `number` beside the call before it: where the two requests begin to differ."""
    after = [(each.role, block) for each in _messages_at(thread, number) for block in each.blocks]
    if number == 1:
        raise InputError("Call 1 is the first of this conversation: there is none before it to compare with.")
    before = [(each.role, block) for each in _messages_at(thread, number - 1) for block in each.blocks]
    pairs = enumerate(zip_longest(before, after))
    common = next((at for at, (old, new) in pairs if old != new), len(before))
    return RequestDifference(
        number,
        common,
        tuple(_seen(role, block) for role, block in before[common : common + most]),
        tuple(_seen(role, block) for role, block in after[common : common + most]),
        len(before) - common,
        len(after) - common,
    )


def replaced_by(thread: Thread, uuid: str, *, most: int = MAX_BLOCKS) -> Replaced:
    """What the edit with this uuid replaced. Raises InputError if there is no such edit."""
    at = next((at for at, record in enumerate(thread.records) if record.uuid == uuid), None)
    edit = thread.records[at].edit if at is not None else None
    if isinstance(edit, Cleared | Offloaded | CacheDeleted):
        calls = {edit.call} if isinstance(edit, Offloaded) else set(edit.calls)
        blocks = [
            _seen(record.kind, block)
            for record in thread.records
            for block in record.blocks
            if block.call in calls
        ]
        return Replaced((), tuple(blocks[:most]), len(calls), max(0, len(blocks) - most))
    found = select_compaction(expand_compactions(thread.records), uuid)
    blocks = [each for record in found.replaced for each in _record_texts(record)]
    instead = [each for record in _instead(thread, found.summary) for each in _record_texts(record)]
    return Replaced(
        tuple(instead), tuple(blocks[:most]), len(found.replaced), max(0, len(blocks) - most), found.is_undone
    )


def _instead(thread: Thread, summary: Record | None) -> list[Record]:
    """The summary and the attachments right after it: what was restored, and the receipt."""
    if summary is None:
        return []
    after = dropwhile(lambda record: record.uuid != summary.uuid, thread.records)
    return [next(after), *takewhile(lambda record: record.kind == "attachment", after)]


def around(session: ReplaySession, uuid: str, *, each_side: int = 6) -> tuple[SeenBlock, ...]:
    """The records around one, in any conversation of the session, also on abandoned branches. The record
    itself has the role `found`."""
    for thread in session.threads:
        for records in (thread.records, thread.abandoned):
            at = next((at for at, record in enumerate(records) if record.uuid == uuid), None)
            if at is not None:
                near = records[max(0, at - each_side) : at + each_side + 1]
                texts = ((record, each) for record in near for each in _record_texts(record))
                return tuple(
                    msgspec.structs.replace(each, role="found") if record.uuid == uuid else each
                    for record, each in texts
                )
    raise InputError("This record is no longer in the transcript.")


def _messages_at(thread: Thread, number: int) -> Sequence[Message]:
    log, count = Log(), 0
    for record, usage in with_calls(thread.records):
        if usage is not None:
            count += 1
            if count == number:
                return flatten(log.view).messages
        log.append(record)
    raise InputError(f"This conversation has {count:,} calls; there is no call {number:,}.")


def _record_texts(record: Record) -> list[SeenBlock]:
    return [_cut(record.kind, each.source, each.words) for each in iter_searchable_texts(record)]


def _seen(role: str, block: Block) -> SeenBlock:
    if block.is_call:
        return _cut(role, f"call of {block.tool}", _input_of(block))
    text = text_of(block)
    kind = "result" if block.is_result else "thinking" if block.is_thinking else block.kind
    return _cut(role, kind, text or f"[{block.kind or 'a block'} without text]")


def _input_of(block: Block) -> str:
    try:
        given = fields_of(block).get("input")
    except (msgspec.DecodeError, RecursionError):
        return block.raw.decode(errors="replace")
    return msgspec.json.format(msgspec.json.encode(given), indent=2).decode()


def _cut(role: str, kind: str, text: str) -> SeenBlock:
    return SeenBlock(role, kind, text[:MAX_CHARACTERS], max(0, len(text) - MAX_CHARACTERS))
