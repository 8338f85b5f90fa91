"""How far a saving can be trusted: 95 % intervals by a paired bootstrap over sessions (RP-15).

The sessions of a comparison are a sample. Drawing as many of them again, with replacement, many times shows
how much the saving depends on which sessions are in it. Each draw is the same for every policy, so that
policies are compared on the same sessions.
"""

import random
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Final

import msgspec

SEED: Final = 15
DRAWS: Final = 1_000
_TAIL: Final = 0.025
# One or two sessions say nothing about others.
MIN_SESSIONS: Final = 5


class Interval(msgspec.Struct, frozen=True):
    """The middle 95 % of the draws, as shares."""

    low: float
    high: float

    @property
    def has_zero(self) -> bool:
        return self.low <= 0 <= self.high


class PairedCosts(msgspec.Struct, frozen=True):
    """What one session cost under a policy, and the same calls under the one it is compared with."""

    dollars: Decimal = Decimal(0)
    of: Decimal = Decimal(0)


def draw_sessions(count: int, *, seed: int = SEED, draws: int = DRAWS) -> list[Counter[int]]:
    """How often each session is in each draw."""
    random_ = random.Random(seed)
    return [Counter(random_.choices(range(count), k=count)) for _ in range(draws)]


def saving_interval(pairs: Sequence[PairedCosts], draws: Sequence[Counter[int]]) -> Interval | None:
    """The interval of the saved share; None if there are too few sessions to say."""
    if sum(1 for pair in pairs if pair.of) < MIN_SESSIONS:
        return None
    ours = [float(pair.dollars) for pair in pairs]
    theirs = [float(pair.of) for pair in pairs]
    shares: list[float] = []
    for drawn in draws:
        of = sum(theirs[at] * times for at, times in drawn.items())
        if of:
            shares.append(1 - sum(ours[at] * times for at, times in drawn.items()) / of)
    shares.sort()
    cut = int(len(shares) * _TAIL)
    return Interval(shares[cut], shares[-1 - cut]) if shares else None
