"""A clock that jumps, both ways, in the middle of everything: a laptop wakes up, a machine starts in 1970, a
time server disagrees. Order is the order of the file, whatever the records say of their time.

The conversations are those of `trials.py`, with all their judges.
"""

from collections import Counter
from datetime import UTC, datetime, timedelta

from reliability.trials import START, Trial

JUMPS = tuple(
    timedelta(seconds=sign * seconds)
    for seconds in (0.001, 1, 301, 3_700, 86_400, 400 * 86_400)
    for sign in (1, -1)
)
# Where clocks start that have lost their battery or their sign.
RESETS = (
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(2000, 1, 1, tzinfo=UTC),
    datetime(2106, 2, 7, tzinfo=UTC),
    START,
)


class Jumping(Trial):
    """One conversation; every look at the clock may find another time."""

    def clock(self) -> datetime:
        chance = self.rng.random()
        if chance < 0.05:
            self.now = self.rng.choice(RESETS)
        elif chance < 0.4:
            self.now = min(max(self.now + self.rng.choice(JUMPS), RESETS[0]), RESETS[2])
        self.counts["faults"] += chance < 0.4
        return self.now


def jumped(seed: int) -> Counter[str]:
    return Jumping(seed).run()
