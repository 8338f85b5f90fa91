"""Why the cache was cold: detects and explains a drop of cache reads between two calls (CB-1 to CB-8).

Each source has a baseline: what its last answered call had in the key, how much it read, and when. A drop
beyond both thresholds is a break; its reason is what changed in the key, otherwise the idle time, otherwise
the provider. After a compaction there is no baseline (the next call is a first call). After a deletion the
baseline stays and one comparison is skipped: the context is smaller on purpose, and the prefix before the
deletion is unchanged. A call that was never answered does not change the baseline: its retry is compared with
the same one.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final, Literal

import msgspec

from everturn.decide.cache_key_snapshot import CacheKeyChange, CacheKeySnapshot, diff_key_snapshots
from everturn.history.records import Usage
from everturn.measure.outline import Preamble
from everturn.measure.prefix_cache import SECONDS

# The provider's name for a cause, and the parts of our snapshot that it refers to (api-facts 3).
DIAGNOSES: Final[Mapping[str, frozenset[str]]] = {
    "model_changed": frozenset({"model", "speed"}),
    "system_changed": frozenset({"system"}),
    "tools_changed": frozenset({"tools"}),
    # Earlier messages are not part of a snapshot: the code that changes them reports it
    # (`compacted`, `deleted`).
    "messages_changed": frozenset(),
}


class BreakSettings(msgspec.Struct, frozen=True):
    """A break is a drop of more than both share and tokens; some models are excluded (CB-2, CB-6, CB-9)."""

    share: float = 0.05
    tokens: int = 2_000
    max_sources: int = 10
    # Patterns of model names that are not compared (CB-9).
    excluded_models: tuple[str, ...] = ("*haiku*",)

    def leaves_out(self, model: str) -> bool:
        return _matches_any(model, self.excluded_models)


@lru_cache(maxsize=64)
def _matches_any(model: str, patterns: tuple[str, ...]) -> bool:
    """Asked several times per call, and nearly always the same."""
    return any(fnmatchcase(model, pattern) for pattern in patterns)


class Diagnosis(msgspec.Struct, frozen=True):
    """The provider's own report of a miss: its type, and how many tokens it says were missed."""

    reason: str
    missed: int = 0


class DetectedBreak(msgspec.Struct, frozen=True):
    """A cache break and its reason. `disagreement` is set if the provider's own diagnosis differs."""

    source: str
    tokens_lost: int
    why: str
    changes: tuple[CacheKeyChange, ...]
    idle: float
    diagnosis: Diagnosis | None = None
    disagreement: str = ""


class NoBreak(msgspec.Struct, frozen=True):
    why: str
    diagnosis: Diagnosis | None = None


class CallSnapshot(msgspec.Struct, frozen=True):
    """A call of a source: what was in its key, and when it was made."""

    snapshot: CacheKeySnapshot
    at: float


class Baseline(msgspec.Struct, frozen=True):
    """The state kept per source. Survives a restart unchanged: it holds no prompt, only digests (CB-7)."""

    answered: CallSnapshot | None = None
    read: int = 0
    under_way: CallSnapshot | None = None
    pending: tuple[CacheKeyChange, ...] = ()
    passes_over: Literal["nothing", "one comparison"] = "nothing"


class CacheBreakDetector:
    """Baselines by source, a limited number of them; the least recently used is dropped."""

    def __init__(
        self, settings: BreakSettings | None = None, baselines: Mapping[str, Baseline] | None = None
    ) -> None:
        self.settings = settings or BreakSettings()
        self._baselines: dict[str, Baseline] = dict(baselines or {})
        self._preambles: dict[str, tuple[Preamble | None, Preamble]] = {}
        self._shown: dict[str, Preamble] = {}
        self._keep_bounded()

    @property
    def baselines(self) -> Mapping[str, Baseline]:
        """The state that must survive a restart."""
        return self._baselines

    def before_call(
        self, source: str, now_sent: CacheKeySnapshot, preamble: Preamble, now: float
    ) -> tuple[CacheKeyChange, ...]:
        """Note what is about to be sent; returns what changed in the key."""
        last = self._baselines.pop(source, Baseline())
        found = diff_key_snapshots(last.answered.snapshot, now_sent) if last.answered else ()
        call = CallSnapshot(now_sent, now)
        self._baselines[source] = msgspec.structs.replace(last, under_way=call, pending=found)
        self._preambles[source] = self._shown.get(source), preamble
        self._keep_bounded()
        return found

    def after_call(
        self, source: str, usage: Usage, diagnosis: Diagnosis | None = None
    ) -> DetectedBreak | NoBreak:
        """Assess the call that `before_call` noted; the next one is compared with it."""
        last = self._baselines.get(source)
        if last is None or last.under_way is None:
            return NoBreak("no call of this source is in progress", diagnosis)
        model = last.under_way.snapshot.model
        if self.settings.leaves_out(model):
            self._baselines[source] = self._without_judgement(last)
            return NoBreak(f"{model} is excluded from the comparison", diagnosis)
        read = usage.cache_read_input_tokens
        self._baselines[source] = Baseline(answered=last.under_way, read=read)
        if source in self._preambles:
            self._shown[source] = self._preambles[source][1]
        return self._judge(source, last, last.under_way, read, diagnosis)

    def compacted(self, source: str) -> None:
        """The context was replaced: the next call is a first call (CB-5)."""
        self._forget(source)

    def deleted(self, source: str) -> None:
        """Something was cleared from the context: the next comparison would be meaningless (CB-5)."""
        if last := self._baselines.get(source):
            self._baselines[source] = msgspec.structs.replace(last, passes_over="one comparison")

    def preambles(self, source: str) -> tuple[Preamble | None, Preamble] | None:
        """Tools and system of the last call and of the answered one before it, to show the difference (CB-4).
        The earlier one is None for a first call, and for the first call after a restart.
        """
        return self._preambles.get(source)

    def _judge(
        self, source: str, last: Baseline, call: CallSnapshot, read: int, diagnosis: Diagnosis | None
    ) -> DetectedBreak | NoBreak:
        if last.answered is None or self.settings.leaves_out(last.answered.snapshot.model):
            return NoBreak("the first call of this source", diagnosis)
        if last.passes_over == "one comparison":
            return NoBreak("the context was made smaller on purpose", diagnosis)
        lost = last.read - read
        if lost <= self.settings.tokens or lost <= last.read * self.settings.share:
            return NoBreak(f"read {read:,} tokens after {last.read:,}", diagnosis)
        idle = call.at - last.answered.at
        why = _explained(last.pending, idle)
        return DetectedBreak(
            source, lost, why, last.pending, idle, diagnosis, _disagreement(last.pending, diagnosis)
        )

    def _without_judgement(self, last: Baseline) -> Baseline:
        """After a call of an excluded model, the baseline of the others stays. If there is none, the call is
        kept, because a restart needs to know what was sent last.
        """
        before = last.answered
        if before is None or self.settings.leaves_out(before.snapshot.model):
            return Baseline(answered=last.under_way)
        return msgspec.structs.replace(last, under_way=None, pending=())

    def _keep_bounded(self) -> None:
        while len(self._baselines) > self.settings.max_sources:
            self._forget(next(iter(self._baselines)))

    def _forget(self, source: str) -> None:
        for known in (self._baselines, self._preambles, self._shown):
            known.pop(source, None)


def _explained(pending: tuple[CacheKeyChange, ...], idle: float) -> str:
    if pending:
        return ", ".join(change.what for change in pending)
    if idle > SECONDS["1h"]:
        return "possible TTL expiry (idle for more than 1 hour)"
    if idle > SECONDS["5m"]:
        return "possible TTL expiry (idle for more than 5 minutes)"
    return "likely server-side (prompt unchanged, gap under 5 min)"


def _disagreement(pending: tuple[CacheKeyChange, ...], diagnosis: Diagnosis | None) -> str:
    """Set if both sides name a cause and they differ (CB-8). The provider names only the earliest, and some
    of its reasons name none: no earlier call known, or a parameter that it does not compare.
    """
    if diagnosis is None or diagnosis.reason not in DIAGNOSES:
        return ""
    ours = {change.part for change in pending}
    if ours & DIAGNOSES[diagnosis.reason]:
        return ""
    said = ", ".join(sorted(ours)) or "nothing in the key"
    return f"the provider says {diagnosis.reason}, our snapshots differ in {said}"
