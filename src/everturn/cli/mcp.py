"""`everturn mcp`: a Model Context Protocol server on standard input and output."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from everturn.cli.configured import configured

if TYPE_CHECKING:
    from everturn.decide.options import Options


@click.command(short_help="Run an MCP server: agents ask about their own context.")
@click.option(
    "--root",
    "roots",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Allow reading sessions in this folder too; can be repeated.",
)
@configured
def mcp(roots: tuple[Path, ...], options: "Options") -> None:
    """Serve context usage, audit, cache misses, compaction dry runs, recall and pins over MCP.

    For Claude Code: claude mcp add everturn -- everturn mcp
    """
    from everturn.mcp.server import build_server
    from everturn.mcp.sessions import build_locator

    where = build_locator(os.environ, home=Path.home(), here=Path.cwd(), more=roots)
    build_server(where, options).run("stdio")
