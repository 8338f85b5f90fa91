"""Reads a response while the caller receives it, without delaying it.

The SDK reads every response, streamed or not, through `iter_bytes`. That method is replaced on the one
response object, and so is `iter_raw`, which a caller may use itself. A streamed reply is complete at
`message_stop`, a plain body at its last byte, and raw bytes that are compressed at their last byte too. A
reply that is cut off or abandoned is never complete; if it has begun, its usage so far is told. `close` and
`aclose` are replaced too: whoever closes a response reads no more of it, and may never have begun.
"""

import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from everturn.engine.wire import ANTHROPIC_WIRE

if TYPE_CHECKING:
    import httpx2

EVENT_STREAM: Final = "text/event-stream"


class ReplyCollector:
    """Collects the bytes of one reply and returns its body once, when it is complete."""

    def __init__(self, content_type: str) -> None:
        self._streamed = ANTHROPIC_WIRE.parse_stream() if content_type.startswith(EVENT_STREAM) else None
        self._plain: list[bytes] = []
        self._is_returned = False
        # Whether a piece is being waited for. What closes the response then is the end of its bytes.
        self.is_reading = False
        # Whether decoded bytes are read: the raw ones that they are made of then pass by.
        self.is_decoded = False
        # Whether the raw ones are read instead.
        self.is_raw = False

    def feed(self, piece: bytes) -> bytes | None:
        """Add a piece. Returns the body if this piece completed a streamed reply."""
        if self._streamed is None:
            self._plain.append(piece)
            return None
        self._streamed.feed(piece)
        return self._return_once(self._streamed.body) if self._streamed.is_whole else None

    def finish(self) -> bytes | None:
        """The end of the bytes. Returns the body if it was not streamed."""
        return self._return_once(b"".join(self._plain)) if self._streamed is None else None

    def abandon(self) -> bytes | None:
        """No more bytes are read. Returns what is known of a reply that is not complete, without its content:
        nothing if it was not streamed, or has not begun. None if it was returned before."""
        return self._return_once(b"" if self._streamed is None else self._streamed.envelope)

    def _return_once(self, body: bytes) -> bytes | None:
        if self._is_returned:
            return None
        self._is_returned = True
        return body


class RawCollector(ReplyCollector):
    """The same for the bytes as they were sent. Compressed ones are decoded when all are there."""

    def __init__(self, response: "httpx2.Response") -> None:
        super().__init__(response.headers.get("content-type", ""))
        self._kind, self._headers = type(response), response.headers
        self._compressed: list[bytes] | None = [] if self._headers.get("content-encoding") else None

    def feed(self, piece: bytes) -> bytes | None:
        if self._compressed is None:
            return super().feed(piece)
        self._compressed.append(piece)
        return None

    def finish(self) -> bytes | None:
        if self._compressed is None:
            return super().finish()
        whole = self._kind(200, headers=self._headers, content=b"".join(self._compressed)).content
        return super().feed(whole) or super().finish()


class Endings(NamedTuple):
    """What is told of a reply that its caller does not read to its end."""

    # What is known of a streamed one, without its content.
    abandoned: Callable[[bytes], None]
    # Nothing is known of it.
    lost: Callable[[], None]

    def tell(self, collector: ReplyCollector) -> None:
        known = collector.abandon()
        if known:
            self.abandoned(known)
        elif known is not None:
            self.lost()


def tap(response: "httpx2.Response", complete: Callable[[bytes], None], endings: Endings) -> None:
    """Call `complete` with the body of a response when all of it has passed to the caller, or one of
    `endings` if the caller stops reading before that."""
    # A weak reference: a dropped stream is closed at once only if nothing refers back to the response.
    reference, kind = weakref.ref(response), type(response)
    stream: Any = response.stream
    collector = ReplyCollector(response.headers.get("content-type", ""))
    raw = RawCollector(response)

    def iter_bytes(chunk_size: int | None = None) -> Iterator[bytes]:
        collector.is_decoded = True
        return _pass_through(kind.iter_bytes(_alive(reference), chunk_size), collector, complete, endings)

    def iter_raw(chunk_size: int | None = None) -> Iterator[bytes]:
        pieces = kind.iter_raw(_alive(reference), chunk_size)
        if collector.is_decoded:
            return pieces
        collector.is_raw = True
        return _pass_through(pieces, raw, complete, endings)

    def close() -> None:
        _tell_at_close(collector, raw, endings)
        # Without the response, garbage is being collected, and only the connection is left to be closed.
        if (alive := reference()) is None:
            stream.close()
        else:
            kind.close(alive)

    response.iter_bytes, response.iter_raw, response.close = iter_bytes, iter_raw, close


def tap_async(
    response: "httpx2.Response", complete: Callable[[bytes], Awaitable[None]], endings: Endings
) -> None:
    reference, kind = weakref.ref(response), type(response)
    stream: Any = response.stream
    collector = ReplyCollector(response.headers.get("content-type", ""))
    raw = RawCollector(response)

    def aiter_bytes(chunk_size: int | None = None) -> AsyncGenerator[bytes, None]:
        collector.is_decoded = True
        pieces = kind.aiter_bytes(_alive(reference), chunk_size)
        return _pass_through_async(pieces, collector, complete, endings)

    def aiter_raw(chunk_size: int | None = None) -> AsyncGenerator[bytes, None]:
        pieces = kind.aiter_raw(_alive(reference), chunk_size)
        if collector.is_decoded:
            return pieces
        collector.is_raw = True
        return _pass_through_async(pieces, raw, complete, endings)

    async def aclose() -> None:
        _tell_at_close(collector, raw, endings)
        if (alive := reference()) is None:
            await stream.aclose()
        else:
            await kind.aclose(alive)

    response.aiter_bytes, response.aiter_raw, response.aclose = aiter_bytes, aiter_raw, aclose


def _tell_at_close(collector: ReplyCollector, raw: RawCollector, endings: Endings) -> None:
    reader = raw if collector.is_raw else collector
    if not reader.is_reading:
        endings.tell(reader)


def _pass_through(
    pieces: Iterator[bytes],
    collector: ReplyCollector,
    complete: Callable[[bytes], None],
    endings: Endings,
) -> Generator[bytes, None, None]:
    try:
        collector.is_reading = True
        for piece in pieces:
            # Before the caller gets the piece: its next request must find the reply recorded.
            if (body := collector.feed(piece)) is not None:
                complete(body)
            collector.is_reading = False
            yield piece
            collector.is_reading = True
        if (body := collector.finish()) is not None:
            complete(body)
    finally:
        endings.tell(collector)


async def _pass_through_async(
    pieces: AsyncGenerator[bytes, None],
    collector: ReplyCollector,
    complete: Callable[[bytes], Awaitable[None]],
    endings: Endings,
) -> AsyncGenerator[bytes, None]:
    try:
        async with aclosing(pieces):
            collector.is_reading = True
            async for piece in pieces:
                if (body := collector.feed(piece)) is not None:
                    await complete(body)
                collector.is_reading = False
                yield piece
                collector.is_reading = True
            if (body := collector.finish()) is not None:
                await complete(body)
    finally:
        endings.tell(collector)


def _alive(reference: "weakref.ref[httpx2.Response]") -> "httpx2.Response":
    response = reference()
    if response is None:
        raise RuntimeError("The response was deleted before its body was read.")
    return response
