"""Where the marks stand on the way to a full context, and which of them are passed (TOK-12 to 16).

The only place that compares a size with a limit. What to do about a passed mark is decided in `decide/`.

Each mark lies a fixed reserve below the one it is measured from. A window too small for that gives up at
most half: no reserve takes more than half of what it is taken from, so that a 16K model still has room to
work in and the marks keep their order.
"""

from typing import Final

import msgspec

from everturn.measure.reserves import AUTO_MARGIN, OUTPUT_RESERVE, below, lowered


class ThresholdSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Every number of this page; the defaults are made for a 200K window."""

    output_reserve: int = OUTPUT_RESERVE
    auto_margin: int = AUTO_MARGIN
    warning_margin: int = 20_000
    error_margin: int = 20_000
    blocking_margin: int = 3_000
    auto_compaction: bool = True
    # Lowers the automatic mark to this share of the effective window; outside (0, 100] it is ignored.
    auto_percent: float | None = None


DEFAULTS: Final = ThresholdSettings()


class ContextThresholds(msgspec.Struct, frozen=True):
    """The marks, in tokens of context."""

    effective: int
    auto: int
    shown: int
    warning: int
    error: int
    blocking: int


class ThresholdLevels(msgspec.Struct, frozen=True):
    """Which marks a context has reached. Independent of each other: any may be set without the others."""

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
    used: int, limits: ContextThresholds, settings: ThresholdSettings = DEFAULTS
) -> ThresholdLevels:
    """A mark counts as passed from the very token it stands on."""
    return ThresholdLevels(
        percent_left=_percent_left(used, limits.shown),
        above_warning=used >= limits.warning,
        above_error=used >= limits.error,
        above_auto=settings.auto_compaction and used >= limits.auto,
        at_blocking=used >= limits.blocking,
    )


def _percent_left(used: int, limit: int) -> int:
    if limit <= 0:
        return 0
    return max(0, (200 * (limit - used) + limit) // (2 * limit))
