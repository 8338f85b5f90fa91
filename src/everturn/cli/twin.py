"""`everturn twin`: a Messages API on this machine."""

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
    "--port", default=8585, show_default=True, type=click.IntRange(0, 65535), help="0 takes a free one."
)
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Only this machine can reach the default."
)
@click.option(
    "--clock",
    type=click.Choice(["virtual", "real"]),
    default="virtual",
    show_default=True,
    help="Virtual time starts at 2026-11-15T00:00:00Z and moves only through POST /twin/clock.",
)
@click.option(
    "--script", type=_FILE, help="What the model says: a JSON script, or a recorded session (.jsonl)."
)
@click.option("--faults", type=_FILE, help='What goes wrong, in JSON: {"faults": [{"kind": "overloaded"}]}.')
@click.option("--seed", default=0, show_default=True, help="Equal seeds give equal runs.")
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
    """A Messages API on this machine, to develop and test against.

    It caches, edits, compacts, bills, refuses and fails like the real one, and any API key is accepted.
    Point a client at the printed address:

    \b
        client = anthropic.Anthropic(api_key="any", base_url="http://127.0.0.1:8585")

    It is steered through POST /twin/script, /twin/faults, /twin/clock and /twin/reset; GET /twin/ledger
    tells what each request cost.
    """
    is_recording = script is not None and script.suffix == ".jsonl"
    made = build_twin(
        clock=clock,
        options=TwinOptions(extensions=frozenset(extensions)),
        lines=load_script(script) if script and not is_recording else (),
        playback=load_recorded_replies(script) if script and is_recording else (),
        faults=load_faults(faults, seed=seed) if faults else None,
        seed=seed,
    )
    listener = bind_socket(host, port)
    server = TwinServer(made, lambda: click.echo(f"everturn twin listening on {url_of(listener)}"))
    _stop_on_signals(server)
    server.run(sockets=[listener])


def _stop_on_signals(server: TwinServer) -> None:
    """Stopping is not a failure: the exit code is 0.

    uvicorn ends at these signals by itself, then raises them again for whoever listened before: us.
    """

    def stop(signum: int, frame: object) -> None:
        server.should_exit = True

    for wanted in (signal.SIGINT, signal.SIGTERM):
        signal.signal(wanted, stop)
