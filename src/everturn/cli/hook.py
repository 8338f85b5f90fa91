"""`everturn hook`: what Claude Code calls before and after it does something.

`everturn/__main__.py` answers it before this file is loaded; this is its help, and the way in from tests.
"""

import sys

import click


# Nothing is parsed here: click would exit with 2 for a wrong option, which tells Claude Code to stop.
@click.command(
    short_help="What Claude Code calls before and after it acts.",
    context_settings={"ignore_unknown_options": True},
)
@click.argument("arguments", nargs=-1, metavar="[EVENT] [--shrink CHARACTERS]")
def hook(arguments: tuple[str, ...]) -> None:
    """Answer a hook of Claude Code, whose JSON comes on standard input; EVENT may be left out.

    PreCompact keeps a marker and never blocks. SessionStart after a compaction gives back the user's rules,
    open tasks and files that the summary left out. PostToolUse moves results of more than --shrink characters
    to a file. Every other event gets no answer. The exit code is 0, or 1 with a sentence; never 2.
    """
    from everturn.adapters.claude_code.hooks import run

    sys.exit(run(list(arguments)))
