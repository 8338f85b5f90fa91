"""Sessions as lines to choose from: id, date and title."""

from collections.abc import Iterable
from datetime import datetime, tzinfo

from everturn.dashboard.layout import Column, Screen

COLUMNS = (Column("id", "<"), Column("changed", "<"), Column("title", "<", grows=True))


def render_sessions(
    rows: Iterable[tuple[str, datetime | None, str]],
    screen: Screen,
    zone: tzinfo | None = None,
    *,
    numbered: bool = False,
) -> list[str]:
    """One line for each id, time and title, in the width of the screen. `numbered`: with 1, 2, ... before."""
    cells = [(id, format_moment(at, zone), title or "(no title)") for id, at, title in rows]
    if not numbered:
        return screen.table(COLUMNS, cells)[1:]
    columns = (Column("no."), *COLUMNS)
    return screen.table(columns, [(str(at), *row) for at, row in enumerate(cells, start=1)])[1:]


def format_moment(at: datetime | None, zone: tzinfo | None) -> str:
    """Day and time where the reader is."""
    try:
        return f"{at.astimezone(zone):%Y-%m-%d %H:%M}" if at else ""
    except (OverflowError, ValueError):
        return ""
