"""The retention score: how much of what matters survives a compaction, without a model as judge (BY-6)."""

from everturn.decide.retention.matching import RetainedItems
from everturn.decide.retention.score import (
    SAME,
    Retention,
    RetentionFigures,
    ScoredSummary,
    measure_retention,
)

__all__ = ["SAME", "RetainedItems", "Retention", "RetentionFigures", "ScoredSummary", "measure_retention"]
