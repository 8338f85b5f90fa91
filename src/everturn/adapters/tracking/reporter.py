"""Events and warnings of one adapter: sinks, the program's own callback, and the log."""

import logging
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from everturn.adapters.tracking.parts import TrackerParts
from everturn.decide.events import Event, EventContext, PassedThrough, TranscriptDamaged
from everturn.session.events.build import build_sinks

log: Final = logging.getLogger("everturn")


class Reporter:
    def __init__(self, parts: TrackerParts) -> None:
        self._parts = parts
        self._warned: set[str] = set()
        # No transcript sink: it writes to one transcript, and there are many here. Others get a session id.
        self._sinks = build_sinks(
            msgspec.structs.replace(parts.options.events, transcript=False),
            append=lambda _: None,
            new_id=parts.new_id,
            last=lambda: None,
            report=lambda problem: log.warning("everturn: the event sink %s %s", problem.sink, problem.what),
        )
        for note in parts.notes:
            log.warning("everturn: %s", note)

    def tell(self, event: Event) -> None:
        """An error in a listener must not fail the request."""
        self._sinks(event)
        try:
            self._parts.listen(event)
        except Exception as problem:
            self.warn_once("listen", f"the `listen` callback raised an error: {problem!r}")

    def report_problem(self, why: str, detail: str = "") -> None:
        """Log each kind of problem once; send an event every time."""
        self.warn_once(why, f"{why} ({detail})" if detail else why)
        self.tell(PassedThrough(moment=EventContext(at=self._parts.clock()), why=why, detail=detail))

    def report_damage(self, path: str, problems: Sequence[str], note: Callable[[str], None]) -> None:
        """Report a transcript that may have the conversation of a request and has lost something: once for
        each file, in the log, in an event and, by `note`, beside the bill."""
        if path in self._warned:
            return
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        text = f"the transcript {path} is damaged: {problems[0]}{more}"
        self.warn_once(path, text)
        note(text)
        moment = EventContext(at=self._parts.clock())
        self.tell(TranscriptDamaged(moment=moment, problems=len(problems), what=problems[0], path=path))

    def warn_once(self, kind: str, text: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            log.warning("everturn: %s", text)
