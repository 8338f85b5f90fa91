"""The reserves between the thresholds and the end of a context, and the arithmetic: plain numbers only.

Imports nothing: a status line is started every few seconds, and shows the automatic threshold. All thresholds
together, and which of them are reached, are in `thresholds.py`.
"""

# Chosen for a 200K window (TOK-12, TOK-13).
OUTPUT_RESERVE = 20_000
AUTO_MARGIN = 13_000


def below(threshold: int, reserve: int) -> int:
    """A limit minus a reserve. A reserve never takes more than half of what it is subtracted from."""
    return max(threshold - max(reserve, 0), threshold // 2, 0)


def lowered(auto: int, effective: int, percent: float | None) -> int:
    """The automatic threshold at a share of the effective window; a share can only lower it."""
    if percent is None or not 0 < percent <= 100:
        return auto
    return min(int(effective * percent / 100), auto)


def auto_compact_threshold(window: int, percent: float | None = None) -> int:
    """Where automatic compaction begins in a window, with the default reserves."""
    effective = below(window, OUTPUT_RESERVE)
    return lowered(below(effective, AUTO_MARGIN), effective, percent)
