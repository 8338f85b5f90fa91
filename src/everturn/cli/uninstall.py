"""`everturn uninstall claude-code`: everything that installing put into the settings, taken out again."""

import os
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from everturn.adapters.claude_code.settings.uninstall import Removal


@click.command(short_help="Take everturn out of Claude Code again.")
@click.argument("out_of", metavar="claude-code", type=click.Choice(["claude-code"]))
@click.option("--settings", "path", type=click.Path(), help="This settings file instead of the user's own.")
@click.option("--project", is_flag=True, help="The settings of the project in this folder.")
@click.option("--dry-run", is_flag=True, help="Say what would go; change nothing.")
def uninstall(out_of: str, path: str | None, project: bool, dry_run: bool) -> None:
    """Take everturn's entries out of the settings of Claude Code, and its MCP server where it is there.

    A file that nobody changed since is given back as it was, to the byte. In any other only our entries go,
    and a status line that was replaced comes back.
    """
    from everturn.adapters.claude_code.settings import files
    from everturn.adapters.claude_code.settings.uninstall import apply_removal, plan_removal

    if path and project:
        raise click.UsageError("--settings names one file; it does not go with --project.")
    here = os.getcwd()
    if path:
        paths = [os.path.abspath(path)]
    elif project:
        paths = [files.project_settings(here), files.project_servers(here)]
    else:
        paths = [files.user_settings(os.environ), files.user_servers(os.environ)]
    # All are looked at before one is changed: what is wrong with the second must not be told too late.
    removals = [plan_removal(each) for each in paths]
    for removal in removals:
        if not dry_run:
            apply_removal(removal)
        if removal.is_needed:
            _tell(removal, "Would clean" if dry_run else "Cleaned")
    if not any(removal.is_needed for removal in removals):
        click.echo(f"Nothing of everturn is in {' or '.join(paths)}.")


def _tell(removal: "Removal", what: str) -> None:
    click.echo(f"{what} {removal.file.said}:")
    for line in removal.said:
        click.echo(f"  {line}")
    kept = removal.receipt.backup if removal.receipt and not removal.is_exact else ""
    if kept:
        click.echo(f"  the backup stays, for the file was changed since: {kept}")
