"""Send every event to every sink. A sink that fails is reported, and the turn continues (TL-2)."""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from everturn.decide.events import Event

# Takes an event; may raise any exception.
Sink = Callable[[Event], None]

# A sink that fails this often in a row is disabled: it would slow down every turn. Our choice.
MAX_FAILURES: Final = 10


class SinkProblem(msgspec.Struct, frozen=True):
    sink: str
    what: str
    is_disabled: bool = False


class FanOut:
    """The sinks of a session by name, called in order."""

    def __init__(
        self, sinks: Sequence[tuple[str, Sink]], report: Callable[[SinkProblem], None] | None = None
    ) -> None:
        self._sinks = dict(sinks)
        self._failures = dict.fromkeys(self._sinks, 0)
        self._report = report
        self.problems: list[SinkProblem] = []

    def __call__(self, event: Event) -> None:
        """Never raises, except for an interrupt."""
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
        is_disabled = self._failures[name] >= MAX_FAILURES
        if is_disabled:
            del self._sinks[name]
        # Only the type: the message of an exception may hold private content of the event.
        found = SinkProblem(name, f"raised {type(problem).__name__}", is_disabled)
        if is_disabled or self._failures[name] == 1:
            self.problems.append(found)
            self._tell(found)

    def _tell(self, found: SinkProblem) -> None:
        if self._report is None:
            return
        try:
            self._report(found)
        except Exception:
            # A failing report must not fail the turn either; `problems` still has the entry.
            self._report = None
