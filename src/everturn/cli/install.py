"""`everturn install claude-code`: the status line and the hooks, into the settings of Claude Code."""

import os
import shutil
import sys
from datetime import datetime
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from everturn.adapters.claude_code.settings.entries import InstallOptions
    from everturn.adapters.claude_code.settings.install import Installation


@click.command(short_help="Put everturn into Claude Code: status line and hooks.")
@click.argument("into", metavar="claude-code", type=click.Choice(["claude-code"]))
@click.option("--settings", "path", type=click.Path(), help="This settings file instead of the user's own.")
@click.option("--project", is_flag=True, help="The settings of the project in this folder.")
@click.option(
    "--replace", is_flag=True, help="Replace a status line that is there; uninstalling brings it back."
)
@click.option("--no-statusline", is_flag=True, help="Only the hooks.")
@click.option("--no-hooks", is_flag=True, help="Only the status line.")
@click.option(
    "--shrink",
    metavar="CHARACTERS",
    type=click.IntRange(min=1_000),
    help="Move longer tool results to files.",
)
@click.option(
    "--mcp", is_flag=True, help="Also the MCP server (~/.claude.json, or .mcp.json of the project)."
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
    dry_run: bool,
) -> None:
    """Put everturn's status line and hooks into the settings of Claude Code.

    The file is backed up first, and only text is added: `everturn uninstall claude-code` gives back the same
    bytes. Installing twice changes nothing.
    """
    from everturn.adapters.claude_code.settings import files
    from everturn.adapters.claude_code.settings.entries import NAME, InstallOptions
    from everturn.adapters.claude_code.settings.install import plan_installation

    if path and (project or mcp):
        raise click.UsageError("--settings names one file; it goes with neither --project nor --mcp.")
    # A project's settings are for everybody who works on it: a path of this machine would not help them.
    program = (NAME,) if project else _program()
    wanted = InstallOptions(program, status_line=not no_statusline, hooks=not no_hooks, shrink=shrink or 0)
    here = os.getcwd()
    own = files.project_settings(here) if project else files.user_settings(os.environ)
    ask = sys.stdin is not None and sys.stdin.isatty() and not dry_run
    # All is planned before anything is written: what is wrong with the second must not be told too late.
    plans = [
        _plan_installation(os.path.abspath(path) if path else own, wanted, replacing=replace, may_ask=ask)
    ]
    if mcp:
        servers = files.project_servers(here) if project else files.user_servers(os.environ)
        plans.append(
            plan_installation(servers, InstallOptions(program, status_line=False, hooks=False, server=True))
        )
    for planned in plans:
        if not planned.is_needed:
            click.echo(f"Everything is there already: {planned.file.said}")
        elif dry_run:
            click.echo(f"Would change {planned.file.said}:\n{planned.diff()}", nl=False)
        else:
            _apply_installation(planned, may_make_folder=not path)


def _plan_installation(
    path: str, wanted: "InstallOptions", *, replacing: bool, may_ask: bool
) -> "Installation":
    """Where a status line is in the way, a person may be asked."""
    from everturn.adapters.claude_code.settings.add_entries import StatusLineTaken
    from everturn.adapters.claude_code.settings.install import plan_installation

    try:
        return plan_installation(path, wanted, replacing=replacing)
    except StatusLineTaken as taken:
        if not may_ask:
            raise
        click.echo(str(taken).partition(". ")[0] + ".")
        click.confirm("Replace it? (`everturn uninstall claude-code` brings it back)", abort=True)
        return plan_installation(path, wanted, replacing=True)


def _apply_installation(planned: "Installation", *, may_make_folder: bool) -> None:
    from everturn.adapters.claude_code.settings.install import apply_installation

    backup = apply_installation(planned, datetime.now(), may_make_folder=may_make_folder)
    click.echo(f"Changed {planned.file.said}:")
    for line in planned.said:
        click.echo(f"  {line}")
    click.echo(f"  backup: {backup}" if backup else "  (the file is new)")
    click.echo("`everturn uninstall claude-code` takes it back; `everturn doctor` looks whether all is well.")


def _program() -> tuple[str, ...]:
    """How this everturn is started from anywhere: whether it will be on Claude Code's PATH is not known."""
    started = os.path.abspath(sys.argv[0])
    if os.path.basename(started) == "everturn" and os.access(started, os.X_OK):
        return (started,)
    found = shutil.which("everturn")
    return (os.path.abspath(found),) if found else (sys.executable, "-m", "everturn")
