"""`everturn unfold`: what a compaction replaced, from the transcript."""

import click


@click.command(short_help="What a compaction replaced.")
@click.argument("file", type=click.Path(allow_dash=True))
@click.argument("boundary", default="")
@click.option("--full", is_flag=True, help="Print every message whole.")
def unfold(file: str, boundary: str, full: bool) -> None:
    """List the compactions of the Claude Code session in FILE ("-" for standard input).

    With BOUNDARY, the number of one or the beginning of its uuid: print the messages that it replaced.
    """
    from everturn.dashboard.past import compactions, draw, unfolded
    from everturn.history.threads import threads
    from everturn.session.recall.unfold import chosen, folds
    from everturn.session.transcripts import open_transcript

    every = folds(threads(open_transcript(file).records).main.records)
    if not boundary:
        draw(lambda screen: compactions(every, screen))
        return
    one = chosen(every, boundary)
    draw(lambda screen: unfolded(one, "full" if full else "short", screen))
