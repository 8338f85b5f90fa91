"""The twin without a socket: HTTP transports for the anthropic SDK and anything else built on httpx2 (TW-1).

    twin = Twin(clock=VirtualClock())
    client = anthropic.Anthropic(api_key="any", http_client=httpx2.Client(transport=TwinTransport(twin)))

On a virtual clock a wait is a step forward in time, and a wait beyond the client's read timeout raises that
timeout at once: a test of ten minutes of silence takes none.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Iterator

import httpx2

from everturn.twin.clock import VirtualClock
from everturn.twin.routes import HttpRequest, dispatch
from everturn.twin.service import Twin
from everturn.twin.values import HttpResponse


class TwinTransport(httpx2.BaseTransport):
    def __init__(self, twin: Twin) -> None:
        self.twin = twin

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        made = dispatch(self.twin, _call(request, request.read()))
        self._wait(made.delay, request)
        _begin(made, request)
        return httpx2.Response(made.status, headers=_headers(made), stream=_Sync(self._parts(made, request)))

    def _parts(self, made: HttpResponse, request: httpx2.Request) -> Iterator[bytes]:
        for wait, part in _timed(made):
            self._wait(wait, request)
            yield part
        if made.hangs_up:
            raise _cut_line(request)

    def _wait(self, seconds: float, request: httpx2.Request) -> None:
        if (rest := _stepped(self.twin, seconds, request)) > 0:
            time.sleep(rest)


class AsyncTwinTransport(httpx2.AsyncBaseTransport):
    def __init__(self, twin: Twin) -> None:
        self.twin = twin

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        made = dispatch(self.twin, _call(request, await request.aread()))
        await self._wait(made.delay, request)
        _begin(made, request)
        return httpx2.Response(made.status, headers=_headers(made), stream=_Async(self._parts(made, request)))

    async def _parts(self, made: HttpResponse, request: httpx2.Request) -> AsyncIterator[bytes]:
        for wait, part in _timed(made):
            await self._wait(wait, request)
            yield part
        if made.hangs_up:
            raise _cut_line(request)

    async def _wait(self, seconds: float, request: httpx2.Request) -> None:
        if (rest := _stepped(self.twin, seconds, request)) > 0:
            await asyncio.sleep(rest)


class _Sync(httpx2.SyncByteStream):
    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts

    def __iter__(self) -> Iterator[bytes]:
        return self._parts


class _Async(httpx2.AsyncByteStream):
    def __init__(self, parts: AsyncIterator[bytes]) -> None:
        self._parts = parts

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._parts


def _call(request: httpx2.Request, body: bytes) -> HttpRequest:
    headers = {name.lower(): value for name, value in request.headers.items()}
    return HttpRequest(request.method, request.url.path, headers, body, dict(request.url.params))


def _timed(made: HttpResponse) -> Iterable[tuple[float, bytes]]:
    return made.stream if made.stream is not None else [(0.0, made.body)]


def _headers(made: HttpResponse) -> dict[str, str]:
    if made.stream is not None or made.hangs_up:
        return made.headers
    return made.headers | {"content-length": str(len(made.body))}


def _begin(made: HttpResponse, request: httpx2.Request) -> None:
    """The response starts here, unless the line is dead before its first byte."""
    if made.hangs_up and made.stream is None and not made.body:
        raise httpx2.RemoteProtocolError("Server disconnected without sending a response.", request=request)
    if made.begins is not None:
        made.begins()


def _cut_line(request: httpx2.Request) -> httpx2.RemoteProtocolError:
    problem = "peer closed connection without sending complete message body (incomplete chunked read)"
    return httpx2.RemoteProtocolError(problem, request=request)


def _stepped(twin: Twin, seconds: float, request: httpx2.Request) -> float:
    """Step virtual time, or say how long to wait for real. Beyond the client's patience it is a timeout."""
    patience = (request.extensions.get("timeout") or {}).get("read")
    waited = seconds if patience is None else min(seconds, patience)
    if waited > 0 and isinstance(twin.clock, VirtualClock):
        twin.clock.advance(waited)
    if patience is not None and seconds > patience:
        raise httpx2.ReadTimeout("The read operation timed out", request=request)
    return 0.0 if twin.clock.is_virtual else waited
