"""Serves the dashboard on the loopback address until it is stopped (DB-1)."""

import socket
from collections.abc import Callable
from typing import Final

import uvicorn

from everturn.errors import UsageError
from everturn.twin.sockets import bind_socket, url_of
from everturn.web_dashboard.app import make_app
from everturn.web_dashboard.dashboard import Dashboard
from everturn.web_dashboard.watcher import Watcher

LOOPBACK: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8686
_SHUTDOWN_SECONDS: Final = 1
# The first page comes first: searching a thousand files at the same time would double its time.
_INDEX_AFTER_SECONDS: Final = 0.75


class DashboardServer(uvicorn.Server):
    """A uvicorn server without log output that says when it is ready, and ends its streams of events."""

    def __init__(self, dashboard: Dashboard, on_ready: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                make_app(dashboard),
                log_level="critical",
                access_log=False,
                lifespan="off",
                ws="none",
                server_header=False,
                timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
            )
        )
        self._dashboard, self._on_ready = dashboard, on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._dashboard.hub.close()
        await super().shutdown(sockets=sockets)


def bind(port: int | None) -> socket.socket:
    """A socket on the loopback address. Without a port, the usual one; if that is taken, any free one."""
    if port is not None:
        return bind_socket(LOOPBACK, port, hint="Choose another with --port.")
    try:
        return bind_socket(LOOPBACK, DEFAULT_PORT)
    except UsageError:
        return bind_socket(LOOPBACK, 0)


def address_of(listener: socket.socket, dashboard: Dashboard) -> str:
    return f"{url_of(listener)}/?key={dashboard.key}"


def run(server: DashboardServer, listener: socket.socket, dashboard: Dashboard) -> None:
    """Serve until the server is told to stop; sessions are read and watched meanwhile."""
    watcher = Watcher(dashboard.places, dashboard.indexer)
    dashboard.start(index_after=_INDEX_AFTER_SECONDS)
    watcher.start()
    try:
        server.run(sockets=[listener])
    finally:
        watcher.stop()
        dashboard.stop()
