"""`everturn twin verify`: let the real API judge the twin."""

import os
import secrets
from collections.abc import Sequence
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from everturn import __version__
from everturn.errors import UsageError
from everturn.measure.money import format_dollars
from everturn.safe_files import write_file
from everturn.terminal_text import printable
from everturn.twin.build import load_options
from everturn.twin.clock import format_time
from everturn.twin.options import TwinOptions
from everturn.twin.options_file import OPTION_NAMES
from everturn.twin.verify.probes import PROBES
from everturn.twin.verify.report import describe, format_row, summarize
from everturn.twin.verify.run import Rehearsal, Verification, learn_options, rehearse
from everturn.twin.verify.run import verify as compare_with
from everturn.twin.verify.senders import make_twin_sender, open_http_sender
from everturn.twin.verify.values import Probe

_API: Final = "https://api.anthropic.com"
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_NEW_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command(short_help="Compare the twin with the real API.")
@click.option("--against", default=_API, show_default=True, metavar="URL", help="The server to compare with.")
@click.option(
    "--budget", default=0.50, show_default=True, type=click.FloatRange(0), help="Dollars to spend at most."
)
@click.option("--yes", is_flag=True, help="Do not ask before money is spent.")
@click.option("--slow", is_flag=True, help="Also run the probes that wait for minutes.")
@click.option("--only", multiple=True, metavar="ID", help="Only these probes, or groups such as `cache`.")
@click.option("--options", "options_file", type=_FILE, help="Options of the twin, in JSON.")
@click.option(
    "--json", "json_file", type=_NEW_FILE, help="Write the results to a file, to attach to an issue."
)
@click.option(
    "--write-options", type=_NEW_FILE, help="Write what was learned, for `everturn twin --options`."
)
def verify(
    *,
    against: str,
    budget: float,
    yes: bool,
    slow: bool,
    only: tuple[str, ...],
    options_file: Path | None,
    json_file: Path | None,
    write_options: Path | None,
) -> None:
    """Compare the twin with the real API, which needs ANTHROPIC_API_KEY and costs a few cents.

    The same requests are sent to both: token counts, cache, errors, context editing, compaction, thinking,
    stop reasons. The table shows where they differ. Nothing is sent before the estimated price is confirmed.
    """
    options = load_options(options_file) if options_file else TwinOptions()
    probes = _choose(only, slow=slow)
    key = _find_key(against)
    salt = secrets.token_hex(8)
    now = datetime.now(UTC)
    rehearsals = rehearse(probes, lambda probe: make_twin_sender(probe, options, salt=salt), on=now.date())
    _confirm(rehearsals, against, budget, yes=yes)
    verification = Verification(budget)
    width = max(len(probe.id) for probe in probes)
    with open_http_sender(against, key, salt=salt) as send:
        for result in compare_with(rehearsals, send, budget=budget, on=now.date()):
            verification.results.append(result)
            for line in format_row(result, width):
                click.echo(printable(line))
    click.echo(summarize(verification))
    learned = learn_options(verification.results)
    if json_file is not None:
        given = _changed(options)
        whole = describe(
            verification, against=against, version=__version__, at=format_time(now), options=given
        )
        _write(json_file, whole)
    if write_options is not None:
        _write(write_options, _changed(options) | learned)
    if learned and write_options is None:
        click.echo("--write-options FILE writes what was learned, for `everturn twin --options FILE`.")


def _choose(only: tuple[str, ...], *, slow: bool) -> list[Probe]:
    for name in only:
        if not any(_is_named(probe, name) for probe in PROBES):
            groups = ", ".join(dict.fromkeys(probe.id.partition(".")[0] for probe in PROBES))
            raise UsageError(f"No probe is called {name!r:.60}. Groups of probes: {groups}.")
    named = [probe for probe in PROBES if not only or any(_is_named(probe, name) for name in only)]
    chosen = [probe for probe in named if slow or not probe.is_slow]
    if not chosen:
        raise UsageError("These probes wait for minutes; add --slow to run them.")
    return chosen


def _is_named(probe: Probe, name: str) -> bool:
    return name in (probe.id, probe.id.partition(".")[0])


def _find_key(against: str) -> str:
    key = os.environ.get("ANTHROPIC_API_KEY", "")
    if key or against.rstrip("/") != _API:
        return key or "verify"
    raise UsageError(
        "ANTHROPIC_API_KEY is not set, and the real API needs a key. Set it, or name another server with "
        "--against URL."
    )


def _confirm(rehearsals: Sequence[Rehearsal], against: str, budget: float, *, yes: bool) -> None:
    estimate = sum(rehearsal.dollars for rehearsal in rehearsals)
    requests = sum(len(rehearsal.probe.requests) for rehearsal in rehearsals)
    minutes = sum(request.wait for each in rehearsals for request in each.probe.requests) / 60
    waits = f", about {minutes:.0f} minutes of waiting" if minutes else ""
    price = f"about {format_dollars(estimate)}"
    click.echo(
        f"{len(rehearsals)} probes with {requests} requests to {against}{waits}: {price}. It stops before "
        f"the budget of {format_dollars(budget)} would be exceeded."
    )
    if not yes and not click.confirm("Send them?"):
        raise UsageError("Nothing was sent.")


def _changed(options: TwinOptions) -> dict[str, Any]:
    """The options that differ from their defaults, as JSON values."""
    default = TwinOptions()
    names = [field.name for field in fields(options) if field.name in OPTION_NAMES]
    pairs = ((name, getattr(options, name)) for name in names)
    return msgspec.to_builtins({name: value for name, value in pairs if value != getattr(default, name)})


def _write(file: Path, value: dict[str, Any]) -> None:
    write_file(file, msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")
