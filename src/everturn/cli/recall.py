"""`everturn recall`: search the full history of a session, including summarized parts."""

import click

from everturn.cli.output import say_json, warn_of_damage


@click.command(short_help="Search the full history of a session.")
@click.argument("file", type=click.Path())
@click.argument("query", nargs=-1, required=True)
@click.option("--limit", metavar="N", type=click.IntRange(min=1), default=8, help="Maximum number of hits.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def recall(file: str, query: tuple[str, ...], limit: int, as_json: bool) -> None:
    """Search the Claude Code session in FILE for the words of QUERY, best hits first.

    Put a phrase in double quotes. Each hit says whether the model still sees it. An index is stored beside
    the file if possible.
    """
    import msgspec

    from everturn.history.log import Log
    from everturn.history.threads import split_threads
    from everturn.session.recall.index import RecallIndex
    from everturn.session.recall.search import search
    from everturn.session.transcripts import open_transcript
    from everturn.wire.line_repair import describe_problems

    transcript = open_transcript(file)
    damage = describe_problems(transcript.flaws)
    warn_of_damage(file, damage)
    log = Log(split_threads(transcript.records).main.records)
    index = RecallIndex(file)
    try:
        found = search(" ".join(query), limit, index=index, log=log)
    finally:
        index.close()
    if as_json:
        say_json(
            msgspec.json.encode(
                {"hits": found.hits, "remark": found.remark, "notes": (*damage, *index.notes)}
            )
        )
        return
    from everturn.dashboard.recall_output import print_lines, render_hits

    print_lines(lambda screen: render_hits(found, index.notes, screen))
