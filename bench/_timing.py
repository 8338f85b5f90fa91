"""How benchmarks take time: processor time of this thread, and the fastest of several runs.

What is compared computes and waits for nothing. Other programs on the machine disturb processor time less
than they disturb the clock, and the fastest run was disturbed least.
"""

import time
from collections.abc import Callable

clock = time.thread_time


def best(run: Callable[[], object], times: int = 7) -> float:
    """Seconds of the fastest run."""
    found: list[float] = []
    for _ in range(times):
        start = clock()
        run()
        found.append(clock() - start)
    return min(found)


def best_of_both(
    one: Callable[[], object], other: Callable[[], object], times: int = 15
) -> tuple[float, float]:
    """The fastest of each, run in turn: what disturbs the machine disturbs both."""
    found = [(best(one, 1), best(other, 1)) for _ in range(times)]
    return min(first for first, _ in found), min(second for _, second in found)
