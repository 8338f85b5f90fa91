"""The records of one open conversation, and how new ones become lines: the same for every store.

A line that is written twice, a uuid that two records share and a compaction that is there in part are
recognised here; where lines are kept, and when they are durable, is for the store to say.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from everturn.errors import UsageError
from everturn.history.edits import Undone
from everturn.history.records import Record
from everturn.session.store.line_tags import is_compaction, tag_lines, undo_cut_off_compaction
from everturn.wire.claude_code_reader import Transcript, parse_session_file
from everturn.wire.claude_code_writer import LineContext, encode_record
from everturn.wire.line_repair import LineProblem
from everturn.wire.line_sums import advance


class NewLines(NamedTuple):
    """Lines ready to be written, the records in them, and the state of the checksum behind them."""

    data: bytes
    records: tuple[Record, ...]
    sum: int


class RecordLines:
    """What a store has read and written of a conversation. `path` is its name in messages."""

    def __init__(self, path: str, place: LineContext) -> None:
        self.path = path
        # Where the session works: written into every line.
        self.place = place
        # The state of the checksum at the end of the lines (`wire/line_sums.py`).
        self.sum = 0
        self._starts_new_line = False
        self._found: tuple[Record, ...] = ()
        self._known: dict[str, Record] = {}
        self._owed: tuple[Record, ...] = ()

    def load(self, data: bytes, transcript: Transcript) -> tuple[str, ...]:
        """Take over what was read; returns its problems, for the user."""
        self.sum = transcript.end_sum
        self._starts_new_line = bool(data) and not data.endswith(b"\n")
        self._found = transcript.records
        self._known = {record.uuid: record for record in self._found}
        undone = undo_cut_off_compaction(self._found)
        self._owed = (undone,) if undone else ()
        return tuple(_describe_problems(transcript.flaws, undone))

    @property
    def records(self) -> tuple[Record, ...]:
        """The records that were read, and an undo record if a compaction is incomplete."""
        return (*self._found, *self._owed)

    def drop_lines(self) -> None:
        """Drop the raw lines of the records from memory. The store has them, and they would take more memory
        than everything else in an open session."""
        self._found = tuple(msgspec.structs.replace(record, raw=b"") for record in self._found)
        self._known.update((record.uuid, record) for record in self._found)

    def prepare(self, records: Sequence[Record]) -> NewLines | None:
        """The lines of the records that are not there yet (F02); None if all are."""
        new = self._unknown(records)
        if not new:
            return None
        start = b"\n" if self._starts_new_line else b""
        owed, state = tag_lines(self._owed, self.place, advance(self.sum, start))
        data, state = tag_lines(new, self.place, state)
        return NewLines(start + owed + data, (*self._owed, *new), state)

    def commit(self, written: NewLines) -> None:
        """These lines are where they belong."""
        self.sum = written.sum
        self._starts_new_line = False
        self._owed = ()
        for record in written.records:
            self._known[record.uuid] = record

    def _unknown(self, records: Sequence[Record]) -> list[Record]:
        new: dict[str, Record] = {}
        for record in records:
            known = self._known.get(record.uuid) or new.get(record.uuid)
            if known is None:
                new[record.uuid] = record
            elif not _same(known, record):
                raise UsageError(
                    f"{self.path} already holds another record with the uuid {record.uuid}; "
                    "give every record an id of its own."
                )
        if 0 < len(new) < len(records) and is_compaction(records):
            raise UsageError(
                f"{self.path} holds a part of this compaction, which is incomplete and was undone; "
                "compact again with new ids."
            )
        return list(new.values())


def _describe_problems(flaws: Sequence[LineProblem], undone: Record | None) -> Iterator[str]:
    for flaw in flaws:
        yield f"line {flaw.line}: {flaw.what}"
    if undone is not None and isinstance(undone.edit, Undone):
        yield f"the compaction {undone.edit.boundary} is incomplete; the conversation before it is used"


def _same(one: Record, other: Record) -> bool:
    """Whether two records have the same content. Their bytes may differ in tags, the working folder, and
    in how they say that there is no parent."""
    return _as_read(one) == _as_read(other)


def _as_read(record: Record) -> Record:
    (found,) = parse_session_file(encode_record(record)).records
    return msgspec.structs.replace(found, unlinked=False, raw=b"")
