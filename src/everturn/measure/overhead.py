"""The part of the context that no record holds: system prompt, tools, and what the harness adds.

A session file does not contain these, but the first reported usage includes them. The overhead is that usage
minus the messages before it. The size of the messages is estimated, so the overhead is an estimate too.
"""

from collections.abc import Iterable, Sequence

from everturn.history.records import Record, reported_usage
from everturn.measure.calibration import Calibration
from everturn.measure.tokens import TokenCounter


class OverheadMeter:
    """Learns the overhead record by record. Calls to other models are skipped: a harness uses small models
    for side tasks with other system prompts.
    """

    def __init__(self, counts: TokenCounter, models: Sequence[str]) -> None:
        self._counts = counts
        self._models = models
        self._before = 0
        self._context: int | None = None

    def add(self, record: Record) -> None:
        if self._context is not None:
            return
        usage = reported_usage(record)
        if usage is not None and record.reply is not None and record.reply.model in self._models:
            self._context = usage.context
        else:
            self._before += self._counts.of(record).whole.total

    def tokens(self, calibration: Calibration) -> int | None:
        """Tokens of the first call beyond its records; None if there is no call yet."""
        if self._context is None:
            return None
        return max(0, self._context - calibration.corrected(self._before))


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
