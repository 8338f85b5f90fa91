"""`everturn twin`: run a local Messages API."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import click

from everturn.cli.signals import stop_on_signals
from everturn.cli.twin_verify import verify
from everturn.twin.app import TwinServer
from everturn.twin.build import build_twin, load_faults, load_options, load_recorded_replies, load_script
from everturn.twin.clock import format_time
from everturn.twin.ledger import DEFAULT_LEDGER_SIZE
from everturn.twin.options import TwinOptions
from everturn.twin.service import Twin
from everturn.twin.sockets import bind_socket, url_of

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group(invoke_without_command=True)
@click.option(
    "--port",
    default=8585,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port to listen on; 0 chooses a free port.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on. The default accepts only local connections.",
)
@click.option(
    "--clock",
    type=click.Choice(["virtual", "real"]),
    default="virtual",
    show_default=True,
    help="The virtual clock starts at 2026-11-15T00:00:00Z and moves only with POST /twin/clock.",
)
@click.option(
    "--script", type=_FILE, help="Replies of the model: a JSON script, or a recorded session (.jsonl)."
)
@click.option("--faults", type=_FILE, help='Faults to inject, in JSON: {"faults": [{"kind": "overloaded"}]}.')
@click.option("--seed", default=0, show_default=True, help="Seed for ids, replies and random faults.")
@click.option(
    "--ledger",
    "ledger_size",
    default=DEFAULT_LEDGER_SIZE,
    show_default=True,
    type=click.IntRange(1),
    help="How many requests GET /twin/ledger lists; older ones are dropped.",
)
@click.option("--options", "options_file", type=_FILE, help="Options of the twin, in JSON (docs/twin.md).")
@click.option(
    "--allow-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    help="A host name that clients use for this machine, such as host.docker.internal.",
)
@click.option(
    "--extensions",
    type=click.Choice(["cache_edits"]),
    multiple=True,
    help="Features outside the public API, off by default.",
)
@click.pass_context
def twin(
    context: click.Context,
    *,
    port: int,
    host: str,
    clock: Literal["virtual", "real"],
    script: Path | None,
    faults: Path | None,
    seed: int,
    ledger_size: int,
    options_file: Path | None,
    allowed_hosts: tuple[str, ...],
    extensions: tuple[str, ...],
) -> None:
    """Run a local Messages API for development and tests.

    It implements caching, context editing, compaction, billing, validation and errors like the real API.
    It needs no account and accepts any API key. Point a client at the printed address:

    \b
        client = anthropic.Anthropic(api_key="any", base_url="http://127.0.0.1:8585")

    Control it with POST /twin/script, /twin/faults, /twin/clock and /twin/reset. GET /twin/ledger lists the
    usage and price of each request. `everturn twin verify` compares it with the real API.
    """
    if context.invoked_subcommand is not None:
        return
    options = replace(load_options(options_file) if options_file else TwinOptions(), marks_practice=True)
    extensions = (*options.extensions, *extensions)
    sized = {} if _is_default(context, "ledger_size") else {"ledger_size": ledger_size}
    is_recording = script is not None and script.suffix == ".jsonl"
    made = build_twin(
        clock=clock,
        options=replace(options, extensions=frozenset(extensions), **sized),
        script=load_script(script) if script and not is_recording else (),
        playback=load_recorded_replies(script) if script and is_recording else (),
        faults=load_faults(faults, seed=seed) if faults else None,
        seed=seed,
    )
    listener = bind_socket(host, port)
    started = f"everturn twin listening on {url_of(listener)} ({_describe_clock(made)})"
    server = TwinServer(made, lambda: click.echo(started), allowed_hosts=(host, *allowed_hosts))
    stop_on_signals(server)
    server.run(sockets=[listener])


twin.add_command(verify)


def _is_default(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is click.core.ParameterSource.DEFAULT


def _describe_clock(made: Twin) -> str:
    if not made.clock.is_virtual:
        return "real clock"
    return f"virtual clock at {format_time(made.clock.now())}, moves only with POST /twin/clock"
