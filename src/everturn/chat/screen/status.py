"""The status line: context usage, cache state and cost, at any width.

On a narrow screen labels are shortened first, then the least important parts are dropped.
`session_figures.py` collects the figures.
"""

from decimal import Decimal
from typing import Final

import msgspec
from rich.text import Text

from everturn.dashboard.layout import GAP, Screen
from everturn.dashboard.report import ContextLevel
from everturn.dashboard.terminal import LEVEL_STYLES, QUIET

# Seconds before a waiting line appears; a shorter wait would only flicker.
PATIENCE: Final = 0.4
# What stands where a price would, when the twin answers.
PRACTICE: Final = "practice"


class StatusFigures(msgspec.Struct, frozen=True, kw_only=True):
    """`used_share` and `hit_rate` are between 0 and 1. `cache_seconds_left` is None if the cache expired."""

    used_share: float
    level: ContextLevel
    hit_rate: float | None
    cache_seconds_left: float | None
    dollars: Decimal
    model: str
    # The twin answers: nothing is billed.
    is_practice: bool = False


class _Part(msgspec.Struct, frozen=True):
    long: str
    short: str
    # The part with the highest number is dropped first.
    optional: int = 0
    style: str = QUIET


def format_status(figures: StatusFigures, screen: Screen) -> Text:
    parts = _parts(figures, screen)
    if _width([part.long for part in parts]) <= screen.width:
        return _line([(part.long, part.style) for part in parts], screen)
    while _width([part.short for part in parts]) > screen.width and len(parts) > 1:
        parts.remove(max(parts, key=lambda part: part.optional))
    return _line([(part.short, part.style) for part in parts], screen)


def _parts(figures: StatusFigures, screen: Screen) -> list[_Part]:
    full = _share(figures.used_share)
    style = QUIET if figures.level == "ok" else LEVEL_STYLES[figures.level]
    parts = [_Part(f"context {full}", f"ctx {full}", style=style)]
    if figures.hit_rate is not None:
        rate = f"cache {figures.hit_rate:.0%}"
        parts.append(_Part(rate, rate, optional=2))
        left = (
            "cold"
            if figures.cache_seconds_left is None
            else f"warm {format_duration(figures.cache_seconds_left)}"
        )
        parts.append(_Part(left, left, optional=3))
    parts.append(_spent(figures))
    parts.append(_Part(screen.plain(figures.model), screen.plain(figures.model), optional=4))
    return parts


def _spent(figures: StatusFigures) -> _Part:
    if figures.is_practice:
        return _Part(f"{PRACTICE}, nothing billed", PRACTICE, optional=1, style="yellow")
    spent = format_dollars(figures.dollars)
    return _Part(spent, spent, optional=1)


def _share(fraction: float) -> str:
    """A percentage; a small share is "<1%" instead of "0%"."""
    return "<1%" if 0 < fraction < 0.005 else f"{fraction:.0%}"


def _width(texts: list[str]) -> int:
    return sum(map(len, texts)) + GAP * (len(texts) - 1)


def _line(parts: list[tuple[str, str]], screen: Screen) -> Text:
    line = Text()
    for at, part in enumerate(parts):
        line.append(" " * GAP if at else "")
        line.append(*part)
    line.truncate(screen.width)
    return line


def format_waiting(what: str, seconds: float, screen: Screen) -> str:
    """The waiting line, which is redrawn in place."""
    beside = f" {format_duration(seconds) if seconds >= 60 else f'{seconds:.0f}s'}"
    hint = "  Ctrl-C stops"
    room = screen.width - 1 - len(beside)
    told = screen._replace(width=room).fitted(what)
    return told + beside + (hint if len(told) + len(beside) + len(hint) < screen.width else "")


def format_duration(seconds: float) -> str:
    """Minutes and seconds ("4:05"), with hours if needed ("1:02:03")."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def format_dollars(amount: Decimal) -> str:
    """Two decimals from one dollar on, four below."""
    return f"${amount:,.2f}" if amount >= 1 else f"${amount:.4f}"
