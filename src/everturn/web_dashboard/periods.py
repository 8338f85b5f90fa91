"""Days, weeks and months of the local calendar: the columns of a chart, and the days that filters name."""

from datetime import date, datetime, timedelta, tzinfo
from typing import Final, Literal, get_args

from everturn.errors import UsageError

Period = Literal["day", "week", "month"]
PERIODS: Final[tuple[Period, ...]] = get_args(Period)
# Columns of a chart: ten years of days.
MAX_PERIODS: Final = 3_660
_DAYS: Final[dict[Period, int]] = {"day": 1, "week": 7, "month": 28}


def choose_period(seconds: int) -> Period:
    """The shortest period with columns that are wide enough to read."""
    days = seconds / 86_400
    return "day" if days <= 100 else "week" if days <= 730 else "month"


def start_of(moment: datetime, period: Period) -> datetime:
    """Midnight of the first day of the period, without a zone: periods are compared, not computed with."""
    day = moment.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    if period == "week":
        return day - timedelta(days=day.weekday())
    return day.replace(day=1) if period == "month" else day


def next_start(start: datetime, period: Period) -> datetime:
    if period == "month":
        return (start + timedelta(days=32)).replace(day=1)
    return start + timedelta(days=7 if period == "week" else 1)


def is_drawable(span: tuple[int, int], period: Period) -> bool:
    """Whether a chart has room for all periods between these two times."""
    return (span[1] - span[0]) / 86_400 / _DAYS[period] <= MAX_PERIODS


def list_starts(span: tuple[int, int], period: Period, zone: tzinfo | None) -> list[datetime]:
    """The starts of all periods between these two times, which are seconds since 1970."""
    first, last = (start_of(datetime.fromtimestamp(at, zone), period) for at in span)
    found = [first]
    while found[-1] < last:
        found.append(next_start(found[-1], period))
    return found


def to_epoch(start: datetime, zone: tzinfo | None) -> int:
    """When a local day begins, in seconds since 1970."""
    return int((start.replace(tzinfo=zone) if zone else start).timestamp())


def parse_day(text: str, zone: tzinfo | None, *, days: int = 0) -> int:
    """Local midnight of a day like 2026-11-16, or of that many days later, in seconds since 1970. Not every
    day has 24 hours."""
    try:
        named = datetime.strptime(text, "%Y-%m-%d")
        # Nothing comes after the last day that a date can have, and people write it for "no end".
        return to_epoch(named + timedelta(days=days) if named.date() < date.max else named, zone)
    except (ValueError, OverflowError, OSError):
        raise UsageError(f"{text[:40]!r} is not a day. Write it as 2026-11-16.") from None
