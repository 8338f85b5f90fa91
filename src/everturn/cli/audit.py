"""`everturn audit`: what recorded sessions cost, why their cache broke, and what filled their context.

Exit codes: 0 when anything could be read; 1 when nothing could, with the reasons on stderr; 2 when the
command was called wrongly.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

GROUPINGS = ("day", "project", "model")


@click.command(short_help="What recorded sessions cost, and why their cache broke.")
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--by",
    type=click.Choice(GROUPINGS),
    multiple=True,
    help="Totals by this; may be given again. By default all that have more than one row.",
)
@click.option("--json", "as_json", is_flag=True, help="Print everything as one JSON object.")
@click.option("--no-color", is_flag=True, help="Print without colours, as in a pipe or with NO_COLOR.")
def audit(paths: tuple[Path, ...], by: tuple[str, ...], as_json: bool, no_color: bool) -> None:
    """Add up the recorded sessions in PATHS, files or folders such as ~/.claude/projects.

    Reads what many agents write, tells the format by content, and names what it cannot read. Each response
    counts once, however many lines and files repeat it.
    """
    from everturn.replay.audit import Auditor
    from everturn.replay.audit import as_json as spelled
    from everturn.replay.sessions import read_sessions

    auditor = Auditor()
    with _progress() as progress:
        for found in read_sessions(paths, progress):
            auditor.add(found)
    done = auditor.audit()
    if not done.sessions:
        reasons = "\n".join(f"  {each.path}: {each.why}" for each in done.unreadable)
        raise click.ClickException(f"There is no session to audit.\n{reasons}".rstrip())
    if as_json:
        # As bytes: JSON is UTF-8, whatever the locale of the terminal is.
        click.echo(spelled(done))
        return
    from everturn.dashboard.audit import draw

    draw(done, by or [name for name in GROUPINGS if len(done.by[name]) > 1], color=not no_color)


@contextmanager
def _progress() -> Iterator[Callable[[int, int, Path], None] | None]:
    """A bar on stderr, for people only."""
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
