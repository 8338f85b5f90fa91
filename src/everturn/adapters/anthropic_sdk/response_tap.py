"""Reads a response while the caller receives it, without delaying it.

The SDK reads every response, streamed or not, through `iter_bytes`. That method is replaced on the one
response object. A streamed reply is complete at `message_stop`, a plain body at its last byte. A reply that
is cut off or abandoned is never complete.
"""

import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from everturn.wire.streamed import StreamedReply

if TYPE_CHECKING:
    import httpx2

EVENT_STREAM: Final = "text/event-stream"


class ReplyCollector:
    """Collects the bytes of one reply and returns its body once, when it is complete."""

    def __init__(self, content_type: str) -> None:
        self._streamed = StreamedReply() if content_type.startswith(EVENT_STREAM) else None
        self._plain: list[bytes] = []
        self._is_returned = False

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

    def _return_once(self, body: bytes) -> bytes | None:
        if self._is_returned:
            return None
        self._is_returned = True
        return body


def tap(response: "httpx2.Response", complete: Callable[[bytes], None]) -> None:
    """Call `complete` with the body of a response when all of it has passed to the caller."""
    # A weak reference: a dropped stream is closed at once only if nothing refers back to the response.
    reference, read = weakref.ref(response), type(response).iter_bytes
    collector = ReplyCollector(response.headers.get("content-type", ""))

    def iter_bytes(chunk_size: int | None = None) -> Iterator[bytes]:
        return _pass_through(read(_alive(reference), chunk_size), collector, complete)

    response.iter_bytes = iter_bytes


def tap_async(response: "httpx2.Response", complete: Callable[[bytes], Awaitable[None]]) -> None:
    reference, read = weakref.ref(response), type(response).aiter_bytes
    collector = ReplyCollector(response.headers.get("content-type", ""))

    def aiter_bytes(chunk_size: int | None = None) -> AsyncGenerator[bytes, None]:
        return _pass_through_async(read(_alive(reference), chunk_size), collector, complete)

    response.aiter_bytes = aiter_bytes


def _pass_through(
    pieces: Iterator[bytes], collector: ReplyCollector, complete: Callable[[bytes], None]
) -> Generator[bytes, None, None]:
    for piece in pieces:
        # Before the caller gets the piece: its next request must find the reply recorded.
        if (body := collector.feed(piece)) is not None:
            complete(body)
        yield piece
    if (body := collector.finish()) is not None:
        complete(body)


async def _pass_through_async(
    pieces: AsyncGenerator[bytes, None],
    collector: ReplyCollector,
    complete: Callable[[bytes], Awaitable[None]],
) -> AsyncGenerator[bytes, None]:
    async with aclosing(pieces):
        async for piece in pieces:
            if (body := collector.feed(piece)) is not None:
                await complete(body)
            yield piece
    if (body := collector.finish()) is not None:
        await complete(body)


def _alive(reference: "weakref.ref[httpx2.Response]") -> "httpx2.Response":
    response = reference()
    if response is None:
        raise RuntimeError("The response was deleted before its body was read.")
    return response
