"""`everturn doctor`: check the installation and suggest fixes."""

import os
import sys

import click

from everturn.cli.output import say, say_json

STATE_LABELS = {"ok": "ok   ", "note": "note ", "wrong": "WRONG"}


@click.command(short_help="Check the installation and suggest fixes.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def doctor(as_json: bool) -> None:
    """Check Python, SQLite, the extras, Claude Code's settings, transcripts and file permissions.

    Changes nothing. The exit code is 1 if a check fails.
    """
    from everturn import __version__
    from everturn.adapters.claude_code.doctor import run_checks

    checks = run_checks(os.environ, os.getcwd(), __version__)
    is_well = all(each.state != "wrong" for each in checks)
    if as_json:
        import msgspec

        say_json(msgspec.json.encode({"is_well": is_well, "checks": checks}))
    else:
        for each in checks:
            say(f"{STATE_LABELS[each.state]} {each.name}: {each.what}")
            if each.to_do:
                say(f"      {each.to_do}")
    sys.exit(0 if is_well else 1)
