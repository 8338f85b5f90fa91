"""`everturn compact`: summarize a recorded session, as records that are appended to its file.

Exit codes: 0 when it was compacted, or with --dry-run; 1 when it was not, with the reason on stderr; 2 when
the command was called wrongly.
"""

from typing import Any

import click


@click.command(short_help="Summarize a recorded session, in its file.")
@click.argument("file", type=click.Path())
@click.option(
    "--from", "from_", metavar="UUID", help="Summarize from this record on; keep what is before it."
)
@click.option("--up-to", metavar="UUID", help="Summarize what is before this record; keep the rest.")
@click.option("--instructions", metavar="TEXT", default="", help="What the summary must pay attention to.")
@click.option("--dry-run", is_flag=True, help="Say what would happen, and change nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as one JSON object.")
@click.option(
    "--model", metavar="M", default="", help="Who summarizes; the session's own model if not given."
)
def compact(
    file: str,
    from_: str | None,
    up_to: str | None,
    instructions: str,
    dry_run: bool,
    as_json: bool,
    model: str,
) -> None:
    """Compact the Claude Code session in FILE: a boundary and a summary are appended, nothing is deleted.

    With ANTHROPIC_API_KEY set, a model writes the summary; without a key it is put together from the session
    itself, without any model. `everturn undo` takes it back.
    """
    from everturn.dashboard.compactions import as_json as spelled
    from everturn.dashboard.compactions import render_compaction, render_plan
    from everturn.dashboard.recall_output import print_lines
    from everturn.decide.compact.values import Compaction, CompactionPlan
    from everturn.session.reopen import reopen_session

    if from_ is not None and up_to is not None:
        raise click.UsageError("Give --from or --up-to, not both.")
    where = {"from_": from_, "up_to": up_to}
    with reopen_session(file, model, dry_run=dry_run) as session:
        outcome: Any = (
            session.dry_run(instructions, **where) if dry_run else session.compact(instructions, **where)
        )
        if not isinstance(outcome, Compaction | CompactionPlan):
            raise click.ClickException(f"{file} was not compacted: {outcome.why}")
        if as_json:
            click.echo(spelled(outcome, session.bill))
        elif isinstance(outcome, CompactionPlan):
            print_lines(lambda screen: render_plan(outcome, file, screen))
        else:
            print_lines(lambda screen: render_compaction(outcome, session.bill, file, screen))
