"""The thresholds on the way to a full context, and which of them a size has reached (TOK-12 to 16).

The only place that compares a size with a limit. What to do about a reached threshold is decided in
`decide/`.

Each threshold is a fixed reserve below the one it is measured from. In a small window a reserve takes at most
half of what it is subtracted from, so that a 16K model can still work and the thresholds keep their order.
"""

from typing import Final

import msgspec

from everturn.measure.reserves import AUTO_MARGIN, OUTPUT_RESERVE, below, lowered


class ThresholdSettings(msgspec.Struct, frozen=True, kw_only=True):
    """All numbers of this file; the defaults are chosen for a 200K window."""

    output_reserve: int = OUTPUT_RESERVE
    auto_margin: int = AUTO_MARGIN
    warning_margin: int = 20_000
    error_margin: int = 20_000
    blocking_margin: int = 3_000
    auto_compaction: bool = True
    # Lowers the automatic threshold to this share of the effective window; ignored outside (0, 100].
    auto_percent: float | None = None


DEFAULTS: Final = ThresholdSettings()


class ContextThresholds(msgspec.Struct, frozen=True):
    """The thresholds, in tokens of context."""

    effective: int
    auto: int
    shown: int
    warning: int
    error: int
    blocking: int


class ThresholdLevels(msgspec.Struct, frozen=True):
    """Which thresholds a context has reached. They are independent: any may be set without the others."""

    percent_left: int
    above_warning: bool
    above_error: bool
    above_auto: bool
    at_blocking: bool


def compute_thresholds(
    window: int, max_output: int, settings: ThresholdSettings = DEFAULTS
) -> ContextThresholds:
    effective = below(window, min(max_output, settings.output_reserve))
    auto = lowered(below(effective, settings.auto_margin), effective, settings.auto_percent)
    shown = auto if settings.auto_compaction else effective
    return ContextThresholds(
        effective=effective,
        auto=auto,
        shown=shown,
        warning=below(shown, settings.warning_margin),
        error=below(shown, settings.error_margin),
        blocking=below(effective, settings.blocking_margin),
    )


def check_thresholds(
    used: int, limits: ContextThresholds, settings: ThresholdSettings = DEFAULTS, *, warns: bool = True
) -> ThresholdLevels:
    """A threshold counts as reached at exactly its size. Without `warns` neither warning nor error is set:
    after a clearing the size is an estimate until the next usage is reported (MC-5).
    """
    return ThresholdLevels(
        percent_left=_percent_left(used, limits.shown),
        above_warning=warns and used >= limits.warning,
        above_error=warns and used >= limits.error,
        above_auto=settings.auto_compaction and used >= limits.auto,
        at_blocking=used >= limits.blocking,
    )


def _percent_left(used: int, limit: int) -> int:
    if limit <= 0:
        return 0
    return max(0, (200 * (limit - used) + limit) // (2 * limit))
