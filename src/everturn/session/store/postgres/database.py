"""Connections to PostgreSQL, for callers that know no event loop: one thread runs all of them.

Every operation has one deadline for everything: waiting for a connection, connecting, running, giving it
back. When it passes, the connection is dropped without another word to the server, which may be paused.
After repeated failures a breaker answers at once. Only so many operations wait; more are refused.

Statements are not prepared ahead and nothing is kept in the session of the server, so that a pooler may stand
in between.
"""

import asyncio
import re
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import CancelledError
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import urlsplit

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

from everturn.errors import StoreError, StoreUnavailable, UsageError
from everturn.session.store.breaker import StoreBreaker
from everturn.session.store.row_store import NotTried

# Our choices. The deadline is what a client can wait; the margin is for a loop that is busy.
DEADLINE: Final = 5.0
MAX_CONNECTIONS: Final = 8
MAX_WAITING: Final = 256
MARGIN: Final = 1.0

T = TypeVar("T")


class Connection(Protocol):
    """What is used of a connection of asyncpg, which has no types of its own."""

    async def execute(self, query: str, *values: Any) -> str: ...
    async def fetch(self, query: str, *values: Any) -> list[Any]: ...
    async def fetchrow(self, query: str, *values: Any) -> Any: ...
    async def fetchval(self, query: str, *values: Any) -> Any: ...
    def transaction(self) -> AbstractAsyncContextManager[Any]: ...
    def is_closed(self) -> bool: ...
    def terminate(self) -> None: ...


_connect: Callable[..., Awaitable[Connection]] = asyncpg.connect  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
Action = Callable[[Connection], Awaitable[T]]

# What a server says that is starting, stopping or full. A closed connection is an `InterfaceError`.
_UNAVAILABLE: Final = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
)

# A name, or an IPv6 address in brackets, and a port.
_HOST: Final = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(:[0-9]*)?")


class _Refused(Exception):
    """No connection was made, so the server knows nothing of the operation."""


class Database:
    def __init__(self, url: str, *, deadline: float = DEADLINE, connections: int = MAX_CONNECTIONS) -> None:
        self.name = name_of(url)
        self._url, self._deadline = url, deadline
        self._breaker = StoreBreaker()
        self._guard = threading.Lock()
        self._waiting = 0
        self._idle: list[Connection] = []
        self._slots = asyncio.Semaphore(connections)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="everturn-postgres", daemon=True)
        self._thread.start()

    def run(self, act: Action[T], *, is_repeatable: bool = True) -> T:
        """Perform an operation and return its result. One that can be repeated is tried again once, within
        the same deadline, if its connection breaks: after a restart of the server, old ones are broken."""
        self._enter()
        try:
            result = self._wait_for(self._within_deadline(act, is_repeatable))
        except (*_UNAVAILABLE, _Refused, TimeoutError) as problem:
            self._settle(self._breaker.after_failure(time.monotonic()))
            raise self._unavailable(problem) from problem
        except asyncpg.PostgresError as problem:
            self._settle(StoreBreaker())
            raise StoreError(f"PostgreSQL at {self.name} refused: {problem}.") from problem
        except BaseException:
            self._settle(self._breaker)
            raise
        self._settle(StoreBreaker())
        return result

    def start(self, forever: Coroutine[Any, Any, None]) -> None:
        """Run this in the background until `close`."""
        asyncio.run_coroutine_threadsafe(forever, self._loop)

    async def perform(self, act: Action[T]) -> T:
        """The same for code that runs in the thread of the connections; raises what the server raises."""
        return await self._within_deadline(act, is_repeatable=True)

    def close(self) -> None:
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._drop_all(), self._loop).result(self._deadline)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(self._deadline)
            self._loop.close()

    def _enter(self) -> None:
        now = time.monotonic()
        with self._guard:
            if not self._thread.is_alive():
                raise NotTried(f"The connection to PostgreSQL at {self.name} was closed.")
            if self._breaker.refuses(now):
                raise NotTried(
                    f"PostgreSQL at {self.name} did not answer {self._breaker.failures} times in a row; "
                    f"it is asked again in {self._breaker.until - now:.1f} s. Nothing was stored."
                )
            if self._waiting >= MAX_WAITING:
                raise NotTried(
                    f"{MAX_WAITING} operations wait for PostgreSQL at {self.name} already; try again later."
                )
            self._breaker = self._breaker.trying(now)
            self._waiting += 1

    def _settle(self, breaker: StoreBreaker) -> None:
        with self._guard:
            self._breaker = breaker
            self._waiting -= 1

    def _wait_for(self, operation: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(operation, self._loop)
        try:
            return future.result(self._deadline + MARGIN)
        except CancelledError:
            raise StoreUnavailable(f"The connection to PostgreSQL at {self.name} was closed.") from None
        except BaseException:
            future.cancel()
            raise

    def _unavailable(self, problem: BaseException) -> StoreUnavailable:
        cause = problem.__cause__ if isinstance(problem, _Refused) and problem.__cause__ else problem
        if isinstance(cause, TimeoutError):
            what = f"did not answer within {self._deadline:g} s"
        else:
            what = f"cannot be used: {str(cause) or type(cause).__name__}".rstrip(".")
        kind = NotTried if isinstance(problem, _Refused) else StoreUnavailable
        return kind(
            f"PostgreSQL at {self.name} {what}. Check that the server runs, the address, and that it has "
            "connections left."
        )

    # ── in the thread of the connections ─────────────────────────────────────────────────────────

    async def _within_deadline(self, act: Action[T], is_repeatable: bool) -> T:
        async with asyncio.timeout(self._deadline), self._slots:
            try:
                return await self._perform_once(act)
            except _UNAVAILABLE as problem:
                # A timeout of the system is an OSError, too.
                if isinstance(problem, TimeoutError) or not is_repeatable:
                    raise
                self._drop_idle()
                try:
                    return await self._perform_once(act)
                except _Refused:
                    # The first attempt did reach the server: whether it was performed is unknown.
                    raise problem from None

    async def _perform_once(self, act: Action[T]) -> T:
        connection = await self._connection()
        try:
            result = await act(connection)
        except BaseException:
            connection.terminate()
            raise
        self._idle.append(connection)
        return result

    async def _connection(self) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        try:
            return await _connect(
                self._url, timeout=self._deadline, statement_cache_size=0, server_settings={"jit": "off"}
            )
        except _UNAVAILABLE as problem:
            raise _Refused from problem
        except (ValueError, asyncpg.ClientConfigurationError) as problem:
            raise UsageError(
                f"{self.name} is not an address of PostgreSQL: {problem}. "
                "Write postgresql://USER@HOST:PORT/DATABASE."
            ) from problem

    def _drop_idle(self) -> None:
        while self._idle:
            self._idle.pop().terminate()

    async def _drop_all(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        self._drop_idle()


def name_of(url: str) -> str:
    """The address without user name, password and parameters, which may hold a password, too."""
    try:
        parts = urlsplit(url)
    except ValueError:
        # Not in its words: they may repeat the password.
        raise UsageError(
            "The host in the address of PostgreSQL cannot be read. Write "
            "postgresql://USER@HOST:PORT/DATABASE, with an IPv6 address in brackets."
        ) from None
    host = parts.netloc.rpartition("@")[2]
    # A character of a password that ends the host leaves the password in a port, a path or a fragment.
    if not all(map(_HOST.fullmatch, host.split(","))) or "@" in parts.path + parts.fragment:
        raise UsageError(
            "What was given is not an address of PostgreSQL. Write postgresql://USER@HOST:PORT/DATABASE, "
            'with "/", "?", "#" and "@" in a password as %XX, or the password in PGPASSWORD.'
        )
    return f"{host or 'the local socket'}{parts.path}"
