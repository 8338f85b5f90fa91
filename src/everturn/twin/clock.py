"""What time it is for the twin: virtual, so that five minutes pass in no time, or real (TW-9).

Everything that ages (cache entries, prices by date, fingerprints) asks one clock. Whoever has to wait
asks it too: on a virtual clock waiting is only a step forward, so a slow stream costs a test nothing.
"""

from datetime import UTC, datetime, timedelta
from typing import Protocol

# Where virtual time starts (TW, "Decided here").
START = datetime(2026, 11, 15, tzinfo=UTC)


class Clock(Protocol):
    @property
    def is_virtual(self) -> bool: ...

    def now(self) -> datetime: ...


class VirtualClock:
    """Time that moves only when told to."""

    is_virtual = True

    def __init__(self, start: datetime = START) -> None:
        self._start = start
        self._now = start

    def now(self) -> datetime:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)

    def set(self, moment: datetime) -> None:
        """Any moment, also an earlier one: prices go by date, and dates of the past are worth testing."""
        self._now = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)

    def reset(self) -> None:
        self._now = self._start


class RealClock:
    is_virtual = False

    def now(self) -> datetime:
        return datetime.now(UTC)


def format_time(moment: datetime) -> str:
    """A moment the way the control endpoints spell it."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
