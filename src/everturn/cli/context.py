"""`everturn context`: what fills the context of a recorded session.

Exit codes: 0, also for an empty session; 1 if the input cannot be used, with one sentence on stderr; 2 for
wrong usage.
"""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from everturn.cli.configured import configured
from everturn.cli.output import say_json, write_output
from everturn.session.transcripts import Progress

if TYPE_CHECKING:
    from everturn.dashboard.report import ContextReport
    from everturn.decide.options import Options

# Smaller sessions are read before a progress bar could be seen.
MIN_BYTES_FOR_PROGRESS = 50 * 1024 * 1024
# Width of the image, for use in documents.
IMAGE_COLUMNS = 80


@click.command(short_help="What fills the context of a recorded session.")
@click.argument("file", type=click.Path(allow_dash=True))
@click.option("--agent", metavar="ID", default="", help="Show this sub-agent; a prefix of its id is enough.")
@click.option(
    "--window",
    metavar="N",
    type=click.IntRange(min=1),
    help="The window in tokens, if the assumed one is wrong.",
)
@click.option("--json", "as_json", is_flag=True, help="Print everything as one JSON object.")
@click.option(
    "--svg", metavar="OUT", type=click.Path(dir_okay=False, path_type=Path), help="Write an SVG image."
)
@click.option("--no-color", is_flag=True, help="Print without colours.")
@configured
def context(
    file: str,
    agent: str,
    window: int | None,
    as_json: bool,
    svg: Path | None,
    no_color: bool,
    options: "Options",
) -> None:
    """Show what fills the context of the Claude Code session in FILE ("-" for standard input).

    Totals are what the API reported. The split is estimated, and calibrated on the session itself.
    """
    from everturn.dashboard.report import as_json as spelled
    from everturn.dashboard.report import context_report
    from everturn.session.recorded import open_session

    with _progress(file) as progress:
        session = open_session(file, agent=agent, window=window, progress=progress, options=options)
        report = context_report(session)
    if as_json:
        # As bytes: JSON is UTF-8 in any locale.
        say_json(spelled(report))
        return
    if svg is not None:
        _write_image(report, svg)
        return
    from everturn.dashboard.terminal import draw

    draw(report, color=not no_color)


def _write_image(report: "ContextReport", out: Path) -> None:
    from everturn.dashboard.layout import Screen
    from everturn.dashboard.terminal import drawn
    from everturn.dashboard.terminal_svg import svg

    screen = Screen(IMAGE_COLUMNS)
    picture = svg(
        drawn(report, screen), columns=screen.width, title=f"What fills the context of {report.source}"
    )
    write_output(out, picture.encode())


@contextmanager
def _progress(file: str) -> Generator[Progress | None]:
    """A progress line on stderr, only in a terminal and only for large files."""
    if not (sys.stderr.isatty() and _size(file) > MIN_BYTES_FOR_PROGRESS):
        yield None
        return
    erase = "\r\x1b[K"

    def tell(done: int, size: int) -> None:
        said = f"Reading {done / size:.0%}" if done < size else f"Measuring {size >> 20:,} MB"
        click.echo(f"{erase}{said} ...", err=True, nl=False)

    try:
        yield tell
    finally:
        click.echo(erase, err=True, nl=False)


def _size(file: str) -> int:
    try:
        return Path(file).stat().st_size
    except (OSError, ValueError):
        return 0
