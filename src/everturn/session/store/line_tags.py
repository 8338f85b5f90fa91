"""Tags that the store adds to the lines it writes: the format version, which lines belong together, and a
checksum (`wire/line_sums.py`).

A compaction is one write of several lines. After a crash only the first lines may be on disk. Without the
summary the old view stays valid (`history/log.py`). With the summary but without the rest, the view would be
neither the old nor the new one. The tags number the lines, so this is detected and the compaction is undone.

Other readers ignore the field. Lines copied from elsewhere keep their bytes; only the checksum of a line that
was ours is made anew.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple
from uuid import NAMESPACE_OID, uuid5

import msgspec

from everturn.history.edits import Undone
from everturn.history.records import Record, make_edit_record, record_time
from everturn.wire.claude_code_writer import LineContext, encode_record
from everturn.wire.line_sums import FIELD, advance, check_sums, seal, seal_again

# Increased when an older everturn would misread what a newer one wrote; goes with the major version.
FORMAT: Final = 1

_FORMATS: Final = re.compile(rb'"%s":\{"format":(\d+)' % FIELD.encode())


class LineTag(msgspec.Struct, frozen=True, omit_defaults=True):
    """Line `part` of `of` lines that are valid only together; both are 0 for a single line."""

    format: int = 0
    part: int = 0
    of: int = 0


class _TaggedLine(msgspec.Struct, rename={"tag": FIELD}):
    tag: LineTag | None = None


_read_line = msgspec.json.Decoder(_TaggedLine).decode
_encode = msgspec.json.Encoder().encode


class TaggedLines(NamedTuple):
    """Lines ready to be written, and the state of the checksum behind them."""

    data: bytes
    state: int


def tag_lines(records: Sequence[Record], place: LineContext, state: int) -> TaggedLines:
    """One line for each record. The first line that we encode ourselves holds the format version. `state` is
    that of the checksum before the lines."""
    if not records:
        return TaggedLines(b"", state)
    together = len(records) if is_compaction(records) else 0
    lines: list[bytes] = []
    says_format = True
    for part, record in enumerate(records, start=1):
        line = encode_record(record, place)
        if record.raw:
            # A JSON object may have line breaks between its fields; a line must not.
            line, state = seal_again(line.replace(b"\n", b" "), state)
        else:
            tag = LineTag(FORMAT if says_format else 0, part if together else 0, together)
            line, state = seal(line, _numbers(tag), state)
            says_format = False
        lines.append(line + b"\n")
        state = advance(state, b"\n")
    return TaggedLines(b"".join(lines), state)


def is_compaction(records: Sequence[Record]) -> bool:
    return any(record.is_boundary for record in records)


def _numbers(tag: LineTag) -> bytes:
    """The fields of a tag, each followed by a comma."""
    inner = _encode(tag)[1:-1]
    return inner + b"," if inner else b""


def read_tag(record: Record) -> LineTag:
    if FIELD.encode() not in record.raw:
        return LineTag()
    try:
        return _read_line(record.raw).tag or LineTag()
    except (msgspec.DecodeError, RecursionError):
        return LineTag()


def find_newest_format(data: bytes) -> int:
    """The highest format version in the lines of this file; 0 if there is none. A number that is damaged says
    nothing about who wrote it."""
    newest = 0
    damaged: Sequence[tuple[int, int]] | None = None
    for found in _FORMATS.finditer(data):
        if int(found[1]) > max(newest, FORMAT):
            damaged = check_sums(data).damaged if damaged is None else damaged
            is_damaged = any(first <= found.start() < end for first, end in damaged)
            if is_damaged or not _is_the_line_s_own(data, found.start()):
                continue
        newest = max(newest, int(found[1]))
    return newest


def _is_the_line_s_own(data: bytes, at: int) -> bool:
    """Whether the field at this offset is a field of the line, and not part of a nested value such as a tool
    input."""
    start = data.rfind(b"\n", 0, at) + 1
    end = data.find(b"\n", at)
    try:
        return _read_line(data[start : end if end >= 0 else len(data)]).tag is not None
    except (msgspec.DecodeError, RecursionError):
        return False


def undo_cut_off_compaction(records: Sequence[Record]) -> Record | None:
    """The record that undoes an incomplete compaction, to be appended before anything else; or None."""
    at = next((at for at in range(len(records) - 1, -1, -1) if records[at].is_boundary), None)
    if at is None or not _is_cut_off(records, at):
        return None
    boundary, last = records[at], records[-1]
    edit = Undone(boundary.uuid, "its write was cut off: the summary is here, what belongs to it is not")
    moment = record_time(last) or datetime.fromtimestamp(0, UTC)
    # Derived from the boundary, so that every process that opens the file makes the same record.
    return make_edit_record(edit, uuid=str(uuid5(NAMESPACE_OID, boundary.uuid)), after=last, at=moment)


def _is_cut_off(records: Sequence[Record], at: int) -> bool:
    tag = read_tag(records[at])
    # A fork begins with the records that it shares, in one write with their last compaction.
    wanted = tag.of - tag.part
    parts = [record for record in records[at + 1 : at + 1 + wanted] if read_tag(record).part]
    if not parts or not parts[0].compact_summary or len(parts) == wanted:
        return False
    # If the conversation was continued without an undo, the compaction stays as it was then.
    behind = records[at + 1 + len(parts) :]
    return not any(record.kind in ("user", "assistant") or _undoes(record, records[at]) for record in behind)


def _undoes(record: Record, boundary: Record) -> bool:
    return isinstance(record.edit, Undone) and record.edit.boundary == boundary.uuid
