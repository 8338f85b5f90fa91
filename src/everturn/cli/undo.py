"""`everturn undo`: undo the last compaction of a recorded session, by appending a record.

Exit codes: 0 when it was undone; 1 when there is nothing to undo or the file cannot be used, with the reason
on stderr; 2 for wrong arguments.
"""

from typing import TYPE_CHECKING

import click

from everturn.cli.configured import configured
from everturn.cli.output import say_json, warn_of_damage

if TYPE_CHECKING:
    from everturn.decide.options import Options


@click.command(short_help="Undo the last compaction of a session.")
@click.argument("file", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@configured
def undo(file: str, as_json: bool, options: "Options") -> None:
    """Undo the last compaction of the Claude Code session in FILE.

    The model sees the replaced messages again, together with everything since. Nothing is deleted: one line
    is appended. Run it again to undo the compaction before.
    """
    import msgspec

    from everturn.dashboard.compactions import render_undo
    from everturn.dashboard.recall_output import print_lines
    from everturn.decide.compact.values import CompactionSkipped
    from everturn.session.reopen import reopen_session

    with reopen_session(file, options=options) as session:
        warn_of_damage(file, session.damage)
        before = session.context()
        undone = session.undo()
        if isinstance(undone, CompactionSkipped):
            raise click.ClickException(undone.why)
        after = session.context()
    if as_json:
        sizes = {"tokens_before": before.size.tokens, "tokens_after": after.size.tokens}
        say_json(msgspec.json.encode({"boundary": undone.boundary} | sizes))
        return
    print_lines(lambda screen: render_undo(undone.boundary, before, after, screen))
