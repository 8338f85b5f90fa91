"""`everturn uninstall claude-code`: removes everturn's entries from Claude Code's settings."""

import os
from typing import TYPE_CHECKING

import click

from everturn.cli.output import say

if TYPE_CHECKING:
    from everturn.adapters.claude_code.settings.uninstall import Removal


@click.command(short_help="Remove everturn from Claude Code.")
@click.argument("out_of", metavar="claude-code", type=click.Choice(["claude-code"]))
@click.option(
    "--settings", "path", type=click.Path(), help="Change this settings file instead of the user's."
)
@click.option("--project", is_flag=True, help="Change the settings of the project in this folder.")
@click.option("--dry-run", is_flag=True, help="Show what would be removed; change nothing.")
def uninstall(out_of: str, path: str | None, project: bool, dry_run: bool) -> None:
    """Remove everturn's entries from Claude Code's settings, and its MCP server and plugin if installed.

    A file that did not change since the installation is restored byte for byte. In any other file only
    everturn's entries are removed, and a replaced status line is restored.
    """
    from everturn.adapters.claude_code.settings import files
    from everturn.adapters.claude_code.settings.uninstall import apply_removal, plan_removal
    from everturn.cli.install_plugin import uninstall_plugin

    if path and project:
        raise click.UsageError("--settings cannot be combined with --project.")
    here = os.getcwd()
    if path:
        paths = [os.path.abspath(path)]
    elif project:
        paths = [files.project_settings(here), files.project_servers(here)]
    else:
        paths = [files.user_settings(os.environ), files.user_servers(os.environ)]
    had_plugin = not (path or project) and uninstall_plugin(dry_run=dry_run)
    # Plan everything before writing anything, so that an error in the second file changes nothing.
    removals = [plan_removal(each) for each in paths]
    for removal in removals:
        if not dry_run:
            apply_removal(removal)
        if removal.is_needed:
            _tell(removal, "Would clean" if dry_run else "Cleaned")
    if not had_plugin and not any(removal.is_needed for removal in removals):
        say(f"No entries of everturn found in {' or '.join(paths)}.")


def _tell(removal: "Removal", what: str) -> None:
    say(f"{what} {removal.file.display_path}:")
    for line in removal.messages:
        say(f"  {line}")
    kept = removal.receipt.backup if removal.receipt and not removal.is_exact else ""
    if kept:
        say(f"  backup kept, because the file was changed since: {kept}")
