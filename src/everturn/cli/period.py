"""The options `--since`, `--until` and `--timezone`, which several commands share."""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from difflib import get_close_matches
from typing import Any, Final
from zoneinfo import ZoneInfo, available_timezones

import click

_ZONE: Final = "everturn.zone"
_SPAN: Final = re.compile(r"(\d{1,5})\s*(h|d|w|mo|y)[a-z]*(?:\s+ago)?")
_DAYS: Final = {"d": 1, "w": 7, "mo": 30, "y": 365}
_WEEK: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_FORMS: Final = "a date (2026-01-31), a month (2026-01), 7d, 12h, 2w, today, yesterday or a day of the week"


class _Moment(click.ParamType):  # pyright: ignore[reportMissingTypeArgument]  # click 8.1 has none
    """A point in time in words. As the end of a period, a day or a month counts as a whole."""

    name = "when"

    def __init__(self, *, is_end: bool) -> None:
        self._is_end = is_end

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        zone = ctx.meta.get(_ZONE) if ctx else None
        try:
            return parse_moment(value, datetime.now(zone).astimezone(zone), zone, is_end=self._is_end)
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is not a time. Use {_FORMS}.", param, ctx)


def parse_moment(text: str, now: datetime, zone: tzinfo | None, *, is_end: bool) -> datetime:
    """The moment that a person means. Days begin at midnight in `zone` (None: the system's). Raises
    ValueError if it cannot be understood."""
    words = text.strip().lower()
    today = now.date()
    span = _SPAN.fullmatch(words)
    if span and span[2] == "h":
        return now - timedelta(hours=int(span[1]))
    if span:
        return _day(today - timedelta(days=int(span[1]) * _DAYS[span[2]]), zone, is_end=is_end)
    if words in ("today", "yesterday"):
        return _day(today - timedelta(days=words == "yesterday"), zone, is_end=is_end)
    if words in _WEEK:
        return _day(today - timedelta(days=(today.weekday() - _WEEK.index(words)) % 7), zone, is_end=is_end)
    if re.fullmatch(r"\d{4}-\d{2}", words):
        first = date.fromisoformat(f"{words}-01")
        return _day((first + timedelta(days=31)).replace(day=1) if is_end else first, zone, is_end=False)
    if re.fullmatch(r"\d{4}-?\d{2}-?\d{2}", words):
        return _day(date.fromisoformat(words), zone, is_end=is_end)
    return _in_zone(datetime.fromisoformat(text.strip()), zone)


def _day(day: date, zone: tzinfo | None, *, is_end: bool) -> datetime:
    # Nothing comes after the last day that a date can have, and people write it for "no end".
    first = day + timedelta(days=is_end) if day < date.max else day
    return _in_zone(datetime.combine(first, time()), zone)


def _in_zone(moment: datetime, zone: tzinfo | None) -> datetime:
    if moment.tzinfo is not None:
        return moment
    if zone:
        return moment.replace(tzinfo=zone)
    try:
        # Without a zone, the system knows the offset of its own on that day.
        return moment.astimezone()
    except (OverflowError, ValueError):
        # On the first and the last day that a date can have, newer Pythons do not ask it.
        return moment.replace(tzinfo=UTC)


def period_options(command: Callable[..., Any]) -> Callable[..., Any]:
    since = click.option(
        "--since",
        type=_Moment(is_end=False),
        help="Only from this time on: 2026-01-31, 2026-01, 7d, yesterday.",
    )
    until = click.option(
        "--until", type=_Moment(is_end=True), help="Only up to this time; a day or month counts whole."
    )
    return timezone_option(since(until(command)))


def timezone_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`get_zone` has its value. It is read first, because days depend on it."""
    return click.option(
        "--timezone",
        metavar="NAME",
        is_eager=True,
        expose_value=False,
        callback=_keep_zone,
        help="Days and times of this zone, like Asia/Tokyo.  [default: the system's]",
    )(command)


def _keep_zone(ctx: click.Context, param: click.Parameter, name: str | None) -> None:
    if name is None:
        return
    try:
        ctx.meta[_ZONE] = ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        near = get_close_matches(name, sorted(available_timezones()), n=1)
        hint = f"Did you mean {near[0]}?" if near else "Use a name like Europe/Berlin."
        raise click.BadParameter(f"{name!r} is not a known time zone. {hint}", param=param) from None


def get_zone() -> tzinfo | None:
    """The zone of the running command; None is the system's."""
    return click.get_current_context().meta.get(_ZONE)


def to_period(since: datetime | None, until: datetime | None) -> tuple[datetime | None, datetime | None]:
    """The first moment that counts, and the first that no longer does."""
    if since is not None and until is not None and until <= since:
        # A period that ends at midnight was named by the day before.
        last = until - timedelta(days=1) if until.time() == time() else until
        raise click.UsageError(f"--until {_spell(last)} is before --since {_spell(since)}.")
    return since, until


def _spell(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d}" if moment.time() == time() else f"{moment:%Y-%m-%d %H:%M}"
