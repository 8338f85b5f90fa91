"""`everturn run -- COMMAND`: a command behind a gateway of its own."""

import os
import sys
from pathlib import Path
from typing import Final

import click

from everturn.cli.gateway import open_standard_streams, parse_limit, shared_options, tell, warn_about_store
from everturn.gateway.app import make_gateway
from everturn.gateway.server import SHUTDOWN_SECONDS, serve_gateway
from everturn.gateway.start import (
    TWIN,
    describe_costs,
    describe_passed_through,
    load_settings,
    open_upstream,
)
from everturn.gateway.values import Mode
from everturn.processes import find_program, run_in_foreground

NOT_FOUND: Final = 127
NOT_STARTED: Final = 126
SIGNALLED: Final = 128
BASE_URL: Final = "ANTHROPIC_BASE_URL"
_LOCAL: Final = "127.0.0.1,localhost"


@click.command(context_settings={"ignore_unknown_options": True})
@click.option(
    "--upstream",
    metavar="URL",
    default="",
    help="Where requests go; 'twin' starts a local Messages API.  [default: ANTHROPIC_BASE_URL, or the API]",
)
@shared_options
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(
    *,
    upstream: str,
    mode: Mode | None,
    limits: tuple[str, ...],
    settings: dict[str, str],
    config_path: Path | None,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND with a gateway in front of the API, and print what it cost and saved.

    \b
        everturn run -- claude
        everturn run --mode manage -- python my_agent.py

    The exit status is the command's. Everything after -- belongs to the command.
    """
    open_standard_streams()
    if command[0].startswith("-"):
        raise click.NoSuchOption(command[0].partition("=")[0])
    program = find_program(command[0], os.environ.get("PATH", ""))
    if not program and os.path.dirname(command[0]) and os.path.exists(command[0]):
        # If it cannot be run, the system says why.
        program = os.path.abspath(command[0])
    if not program:
        tell(f"everturn run: {command[0]!r} was not found. Check its name and the PATH.")
        raise _end(NOT_FOUND)
    with open_upstream(upstream or os.environ.get(BASE_URL, "")) as address:
        loaded = load_settings(
            upstream=address, mode=mode, settings=settings, config_path=config_path,
            limits=dict(map(parse_limit, limits)),
        )  # fmt: skip
        made = make_gateway(loaded, warn=tell)
        warn_about_store(made)
        code = None
        try:
            with serve_gateway(made, on_waiting=lambda: tell(describe_waiting(made.metrics.running))) as (
                url,
                _,
            ):
                environment = make_environment(os.environ.copy(), url, is_twin=upstream == TWIN)
                code = _run(program, command, environment)
        except KeyboardInterrupt:
            # While the gateway ended: the command has its status already.
            if code is None:
                raise
    totals, metrics = made.tenants.bill, made.metrics
    line = describe_costs(
        metrics.calls, float(totals.dollars), float(metrics.saved), metrics.hit_ratio, loaded.mode
    )
    tell(f"everturn: {line}")
    for reason in describe_passed_through(metrics.passed_through):
        tell(f"everturn: {reason}")
    raise _end(code if code >= 0 else SIGNALLED - code)


def describe_waiting(running: int) -> str:
    """Why the command has not returned although its program has ended."""
    requests = "1 request is" if running == 1 else f"{running} requests are"
    why = f"{requests} still running" if running else "its last replies are being recorded"
    ends = f"waiting up to {SHUTDOWN_SECONDS} s. Ctrl-C ends this now."
    return f"everturn run: the command has ended, and {why}; {ends}"


def _end(code: int) -> SystemExit:
    """With the command's status, also if what we said cannot be written: Python would try again and replace
    the status."""
    try:
        sys.stderr.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2)
        os.close(nowhere)
    return SystemExit(code)


def _run(program: str, command: tuple[str, ...], environment: dict[str, str]) -> int:
    try:
        return run_in_foreground([program, *command[1:]], environment)
    except OSError as problem:
        tell(f"everturn run: {command[0]!r} cannot be started: {problem.strerror}.")
        return NOT_STARTED


def make_environment(environment: dict[str, str], url: str, *, is_twin: bool) -> dict[str, str]:
    """The command's environment: the gateway's address, and no proxy between the two."""
    changed = {**environment, BASE_URL: url}
    for name in ("NO_PROXY", "no_proxy"):
        changed[name] = ",".join(filter(None, (environment.get(name, ""), _LOCAL)))
    if is_twin and not (environment.get("ANTHROPIC_API_KEY") or environment.get("ANTHROPIC_AUTH_TOKEN")):
        changed["ANTHROPIC_API_KEY"] = "twin"
    return changed
