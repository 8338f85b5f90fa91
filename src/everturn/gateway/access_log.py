"""The access log: one line of JSON per request, without content, keys or queries.

Lines are written in a thread: a pipe that nobody reads, or a disk that hangs, makes its writer wait.
"""

import errno
import json
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Final

from everturn.gateway.exchange import HttpExchange

# Lines that wait to be written; further ones are lost, as on a full disk. Our choice.
MAX_LINES: Final = 10_000
# How long the end of the process waits for them.
CLOSE_SECONDS: Final = 1.0
# The reason in the metrics.
NOT_LOGGED: Final = "the access log cannot be written"


def make_log_line(exchange: HttpExchange, now: datetime) -> str:
    entry = {
        "at": now.astimezone(UTC).isoformat(timespec="milliseconds"),
        "tenant": exchange.tenant.name,
        "session": exchange.session,
        "mode": exchange.mode,
        "method": exchange.method,
        "path": exchange.path[:200],
        # 0: the client disconnected before a response began.
        "status": exchange.status,
        "received": exchange.received,
        "sent": exchange.sent,
        "seconds": round(time.perf_counter() - exchange.began, 4),
        "notes": exchange.notes,
    }
    return json.dumps(entry, ensure_ascii=True, separators=(",", ":"))


LogRequest = Callable[[HttpExchange], None]


def make_access_log(write: Callable[[str], None], clock: Callable[[], datetime]) -> LogRequest:
    def log(exchange: HttpExchange) -> None:
        write(make_log_line(exchange, clock()))

    return log


def describe_unlogged(problem: OSError) -> str:
    return (
        f"Warning: the access log cannot be written: {problem.strerror}. Requests are served and not "
        "logged until it can be written again."
    )


class QueuedLines:
    """Lines that a thread writes, in their order. `put` never waits and never fails; it is for one thread,
    an event loop."""

    def __init__(
        self,
        write: Callable[[str], None],
        *,
        warn: Callable[[str], None],
        say_resumed: Callable[[str], None],
        max_lines: int = MAX_LINES,
    ) -> None:
        """`write` raises `OSError` for a line that is lost. `warn` must not wait. `say_resumed` is told in
        the thread how many were lost, when lines are written again."""
        self._write, self._warn, self._say_resumed = write, warn, say_resumed
        self._max = max_lines
        # Told of each line that is lost.
        self.on_lost: Callable[[], None] = lambda: None
        self._lines: SimpleQueue[str | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._lost = 0
        self._lock = Lock()

    @property
    def is_empty(self) -> bool:
        """Whether the thread has taken all lines; the last one may not be written yet."""
        return self._lines.empty()

    def put(self, line: str) -> None:
        if self._lines.qsize() >= self._max:
            self._lose(OSError(errno.EAGAIN, "nobody reads it, or its disk does not answer"))
            return
        if self._thread is None:
            # Not before: the process is set up until the first request.
            self._thread = Thread(target=self._run, name="everturn-access-log", daemon=True)
            self._thread.start()
        self._lines.put(line)

    def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Wait until all is written, but not for long: whoever reads may never do so again."""
        if self._thread is not None:
            self._lines.put(None)
            self._thread.join(seconds)

    def _run(self) -> None:
        while (line := self._lines.get()) is not None:
            try:
                self._write(line)
            except OSError as problem:
                self._lose(problem)
            else:
                self._resume()

    def _lose(self, problem: OSError) -> None:
        with self._lock:
            self._lost += 1
            is_first = self._lost == 1
        self.on_lost()
        if is_first:
            self._warn(describe_unlogged(problem))

    def _resume(self) -> None:
        # Not while the next lines are about to be lost: a slow reader would be told again and again.
        if not self._lost or self._lines.qsize() > self._max // 2:
            return
        with self._lock:
            lost, self._lost = self._lost, 0
        with suppress(OSError):
            self._say_resumed(f"The access log is written again. Lines that are missing in it: {lost:,}.")
