"""A breaker: after repeated failures a database is not asked for a while, so that nobody waits for it."""

from typing import Final

import msgspec

# Our choice: three failures in a row are not an accident, and a database that restarts is back in seconds.
MAX_FAILURES: Final = 3
FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 10.0


class StoreBreaker(msgspec.Struct, frozen=True):
    """Failures in a row, and until when nothing is tried. Times are seconds of a clock that only advances."""

    failures: int = 0
    until: float = 0.0

    def refuses(self, now: float) -> bool:
        return self.failures >= MAX_FAILURES and now < self.until

    def after_failure(self, now: float) -> "StoreBreaker":
        failures = self.failures + 1
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** max(0, failures - MAX_FAILURES))
        return StoreBreaker(failures, now + pause)

    def trying(self, now: float) -> "StoreBreaker":
        """Before an operation. After a pause one tries, and the others wait for what it finds."""
        return self.after_failure(now) if self.failures >= MAX_FAILURES else self
