"""Compaction by notes: whether they can be the summary, and what stays verbatim behind them (SM-6, SM-7).

    boundary  summary  ....................  covered | not covered ............
                       ^ never further back     ^ extended backwards until enough is kept

What the notes do not cover is always kept. Where that alone is more than may be kept, the notes are too old
to be a summary, and the next strategy is tried.
"""

from collections.abc import Sequence

import msgspec

from everturn.decide.notes.document import Notes
from everturn.decide.notes.settings import NotesSettings
from everturn.history.log import View
from everturn.history.records import Record
from everturn.history.rounds import find_cut_points
from everturn.measure.meter import PLACEHOLDER_TOKENS
from everturn.measure.tokens import TokenCounter, rough


class Rejected(msgspec.Struct, frozen=True):
    """Why the notes cannot be the summary now."""

    why: str


class KeptRecords(msgspec.Struct, frozen=True):
    """Records [start, end) of the view stay as they are, behind the notes."""

    start: int
    tokens: int
    messages: int
    why: str


def select_kept_records(
    notes: Notes | None, view: View, counts: TokenCounter, settings: NotesSettings
) -> KeptRecords | Rejected:
    """What a compaction by notes would keep.

    Only the record that the notes name tells what they cover, also in a session that was opened again: what
    was said after it, or on another branch, may never have been noted.
    """
    if not settings.enabled:
        return Rejected("session notes are switched off")
    if notes is None or notes.is_empty:
        return Rejected("nothing has been noted yet")
    records = view.records
    covered = _place(notes.state.covers, records)
    if covered < 0:
        return Rejected("the last record that the notes cover is not in the view")
    return _extended(covered + 1, records, _sizes(view, counts), settings)


def _place(uuid: str, records: Sequence[Record]) -> int:
    """The last record of that name; -1 where there is none."""
    return max((at for at, record in enumerate(records) if uuid and record.uuid == uuid), default=-1)


def _extended(
    first: int, records: Sequence[Record], sizes: Sequence[int], settings: NotesSettings
) -> KeptRecords | Rejected:
    """From the cut point at or before the first uncovered record, one cut point further back at a time."""
    floor = min(_after_boundary(records), first)
    *earlier, start = [at for at in find_cut_points(records) if floor <= at <= first] or [-1]
    if start < 0:
        return Rejected("the records that the notes do not cover cannot be cut off whole")
    kept = KeptRecords(
        start, sum(sizes[start:]), sum(map(has_text, records[start:])), "all that is not covered"
    )
    if kept.tokens > settings.keep_at_most:
        too_many = f"{kept.tokens:,} tokens came after what the notes cover"
        return Rejected(f"{too_many}; at most {settings.keep_at_most:,} are kept")
    for point in reversed(earlier):
        if kept.tokens >= settings.keep_tokens and kept.messages >= settings.keep_messages:
            break
        tokens = kept.tokens + sum(sizes[point : kept.start])
        if tokens > settings.keep_at_most:
            break
        messages = kept.messages + sum(map(has_text, records[point : kept.start]))
        kept = KeptRecords(point, tokens, messages, "extended backwards until enough is kept")
    return kept


def _after_boundary(records: Sequence[Record]) -> int:
    """The first record behind the last boundary and the summary that belongs to it."""
    places = (at for at, record in enumerate(records) if record.is_boundary or record.compact_summary)
    return max(places, default=-1) + 1


def has_text(record: Record) -> bool:
    """Whether a message has text: results and calls alone do not count."""
    if record.kind not in ("user", "assistant") or record.display_only or record.meta:
        return False
    return any(block.kind == "text" for block in record.blocks)


def _sizes(view: View, counts: TokenCounter) -> list[int]:
    """Unpadded tokens by record; what is hidden counts as what stands in for it."""
    return [_size(record, view, counts) for record in view.records]


def _size(record: Record, view: View, counts: TokenCounter) -> int:
    count = counts.of(record)
    hidden = 0
    for block, tokens in zip(record.blocks, count.blocks, strict=False):
        if block.is_result and block.call in view.cleared:
            hidden += max(0, tokens - PLACEHOLDER_TOKENS)
        elif block.is_result and (offloaded := view.offloaded.get(block.call)):
            hidden += max(0, tokens - rough(offloaded.preview))
    return max(0, count.whole.total - hidden)
