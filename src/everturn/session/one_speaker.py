"""One thread at a time changes a session: messages that two threads send at once would end up on branches of
the transcript, and a session that is opened again shows one of them."""

from collections.abc import Generator
from contextlib import contextmanager
from threading import Lock, get_ident

from everturn.errors import UsageError


class OneSpeaker:
    """A second thread is refused instead of waiting: a stream that nobody reads to its end would make it wait
    for ever. What a tool or a hook does within a call, in the same thread, is part of that call."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._speaker: int | None = None
        # Calls of the speaker that have not ended. Streams may end in another order than they began.
        self._calls = 0

    @contextmanager
    def speaking(self) -> Generator[None]:
        me = get_ident()
        with self._lock:
            if self._speaker not in (None, me):
                raise UsageError(
                    "Another thread is using this session: one conversation has one speaker at a time. "
                    "Wait until that call has returned, or open a session for each thread. "
                    "Nothing of this call was kept or sent."
                )
            self._speaker = me
            self._calls += 1
        try:
            yield
        finally:
            with self._lock:
                self._calls -= 1
                if not self._calls:
                    self._speaker = None
