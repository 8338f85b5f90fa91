"""Every event to every sink. One that fails is reported, and the turn goes on (TL-2)."""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from everturn.decide.events import Event

# Takes an event; may raise whatever it likes.
Sink = Callable[[Event], None]

# A sink that fails this often in a row is not asked again: it would cost every turn. Our choice.
MAX_FAILURES: Final = 10


class SinkProblem(msgspec.Struct, frozen=True):
    sink: str
    what: str
    is_disabled: bool = False


class FanOut:
    """The sinks of a session, by name, in the order in which they are told."""

    def __init__(
        self, sinks: Sequence[tuple[str, Sink]], report: Callable[[SinkProblem], None] | None = None
    ) -> None:
        self._sinks = dict(sinks)
        self._failures = dict.fromkeys(self._sinks, 0)
        self._report = report
        self.problems: list[SinkProblem] = []

    def __call__(self, event: Event) -> None:
        """Never raises. Also what only looks like an exception of ours is kept here, except an interrupt."""
        for name, sink in list(self._sinks.items()):
            try:
                sink(event)
                self._failures[name] = 0
            except Exception as problem:
                self._failed(name, problem)

    @property
    def sinks(self) -> tuple[str, ...]:
        return tuple(self._sinks)

    def _failed(self, name: str, problem: Exception) -> None:
        self._failures[name] += 1
        left_out = self._failures[name] >= MAX_FAILURES
        if left_out:
            del self._sinks[name]
        # The type only: the words of an exception may hold what the event held.
        said = SinkProblem(name, f"raised {type(problem).__name__}", left_out)
        if left_out or self._failures[name] == 1:
            self.problems.append(said)
            self._tell(said)

    def _tell(self, said: SinkProblem) -> None:
        if self._report is None:
            return
        try:
            self._report(said)
        except Exception:
            # Whoever cannot even be told is not worth a turn either; `problems` has it.
            self._report = None
