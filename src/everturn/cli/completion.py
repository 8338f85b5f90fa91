"""`everturn completion SHELL`: makes the shell complete commands, options, sessions, policies and keys.

The script only asks the program again what fits, so it never has to be renewed.
"""

import os
from pathlib import Path

import click
from click.shell_completion import ShellComplete, get_completion_class

from everturn.cli.output import say

PROGRAM = "everturn"
VARIABLE = "_EVERTURN_COMPLETE"
SHELLS = ("bash", "zsh", "fish")


@click.command(short_help="Print the script that makes your shell complete everturn's commands.")
@click.argument("shell", required=False, type=click.Choice(SHELLS))
def completion(shell: str | None) -> None:
    """Print the completion script of SHELL; without SHELL, of the one that is set in $SHELL.

    \b
        bash:  eval "$(everturn completion bash)"         in ~/.bashrc
        zsh:   eval "$(everturn completion zsh)"          in ~/.zshrc, after compinit
        fish:  everturn completion fish | source          in ~/.config/fish/config.fish
    """
    chosen = shell or Path(os.environ.get("SHELL", "")).name
    made = get_completion_class(chosen) if chosen in SHELLS else None
    if made is None:
        raise click.UsageError(f"Name your shell: everturn completion {'|'.join(SHELLS)}.")
    root = click.get_current_context().find_root().command
    # Not that of bash: it starts a process to ask for the version, which ours need not know.
    script = ShellComplete.source(made(root, {}, PROGRAM, VARIABLE))
    # In fish, click's script cuts values and titles at their first comma: split only what precedes it.
    say(script.replace('string split "," ', 'string split --max 1 "," '))
