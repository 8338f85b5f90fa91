"""The twin's clock: virtual, so that tests can skip time, or real (TW-9).

Everything that depends on time (cache expiry, prices by date, fingerprints) uses the same clock. Delays use
it too: a virtual clock is moved forward instead of waiting, so a slow stream takes no time in a test.
"""

from datetime import UTC, datetime, timedelta
from typing import Protocol

# The default start of virtual time (TW, "Decided here").
START = datetime(2026, 11, 15, tzinfo=UTC)


class Clock(Protocol):
    """What the twin needs of a clock."""

    @property
    def is_virtual(self) -> bool: ...

    def now(self) -> datetime: ...


class VirtualClock:
    """A clock that moves only when it is told to."""

    is_virtual = True

    def __init__(self, start: datetime = START) -> None:
        self._start = start
        self._now = start

    def now(self) -> datetime:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)

    def set(self, moment: datetime) -> None:
        """Set any time, also an earlier one: prices depend on the date."""
        self._now = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)

    def reset(self) -> None:
        self._now = self._start


class RealClock:
    """The clock of this machine."""

    is_virtual = False

    def now(self) -> datetime:
        return datetime.now(UTC)


def format_time(moment: datetime) -> str:
    """A time in the format of the control endpoints, such as 2026-11-15T00:00:00Z."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
