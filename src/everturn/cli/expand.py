"""`everturn expand`: show what a compaction replaced, from the transcript."""

import os

import click

from everturn.cli.output import warn_of_damage
from everturn.cli.session_names import choose_session, is_session, session_argument


@click.command(short_help="Show what a compaction replaced.")
@session_argument
@click.argument("boundary", default="")
@click.option("--full", is_flag=True, help="Print every message in full.")
def expand(session: str | None, boundary: str, full: bool) -> None:
    """List the compactions of SESSION: a file, "-", an id as it is shown, or a part of the title.

    Without SESSION it is the newest one of the current folder. With BOUNDARY (the number of a compaction, or
    the start of its uuid), print the messages that it replaced.
    """
    from everturn.dashboard.recall_output import print_lines, render_compactions, render_expanded
    from everturn.history.threads import split_threads
    from everturn.session.recall.expand import expand_compactions, select_compaction
    from everturn.session.transcripts import open_transcript
    from everturn.wire.line_repair import describe_problems

    # A number alone is a compaction, unless it is the id of a session.
    if session and session.isdecimal() and not (boundary or os.path.lexists(session) or is_session(session)):
        session, boundary = None, session
    file = choose_session(session)
    transcript = open_transcript(file)
    warn_of_damage(file, describe_problems(transcript.flaws))
    every = expand_compactions(split_threads(transcript.records).main.records)
    if not boundary:
        print_lines(lambda screen: render_compactions(every, screen))
        return
    one = select_compaction(every, boundary)
    print_lines(lambda screen: render_expanded(one, "full" if full else "short", screen))
