"""Why the cache was cold: an unexplained drop of what is read between two calls, explained (CB-1 to CB-8).

Each source has a baseline: what its last call had in the key, how much it read, when. A drop beyond both
thresholds is a break; its reason is what changed in the key, else the idle time, else the provider. After a
compaction there is no baseline (the next call is a first call). After a deletion the baseline stays and one
comparison is passed over: the context is smaller on purpose, the prefix before it is still the old one.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Literal

import msgspec

from everturn.decide.snapshot import Change, Snapshot, changes
from everturn.history.records import Usage
from everturn.measure.outline import Head

FIVE_MINUTES, HOUR = 300.0, 3600.0

# The provider's word for a cause, and the part of our snapshot that it speaks of (api-facts 3).
DIAGNOSES = {
    "model_changed": "model",
    "system_changed": "system",
    "tools_changed": "tools",
    "messages_changed": "messages",
}


class BreakSettings(msgspec.Struct, frozen=True):
    """A break is a drop of more than both; models with a cache of another kind are left out (CB-2, CB-6)."""

    share: float = 0.05
    tokens: int = 2_000
    max_sources: int = 10
    excluded_models: tuple[str, ...] = ()


class Diagnosis(msgspec.Struct, frozen=True):
    """What the provider itself said about a miss: its type, and how many tokens it believes were missed."""

    reason: str
    missed: int = 0


class Break(msgspec.Struct, frozen=True):
    """A cache break and why. `disagreement` is set where the provider's own diagnosis says otherwise."""

    source: str
    tokens_lost: int
    why: str
    changes: tuple[Change, ...]
    idle: float | None
    diagnosis: Diagnosis | None = None
    disagreement: str = ""


class NoBreak(msgspec.Struct, frozen=True):
    why: str


class Baseline(msgspec.Struct, frozen=True):
    """The last call of a source. Survives a restart as it is: it holds no prompt, only digests (CB-7)."""

    snapshot: Snapshot
    at: float
    read: int | None = None
    pending: tuple[Change, ...] = ()
    previous_at: float | None = None
    passes_over: Literal["nothing", "one comparison"] = "nothing"


class Detector:
    """Baselines by source, a bounded number of them; the one unused for longest gives way."""

    def __init__(
        self, settings: BreakSettings | None = None, baselines: Mapping[str, Baseline] | None = None
    ) -> None:
        self.settings = settings or BreakSettings()
        self._baselines: dict[str, Baseline] = dict(baselines or {})
        self._heads: dict[str, tuple[Head, Head]] = {}

    @property
    def baselines(self) -> Mapping[str, Baseline]:
        """Everything that a restart must not lose."""
        return self._baselines

    def before_call(self, source: str, now_sent: Snapshot, head: Head, now: float) -> tuple[Change, ...]:
        """Note what is about to be sent; answers what of the key is not what it was."""
        last = self._baselines.pop(source, None)
        found = changes(last.snapshot, now_sent) if last else ()
        self._baselines[source] = Baseline(
            snapshot=now_sent,
            at=now,
            read=last.read if last else None,
            pending=found,
            previous_at=last.at if last else None,
            passes_over=last.passes_over if last else "nothing",
        )
        self._heads[source] = self._heads.get(source, (head, head))[1], head
        while len(self._baselines) > self.settings.max_sources:
            oldest = next(iter(self._baselines))
            del self._baselines[oldest]
            self._heads.pop(oldest, None)
        return found

    def after_call(self, source: str, usage: Usage, diagnosis: Diagnosis | None = None) -> Break | NoBreak:
        last = self._baselines.get(source)
        if last is None:
            return NoBreak("nothing is known of this source")
        read = usage.cache_read_input_tokens
        verdict = self._judge(source, last, read, diagnosis)
        self._baselines[source] = msgspec.structs.replace(last, read=read, pending=(), passes_over="nothing")
        return verdict

    def compacted(self, source: str) -> None:
        """The context is another one: the next call is a first call (CB-5)."""
        self._baselines.pop(source, None)
        self._heads.pop(source, None)

    def deleted(self, source: str) -> None:
        """Something was cleared from the context: the next comparison would say nothing (CB-5)."""
        if last := self._baselines.get(source):
            self._baselines[source] = msgspec.structs.replace(last, passes_over="one comparison")

    def heads(self, source: str) -> tuple[Head, Head] | None:
        """Tools and system of the last two calls, for showing the difference (CB-4)."""
        return self._heads.get(source)

    def _judge(self, source: str, last: Baseline, read: int, diagnosis: Diagnosis | None) -> Break | NoBreak:
        if any(fnmatchcase(last.snapshot.model, pattern) for pattern in self.settings.excluded_models):
            return NoBreak(f"{last.snapshot.model} is left out of the comparison")
        if last.read is None:
            return NoBreak("the first call of this source")
        if last.passes_over == "one comparison":
            return NoBreak("the context was made smaller on purpose")
        lost = last.read - read
        if lost <= self.settings.tokens or lost <= last.read * self.settings.share:
            return NoBreak(f"read {read:,} tokens after {last.read:,}")
        idle = None if last.previous_at is None else last.at - last.previous_at
        why = _explained(last.pending, idle)
        return Break(source, lost, why, last.pending, idle, diagnosis, _disagreement(last.pending, diagnosis))


def _explained(pending: tuple[Change, ...], idle: float | None) -> str:
    if pending:
        return ", ".join(change.what for change in pending)
    if idle is not None and idle > HOUR:
        return "possible TTL expiry (idle for more than 1 hour)"
    if idle is not None and idle > FIVE_MINUTES:
        return "possible TTL expiry (idle for more than 5 minutes)"
    return "likely server-side (prompt unchanged, gap under 5 min)"


def _disagreement(pending: tuple[Change, ...], diagnosis: Diagnosis | None) -> str:
    """Where both sides name a cause and it is not the same (CB-8)."""
    if diagnosis is None or diagnosis.reason in ("unavailable", "previous_message_not_found"):
        return ""
    ours = {change.part for change in pending}
    theirs = DIAGNOSES.get(diagnosis.reason)
    if theirs in ours:
        return ""
    said = ", ".join(sorted(ours)) or "nothing in the key"
    return f"the provider says {diagnosis.reason}, our snapshots differ in {said}"
