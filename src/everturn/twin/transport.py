"""HTTP transports that call the twin in process: for the anthropic SDK and any httpx2 client (TW-1).

    twin = Twin(clock=VirtualClock())
    client = anthropic.Anthropic(api_key="any", http_client=httpx2.Client(transport=TwinTransport(twin)))

On a virtual clock a delay moves the clock instead of waiting, and a delay longer than the client's read
timeout raises the timeout immediately. A test of a ten-minute silence takes no time.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator

import httpx2

from everturn.twin.clock import VirtualClock
from everturn.twin.routes import HttpRequest, dispatch
from everturn.twin.service import Twin
from everturn.twin.values import HttpResponse
from everturn.wire.json_values import as_object


class TwinTransport(httpx2.BaseTransport):
    """A transport for `httpx2.Client`."""

    def __init__(self, twin: Twin) -> None:
        self.twin = twin

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        response = dispatch(self.twin, _http_request(request, request.read()))
        try:
            self._wait(response.delay, request)
        except httpx2.ReadTimeout:
            response.abandon()
            raise
        _begin(response, request)
        stream = _SyncStream(lambda delivery: self._chunks(delivery, request), response)
        return httpx2.Response(response.status, headers=_headers(response), stream=stream)

    def _chunks(self, delivery: "_Delivery", request: httpx2.Request) -> Iterator[bytes]:
        for chunk in delivery.response.chunks():
            self._wait(chunk.wait, request)
            delivery.is_complete = chunk.is_last
            yield chunk.data
        if delivery.response.hangs_up:
            raise _connection_closed(request)

    def _wait(self, seconds: float, request: httpx2.Request) -> None:
        if (rest := _advance_clock(self.twin, seconds, request)) > 0:
            time.sleep(rest)


class AsyncTwinTransport(httpx2.AsyncBaseTransport):
    """A transport for `httpx2.AsyncClient`."""

    def __init__(self, twin: Twin) -> None:
        self.twin = twin

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = dispatch(self.twin, _http_request(request, await request.aread()))
        try:
            await self._wait(response.delay, request)
        except (httpx2.ReadTimeout, asyncio.CancelledError):
            response.abandon()
            raise
        _begin(response, request)
        stream = _AsyncStream(lambda delivery: self._chunks(delivery, request), response)
        return httpx2.Response(response.status, headers=_headers(response), stream=stream)

    async def _chunks(self, delivery: "_Delivery", request: httpx2.Request) -> AsyncIterator[bytes]:
        for chunk in delivery.response.chunks():
            await self._wait(chunk.wait, request)
            delivery.is_complete = chunk.is_last
            yield chunk.data
        if delivery.response.hangs_up:
            raise _connection_closed(request)

    async def _wait(self, seconds: float, request: httpx2.Request) -> None:
        if (rest := _advance_clock(self.twin, seconds, request)) > 0:
            await asyncio.sleep(rest)


class _Delivery:
    """A response on its way to the client. The client closes it, complete or not."""

    def __init__(self, response: HttpResponse) -> None:
        self.response = response
        self.is_complete = False

    def end(self) -> None:
        if not self.is_complete:
            self.response.abandon()


class _SyncStream(httpx2.SyncByteStream):
    def __init__(self, chunks: Callable[[_Delivery], Iterator[bytes]], response: HttpResponse) -> None:
        self._delivery = _Delivery(response)
        self._chunks = chunks(self._delivery)

    def __iter__(self) -> Iterator[bytes]:
        return self._chunks

    def close(self) -> None:
        self._delivery.end()


class _AsyncStream(httpx2.AsyncByteStream):
    def __init__(self, chunks: Callable[[_Delivery], AsyncIterator[bytes]], response: HttpResponse) -> None:
        self._delivery = _Delivery(response)
        self._chunks = chunks(self._delivery)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._chunks

    async def aclose(self) -> None:
        self._delivery.end()


def _http_request(request: httpx2.Request, body: bytes) -> HttpRequest:
    headers = {name.lower(): value for name, value in request.headers.items()}
    return HttpRequest(request.method, request.url.path, headers, body, dict(request.url.params))


def _headers(response: HttpResponse) -> dict[str, str]:
    if response.stream is not None or response.hangs_up:
        return response.headers
    return response.headers | {"content-length": str(len(response.body))}


def _begin(response: HttpResponse, request: httpx2.Request) -> None:
    """Start the response, or raise if the connection closes before the first byte."""
    if response.hangs_up and response.stream is None and not response.body:
        raise httpx2.RemoteProtocolError("Server disconnected without sending a response.", request=request)
    if response.on_first_byte is not None:
        response.on_first_byte()


def _connection_closed(request: httpx2.Request) -> httpx2.RemoteProtocolError:
    problem = "peer closed connection without sending complete message body (incomplete chunked read)"
    return httpx2.RemoteProtocolError(problem, request=request)


def _advance_clock(twin: Twin, seconds: float, request: httpx2.Request) -> float:
    """Move the virtual clock, or return the seconds to wait. Raises if the read timeout is shorter."""
    timeout: float | None = as_object(request.extensions.get("timeout")).get("read")
    waited = seconds if timeout is None else min(seconds, timeout)
    if waited > 0 and isinstance(twin.clock, VirtualClock):
        twin.clock.advance(waited)
    if timeout is not None and seconds > timeout:
        raise httpx2.ReadTimeout("The read operation timed out", request=request)
    return 0.0 if twin.clock.is_virtual else waited
