"""`everturn mcp`: a server for the Model Context Protocol, on standard input and output."""

import os
from pathlib import Path

import click


@click.command(short_help="Let an agent ask about its own context, over MCP.")
@click.option(
    "--root",
    "roots",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="One more folder whose sessions may be read; may be given again.",
)
def mcp(roots: tuple[Path, ...]) -> None:
    """Serve context usage, audit, cache misses, dry runs, recall and pins to an agent.

    For Claude Code: claude mcp add everturn -- everturn mcp
    """
    from everturn.mcp.server import build_server
    from everturn.mcp.sessions import build_locator

    where = build_locator(os.environ, home=Path.home(), here=Path.cwd(), more=roots)
    build_server(where).run("stdio")
