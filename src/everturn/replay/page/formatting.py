"""Number formats of the page: few digits, always with a unit."""

import re
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

from everturn.measure.money import format_dollars

_MINUS: Final = re.compile(r"(?<!\w)-(?=[$\d])")


def tokens(count: int) -> str:
    if count < 1_000:
        return str(count)
    for size, letter in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if count >= size:
            value = count / size
            return f"{value:.1f}{letter}" if value < 10 else f"{value:,.0f}{letter}"
    return str(count)


def dollars(amount: Decimal) -> str:
    return format_dollars(amount)


def axis_dollars(value: float) -> str:
    """For the round numbers beside a chart."""
    if value >= 10 or value == int(value):
        return f"${value:,.0f}"
    exact = f"{value:,.10g}"
    # Two decimals, as money is written; more where the step is smaller.
    return f"${exact}0" if len(exact.partition(".")[2]) == 1 else f"${exact}"


def saving(amount: Decimal, against: Decimal) -> str:
    """`34% saved`, or `costs 47% more` than `against`: the words fit the sign (RP-13)."""
    if not against:
        return ""
    share = round((against - amount) / against * 100)
    if share == 0:
        return "±0%"
    return f"{share}% saved" if share > 0 else f"costs {-share}% more"


def signed(text: str) -> str:
    """The text with real minus signs before its numbers; hyphens in names stay."""
    return _MINUS.sub("−", text)


def share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "–"


def moment(at: datetime) -> str:
    return f"{at.day} {at:%b %H:%M}"


def duration(span: timedelta) -> str:
    minutes = round(span.total_seconds() / 60)
    if minutes < 120:
        return f"{minutes} min"
    return f"{minutes / 60:.0f} h" if minutes < 48 * 60 else f"{minutes / 1440:.0f} days"


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
