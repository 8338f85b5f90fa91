"""Marks that the store leaves in lines it wrote: the format's number, and which lines belong together.

A compaction is one write of several lines, and a crash can keep the first few of them. Until the summary is
there the old view stands by itself (`history/log.py`); once it is there, the rest may still be missing, and
the view would be neither the old nor the new one. Numbered lines show that, and such a compaction is undone.

Readers pass over the field. Lines that came from elsewhere keep their bytes and carry no mark.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final
from uuid import NAMESPACE_OID, uuid5

import msgspec

from everturn.history.edits import Undone
from everturn.history.records import Record, make_edit_record, record_time
from everturn.wire.claude_code_writer import LineContext, encode_record

# Raised when an older everturn would misread what a newer one wrote; goes with the major version.
FORMAT: Final = 1
FIELD: Final = "everturnStore"

_FORMATS: Final = re.compile(rb'"%s":\{"format":(\d+)' % FIELD.encode())


class LineTag(msgspec.Struct, frozen=True, omit_defaults=True):
    """`part` of `of` lines that are valid together or not at all; 0 where a line stands for itself."""

    format: int = 0
    part: int = 0
    of: int = 0


class _TaggedLine(msgspec.Struct, rename={"mark": FIELD}):
    mark: LineTag | None = None


_read_mark = msgspec.json.Decoder(_TaggedLine).decode
_encode = msgspec.json.Encoder().encode


def tag_lines(records: Sequence[Record], place: LineContext) -> list[bytes]:
    """One line for each record. The first that we spell ourselves says in which format."""
    together = len(records) if is_compaction(records) else 0
    lines: list[bytes] = []
    says_format = True
    for part, record in enumerate(records, start=1):
        line = encode_record(record, place)
        if record.raw:
            # Between its fields a JSON object may have line breaks; a line may not.
            lines.append(line.replace(b"\n", b" "))
            continue
        mark = LineTag(FORMAT if says_format else 0, part if together else 0, together)
        says_format = False
        lines.append(line if mark == LineTag() else _with_mark(line, mark))
    return lines


def is_compaction(records: Sequence[Record]) -> bool:
    return any(record.is_boundary for record in records)


def _with_mark(line: bytes, mark: LineTag) -> bytes:
    return b'%s,"%s":%s}' % (line[:-1], FIELD.encode(), _encode(mark))


def read_tag(record: Record) -> LineTag:
    if FIELD.encode() not in record.raw:
        return LineTag()
    try:
        return _read_mark(record.raw).mark or LineTag()
    except (msgspec.DecodeError, RecursionError):
        return LineTag()


def find_newest_format(data: bytes) -> int:
    """The highest format that a line of this file says it is in; 0 where none does."""
    newest = 0
    for found in _FORMATS.finditer(data):
        if int(found[1]) > max(newest, FORMAT) and not _is_the_line_s_own(data, found.start()):
            continue
        newest = max(newest, int(found[1]))
    return newest


def _is_the_line_s_own(data: bytes, at: int) -> bool:
    """Whether the field there belongs to the line, and not to something that a tool was given."""
    start = data.rfind(b"\n", 0, at) + 1
    end = data.find(b"\n", at)
    try:
        return _read_mark(data[start : end if end >= 0 else len(data)]).mark is not None
    except (msgspec.DecodeError, RecursionError):
        return False


def undo_cut_off_compaction(records: Sequence[Record]) -> Record | None:
    """What must be appended before anything else: the undoing of a compaction that was cut off."""
    at = next((at for at in range(len(records) - 1, -1, -1) if records[at].is_boundary), None)
    if at is None or not _is_cut_off(records, at):
        return None
    boundary, last = records[at], records[-1]
    edit = Undone(boundary.uuid, "its write was cut off: the summary is here, what belongs to it is not")
    moment = record_time(last) or datetime.fromtimestamp(0, UTC)
    # Derived, so that whoever opens the file finds the same record before it is written.
    return make_edit_record(edit, uuid=str(uuid5(NAMESPACE_OID, boundary.uuid)), after=last, at=moment)


def _is_cut_off(records: Sequence[Record], at: int) -> bool:
    wanted = read_tag(records[at]).of
    parts = [record for record in records[at + 1 : at + wanted] if read_tag(record).part]
    if not parts or not parts[0].compact_summary or len(parts) == wanted - 1:
        return False
    # Somebody went on from here without undoing it: what was live then stays so.
    behind = records[at + 1 + len(parts) :]
    return not any(record.kind in ("user", "assistant") or _undoes(record, records[at]) for record in behind)


def _undoes(record: Record, boundary: Record) -> bool:
    return isinstance(record.edit, Undone) and record.edit.boundary == boundary.uuid
