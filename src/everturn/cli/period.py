"""The options `--since` and `--until`, which several commands share."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import click

_DAY = click.DateTime(["%Y-%m-%d"])


def period_options(command: Callable[..., Any]) -> Callable[..., Any]:
    since = click.option("--since", type=_DAY, help="Only what began on this day or later (YYYY-MM-DD, UTC).")
    until = click.option(
        "--until", type=_DAY, help="Only what began on this day or before (YYYY-MM-DD, UTC)."
    )
    return since(until(command))


def to_period(since: datetime | None, until: datetime | None) -> tuple[datetime | None, datetime | None]:
    """The first moment that counts, and the first that no longer does. The last day counts as a whole."""
    if since is not None and until is not None and until < since:
        raise click.UsageError(f"--until {until:%Y-%m-%d} is before --since {since:%Y-%m-%d}.")
    first = since.replace(tzinfo=UTC) if since is not None else None
    return first, until.replace(tzinfo=UTC) + timedelta(days=1) if until is not None else None
