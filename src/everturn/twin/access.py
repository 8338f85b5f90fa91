"""Keep web pages away from the twin: every request must come from a program or from the twin's own address.

A page can send requests to a server on the same machine. It cannot choose the Host, Origin and content type
of what the browser sends, so these three are checked on every path. A foreign Host is how a page reads
responses after it has pointed its own name at this machine; an IP address or `localhost` cannot be used for
that.
"""

import re
from collections.abc import Collection, Mapping
from ipaddress import ip_address
from typing import Final

from everturn.twin.values import ApiError

_JSON: Final = "application/json"
_WITH_BODY: Final = ("POST", "PUT", "PATCH")
# An address in brackets or a name, and a port. Two joined headers are neither, nor is `name:80@other`.
_HOST: Final = re.compile(r"(?:\[([0-9a-f:.]{2,45})\]|([\w.-]{1,255}|[0-9a-f:.]{2,45}))(?::\d{1,5})?")
# What browsers send with requests of other pages.
_FOREIGN_SITES: Final = ("cross-site", "same-site")


def check_access(
    method: str, headers: Mapping[str, str], *, has_body: bool, allowed_hosts: Collection[str] = ()
) -> None:
    """Raise ApiError for a request that a web page may have sent. Header names are in lower case."""
    host = headers.get("host", "")
    if host and not is_local_host(host, allowed_hosts):
        raise _forbidden(
            f"The Host header is {host[:100]!r}, and the twin answers only to localhost, to IP addresses and "
            "to names given with --allow-host."
        )
    origin = headers.get("origin")
    if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
        raise _forbidden(
            f"The Origin header is {origin[:100]!r}: a web page sent this request, and the twin serves "
            "programs. Send it without an Origin."
        )
    if headers.get("sec-fetch-site") in _FOREIGN_SITES:
        raise _forbidden("A web page sent this request (Sec-Fetch-Site), and the twin serves programs.")
    kind = headers.get("content-type", "")
    if method in _WITH_BODY and has_body and kind and kind.partition(";")[0].strip().lower() != _JSON:
        raise ApiError(
            415,
            "invalid_request_error",
            f"The content-type is {kind[:100]!r}; send the body as {_JSON}.",
        )


def _forbidden(message: str) -> ApiError:
    return ApiError(403, "permission_error", message)


def is_local_host(host: str, allowed: Collection[str]) -> bool:
    """Whether a Host header names this machine in a way that no page can forge."""
    found = _HOST.fullmatch(host.lower())
    if found is None:
        return False
    name = found[1] or found[2]
    name = name.removesuffix(".")
    if name == "localhost" or name.endswith(".localhost") or name in allowed:
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
