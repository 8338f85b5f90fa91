"""Checksums of the lines that we write, so that damage to them is never silent.

The checksum of a line is a CRC-32 of all bytes between the previous checksum and itself, continued from the
previous one. So it covers the line and the lines of others before it, and it depends on every line of ours
before it: lines that were changed, lost, doubled or moved are found. It is the last value of the line, in the
field that other readers ignore; lines of other writers have none and need none.

That the last lines are missing, no checksum within the file can tell. So the state beside a transcript says
where the transcript ended when the state was written.

After a difference the check continues from the checksum in the file: each place of damage is reported once.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple
from zlib import crc32

import msgspec

from everturn.wire.line_repair import LineProblem

FIELD: Final = "everturnStore"

# The tag at the end of a line: numbers that say which lines belong together, then the checksum. Nested in a
# value of the line, it could not be followed by the end of the line. The numbers may be damaged.
_TAG: Final = re.compile(rb',"%s":\{((?:[^{}\n]*,)?)"sum":"([0-9a-f]{8})"\}\}(?=\n|\Z)' % FIELD.encode())
_START: Final = b',"%s":{' % FIELD.encode()
_END: Final = b'"}}'


class TranscriptEnd(msgspec.Struct, frozen=True):
    """Where a transcript ended: its size, and the state of the checksum there."""

    size: int
    sum: int


class _State(msgspec.Struct, rename={"end": FIELD}):
    end: TranscriptEnd | None = None


_read_state = msgspec.json.Decoder(_State).decode


class SealedLine(NamedTuple):
    """A line with its checksum, and the state of the checksum behind it."""

    line: bytes
    state: int


class FileSums(NamedTuple):
    """The state of the checksum at the end of a file, and the places where it differs: in words, and as
    offsets of the first byte and behind the last."""

    state: int
    problems: tuple[LineProblem, ...]
    damaged: tuple[tuple[int, int], ...]


def advance(state: int, data: bytes) -> int:
    """The state behind bytes that have no checksum of their own."""
    return crc32(data, state)


def seal(line: bytes, numbers: bytes, state: int) -> SealedLine:
    """Add the tag to a line, which is a JSON object. `numbers` are its other fields, each followed by a
    comma."""
    covered = b'%s%s%s"sum":"' % (line[:-1], _START, numbers)
    found = crc32(covered, state)
    return SealedLine(b"%s%08x%s" % (covered, found, _END), crc32(_END, found))


def seal_again(line: bytes, state: int) -> SealedLine:
    """The line as it is, unless it was copied from another file with the checksum of its place there."""
    if (tag := _TAG.search(line)) is None:
        return SealedLine(line, crc32(line, state))
    return seal(line[: tag.start()] + b"}", tag[1], state)


def check_sums(data: bytes) -> FileSums:
    """Compare the checksums in a file with its bytes."""
    state = at = 0
    seen = memoryview(data)
    damaged: list[tuple[int, int]] = []
    for tag in _tags(data):
        found, expected = crc32(seen[at : tag.start(2)], state), int(tag[2], 16)
        if found != expected:
            damaged.append((at, tag.start(2)))
        state, at = expected, tag.end(2)
    problems = tuple(_describe(data, *span) for span in damaged)
    return FileSums(crc32(seen[at:], state), problems, tuple(damaged))


def _tags(data: bytes) -> Iterator[re.Match[bytes]]:
    # A plain search is several times faster than the pattern's own.
    at = data.find(_START)
    while at >= 0:
        if tag := _TAG.match(data, at):
            yield tag
        at = data.find(_START, at + len(_START))


def _describe(data: bytes, after: int, at: int) -> LineProblem:
    last = data.count(b"\n", 0, at) + 1
    first = min(last, data.count(b"\n", 0, after) + 2) if after else 1
    where = "this line is not" if first == last else f"lines {first} to {last} are not"
    what = f"{where} as written: something was changed, lost, doubled or moved here (the checksum differs)"
    return LineProblem(first, "checksum", what)


# ── the end of a transcript ──────────────────────────────────────────────────────────────────────


def tag_state(state: bytes, end: TranscriptEnd) -> bytes:
    """The state, a JSON object, with the end of its transcript in a field that its other readers ignore."""
    if not state.startswith(b"{"):
        return state
    rest = state[1:].lstrip()
    between = b"" if rest.startswith(b"}") else b","
    return b'{"%s":%s%s%s' % (FIELD.encode(), msgspec.json.encode(end), between, rest)


def check_end(state: bytes, data: bytes, end_sum: int) -> tuple[LineProblem, ...]:
    """What is wrong with the end of a transcript that has this state beside it. `end_sum` is the state of the
    checksum at the end of the data."""
    try:
        end = _read_state(state).end if state else None
    except (ValueError, RecursionError, msgspec.MsgspecError):
        return ()
    if end is None:
        return ()
    last = data.count(b"\n", 0, max(len(data) - 1, 0)) + 1
    if len(data) + 1 == end.size and advance(end_sum, b"\n") == end.sum:
        # Only the last line break is missing, and the next append writes it.
        return ()
    if len(data) < end.size:
        sizes = f"it has {len(data):,} bytes, and had {end.size:,} when its state was written"
        return (LineProblem(last, "checksum", f"the end of the file is missing: {sizes}"),)
    found = end_sum if len(data) == end.size else check_sums(data[: end.size]).state
    if found == end.sum:
        return ()
    return (LineProblem(last, "checksum", "the last lines are not as written: their checksum differs"),)
