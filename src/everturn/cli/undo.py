"""`everturn undo`: undo the last compaction of a recorded session, by appending a record.

Exit codes: 0 when it was undone; 1 when there is nothing to undo or the file cannot be used, with the reason
on stderr; 2 for wrong arguments.
"""

from typing import TYPE_CHECKING

import click

from everturn.cli.configured import configured
from everturn.cli.output import say_json, warn_of_damage
from everturn.cli.session_names import choose_session, session_argument

if TYPE_CHECKING:
    from everturn.decide.options import Options


@click.command(short_help="Undo the last compaction of a session.")
@session_argument
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@configured
def undo(session: str | None, as_json: bool, options: "Options") -> None:
    """Undo the last compaction of SESSION: a file, an id as it is shown, or a part of the title.

    Without SESSION it is that of the current folder; if there are several, you are asked which.
    The model sees the replaced messages again, together with everything since. Nothing is deleted: one line
    is appended. Run it again to undo the compaction before.
    """
    import msgspec

    from everturn.dashboard.compactions import render_undo
    from everturn.dashboard.recall_output import print_lines
    from everturn.decide.compact.values import CompactionSkipped
    from everturn.session.reopen import reopen_session

    file = choose_session(session, changes=True)
    with reopen_session(file, options=options) as opened:
        warn_of_damage(file, opened.damage)
        before = opened.context()
        undone = opened.undo()
        if isinstance(undone, CompactionSkipped):
            raise click.ClickException(undone.why)
        after = opened.context()
    if as_json:
        sizes = {"tokens_before": before.size.tokens, "tokens_after": after.size.tokens}
        say_json(msgspec.json.encode({"boundary": undone.boundary} | sizes))
        return
    print_lines(lambda screen: render_undo(undone.boundary, before, after, screen))
