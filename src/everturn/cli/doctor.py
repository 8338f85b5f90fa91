"""`everturn doctor`: whether everturn and Claude Code find each other, and what to do where they do not."""

import os
import sys

import click

STATE_LABELS = {"ok": "ok   ", "note": "note ", "wrong": "WRONG"}


@click.command(short_help="Look whether all is well, and say what to do.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as one JSON object.")
def doctor(as_json: bool) -> None:
    """Look at python, sqlite, the extras, the settings of Claude Code, transcripts and permissions.

    Changes nothing. The exit code is 1 where something is wrong.
    """
    from everturn import __version__
    from everturn.adapters.claude_code.doctor import run_checks

    checks = run_checks(os.environ, os.getcwd(), __version__)
    is_well = all(each.state != "wrong" for each in checks)
    if as_json:
        import msgspec

        click.echo(msgspec.json.encode({"is_well": is_well, "checks": checks}))
    else:
        for each in checks:
            click.echo(f"{STATE_LABELS[each.state]} {each.name}: {each.what}")
            if each.to_do:
                click.echo(f"      {each.to_do}")
    sys.exit(0 if is_well else 1)
