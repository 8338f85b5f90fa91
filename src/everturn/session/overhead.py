"""Estimate the context overhead that no record holds: system prompt, tools, and what the harness adds.

A session file does not contain these, but the first reported usage includes them. The overhead is that usage
minus the messages before it. The size of the messages is estimated, so the overhead is an estimate too.
"""

from collections.abc import Iterable, Sequence

from everturn.history.records import Record, reported_usage
from everturn.measure.calibration import Calibration
from everturn.measure.tokens import TokenCounter


def estimate_overhead(
    records: Iterable[Record], counts: TokenCounter, calibration: Calibration, model_id: str
) -> int | None:
    """Tokens of this model's first call beyond its records; None if there is no call yet.

    Calls to other models are skipped: a harness uses small models for side tasks with other system prompts.
    """
    before = 0
    for record in records:
        usage = reported_usage(record)
        if usage is not None and record.reply is not None and record.reply.model == model_id:
            return max(0, usage.context - calibration.corrected(before))
        before += counts.of(record).whole.total
    return None


def is_conversation_start(records: Sequence[Record]) -> bool:
    """Whether the first record starts its conversation; in a part of a session file it does not."""
    return bool(records) and not records[0].parent and not records[0].is_boundary
