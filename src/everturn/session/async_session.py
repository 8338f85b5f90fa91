"""`AsyncSession`: a `Session` that runs in its own thread, with awaitable methods.

Most of the time goes into waiting for the model, so a second, asynchronous implementation would gain
nothing. Holds wait in tasks of the event loop (`hold_timers.py`). Calls run one at a time, in the order they
were made. A call that is cancelled while it is queued never runs. A call that is cancelled while it runs
still finishes, and the transcript holds what it appended.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from everturn.decide.branches import Branch
from everturn.decide.compact.triggers import Proposal, ProposalResponse
from everturn.decide.compact.values import CompactionPlan, CompactionSkipped
from everturn.decide.effects import HookEvent, HookOutcome
from everturn.decide.options import Options
from everturn.engine import CompactionOutcome
from everturn.history.edits import Undone
from everturn.session.bill import Bill
from everturn.session.hold_timers import TaskTimer
from everturn.session.session import ContextUsage, Reply, Rewind, Session, UserInput

if TYPE_CHECKING:
    from everturn.session.recall.search import Hit

T = TypeVar("T")
_END: Final = object()


class AsyncSession:
    """Create it with `await AsyncSession.open(...)`, which takes the arguments of `Session.open`. Listeners,
    tools and hooks are called in the session's thread."""

    def __init__(self, session: Session, thread: ThreadPoolExecutor) -> None:
        # For reading only: a method called on it directly would not wait for its turn.
        self.session = session
        # None once it is closed: what is called then runs in a thread of the event loop, and is refused.
        self._thread: ThreadPoolExecutor | None = thread
        self._turn = asyncio.Lock()

    @classmethod
    async def open(
        cls, path: str | os.PathLike[str], options: Options | None = None, **arguments: Any
    ) -> "AsyncSession":
        thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="everturn session")
        loop = asyncio.get_running_loop()
        arguments.setdefault("hold_timer", TaskTimer(loop))
        opening = thread.submit(lambda: Session.open(path, options, **arguments))
        try:
            return cls(await asyncio.wrap_future(opening), thread)
        except BaseException:
            # If this was cancelled, for example after a timeout, the session still opens, for nobody.
            thread.submit(_close_opened, opening)
            thread.shutdown(wait=False)
            raise

    async def send(self, message: UserInput = (), **options: Any) -> Reply:
        return await self._do(lambda: self.session.send(message, **options))

    async def stream(self, message: UserInput = (), **options: Any) -> AsyncIterator[str]:
        """Yield text as it arrives. Leaving the loop early ends the call, as an interrupt would."""
        async with self._turn:
            pieces = self.session.stream(message, **options)
            try:
                while (piece := await self._in_thread(lambda: next(pieces, _END))) is not _END:
                    yield str(piece)
            finally:
                await self._in_thread(pieces.close)

    async def compact(self, instructions: str = "", **where: str | None) -> CompactionOutcome:
        return await self._do(lambda: self.session.compact(instructions, **where))

    async def dry_run(
        self, instructions: str = "", **where: str | None
    ) -> CompactionPlan | CompactionSkipped:
        return await self._do(lambda: self.session.dry_run(instructions, **where))

    async def context(self) -> ContextUsage:
        return await self._do(self.session.context)

    async def propose_compaction(self) -> Proposal | None:
        return await self._do(self.session.propose_compaction)

    async def answer_proposal(self, proposal: Proposal, response: ProposalResponse) -> CompactionOutcome:
        return await self._do(lambda: self.session.answer_proposal(proposal, response))

    async def rewind(self, uuid: str) -> Rewind:
        return await self._do(lambda: self.session.rewind(uuid))

    async def branches(self) -> tuple[Branch, ...]:
        return await self._do(self.session.branches)

    async def undo(self) -> Undone | CompactionSkipped:
        return await self._do(self.session.undo)

    async def pin(self, text: str) -> None:
        await self._do(lambda: self.session.pin(text))

    async def recall(self, query: str, limit: int = 8) -> "tuple[Hit, ...]":
        return await self._do(lambda: self.session.recall(query, limit))

    @property
    def bill(self) -> Bill:
        return self.session.bill

    async def run_hooks(self, event: HookEvent, **payload: Any) -> HookOutcome:
        return await self._do(lambda: self.session.run_hooks(event, **payload))

    async def close(self, reason: str = "other") -> None:
        """Close the session; a second time does nothing."""
        async with self._turn:
            try:
                await self._in_thread(lambda: self.session.close(reason))
            finally:
                if self._thread is not None:
                    self._thread.shutdown(wait=False)
                self._thread = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _do(self, act: Callable[[], T]) -> T:
        async with self._turn:
            return await self._in_thread(act)

    async def _in_thread(self, act: Callable[[], T]) -> T:
        """Run in the session's thread. If cancelled, still wait for the end: two calls must not overlap."""
        running = asyncio.get_running_loop().run_in_executor(self._thread, act)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            await asyncio.wait([running])
            raise


def _close_opened(opening: Future[Session]) -> None:
    """Close a session that nobody has received, or its file would stay locked."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
