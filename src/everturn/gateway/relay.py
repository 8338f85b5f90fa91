"""Sends what the upstream answers to the client: every byte as it came, as soon as it came."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

import aiohttp

from everturn.gateway.bodies import is_event_stream, read_error_body
from everturn.gateway.exchange import Deadline, HttpExchange
from everturn.gateway.failures import GatewayError, make_error_event
from everturn.gateway.headers import make_response_headers
from everturn.gateway.tenants import RelayedReply

_IS_SUCCESS: Final = range(200, 300)
# An error at the end of a response waits so long for a reader who takes nothing. Our choice.
TELL_SECONDS: Final = 10


class RelayedPieces:
    """A copy of what is relayed, up to a limit."""

    def __init__(self, limit: int) -> None:
        self.pieces: list[bytes] = []
        self.is_whole = False
        # Somebody records it already.
        self.is_taken = False
        self._room = limit

    def add(self, piece: bytes) -> None:
        self._room -= len(piece)
        if self._room >= 0:
            self.pieces.append(piece)

    @property
    def is_too_long(self) -> bool:
        return self._room < 0


async def relay_response(
    exchange: HttpExchange,
    response: aiohttp.ClientResponse,
    copy: RelayedPieces | None = None,
    body: bytes | None = None,
    before_end: Callable[[], Awaitable[None]] | None = None,
    *,
    silence: float,
) -> None:
    """Relay a response to its end; `body` is its body if it was read already. If the upstream cuts it off, so
    does the gateway. After an early start only the body is sent, and an error becomes an event. `before_end`
    is awaited when all has arrived, before the client can know that. `silence` is how long the upstream may
    send nothing, in seconds."""
    is_late_error = exchange.is_started and response.status not in _IS_SUCCESS
    try:
        with Deadline(exchange.limits.stream_seconds):
            if is_late_error:
                refusal = await response.read() if body is None else body
                encoding = response.headers.get("content-encoding", "")
                await exchange.finish(make_error_event(read_error_body(refusal, encoding)))
                return
            if not exchange.is_started:
                headers = make_response_headers(response.raw_headers, response.status, exchange.method)
                await exchange.start(response.status, headers)
            if body is None:
                await _relay_body(exchange, response, copy, before_end)
            else:
                await exchange.finish(body)
    except aiohttp.ServerTimeoutError:
        await _relay_unread(exchange, response, copy)
        error = GatewayError(
            504,
            "upstream_silent",
            f"The upstream sent nothing for {silence:g} s, so the response is not complete. Send the request "
            "again.",
        )
        await _tell(exchange, error)
    except TimeoutError:
        error = GatewayError(
            504,
            "stream_too_long",
            f"The response took longer than {exchange.limits.stream_seconds} s. The operator can change that "
            "with --limit stream_seconds=SECONDS.",
        )
        await _tell(exchange, error)
    except (aiohttp.ClientError, OSError):
        if is_late_error:
            # What there is of it is no event.
            error = GatewayError(
                502, "upstream_invalid", "The upstream's answer was cut off. Send the request again."
            )
            await _tell(exchange, error)
            return
        # The response ends here without its end, which is what happened. The server closes the connection.
        await _relay_unread(exchange, response, copy)


async def _relay_unread(
    exchange: HttpExchange, response: aiohttp.ClientResponse, copy: RelayedPieces | None
) -> None:
    if rest := _take_unread(response.content):
        if copy is not None:
            copy.add(rest)
        with suppress(TimeoutError), Deadline(exchange.limits.stream_seconds):
            await exchange.write(rest)


async def _tell(exchange: HttpExchange, error: GatewayError) -> None:
    """End a response with an error, unless its reader has stopped to read: nobody waits for that reader."""
    with suppress(TimeoutError), Deadline(TELL_SECONDS):
        await exchange.fail(error)


async def _relay_body(
    exchange: HttpExchange,
    response: aiohttp.ClientResponse,
    copy: RelayedPieces | None,
    before_end: Callable[[], Awaitable[None]] | None,
) -> None:
    # A stream ends with its connection or an empty chunk; another body is complete with its last byte.
    holds_last = before_end is not None and response.content_length is not None
    may_be_whole = before_end is None and not _is_stream(response)
    held = b""
    try:
        async for piece in response.content.iter_any():
            if copy is not None:
                copy.add(piece)
            if may_be_whole and response.content.at_eof():
                # All of it has arrived: it leaves together with its end.
                held = piece
                break
            if holds_last:
                piece, held = held, piece
            if piece:
                await exchange.write(piece)
    except (aiohttp.ClientError, OSError):
        if held:
            await exchange.write(held)
        raise
    if copy is not None:
        copy.is_whole = True
    if before_end is not None:
        await before_end()
    await exchange.finish(held)


def _is_stream(response: aiohttp.ClientResponse) -> bool:
    return is_event_stream(response.headers.get("content-type", ""))


def _take_unread(content: aiohttp.StreamReader) -> bytes:
    """What arrived before the connection was lost. The reader raises the error without giving it out."""
    pieces: Sequence[bytes] = getattr(content, "_buffer", ())
    offset: int = getattr(content, "_buffer_offset", 0)
    return b"".join(pieces)[offset:]


def make_relayed_reply(response: aiohttp.ClientResponse, copy: RelayedPieces) -> RelayedReply:
    headers = response.headers
    return RelayedReply(
        pieces=copy.pieces,
        content_type=headers.get("content-type", ""),
        encoding=headers.get("content-encoding", ""),
        request_id=headers.get("request-id", ""),
        is_cut=not copy.is_whole,
    )


def is_recorded(response: aiohttp.ClientResponse, copy: RelayedPieces) -> bool:
    """Whether a response has a reply in it that was kept."""
    return response.status in _IS_SUCCESS and bool(copy.pieces) and not copy.is_too_long
