"""`everturn twin`: run a local Messages API."""

import signal
from pathlib import Path
from typing import Literal

import click

from everturn.twin.app import TwinServer, bind_socket, url_of
from everturn.twin.build import build_twin, load_faults, load_recorded_replies, load_script
from everturn.twin.options import TwinOptions

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
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
    "--extensions",
    type=click.Choice(["cache_edits"]),
    multiple=True,
    help="Features outside the public API, off by default.",
)
def twin(
    *,
    port: int,
    host: str,
    clock: Literal["virtual", "real"],
    script: Path | None,
    faults: Path | None,
    seed: int,
    extensions: tuple[str, ...],
) -> None:
    """Run a local Messages API for development and tests.

    It implements caching, context editing, compaction, billing, validation and errors like the real API.
    It needs no account and accepts any API key. Point a client at the printed address:

    \b
        client = anthropic.Anthropic(api_key="any", base_url="http://127.0.0.1:8585")

    Control it with POST /twin/script, /twin/faults, /twin/clock and /twin/reset. GET /twin/ledger lists the
    usage and price of each request.
    """
    is_recording = script is not None and script.suffix == ".jsonl"
    made = build_twin(
        clock=clock,
        options=TwinOptions(extensions=frozenset(extensions)),
        script=load_script(script) if script and not is_recording else (),
        playback=load_recorded_replies(script) if script and is_recording else (),
        faults=load_faults(faults, seed=seed) if faults else None,
        seed=seed,
    )
    listener = bind_socket(host, port)
    server = TwinServer(made, lambda: click.echo(f"everturn twin listening on {url_of(listener)}"))
    _stop_on_signals(server)
    server.run(sockets=[listener])


def _stop_on_signals(server: TwinServer) -> None:
    """Exit with code 0 on SIGINT and SIGTERM.

    uvicorn stops at these signals itself, then raises them again for the handler installed before: this one.
    """

    def stop(signum: int, frame: object) -> None:
        server.should_exit = True

    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, stop)
