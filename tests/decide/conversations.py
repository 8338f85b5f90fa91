"""Conversations for tests of decisions: records of a wanted size, and a bench that follows them.

A result of n tokens has 4n characters. The bench does what the engine does with a plan: it appends the edits.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import builders as b
from presets import preset

from everturn.decide.micro import MicroContext, MicroPlan, plan_micro_compaction
from everturn.decide.micro.cache_edit_state import CacheEditState, apply_plan, consume_pending
from everturn.decide.options import Options
from everturn.decide.result_tracker import ResultTracker
from everturn.history.log import Log
from everturn.history.records import Record
from everturn.measure.meter import Meter
from everturn.measure.tokens import TokenCounter
from everturn.view.flatten import Flat, flatten

NOON = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)
SOON = timedelta(minutes=2)
LATE = timedelta(minutes=61)


def text(tokens: int, name: str = "x") -> str:
    """Words of that many tokens by characters/4, in lines of about sixty."""
    line = f"{name} " * (60 // (len(name) + 1) or 1) + "\n"
    return (line * (4 * tokens // len(line) + 1))[: 4 * tokens]


def read(name: str, tokens: int = 1_000, tool: str = "Read", thought: str = "") -> list[Record]:
    """One round: a call and its result."""
    spoken = [b.think(thought)] if thought else []
    called = b.call(name, tool, file_path=f"src/{name}.py")
    said = b.assistant(*spoken, called, id=f"m-{name}", uuid=f"a-{name}")
    return [said, b.result(name, text(tokens, name), uuid=f"r-{name}")]


def reads(count: int, tokens: int = 1_000, **how: Any) -> list[Record]:
    """A prompt, and so many rounds."""
    found = [b.user("look around", uuid="u")]
    for at in range(1, count + 1):
        found += read(f"c{at}", tokens, **how)
    return found


def finished(records: Iterable[Record], words: str = "that is all") -> list[Record]:
    """The same with a last reply and a new prompt: no tool loop is running."""
    return [*records, b.assistant(words, id="m-last", uuid="a-last"), b.user("go on", uuid="u-next")]


class Bench:
    """One conversation under one policy, followed record by record."""

    def __init__(self, records: Iterable[Record], under: Options | str = "claude-code") -> None:
        self.options = preset(under)
        self.log = Log()
        self.counts = TokenCounter()
        self.cached = CacheEditState()
        self._edits = 0
        self._start_view()
        for record in records:
            self.add(record)

    def _start_view(self) -> None:
        view = self.log.view
        self.results = ResultTracker(self.options.tools, cleared=view.cleared, offloaded=view.offloaded)
        self.meter = Meter(self.counts)
        for record in view.records:
            self._follow(record)

    def _follow(self, record: Record) -> None:
        self.results.add(record, self.counts)
        (self.meter.add_kept if record.uuid in self.log.view.stale else self.meter.add)(record)

    def add(self, record: Record) -> None:
        if self.log.append(record) == "replaced":
            self.cached = CacheEditState()
            self._start_view()
        else:
            self._follow(record)

    def situation(self, idle: timedelta = SOON, **more: Any) -> MicroContext:
        found: dict[str, Any] = {
            "results": self.results,
            "options": self.options,
            "source": "main",
            "now": NOON + idle,
            "last_reply": NOON,
            "size": self.meter.size().tokens,
            "cached": self.cached,
            "records": self.log.view.records,
            "counts": self.counts,
        }
        return MicroContext(**(found | more))

    def decide(self, idle: timedelta = SOON, **more: Any) -> MicroPlan:
        return plan_micro_compaction(self.situation(idle, **more))

    def apply(self, plan: MicroPlan) -> None:
        self.cached = apply_plan(self.cached, self.results, plan)
        self.cached, deletion = consume_pending(self.cached, why=plan.why)
        moved = [offload.written_to(f"kept/{offload.name}") for offload in plan.offload]
        for edit in (*plan.edits, *moved, *([deletion] if deletion else [])):
            self._edits += 1
            self.add(b.edited(edit, f"e{self._edits}"))

    def flat(self) -> Flat:
        return flatten(self.log.view)
