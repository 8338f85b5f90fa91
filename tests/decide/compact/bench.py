"""A bench for compactions: plan, finish and append, with ids that count and a clock that stands."""

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

import builders as b
from decide.conversations import NOON

from everturn.decide.compact.build_records import build_compaction
from everturn.decide.compact.chain import chain_of
from everturn.decide.compact.context import CompactionContext
from everturn.decide.compact.plan import plan_compaction
from everturn.decide.compact.settings import DEFAULTS
from everturn.decide.compact.values import Compaction, CompactionPlan, CompactionRequest, CompactionSkipped
from everturn.decide.effects import FileRead
from everturn.history.log import Log
from everturn.history.records import Record
from everturn.measure.capabilities import ANTHROPIC
from everturn.measure.meter import make_meter
from everturn.measure.model_table import model_or_default
from everturn.measure.outline import Preamble
from everturn.measure.thresholds import compute_thresholds
from everturn.measure.tokens import TokenCounter
from everturn.view.forks import CapturedRequest
from everturn.view.key_parameters import KeyParameters, TtlChoice

MODEL = model_or_default("claude-opus-4-5").model
LIMITS = compute_thresholds(MODEL.window, MODEL.max_output)
TRANSCRIPT = "sessions/one.jsonl"
SUMMARY = (
    "Summary:\n1. Primary request and intent: the user wants the parser fixed, its tests made to pass and "
    "nothing else touched. 2. The parser stops one token early."
)


class Bench:
    """One conversation that is compacted, again and again if wanted."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.log = Log(records)
        self.counts = TokenCounter()
        self._ids = count(1)

    def new_id(self) -> str:
        return f"n{next(self._ids)}"

    def plan(self, asked: CompactionRequest, **more: Any) -> CompactionPlan | CompactionSkipped:
        view, parameters = self.log.view, KeyParameters(TtlChoice("5m", ""))
        given: dict[str, Any] = {
            "view": view,
            "size": make_meter(view, self.counts).size().tokens,
            "limits": LIMITS,
            "settings": DEFAULTS,
            "model": MODEL,
            "capabilities": ANTHROPIC,
            "counts": self.counts,
            "chain": chain_of(view, threshold=LIMITS.auto, source="main"),
            "captured": CapturedRequest(MODEL.id, Preamble(), parameters, (), {}),
        }
        strategies = more.pop("strategies", ("fork", "direct", "extractive"))
        return plan_compaction(asked, CompactionContext(**(given | more)), strategies=strategies)

    def planned(self, asked: CompactionRequest, **more: Any) -> CompactionPlan:
        found = self.plan(asked, **more)
        assert isinstance(found, CompactionPlan), found
        return found

    def compact(
        self,
        asked: CompactionRequest,
        *,
        files: Sequence[FileRead] = (),
        hooks: Sequence[str] = (),
        text: str = SUMMARY,
        **more: Any,
    ) -> Compaction:
        done = self.finished(self.planned(asked), files=files, hooks=hooks, text=text, **more)
        for record in done.records:
            self.log.append(record)
        return done

    def finished(
        self,
        planned: CompactionPlan,
        *,
        files: Sequence[FileRead] = (),
        hooks: Sequence[str] = (),
        text: str = SUMMARY,
        **more: Any,
    ) -> Compaction:
        given: dict[str, Any] = {
            "transcript": TRANSCRIPT,
            "now": NOON,
            "new_id": self.new_id,
            "counts": self.counts,
        }
        return build_compaction(planned, text, "fork", files, hooks, **(given | more))

    @property
    def shown(self) -> list[str]:
        return [record.uuid for record in self.log.view.records]


def manual(**more: Any) -> CompactionRequest:
    return CompactionRequest(trigger="manual", **more)


AUTO = CompactionRequest(trigger="auto")


def turn(at: int, *, words: str = "", path: str = "") -> list[Record]:
    """A question, a read and an answer."""
    name = f"c{at}"
    called = b.call(name, "Read", file_path=path or f"src/{name}.py")
    return [
        b.user(words or f"question {at}", uuid=f"u{at}"),
        b.assistant(b.think(f"thought {at}"), called, id=f"m{at}", uuid=f"a{at}"),
        b.result(name, f"line of {name}\n" * 400, uuid=f"r{at}"),
        b.assistant(f"answer {at}", id=f"n{at}", uuid=f"b{at}"),
    ]


def turns(count: int) -> list[Record]:
    return [record for at in range(1, count + 1) for record in turn(at)]


def attached(bench: Bench) -> list[str]:
    return [record.subtype for record in bench.log.view.records if record.kind == "attachment"]
