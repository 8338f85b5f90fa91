"""`everturn context`: what fills the context of a recorded session.

Exit codes: 0, also for an empty session; 1 if the input cannot be used, with one sentence on stderr; 2 for
wrong usage.
"""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from everturn.cli.configured import configured
from everturn.cli.output import say_json, write_output
from everturn.cli.session_names import STDIN, choose_session, session_argument

if TYPE_CHECKING:
    from everturn.dashboard.report import ContextReport
    from everturn.decide.options import Options
    from everturn.session.transcripts import Progress

# Smaller sessions are read before anybody would wait.
MIN_BYTES_FOR_PROGRESS = 50 * 1024 * 1024
# Width of the image, for use in documents.
IMAGE_COLUMNS = 80


@click.command(short_help="What fills the context of a recorded session.")
@session_argument
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
    session: str | None,
    agent: str,
    window: int | None,
    as_json: bool,
    svg: Path | None,
    no_color: bool,
    options: "Options",
) -> None:
    """Show what fills the context of SESSION: a file, "-", an id as it is shown, or a part of the title.

    Without SESSION it is the newest one of the current folder.
    Totals are what the API reported. The split is estimated, and calibrated on the session itself.
    """
    from everturn.catalog.names import short_id
    from everturn.dashboard.report import as_json as spelled
    from everturn.dashboard.report import context_report
    from everturn.replay.sessions import read_agent_files
    from everturn.session.recorded import open_session

    file = choose_session(session, is_told=False)
    with _progress(file) as tell:
        opened = open_session(file, agent=agent, window=window, progress=tell, options=options)
        others = {} if agent or file == STDIN else read_agent_files(Path(file))
        # Whoever named the file needs no other name for it.
        name = "" if file == session else short_id(file)
        report = context_report(opened, id=name, agent_files=others.values())
    if svg is not None:
        _write_image(report, svg)
    if as_json:
        # As bytes: JSON is UTF-8 in any locale.
        say_json(spelled(report))
    if as_json or svg is not None:
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
    # The name of a session file need not be UTF-8.
    write_output(out, picture.encode(errors="replace"))


@contextmanager
def _progress(file: str) -> Generator["Progress | None"]:
    """In megabytes, for large files."""
    if _size(file) <= MIN_BYTES_FOR_PROGRESS:
        yield None
        return
    from everturn.dashboard.progress import progress

    with progress("Reading MB") as tell:
        yield lambda done, of: tell(done >> 20, of >> 20, "")


def _size(file: str) -> int:
    try:
        return Path(file).stat().st_size
    except (OSError, ValueError):
        return 0
