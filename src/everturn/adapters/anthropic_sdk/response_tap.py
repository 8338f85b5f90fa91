"""A tap on a response: its bytes go to the caller as they come, and past somebody who listens.

The SDK reads a response through `iter_bytes`, whether it streams or not; replaced on that one response, it
is heard without being held back. What was listened to is complete when the reply says so itself, at
`message_stop`, or at the last byte of a plain body. A reply that is cut or abandoned is never complete.
"""

import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import aclosing
from typing import Any, Final

from everturn.wire.streamed import StreamedReply

EVENT_STREAM: Final = "text/event-stream"


class ReplyCollector:
    """Hears the bytes of one reply. `complete` is given its body, once."""

    def __init__(self, content_type: str) -> None:
        self._streamed = StreamedReply() if content_type.startswith(EVENT_STREAM) else None
        self._plain: list[bytes] = []
        self._is_told = False

    def heard(self, piece: bytes) -> bytes | None:
        """The body of the reply, where this piece made it whole."""
        if self._streamed is None:
            self._plain.append(piece)
            return None
        self._streamed.feed(piece)
        return self._told(self._streamed.body) if self._streamed.is_whole else None

    def ended(self) -> bytes | None:
        return self._told(b"".join(self._plain)) if self._streamed is None else None

    def _told(self, body: bytes) -> bytes | None:
        if self._is_told:
            return None
        self._is_told = True
        return body


def tap(response: Any, complete: Callable[[bytes], None]) -> None:
    """Let `complete` have the body of an httpx2 response, when all of it has passed."""
    # Not the response itself: a dropped stream is closed at once only if nothing refers back to it.
    itself, read = weakref.ref(response), type(response).iter_bytes
    listener = ReplyCollector(response.headers.get("content-type", ""))

    def iter_bytes(chunk_size: int | None = None) -> Iterator[bytes]:
        return _passing(read(itself(), chunk_size), listener, complete)

    response.iter_bytes = iter_bytes


def tap_async(response: Any, complete: Callable[[bytes], Awaitable[None]]) -> None:
    itself, read = weakref.ref(response), type(response).aiter_bytes
    listener = ReplyCollector(response.headers.get("content-type", ""))

    def aiter_bytes(chunk_size: int | None = None) -> AsyncIterator[bytes]:
        return _passing_async(read(itself(), chunk_size), listener, complete)

    response.aiter_bytes = aiter_bytes


def _passing(
    pieces: Iterator[bytes], listener: ReplyCollector, complete: Callable[[bytes], None]
) -> Generator[bytes, None, None]:
    for piece in pieces:
        # Before the caller has it: its next request must find the reply recorded.
        if (body := listener.heard(piece)) is not None:
            complete(body)
        yield piece
    if (body := listener.ended()) is not None:
        complete(body)


async def _passing_async(
    pieces: AsyncGenerator[bytes, None],
    listener: ReplyCollector,
    complete: Callable[[bytes], Awaitable[None]],
) -> AsyncGenerator[bytes, None]:
    async with aclosing(pieces):
        async for piece in pieces:
            if (body := listener.heard(piece)) is not None:
                await complete(body)
            yield piece
    if (body := listener.ended()) is not None:
        await complete(body)
