"""How benchmarks take time: the fastest of several runs, for that one was disturbed least."""

import time
from collections.abc import Callable


def best(run: Callable[[], object], times: int = 7) -> float:
    """Seconds of the fastest run."""
    found: list[float] = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return min(found)


def best_of_both(
    one: Callable[[], object], other: Callable[[], object], times: int = 15
) -> tuple[float, float]:
    """The fastest of each, run in turn: what disturbs the machine disturbs both."""
    found = [(best(one, 1), best(other, 1)) for _ in range(times)]
    return min(first for first, _ in found), min(second for _, second in found)
