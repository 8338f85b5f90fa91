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
