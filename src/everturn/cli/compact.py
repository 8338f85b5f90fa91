"""`everturn compact`: compact a recorded session by appending a summary to its file.

Exit codes: 0 when it was compacted, or with --dry-run; 1 when it was not, with the reason on stderr; 2 for
wrong arguments.
"""

from typing import TYPE_CHECKING, Any

import click

from everturn.cli.configured import configured
from everturn.cli.output import say_json, warn_of_damage
from everturn.cli.session_names import choose_session, session_argument

if TYPE_CHECKING:
    from everturn.decide.options import Options


@click.command(short_help="Compact a recorded session: append a summary to its file.")
@session_argument
@click.option(
    "--from", "from_", metavar="UUID", help="Summarize from this record on; keep everything before it."
)
@click.option("--up-to", metavar="UUID", help="Summarize everything before this record; keep the rest.")
@click.option("--instructions", metavar="TEXT", default="", help="What the summary should focus on.")
@click.option("--dry-run", is_flag=True, help="Show what would happen; change nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option(
    "--model", metavar="M", default="", help="The model for the summary; default: the session's model."
)
@configured
def compact(
    session: str | None,
    from_: str | None,
    up_to: str | None,
    instructions: str,
    dry_run: bool,
    as_json: bool,
    model: str,
    options: "Options",
) -> None:
    """Compact SESSION: a boundary and a summary are appended to its file, nothing is deleted.

    SESSION is a file, an id as it is shown, or a part of the title. Without it, it is that of the current
    folder; if there are several, you are asked which.

    With ANTHROPIC_API_KEY (or ANTHROPIC_AUTH_TOKEN) set, a model writes the summary; without a key it is
    extracted from the session, without a model. `everturn undo` reverts it.
    """
    from everturn.dashboard.compactions import as_json as spelled
    from everturn.dashboard.compactions import render_compaction, render_plan
    from everturn.dashboard.recall_output import print_lines
    from everturn.decide.compact.values import Compaction, CompactionPlan
    from everturn.session.reopen import reopen_session

    if from_ is not None and up_to is not None:
        raise click.UsageError("Give --from or --up-to, not both.")
    where = {"from_": from_, "up_to": up_to}
    file = choose_session(session, changes=not dry_run)
    with reopen_session(file, model, dry_run=dry_run, options=options) as opened:
        warn_of_damage(file, opened.damage)
        before, size_before = opened.bill.parts["compact"], opened.context().size
        outcome: Any = (
            opened.dry_run(instructions, **where) if dry_run else opened.compact(instructions, **where)
        )
        if not isinstance(outcome, Compaction | CompactionPlan):
            raise click.ClickException(f"{file} was not compacted: {outcome.why}")
        after = opened.bill.parts["compact"]
        # The file may have earlier compactions, which were paid then.
        spent = after.dollars - before.dollars if after.calls > before.calls else None
        if as_json:
            say_json(spelled(outcome, spent))
        elif isinstance(outcome, CompactionPlan):
            print_lines(lambda screen: render_plan(outcome, file, screen))
        else:
            size = opened.context().size
            is_head_known = size_before.basis == "estimate" or size.basis == "usage" or size.reported > 0
            print_lines(
                lambda screen: render_compaction(outcome, spent, file, screen, is_head_known=is_head_known)
            )
