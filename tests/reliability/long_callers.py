"""One caller for hundreds of steps, most of them in one conversation.

`callers.py` has many programs that take ten steps each. Some things need more: a context that fills again and
again, breakers that open and heal, forks of forks, a list that is far larger than any window. The steps, the
checks and the comparison of the bills are those of `callers.py`; messages are shorter, and a program mostly
goes on with its first list.
"""

import random
from collections import Counter

from reliability.caller_surfaces import SURFACES
from reliability.callers import (
    CHANGES,
    FAULTS,
    SPELLINGS,
    WINDOWS,
    Step,
    beginning,
    compare_bills,
    run,
)
from reliability.scenes import quiet

STEPS = 250
PAD = "and this is why it matters so much. " * 40
ODD_HABITS = ("again", "regenerate", "edit", "rewind", "branch", "trim")


def lasting(rng: random.Random, steps: int) -> list[Step]:
    return [_first(rng), *(_next(rng) for _ in range(steps - 1))]


def _first(rng: random.Random) -> Step:
    return Step(list_at=0.0, habit="go on", at=0.0, changes=beginning(rng))


def _next(rng: random.Random) -> Step:
    habit = "go on" if rng.random() < 0.85 else rng.choice(ODD_HABITS)
    return Step(
        list_at=0.0 if rng.random() < 0.9 else rng.random(),
        habit=habit,
        at=_place(rng, habit),
        changes=tuple((change, rng.random()) for change in CHANGES if rng.random() < 0.02),
        spelling=rng.choice(tuple(SPELLINGS)) if rng.random() < 0.5 else "plain",
        fault=rng.choice(FAULTS) if rng.random() < 0.04 else "",
        restarts=rng.random() < 0.03,
    )


def _place(rng: random.Random, habit: str) -> float:
    """Mostly what is recent is edited or gone back to, and what is old is trimmed: or no list would grow."""
    if habit in ("edit", "rewind"):
        return 1 - 1e-9 - 0.999 * rng.random() ** 8
    return rng.random() ** 6


def talked(seed: int, steps: int = STEPS) -> Counter[str]:
    rng = random.Random(f"long caller {seed}")
    surface, window, plan = rng.choice(tuple(SURFACES)), rng.choice(WINDOWS), lasting(rng, steps)
    with quiet():
        odd = run(surface, window, plan, seed, PAD)
        plain = run(surface, window, [step.plain for step in plan], seed, PAD)
    compare_bills(odd, plain)
    odd.counts["steps"] = steps
    return odd.counts
