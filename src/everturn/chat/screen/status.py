"""The status line: how full the context is, how warm its cache, what it all cost; at any width.

On a narrow screen the labels become short, then the least important parts go. Where the figures come from is
`agent.py`.
"""

from decimal import Decimal
from typing import Final

import msgspec
from rich.text import Text

from everturn.dashboard.layout import GAP, Screen
from everturn.dashboard.report import ContextLevel
from everturn.dashboard.terminal import LEVEL_STYLES, QUIET

# From here on the first waiting is worth a line: shorter ones would only flicker.
PATIENCE: Final = 0.4


class StatusFigures(msgspec.Struct, frozen=True, kw_only=True):
    """`full` and `hit_rate` are shares; `warm` is for how many seconds the cache still lives, if at all."""

    full: float
    level: ContextLevel
    hit_rate: float | None
    warm: float | None
    dollars: Decimal
    model: str


class _Part(msgspec.Struct, frozen=True):
    long: str
    short: str
    # The highest goes first.
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
    full, spent = _share(figures.full), format_dollars(figures.dollars)
    style = QUIET if figures.level == "ok" else LEVEL_STYLES[figures.level]
    parts = [_Part(f"context {full}", f"ctx {full}", style=style)]
    if figures.hit_rate is not None:
        rate = f"cache {figures.hit_rate:.0%}"
        parts.append(_Part(rate, rate, optional=2))
        left = "cold" if figures.warm is None else f"warm {format_duration(figures.warm)}"
        parts.append(_Part(left, left, optional=3))
    parts.append(_Part(spent, spent, optional=1))
    parts.append(_Part(screen.plain(figures.model), screen.plain(figures.model), optional=4))
    return parts


def _share(fraction: float) -> str:
    """What is there but rounds to nothing is not called nothing."""
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
    """One line that is painted over while somebody waits."""
    beside = f" {format_duration(seconds) if seconds >= 60 else f'{seconds:.0f}s'}"
    hint = "  Ctrl-C stops"
    room = screen.width - 1 - len(beside)
    told = screen._replace(width=room).fitted(what)
    return told + beside + (hint if len(told) + len(beside) + len(hint) < screen.width else "")


def format_duration(seconds: float) -> str:
    """Minutes and seconds, as on a kitchen timer; hours where it takes them."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def format_dollars(amount: Decimal) -> str:
    """Cents with two more digits while they matter."""
    return f"${amount:,.2f}" if amount >= 1 else f"${amount:.4f}"
