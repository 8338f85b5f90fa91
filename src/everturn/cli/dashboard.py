"""`everturn dashboard`: sessions, context and cost in the browser.

Exit codes: 0 when it was stopped; 1 if it cannot be started, with the reason on stderr; 2 for wrong usage.
"""

import os
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

import click

from everturn.cli.configured import configured
from everturn.cli.output import say
from everturn.cli.period import get_zone, timezone_option
from everturn.cli.signals import stop_on_signals

if TYPE_CHECKING:
    from everturn.decide.options import Options


@click.command(short_help="See sessions, context and cost in the browser.")
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="Port to listen on; 0 chooses a free one. Default: 8686, or a free one if that is taken.",
)
@click.option("--no-browser", is_flag=True, help="Do not open a browser; only print the address.")
@timezone_option
@configured
def dashboard(paths: tuple[Path, ...], port: int | None, no_browser: bool, options: "Options") -> None:
    """Show recorded and running sessions in the browser: what fills the context, where the money goes.

    Without PATHS, sessions of Claude Code, Codex, Gemini CLI and everturn are searched in their usual places.
    The page is served on this machine only, and nothing is sent anywhere. Stop it with Ctrl-C.
    """
    from everturn.catalog.places import find_places
    from everturn.web_dashboard.dashboard import Dashboard
    from everturn.web_dashboard.server import DashboardServer, address_of, bind, run

    places = find_places(os.environ, home=Path.home(), paths=paths, others=True)
    zone = get_zone()
    with bind(port) as listener:
        made = Dashboard(places, options, zone=zone)
        address = address_of(listener, made)

        def ready() -> None:
            say(f"everturn dashboard: {address}")
            for note in made.index.notes:
                say(f"note: {note}", err=True)
            if not no_browser:
                _open_browser(address)

        server = DashboardServer(made, ready)
        stop_on_signals(server)
        run(server, listener, made)


def _open_browser(address: str) -> None:
    """Where there is no browser, the printed address is enough."""
    if (
        os.environ.get("DISPLAY")
        or os.environ.get("WAYLAND_DISPLAY")
        or os.environ.get("BROWSER")
        or _is_mac()
    ):
        try:
            webbrowser.open(address)
        except (webbrowser.Error, OSError):
            say("No browser could be opened. Open the address yourself.", err=True)


def _is_mac() -> bool:
    return os.uname().sysname == "Darwin"
