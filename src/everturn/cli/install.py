"""`everturn install claude-code`: adds the status line and hooks to Claude Code's settings."""

import os
import sys
from datetime import datetime
from typing import TYPE_CHECKING

import click

from everturn.cli.output import say

if TYPE_CHECKING:
    from everturn.adapters.claude_code.settings.entries import InstallOptions
    from everturn.adapters.claude_code.settings.install import Installation


@click.command(short_help="Install the status line and hooks into Claude Code.")
@click.argument("into", metavar="claude-code", type=click.Choice(["claude-code"]))
@click.option(
    "--settings", "path", type=click.Path(), help="Change this settings file instead of the user's."
)
@click.option("--project", is_flag=True, help="Change the settings of the project in this folder.")
@click.option("--replace", is_flag=True, help="Replace an existing status line; uninstalling restores it.")
@click.option("--no-statusline", is_flag=True, help="Install only the hooks.")
@click.option("--no-hooks", is_flag=True, help="Install only the status line.")
@click.option(
    "--shrink",
    metavar="CHARACTERS",
    type=click.IntRange(min=1_000),
    help="Move longer tool results to files.",
)
@click.option(
    "--mcp", is_flag=True, help="Also install the MCP server (~/.claude.json, or .mcp.json of the project)."
)
@click.option(
    "--plugin", is_flag=True, help="Install the hooks (and the MCP server) as a plugin of Claude Code."
)
@click.option("--dry-run", is_flag=True, help="Show what would change; change nothing.")
def install(
    into: str,
    path: str | None,
    project: bool,
    replace: bool,
    no_statusline: bool,
    no_hooks: bool,
    shrink: int | None,
    mcp: bool,
    plugin: bool,
    dry_run: bool,
) -> None:
    """Add everturn's status line and hooks to Claude Code's settings.

    The file is backed up first, and only text is added: `everturn uninstall claude-code` restores the same
    bytes. Installing twice changes nothing. With --plugin the hooks are a plugin, which `claude plugin list`
    shows; a plugin cannot have the status line, so that stays in the settings.
    """
    from everturn.adapters.claude_code.settings import files
    from everturn.adapters.claude_code.settings.entries import NAME, InstallOptions
    from everturn.adapters.claude_code.settings.install import plan_installation
    from everturn.cli.install_plugin import install_plugin, refuse_second_hooks

    if path and (project or mcp or plugin):
        raise click.UsageError("--settings cannot be combined with --project, --mcp or --plugin.")
    if plugin and (project or no_hooks):
        raise click.UsageError("--plugin cannot be combined with --project or --no-hooks.")
    # Project settings are shared; a path of this machine would not work for others.
    program = (NAME,) if project else this_program()
    wanted = InstallOptions(program, status_line=not no_statusline, hooks=not no_hooks, shrink=shrink or 0)
    here = os.getcwd()
    own = files.project_settings(here) if project else files.user_settings(os.environ)
    if plugin:
        install_plugin(wanted._replace(server=mcp), own, dry_run=dry_run)
        wanted, mcp = wanted._replace(hooks=False), False
        if no_statusline:
            return
    elif not (path or project or no_hooks):
        refuse_second_hooks()
    ask = sys.stdin is not None and sys.stdin.isatty() and not dry_run
    # Plan everything before writing anything, so that an error in the second file changes nothing.
    plans = [
        _plan_installation(os.path.abspath(path) if path else own, wanted, replacing=replace, may_ask=ask)
    ]
    if mcp:
        servers = files.project_servers(here) if project else files.user_servers(os.environ)
        plans.append(
            plan_installation(servers, InstallOptions(program, status_line=False, hooks=False, server=True))
        )
    for planned in plans:
        _carry_out(planned, dry_run=dry_run, may_make_folder=not path)


def _plan_installation(
    path: str, wanted: "InstallOptions", *, replacing: bool, may_ask: bool
) -> "Installation":
    """Plan the change; if another status line exists, ask the user if possible."""
    from everturn.adapters.claude_code.settings.edit_entries import StatusLineTaken
    from everturn.adapters.claude_code.settings.install import plan_installation

    try:
        return plan_installation(path, wanted, replacing=replacing)
    except StatusLineTaken as taken:
        if not may_ask:
            raise
        say(str(taken).partition(". ")[0] + ".")
        click.confirm("Replace it? (`everturn uninstall claude-code` restores it)", abort=True)
        return plan_installation(path, wanted, replacing=True)


def _carry_out(planned: "Installation", *, dry_run: bool, may_make_folder: bool) -> None:
    """Change the file, or say why it is not changed."""
    from everturn.adapters.claude_code.settings.install import apply_installation

    if not planned.is_needed:
        say(f"Already installed: {planned.file.display_path}")
        return
    if dry_run:
        say(f"Would change {planned.file.display_path}:\n{planned.diff()}", nl=False)
        return
    backup = apply_installation(planned, datetime.now(), may_make_folder=may_make_folder)
    say(f"Changed {planned.file.display_path}:")
    for line in planned.messages:
        say(f"  {line}")
    say(f"  backup: {backup}" if backup else "  (the file is new)")
    say("Undo with `everturn uninstall claude-code`; check with `everturn doctor`.")


def this_program() -> tuple[str, ...]:
    """The command that starts this everturn. Claude Code's PATH is unknown, so it is an absolute path."""
    from everturn.processes import find_program

    started = os.path.abspath(sys.argv[0])
    if os.path.basename(started) == "everturn" and os.access(started, os.X_OK):
        return (started,)
    found = find_program("everturn", os.environ.get("PATH", ""), outside=os.getcwd())
    # -P: Python would look for the module in the current folder first.
    return (found,) if found else (sys.executable, "-P", "-m", "everturn")
