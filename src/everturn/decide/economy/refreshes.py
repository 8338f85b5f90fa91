"""Refreshes: keeping entries of five minutes alive, where a hold of an hour does not work (EC-3).

A provider may drop an entry of an hour together with the five-minute entries below it, and a framework that
places the breakpoints itself has no entries of an hour. A refresh costs as much as a hold and lasts for five
minutes, so it is worth its price only while many pauses end within the next five.
"""

from typing import Final

from everturn.decide.economy.pauses import PauseRow, chance_between

# 76 Claude Code sessions: of so many silences that had lasted this long, so many ended within the next five
# minutes. `replay/pause_table.py` reads the same silences.
REFRESH_ROWS: Final = (
    PauseRow(290.0, 198, 53),
    PauseRow(580.0, 145, 19),
    PauseRow(870.0, 126, 10),
    PauseRow(1_160.0, 117, 7),
    PauseRow(1_450.0, 110, 5),
    PauseRow(1_740.0, 105, 3),
)


def refresh_chance(seconds: float) -> float:
    """The chance that somebody returns within five minutes, after a silence of so many seconds."""
    if seconds > REFRESH_ROWS[-1].seconds + 290.0:
        return 0.0
    return chance_between(REFRESH_ROWS, seconds)
