"""`everturn expand`: show what a compaction replaced, from the transcript."""

import click

from everturn.cli.output import warn_of_damage


@click.command(short_help="Show what a compaction replaced.")
@click.argument("file", type=click.Path(allow_dash=True))
@click.argument("boundary", default="")
@click.option("--full", is_flag=True, help="Print every message in full.")
def expand(file: str, boundary: str, full: bool) -> None:
    """List the compactions of the Claude Code session in FILE ("-" for standard input).

    With BOUNDARY (the number of a compaction, or the start of its uuid), print the messages that it replaced.
    """
    from everturn.dashboard.recall_output import print_lines, render_compactions, render_expanded
    from everturn.history.threads import split_threads
    from everturn.session.recall.expand import expand_compactions, select_compaction
    from everturn.session.transcripts import open_transcript
    from everturn.wire.line_repair import describe_problems

    transcript = open_transcript(file)
    warn_of_damage(file, describe_problems(transcript.flaws))
    every = expand_compactions(split_threads(transcript.records).main.records)
    if not boundary:
        print_lines(lambda screen: render_compactions(every, screen))
        return
    one = select_compaction(every, boundary)
    print_lines(lambda screen: render_expanded(one, "full" if full else "short", screen))
