"""The operator's listener: health and metrics. It is apart from the clients', and relays nothing."""

from collections.abc import Collection

from everturn.gateway.access import check_local
from everturn.gateway.app import Gateway
from everturn.gateway.exchange import AsgiMessage, AsgiReceive, AsgiSend
from everturn.gateway.failures import GatewayError
from everturn.gateway.routes import OPERATOR_ROUTES, Endpoint, find_route


class OperatorApp:
    def __init__(self, gateway: Gateway, allowed_hosts: Collection[str]) -> None:
        self._gateway = gateway
        self._allowed_hosts = allowed_hosts

    async def __call__(self, scope: AsgiMessage, receive: AsgiReceive, send: AsgiSend) -> None:
        if scope["type"] != "http":
            return
        try:
            route = find_route(OPERATOR_ROUTES, scope["method"], scope["path"])
            if route.policy == "operator":
                check_local(scope["headers"], self._allowed_hosts)
            status, kind, body = self._answer(route.endpoint)
        except GatewayError as error:
            status, kind, body = error.status, b"application/json", error.body
        headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    def _answer(self, endpoint: Endpoint) -> tuple[int, bytes, bytes]:
        if endpoint == "metrics":
            return 200, b"text/plain; version=0.0.4; charset=utf-8", self._gateway.metrics.write()
        if endpoint == "readyz" and not self._gateway.is_ready:
            return 503, b"text/plain", b"not ready\n"
        return 200, b"text/plain", b"ok\n"
