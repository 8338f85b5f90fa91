"""`everturn undo`: take the last compaction of a recorded session back, by appending that it no longer holds.

Exit codes: 0 when it was taken back; 1 when there is nothing to take back or the file cannot be used, with
the reason on stderr; 2 when the command was called wrongly.
"""

import click


@click.command(short_help="Take the last compaction of a session back.")
@click.argument("file", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Print everything as one JSON object.")
def undo(file: str, as_json: bool) -> None:
    """Take the last compaction of the Claude Code session in FILE back.

    What it replaced is in view again, with everything that was said since. Nothing is deleted: one line is
    appended. Called again, it takes the compaction before that one back.
    """
    import msgspec

    from everturn.dashboard.compactions import render_undo
    from everturn.dashboard.recall_output import print_lines
    from everturn.decide.compact.values import CompactionSkipped
    from everturn.session.reopen import reopen_session

    with reopen_session(file) as session:
        before = session.context()
        undone = session.undo()
        if isinstance(undone, CompactionSkipped):
            raise click.ClickException(undone.why)
        after = session.context()
    if as_json:
        sizes = {"tokens_before": before.size.tokens, "tokens_after": after.size.tokens}
        click.echo(msgspec.json.encode({"boundary": undone.boundary} | sizes))
        return
    print_lines(lambda screen: render_undo(undone.boundary, before, after, screen))
