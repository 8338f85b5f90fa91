"""Where the program starts. What Claude Code calls all the time answers before click is loaded.

A status line is drawn every few seconds and a hook stands in the way of every tool: both are called by name
here, without help or options to parse. Everything else goes to `cli/`.
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
    from everturn.cli import main as commands

    commands(prog_name="everturn")
    return 0


if __name__ == "__main__":
    sys.exit(main())
