"""`everturn hook`: handles Claude Code's hooks.

`everturn/__main__.py` runs it without loading this file, which provides the help text and is used by tests.
"""

import sys

import click


# click must not parse the arguments: it exits with 2 on a wrong option, which Claude Code takes as "block".
@click.command(
    short_help="Handle a Claude Code hook (called by Claude Code).",
    context_settings={"ignore_unknown_options": True},
)
@click.argument("arguments", nargs=-1, metavar="[EVENT] [--shrink CHARACTERS]")
def hook(arguments: tuple[str, ...]) -> None:
    """Handle a Claude Code hook. Claude Code sends JSON on standard input; EVENT is optional.

    PreCompact saves a marker and never blocks. SessionStart after a compaction restores the user's rules,
    open tasks and files that the summary left out, and names pins that cannot be read. PostToolUse moves
    results of more than --shrink characters to a file. Other events return nothing. The exit code is 0, or 1
    with one line on stderr; never 2.
    """
    from everturn.adapters.claude_code.hooks import run

    sys.exit(run(list(arguments)))
