"""The connection to the provider. The operator chooses it; nothing in a request can change it (GW-19)."""

import errno
import urllib.request
from collections.abc import AsyncIterable, Iterable
from typing import Final
from urllib.parse import urlsplit

import aiohttp
import yarl

from everturn.errors import UsageError
from everturn.gateway.failures import GatewayError
from everturn.gateway.values import Timing

_BUFFER: Final = 64 * 1024
_MAX_HEADER: Final = 64 * 1024
# Nothing is added to what the client sent.
_NOT_ADDED: Final = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")


def check_upstream(url: str) -> str:
    """The address without a "/" at its end; raises for one that cannot be used."""
    try:
        parts = urlsplit(url)
        # Reading the port raises if it is none.
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    # What stands before the host may be a password.
    if "@" in url:
        raise UsageError("The upstream has a user name in it; use https://HOST/PATH.")
    if not is_address:
        raise UsageError(f"The upstream {url!r} is not an address; use https://HOST, or 'twin'.")
    if "?" in url or "#" in url:
        raise UsageError(f"The upstream {url!r} has a query or a fragment in it; use https://HOST/PATH.")
    return url.rstrip("/")


class Upstream:
    """One provider and the connections to it. Redirects are not followed, and cookies are not kept."""

    def __init__(self, base: str, timing: Timing) -> None:
        self.base = check_upstream(base)
        self._timing = timing
        self._session: aiohttp.ClientSession | None = None
        self._proxy = find_proxy(self.base)

    async def connect(self) -> None:
        timing = self._timing
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=60),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=_NOT_ADDED,
            timeout=aiohttp.ClientTimeout(
                total=None, connect=None, sock_connect=timing.connect, sock_read=timing.silence
            ),
            read_bufsize=_BUFFER,
            max_line_size=_MAX_HEADER,
            max_field_size=_MAX_HEADER,
        )

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def send(
        self,
        method: str,
        target: str,
        headers: Iterable[tuple[str, str]],
        body: bytes | AsyncIterable[bytes] | None,
    ) -> aiohttp.ClientResponse:
        """The response, when its headers have arrived. `target` is path and query as they were received."""
        if self._session is None:
            raise GatewayError(503, "starting", "The gateway is starting or stopping. Send it again.")
        try:
            return await self._session.request(
                method,
                yarl.URL(self.base + target, encoded=True),
                headers=list(headers),
                data=body,
                allow_redirects=False,
                proxy=self._proxy,
            )
        except TimeoutError:
            raise GatewayError(
                504, "upstream_timeout", f"The upstream {self.base} did not answer in time. Send it again."
            ) from None
        except (aiohttp.ClientError, OSError) as problem:
            raise GatewayError(
                502,
                "upstream_unreachable",
                f"The upstream {self.base} cannot be reached ({_explain(problem)}). Check the network, and "
                "the gateway's --upstream.",
            ) from None


def _explain(problem: Exception) -> str:
    """What a person can act on; the name of the error where it says the most."""
    if isinstance(problem, aiohttp.ClientConnectorDNSError):
        return "there is no host of this name"
    if isinstance(problem, aiohttp.ClientSSLError):
        return "its certificate is not accepted"
    if isinstance(problem, aiohttp.ClientConnectorError) and problem.errno == errno.ECONNREFUSED:
        return "the connection was refused"
    return type(problem).__name__


def find_proxy(base: str) -> str | None:
    """The proxy that the environment names for this address. Not left to the HTTP client: it would also take
    keys from a .netrc file."""
    parts = urlsplit(base)
    if urllib.request.proxy_bypass(parts.hostname or ""):
        return None
    return urllib.request.getproxies().get(parts.scheme)
