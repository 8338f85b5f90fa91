"""Listening sockets and their addresses. No server is imported, so that commands start quickly."""

import socket

from everturn.errors import UsageError


def bind_socket(
    host: str, port: int, *, hint: str = "Choose another with --port or --host."
) -> socket.socket:
    """A bound socket; port 0 chooses a free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio disables Nagle's algorithm only for sockets created with IPPROTO_TCP. With the algorithm, each
    # response takes 40 ms longer.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as problem:
        listener.close()
        reason = problem.strerror or problem
        raise UsageError(f"Cannot listen on {host} port {port}: {reason}. {hint}") from None
    return listener


def url_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
