"""What fills a context though no record holds it: system prompt, tools, and whatever the harness adds.

Nobody writes these into a session file, but the first reported usage knows of them: it is what the context
held beyond the messages before it. The messages are estimated, so this is an estimate too.
"""

from collections.abc import Iterable, Sequence

from everturn.history.records import Record, reported_usage
from everturn.measure.calibration import Calibration
from everturn.measure.tokens import TokenCounter


def estimate_overhead(
    records: Iterable[Record], counts: TokenCounter, calibration: Calibration, model_id: str
) -> int | None:
    """Tokens that the first call of this model held beyond its records; None before any call.

    Other models are passed over: a harness asks small ones small things, with another system prompt.
    """
    before = 0
    for record in records:
        usage = reported_usage(record)
        if usage is not None and record.reply is not None and record.reply.model == model_id:
            return max(0, usage.context - calibration.corrected(before))
        before += counts.of(record).whole.total
    return None


def is_conversation_start(records: Sequence[Record]) -> bool:
    """Whether the first record is the first of its conversation: a slice of a session begins in mid-air."""
    return bool(records) and not records[0].parent and not records[0].is_boundary
