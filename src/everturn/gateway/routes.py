"""The routes of both listeners. Each declares who may use it; there is no other way in (GW-18)."""

from typing import Final, Literal, NamedTuple

from everturn.gateway.failures import GatewayError

# client: Host and Origin are checked on loopback, a token is required elsewhere.
# operator: on a listener of its own; Host and Origin are checked.
# probe: the same listener, for health checks, which send any Host; they learn nothing but a status.
Policy = Literal["client", "operator", "probe"]
POLICIES: Final[frozenset[str]] = frozenset({"client", "operator", "probe"})
Endpoint = Literal["messages", "count_tokens", "relay", "livez", "readyz", "metrics"]


class Route(NamedTuple):
    """`path` ends with "/" if everything below it is meant. No methods: all of them."""

    path: str
    methods: tuple[str, ...]
    endpoint: Endpoint
    policy: Policy


CLIENT_ROUTES: Final = (
    Route("/v1/messages", ("POST",), "messages", "client"),
    Route("/v1/messages/count_tokens", ("POST",), "count_tokens", "client"),
    Route("/v1/", (), "relay", "client"),
    # Claude Code asks whether the server is there.
    Route("/", ("HEAD",), "relay", "client"),
    Route("/api/hello", ("GET", "HEAD"), "relay", "client"),
)
OPERATOR_ROUTES: Final = (
    Route("/livez", ("GET", "HEAD"), "livez", "probe"),
    Route("/readyz", ("GET", "HEAD"), "readyz", "probe"),
    Route("/metrics", ("GET",), "metrics", "operator"),
)


# Ask a proxy for a connection, or for what it received. The gateway is neither, and the API has none of them.
_NOT_SERVED: Final = ("CONNECT", "TRACE")


def find_route(routes: tuple[Route, ...], method: str, path: str) -> Route:
    """The route of a request, by its decoded path."""
    if method in _NOT_SERVED:
        raise GatewayError(
            405,
            "method_not_allowed",
            f"The gateway does not serve {method}. Send a method of the API.",
        )
    if {".", ".."}.intersection(path.split("/")):
        raise GatewayError(400, "invalid_path", "The path has '.' or '..' in it; send it without.")
    for route in routes:
        is_below = len(route.path) > 1 and route.path.endswith("/") and path.startswith(route.path)
        if (path == route.path or is_below) and (not route.methods or method in route.methods):
            return route
    known = ", ".join(route.path for route in routes)
    raise GatewayError(
        404,
        "not_found",
        f"The gateway has no {method} {path[:100]!r}. It serves {known}. The base URL of a client is the "
        "gateway's address without a path.",
    )
