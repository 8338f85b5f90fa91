"""Entry point of the program. The status line and hooks run without loading click.

Claude Code draws the status line every few seconds and waits for hooks at every tool call, so both start
directly from here. All other commands are in `cli/`.
"""

import sys


def main() -> int:
    match sys.argv[1:]:
        case ["statusline"]:
            from everturn.adapters.claude_code.statusline import run

            return run()
        case ["hook", *arguments] if not {"-h", "--help"}.intersection(arguments):
            from everturn.adapters.claude_code.hooks import run

            return run(arguments)
        case _:
            pass
    try:
        from everturn.cli import main as commands

        commands(prog_name="everturn")
    except KeyboardInterrupt:
        # Ctrl-C before a command runs, or while it ends.
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
