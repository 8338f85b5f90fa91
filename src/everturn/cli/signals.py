"""How the commands that serve until they are stopped end: with code 0."""

import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import uvicorn


def stop_on_signals(server: "uvicorn.Server") -> None:
    """Exit with code 0 on SIGINT and SIGTERM.

    uvicorn stops at these signals itself, then raises them again for the handler installed before: this one.
    """

    def stop(signum: int, frame: object) -> None:
        server.should_exit = True

    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, stop)
