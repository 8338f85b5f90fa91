"""Who may send a request, and whose it is.

On the loopback address every program of the machine may; a web page may not. A page cannot choose the Host
and the Origin that the browser sends, so these are checked (DNS rebinding). On other addresses a token is
required.
"""

from collections.abc import Collection
from functools import lru_cache
from typing import Final

from everturn.errors import InputError
from everturn.gateway.failures import GatewayError
from everturn.gateway.headers import TOKEN, RawHeaders, find_header, read_bearer
from everturn.gateway.tokens import Tokens
from everturn.gateway.values import LOCAL_TENANT, Tenant
from everturn.twin.access import is_local_host

_FOREIGN_SITES: Final = (b"cross-site", b"same-site")


def check_local(headers: RawHeaders, allowed_hosts: Collection[str]) -> None:
    """Raise for a request that a web page may have sent."""
    host = find_header(headers, b"host").decode("latin-1")
    if host and not _is_local(host, tuple(allowed_hosts)):
        raise GatewayError(
            403,
            "forbidden_host",
            f"The Host header is {host[:100]!r}, and the gateway answers only to localhost, to IP addresses "
            "and to names given with --allow-host.",
        )
    origin = find_header(headers, b"origin").decode("latin-1")
    is_foreign = find_header(headers, b"sec-fetch-site") in _FOREIGN_SITES
    if is_foreign or (origin and origin not in (f"http://{host}", f"https://{host}")):
        raise GatewayError(
            403,
            "forbidden_origin",
            "A web page sent this request (Origin), and the gateway serves programs. Send it without an "
            "Origin header.",
        )


@lru_cache(maxsize=64)
def _is_local(host: str, allowed_hosts: tuple[str, ...]) -> bool:
    """Clients name few hosts, and to read an address takes longer than all other checks."""
    return is_local_host(host, allowed_hosts)


def find_tenant(headers: RawHeaders, tokens: Tokens | None, allowed_hosts: Collection[str]) -> Tenant:
    """Whose request it is; raises for one that may not be served."""
    if tokens is None:
        check_local(headers, allowed_hosts)
        return Tenant(LOCAL_TENANT)
    # Spaces around a value are no part of it (RFC 9110 5.5), and the parser leaves those behind it.
    given = find_header(headers, TOKEN).strip().decode("latin-1")
    try:
        tenant = tokens.find_tenant(given or read_bearer(find_header(headers, b"authorization")))
    except InputError:
        # Not 401: a client that is told that its token is wrong asks its user for another one.
        raise GatewayError(
            503,
            "identity_unavailable",
            "The gateway cannot read its tokens now, so it cannot tell whose request this is. Send it again "
            "later; the operator finds the reason in the file of tokens.",
        ) from None
    if tenant is None:
        what = "The token is not known" if given else "There is no token"
        raise GatewayError(
            401, "unauthorized", f"{what}. Send the token of your tenant in the header {TOKEN.decode()}."
        )
    return tenant
