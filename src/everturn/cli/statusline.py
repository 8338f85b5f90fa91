"""`everturn statusline`: the status line for Claude Code.

`everturn/__main__.py` runs it without loading this file, which provides the help text and is used by tests.
"""

import sys

import click


@click.command(short_help="Print the Claude Code status line (called by Claude Code).")
def statusline() -> None:
    """Print one line about a running Claude Code session, from the JSON on standard input.

    Shows the model, context usage (also as a percentage of the auto-compact threshold), cache hit rate, time
    until the cache expires, cost, and the cause of the last cache miss. Unknown values are left out. Fits
    COLUMNS; NO_COLOR turns colors off. Set it up with `everturn install claude-code`.
    """
    from everturn.adapters.claude_code.statusline import run

    sys.exit(run())
