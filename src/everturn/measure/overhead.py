"""The part of the context that no record holds: system prompt, tools, and what the harness adds.

A session file does not contain these, but the first reported usage includes them. The overhead is that usage
minus the messages before it. The size of the messages is estimated, so the overhead is an estimate too.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from everturn.history.edits import Compacted, Pinned, Rewound, ServerCleared
from everturn.history.records import Record, reported_usage
from everturn.measure.calibration import Calibration
from everturn.measure.tokens import TokenCounter

# Edits behind which the next request still holds all records before it.
_HIDE_NOTHING: Final = (Pinned, Rewound, ServerCleared)


class OverheadMeter:
    """Learns the overhead record by record. Calls to other models are skipped: a harness uses small models
    for side tasks with other system prompts. So are calls behind an edit that hides a part, as in a session
    that has changed its model since: what a request holds is known again after a compaction.
    """

    def __init__(self, counts: TokenCounter, models: Sequence[str]) -> None:
        self._counts = counts
        self._models = models
        self._before = 0
        # Of the records before, what the provider has counted already: kept through a compaction.
        self._counted = 0
        # Whether a request now would hold those, and nothing else.
        self._is_whole = True
        self._context: int | None = None

    def add(self, record: Record) -> None:
        if self._context is not None:
            return
        match record.edit:
            case None:
                pass
            case Compacted() as edit if self._before and (edit.kept is None or edit.tokens_kept):
                self._before, self._counted, self._is_whole = 0, edit.tokens_kept, True
            case edit:
                # A view begins with its boundary, and lists behind it what was kept.
                hides = bool(self._before) and not isinstance(edit, _HIDE_NOTHING)
                self._is_whole = self._is_whole and not hides
        usage = reported_usage(record)
        is_ours = record.reply is not None and record.reply.model in self._models
        if usage is not None and is_ours and self._is_whole:
            self._context = usage.context
        else:
            self._before += self._counts.of(record).whole.total

    def tokens(self, calibration: Calibration) -> int | None:
        """Tokens of the first call beyond its records; None if there is no call yet."""
        if self._context is None:
            return None
        return max(0, self._context - self._counted - calibration.corrected(self._before))


def estimate_overhead(
    records: Iterable[Record], counts: TokenCounter, calibration: Calibration, model_id: str
) -> int | None:
    meter = OverheadMeter(counts, (model_id,))
    for record in records:
        meter.add(record)
    return meter.tokens(calibration)


def is_conversation_start(records: Sequence[Record]) -> bool:
    """Whether the first record starts its conversation; in a part of a session file it does not."""
    return bool(records) and not records[0].parent and not records[0].is_boundary
