"""`everturn statusline`: the line at the bottom of Claude Code.

`everturn/__main__.py` answers it before this file is loaded; this is its help, and the way in from tests.
"""

import sys

import click


@click.command(short_help="The line at the bottom of Claude Code.")
def statusline() -> None:
    """Print one line about a running Claude Code session, from the JSON that it gives on standard input.

    Model, how full the context is (and how near to auto-compaction), the share of input read from the cache,
    how long the cache stays warm, dollars, and why the cache was missed. What is not known is left out. Fits
    COLUMNS; NO_COLOR takes the colours away. `everturn install claude-code` sets it up.
    """
    from everturn.adapters.claude_code.statusline import run

    sys.exit(run())
