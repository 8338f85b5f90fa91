"""`everturn audit`: what recorded sessions cost, why their cache broke, and what filled their context.

Exit codes: 0 if at least one file could be read; 1 if none could, with the reasons on stderr; 2 for wrong
usage.
"""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from everturn.cli.configured import configured
from everturn.cli.output import say_json
from everturn.cli.period import period_options, to_period

if TYPE_CHECKING:
    from everturn.decide.options import Options

GROUPINGS = ("day", "project", "model")


@click.command(short_help="What recorded sessions cost, and why their cache broke.")
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--by",
    type=click.Choice(GROUPINGS),
    multiple=True,
    help="Group totals; can be repeated. Default: all groupings with more than one row.",
)
@period_options
@click.option("--json", "as_json", is_flag=True, help="Print everything as one JSON object.")
@click.option("--no-color", is_flag=True, help="Print without colours.")
@configured
def audit(
    paths: tuple[Path, ...],
    by: tuple[str, ...],
    since: datetime | None,
    until: datetime | None,
    as_json: bool,
    no_color: bool,
    options: "Options",
) -> None:
    """Add up the recorded sessions in PATHS: files, or folders such as ~/.claude/projects.

    Reads the session files of many agents, recognises the format by content, and lists files it cannot read.
    Each response counts once, however many lines and files repeat it.
    """
    from everturn.replay.audit import Auditor
    from everturn.replay.audit import as_json as spelled
    from everturn.replay.sessions import Period, read_sessions

    auditor = Auditor(Period(*to_period(since, until)))
    with _progress() as progress:
        for found in read_sessions(paths, progress):
            auditor.add(found)
    done = auditor.audit()
    if not done.sessions:
        reasons = "\n".join(f"  {each.path}: {each.why}" for each in done.unreadable)
        raise click.ClickException(f"No session to audit.\n{reasons}".rstrip())
    if as_json:
        # As bytes: JSON is UTF-8 in any locale.
        say_json(spelled(done))
        return
    from everturn.dashboard.audit import draw

    draw(done, by or [name for name in GROUPINGS if len(done.by[name]) > 1], color=not no_color)


@contextmanager
def _progress() -> Generator[Callable[[int, int, Path], None] | None]:
    """A progress bar on stderr, only in a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("Reading", total=None)

        def tell(number: int, total: int, _file: Path) -> None:
            bar.update(task, completed=number - 1, total=total)

        yield tell
