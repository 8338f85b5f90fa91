"""`everturn recall`: find words in everything that a session ever said, also what was summarized since."""

import click


@click.command(short_help="Find words in everything a session ever said.")
@click.argument("file", type=click.Path())
@click.argument("query", nargs=-1, required=True)
@click.option("--limit", metavar="N", type=click.IntRange(min=1), default=8, help="How many hits at most.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as one JSON object.")
def recall(file: str, query: tuple[str, ...], limit: int, as_json: bool) -> None:
    """Search the Claude Code session in FILE for the words of QUERY, best hits first.

    Words in double quotes must stand together. Each hit says whether the model still sees it. An index is
    kept beside the file where that is possible.
    """
    import msgspec

    from everturn.history.log import Log
    from everturn.history.threads import split_threads
    from everturn.session.recall.index import RecallIndex
    from everturn.session.recall.search import search
    from everturn.session.transcripts import open_transcript

    log = Log(split_threads(open_transcript(file).records).main.records)
    index = RecallIndex(file)
    try:
        found = search(" ".join(query), limit, index=index, log=log)
    finally:
        index.close()
    if as_json:
        click.echo(msgspec.json.encode({"hits": found.hits, "remark": found.remark, "notes": index.notes}))
        return
    from everturn.dashboard.recall_output import print_lines, render_hits

    print_lines(lambda screen: render_hits(found, index.notes, screen))
