"""`everturn audit`: what recorded sessions cost, why their cache broke, and what filled their context.

Exit codes: 0 if at least one file could be read; 1 if none could, with the reasons on stderr; 2 for wrong
usage; 130 after Ctrl-C.
"""

import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from everturn.cli.configured import configured
from everturn.cli.output import say, say_json
from everturn.cli.period import get_zone, period_options, to_period
from everturn.cli.session_names import (
    choose_paths,
    default_places,
    nothing_to,
    remember_paths,
    sessions_argument,
)

if TYPE_CHECKING:
    from everturn.decide.options import Options
    from everturn.replay.audit import Audit, Auditor, SessionFacts
    from everturn.replay.sessions import Unreadable

GROUPINGS = ("session", "day", "week", "month", "project", "model", "agent")
# Without --by. `day` becomes `month` where there are too many days to look at.
DEFAULT_GROUPINGS = ("session", "day", "project", "model", "agent")
MAX_DAYS = 31


@click.command(short_help="What recorded sessions cost, and why their cache broke.")
@sessions_argument
@click.option(
    "--by",
    type=click.Choice(GROUPINGS),
    multiple=True,
    help="Group totals; can be repeated. Default: session, day, project, model and agent, where there are "
    "several.",
)
@period_options
@click.option(
    "--break",
    "broken",
    metavar="CALL",
    default="",
    help="Show what changed before this call of one session; AGENT:CALL for a sub-agent.",
)
@click.option("--watch", is_flag=True, help="Go on until Ctrl-C, and show what changes.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as one JSON object.")
@click.option("--csv", "as_csv", is_flag=True, help="Print one table of totals as CSV: the first --by.")
@click.option("--no-color", is_flag=True, help="Print without colours.")
@configured
def audit(
    sessions: tuple[str, ...],
    by: tuple[str, ...],
    since: datetime | None,
    until: datetime | None,
    broken: str,
    watch: bool,
    as_json: bool,
    as_csv: bool,
    no_color: bool,
    options: "Options",
) -> None:
    """Show what recorded sessions cost, and why. Without SESSIONS, all on this machine.

    SESSIONS are files, folders, ids as they are shown, or parts of titles. Reads the session files of many
    agents, recognises the format by content, and lists files it cannot read. Each response counts once,
    however many lines and files repeat it.
    """
    from everturn.replay.audit import Auditor
    from everturn.replay.audit import as_json as spelled
    from everturn.replay.sessions import Period

    if as_json + as_csv + bool(broken) + watch > 1:
        raise click.UsageError("Give one of --json, --csv, --break and --watch.")
    paths = choose_paths(sessions)
    if broken:
        _show_difference(paths, broken)
        return
    zone, period = get_zone(), Period(*to_period(since, until))
    if watch:
        from everturn.cli.audit_watch import watch_audit

        watch_audit(
            lambda: list_session_files(paths, is_needed=False), lambda: Auditor(period, zone),
            lambda done: by or choose_groupings(done), color=not no_color, zone=zone,
        )  # fmt: skip
        return
    done = run_audit(list_session_files(paths), Auditor(period, zone), paths)
    if as_json:
        # As bytes: JSON is UTF-8 in any locale.
        say_json(spelled(done))
        return
    from everturn.dashboard.audit import draw, render_csv

    if as_csv:
        say(render_csv(done, by[0] if by else "session", zone), nl=False)
        return
    remember_paths(row.path for row in done.sessions)
    draw(done, by or choose_groupings(done), color=not no_color, zone=zone)


def run_audit(files: Sequence[Path], auditor: "Auditor", named: Sequence[Path]) -> "Audit":
    """`named` is what the user gave, for the error if there is nothing in it."""
    from everturn.replay.sessions import Unreadable

    newest: datetime | None = None
    for found in _read_facts(files):
        auditor.add(found)
        if not isinstance(found, Unreadable):
            newest = max(filter(None, (newest, *(call.at for call in found.calls))), default=None)
    done = auditor.audit()
    if not done.sessions and newest is not None:
        raise click.ClickException(f"No session has a call in this period; the last is of {newest:%Y-%m-%d}.")
    if not done.sessions:
        raise nothing_to("audit", named, done.unreadable)
    return done


def _read_facts(files: Sequence[Path]) -> Iterator["SessionFacts | Unreadable"]:
    from everturn.dashboard.progress import progress
    from everturn.replay.audit import measure_session
    from everturn.replay.sessions import Unreadable, read_sessions

    own = default_places().own
    with progress("Reading sessions") as tell:
        for found in read_sessions(files, lambda number, total, file: tell(number - 1, total, str(file))):
            yield found if isinstance(found, Unreadable) else measure_session(found, own=own)


def choose_groupings(done: "Audit") -> list[str]:
    """The tables that somebody sees who asked for none: those that would have several rows."""
    chosen = [name for name in DEFAULT_GROUPINGS if len(done.by[name]) > 1]
    return ["month" if name == "day" and len(done.by["day"]) > MAX_DAYS else name for name in chosen]


def list_session_files(paths: Sequence[Path], *, is_needed: bool = True) -> list[Path]:
    """The files in these paths; without any, all sessions of this machine. `is_needed`: none is an error."""
    from everturn.catalog.places import find_places, list_files

    if paths:
        folders = [path for path in paths if path.is_dir()]
        below = list_files(find_places(os.environ, home=Path.home(), paths=folders)) if folders else []
        return [*(path for path in paths if path not in folders), *below]
    places = find_places(os.environ, home=Path.home(), others=True)
    found = list_files(places)
    if not found and is_needed:
        listed = " or ".join(map(str, places.roots))
        raise click.ClickException(
            f"No session was found in {listed}. Name a file or folder: everturn audit PATH. "
            "Without any session of your own, try: everturn demo cache"
        )
    return found


def _show_difference(paths: Sequence[Path], broken: str) -> None:
    from everturn.dashboard.differences import render_difference
    from everturn.dashboard.recall_output import print_lines
    from everturn.replay.cache_breaks import find_cache_breaks
    from everturn.replay.requests_seen import compare_with_previous
    from everturn.replay.sessions import Unreadable, read_session

    agent, _, number = broken.rpartition(":")
    if len(paths) != 1 or paths[0].is_dir():
        raise click.UsageError("--break is about one session: name it by its id or path.")
    if not number.isdecimal() or len(number) > 9:
        raise click.BadParameter(f"{broken!r} is not the number of a call.", param_hint="--break")
    found = read_session(paths[0])
    if isinstance(found, Unreadable):
        raise click.ClickException(f"{found.path} cannot be read: {found.why}.")
    thread = next((each for each in found.threads if each.agent.startswith(agent) or not agent), None)
    if thread is None:
        raise click.ClickException(f"The session has no sub-agent {agent!r}.")
    difference = compare_with_previous(thread, int(number))
    breaks = find_cache_breaks(found).breaks
    why = next((each.why for each in breaks if (each.agent, each.number) == (thread.agent, int(number))), "")
    print_lines(lambda screen: render_difference(difference, why, screen))
