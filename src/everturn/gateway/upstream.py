"""The connection to the provider. The operator chooses it; nothing in a request can change it (GW-19)."""

import errno
import re
import urllib.request
from collections.abc import AsyncIterable, Iterable
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
import yarl
from aiohttp.abc import AbstractStreamWriter

from everturn.errors import UsageError
from everturn.gateway.failures import GatewayError
from everturn.gateway.values import Timing

_BUFFER: Final = 64 * 1024
_MAX_HEADER: Final = 64 * 1024
_PROVIDER: Final = "anthropic.com"
_STATUSES: Final = range(200, 600)
# What a header cannot have in it (RFC 9110 5.5), and the server does not send.
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
# Nothing is added to what the client sent.
_NOT_ADDED: Final = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")


def check_upstream(url: str) -> str:
    """The address without a "/" at its end; raises for one that cannot be used."""
    try:
        parts = urlsplit(url)
        # Reading the port raises if it is none.
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        # What the resolver does with it: raises for labels that are empty or too long.
        (parts.hostname or "").encode("idna")
        # The parser above removes some of these without a word.
        is_address = is_address and url.isprintable() and not any(map(str.isspace, url))
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


def is_api(url: str) -> bool:
    """Whether this is the provider's own API, under any of its names."""
    host = (urlsplit(url).hostname or "").rstrip(".")
    return host == _PROVIDER or host.endswith(f".{_PROVIDER}")


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
            request_class=_RawHeaders,
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
            response = await self._session.request(
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
        except (aiohttp.ClientError, OSError, UnicodeError) as problem:
            # A proxy on the way that refuses is none of the upstream's answers.
            has_answered = isinstance(problem, aiohttp.ClientResponseError)
            if has_answered and not isinstance(problem, aiohttp.ClientHttpProxyError):
                raise GatewayError(
                    502,
                    "upstream_invalid",
                    f"The upstream {self.base} answered with something that is not valid HTTP. Check the "
                    "gateway's --upstream.",
                ) from None
            raise GatewayError(
                502,
                "upstream_unreachable",
                f"The upstream {self.base} cannot be reached ({_explain(problem)}). Check the network, and "
                "the gateway's --upstream.",
            ) from None
        if problem := _find_problem(response):
            response.close()
            raise GatewayError(
                502,
                "upstream_invalid",
                f"The upstream {self.base} answered with {problem}. Check the gateway's --upstream.",
            )
        return response


def _find_problem(response: aiohttp.ClientResponse) -> str:
    """Why an answer cannot be passed on; "" if it can."""
    if response.status not in _STATUSES:
        return f"status {response.status}, which is not from 200 to 599"
    if _CONTROL.search(b"".join([value for _, value in response.raw_headers])):
        return "a control character in a header"
    codings = response.headers.getall("transfer-encoding", ())
    if any(each.strip().lower() != "chunked" for each in codings):
        # It is not asked for one (`te`), and the client would not be told its name.
        return "a transfer coding other than 'chunked'"
    return ""


class _RawHeaders(aiohttp.ClientRequest):
    """The library writes headers as UTF-8. Bytes that are not UTF-8 have to arrive as they came (GW-4), so
    the headers are written anew before they leave, together with the body if there is one."""

    async def send(self, conn: Any) -> aiohttp.ClientResponse:
        if not self._is_ascii() and getattr(self, "_continue", None) is None:
            # Without a body the headers would leave at once. Whoever waits for a "100 Continue" comes through
            # `write_bytes` in any case; this one has arrived.
            arrived = self.loop.create_future()
            arrived.set_result(True)
            setattr(self, "_continue", arrived)  # noqa: B010
        return await super().send(conn)

    async def write_bytes(self, writer: AbstractStreamWriter, conn: Any, *rest: Any, **named: Any) -> None:
        if not self._is_ascii():
            line: bytes = getattr(writer, "_headers_buf", b"").partition(b"\r\n")[0]
            pairs = "".join(f"{name}: {value}\r\n" for name, value in self.headers.items())
            head = b"%b\r\n%b\r\n" % (line, pairs.encode(errors="surrogateescape"))
            setattr(writer, "_headers_buf", head)  # noqa: B010
        await super().write_bytes(writer, conn, *rest, **named)

    def _is_ascii(self) -> bool:
        return all(map(str.isascii, self.headers.values()))


def _explain(problem: Exception) -> str:
    """What a person can act on; the name of the error where it says the most."""
    if isinstance(problem, aiohttp.ClientProxyConnectionError):
        return "the proxy that the environment names cannot be reached"
    if isinstance(problem, aiohttp.ClientConnectorDNSError):
        return "there is no host of this name"
    if isinstance(problem, aiohttp.ClientSSLError):
        return "its certificate is not accepted"
    if isinstance(problem, aiohttp.ClientConnectorError) and problem.errno == errno.ECONNREFUSED:
        return "the connection was refused"
    if isinstance(problem, aiohttp.ServerDisconnectedError):
        return "it closed the connection before it answered"
    if isinstance(problem, aiohttp.ClientHttpProxyError):
        return f"the proxy answered with status {problem.status}"
    return type(problem).__name__


def find_proxy(base: str) -> str | None:
    """The proxy that the environment names for this address; raises for one that cannot be used. Not left to
    the HTTP client: it would also take keys from a .netrc file."""
    parts = urlsplit(base)
    host = parts.hostname or ""
    # This machine is another one for a proxy, and our twin is in this process.
    if _is_loopback(host) or urllib.request.proxy_bypass(host):
        return None
    named = urllib.request.getproxies().get(parts.scheme)
    if not named:
        return None
    # Without a scheme it is plain HTTP, for curl too.
    proxy = named if "://" in named else f"http://{named}"
    if not _is_http_address(proxy):
        # Not repeated: it may have a password in it.
        raise UsageError(
            f"The environment variable {parts.scheme.upper()}_PROXY is not the address of an HTTP proxy. Use "
            f"http://HOST:PORT, or name {host} in NO_PROXY."
        )
    return proxy


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _is_http_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        # Reading the port raises if it is none.
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        return is_address and not any(map(str.isspace, url))
    except ValueError:
        return False
