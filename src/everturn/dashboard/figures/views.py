"""What the model saw during a session: one view from compaction to compaction."""

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from everturn.dashboard.figures.calls import collect_calls
from everturn.dashboard.figures.categories import text_tokens
from everturn.history.edits import Cleared, Compacted
from everturn.history.log import View
from everturn.history.records import Record
from everturn.history.threads import Thread
from everturn.measure.tokens import TokenCounter
from everturn.session.recorded import RecordedSession


class CompactionRow(msgspec.Struct, frozen=True, kw_only=True):
    """What ended a view. `tokens_before` is the recorded value, 0 if there is none."""

    trigger: str
    tokens_before: int
    when: str
    # Of the first call after it; None if there is none yet.
    context_after: int | None
    # A calibrated estimate.
    summary_tokens: int


class ViewRow(msgspec.Struct, frozen=True, kw_only=True):
    records: int
    calls: int
    first_context: int | None
    peak_context: int | None
    # What ended it; None for the current view.
    compaction: CompactionRow | None


class MicroCompactionRow(msgspec.Struct, frozen=True, kw_only=True):
    """Results cleared at once, as recorded."""

    when: str
    results: int
    tokens_before: int
    tokens_saved: int
    why: str


class SidechainRow(msgspec.Struct, frozen=True, kw_only=True):
    agent: str
    records: int
    calls: int
    peak_context: int | None


def view_rows(session: RecordedSession) -> tuple[ViewRow, ...]:
    """Oldest first; the last one is the current view."""
    views = (*session.views_before, session.view)
    ends = [_compaction(session, after) for _, after in pairwise(views)]
    return tuple(_row(view, end) for view, end in zip(views, [*ends, None], strict=True))


def _row(view: View, end: CompactionRow | None) -> ViewRow:
    contexts = _contexts(_own(view))
    return ViewRow(
        records=len(view.records),
        calls=len(contexts),
        first_context=contexts[0] if contexts else None,
        peak_context=max(contexts, default=None),
        compaction=end,
    )


def _own(view: View) -> list[Record]:
    """Without what was kept from an earlier view: its calls were counted there."""
    return [record for record in view.records if record.uuid not in view.stale]


def _compaction(session: RecordedSession, after: View) -> CompactionRow:
    first = after.records[0] if after.records else None
    edit = first.edit if first else None
    contexts = _contexts(_own(after))
    return CompactionRow(
        trigger=edit.trigger if isinstance(edit, Compacted) else "window",
        tokens_before=edit.tokens_before if isinstance(edit, Compacted) else 0,
        when=first.timestamp if first else "",
        context_after=contexts[0] if contexts else None,
        summary_tokens=session.calibration.corrected(_summary(after, session.counts)),
    )


def _summary(view: View, counts: TokenCounter) -> int:
    return sum(text_tokens(record, counts) for record in view.records if record.compact_summary)


def _contexts(records: Sequence[Record]) -> list[int]:
    return [call.usage.context for call in collect_calls(records)]


def micro_rows(thread: Thread) -> tuple[MicroCompactionRow, ...]:
    return tuple(
        MicroCompactionRow(
            when=record.timestamp,
            results=len(record.edit.calls),
            tokens_before=record.edit.tokens_before,
            tokens_saved=record.edit.tokens_saved,
            why=record.edit.why,
        )
        for record in thread.records
        if isinstance(record.edit, Cleared)
    )


def sidechain_rows(session: RecordedSession) -> tuple[SidechainRow, ...]:
    sides = (side for side in session.threads.sidechains if side.agent != session.thread.agent)
    return tuple(_side(side) for side in sides)


def _side(thread: Thread) -> SidechainRow:
    contexts = _contexts(thread.records)
    return SidechainRow(
        agent=thread.agent,
        records=len(thread.records),
        calls=len(contexts),
        peak_context=max(contexts, default=None),
    )
