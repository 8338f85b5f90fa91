"""What lies between the marks and the end of a context, and the arithmetic of one mark: plain numbers only.

Imports nothing: a status line is started anew every few seconds, and shows the automatic mark. All marks
together, and which of them are passed, are in `thresholds.py`.
"""

# Made for a 200K window (TOK-12, TOK-13).
OUTPUT_RESERVE = 20_000
AUTO_MARGIN = 13_000


def below(mark: int, reserve: int) -> int:
    """No reserve takes more than half of what it is taken from."""
    return max(mark - max(reserve, 0), mark // 2, 0)


def lowered(auto: int, effective: int, percent: float | None) -> int:
    """The automatic mark at a share of the effective window; a share can only lower it."""
    if percent is None or not 0 < percent <= 100:
        return auto
    return min(int(effective * percent / 100), auto)


def auto_compact_threshold(window: int, percent: float | None = None) -> int:
    """Where compaction begins by itself in a window, with the reserves as they are by default."""
    effective = below(window, OUTPUT_RESERVE)
    return lowered(below(effective, AUTO_MARGIN), effective, percent)
