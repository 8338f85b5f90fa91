"""The billed calls of one thread, and why each read what it read."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final

import msgspec

from everturn.decide.compact.values import Compaction
from everturn.engine import Turn
from everturn.history.edits import Cleared, Offloaded, ThinkingDropped
from everturn.history.records import Record
from everturn.measure.model import Model
from everturn.measure.prediction import Prediction
from everturn.measure.prefix_cache import SECONDS, PromptLayout, Ttl
from everturn.replay.playing.cache_billing import BlockTokens, count_blocks, price_call
from everturn.replay.refetches import Refetch
from everturn.replay.runs import CallSource, SimulatedCall
from everturn.wire.anthropic import Request

# A cache break: less read than the previous call had cached, by more than both limits (as in CB-2).
_DROP_SHARE: Final = 0.05
_DROP_TOKENS: Final = 2_000

# Called with every request: the call, its body, and the tokens of its blocks in prefix order.
RequestObserver = Callable[[SimulatedCall, Request, BlockTokens], None]


class UnpricedCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call before it is priced."""

    source: CallSource
    number: int
    at: datetime
    parts: Prediction
    output: int
    why: str = ""
    cleared: int = 0
    broke: str = ""
    refetches: tuple[Refetch, ...] = ()
    found: tuple[int, ...] = ()
    lost_behind: int | None = None


class CallLog:
    """The calls of a thread in the order in which they were billed. An observer sees them with their
    requests.
    """

    def __init__(self, thread: str, observer: RequestObserver | None = None) -> None:
        self._thread, self._observer = thread, observer
        self.calls: list[SimulatedCall] = []
        # What the last call of the conversation left in the cache, and when the cache was last used.
        self.cached_tokens = 0
        self.last_touched_at: datetime | None = None

    @property
    def is_observed(self) -> bool:
        """Whether somebody wants to see requests; otherwise none has to be built."""
        return self._observer is not None

    def write(
        self, entry: UnpricedCall, model: Model, request: Request | None, prompt: PromptLayout | None
    ) -> None:
        """`model` is the one that was called. The request is None if nobody wants to see it."""
        parts = entry.parts
        call = SimulatedCall(
            thread=self._thread,
            number=entry.number,
            at=entry.at,
            source=entry.source,
            read=parts.read,
            write_5m=parts.write_5m,
            write_1h=parts.write_1h,
            plain=parts.plain,
            output=entry.output,
            dollars=price_call(model, entry.at, parts, entry.output),
            context=parts.total,
            cleared=entry.cleared,
            why=entry.why,
            broke=entry.broke,
            refetches=entry.refetches,
            model=model.id,
            found=entry.found,
            lost_behind=entry.lost_behind,
        )
        self.last_touched_at = entry.at
        self.calls.append(call)
        if entry.source in ("main", "refetch"):
            self.cached_tokens = parts.read + parts.write_5m + parts.write_1h
        if self._observer is not None and request is not None and prompt is not None:
            self._observer(call, request, count_blocks(prompt))

    def has_cache_break(self, parts: Prediction) -> bool:
        lost = self.cached_tokens - parts.read
        return lost > max(_DROP_TOKENS, self.cached_tokens * _DROP_SHARE)

    def has_expired(self, at: datetime, ttl: Ttl) -> bool:
        return self.last_touched_at is not None and (at - self.last_touched_at).total_seconds() > SECONDS[ttl]


def describe_edits(turn: Turn) -> str:
    """A description of the edits before a call."""
    done = [turn.plan.why] if turn.plan.kind not in ("none", "waits") else []
    if isinstance(turn.compacted, Compaction):
        made = turn.compacted
        done.append(f"compaction from {made.tokens_before:,} to {made.tokens_after:,} tokens")
    return "; ".join(done)


def count_cleared(records: Iterable[Record]) -> int:
    edits = [record.edit for record in records]
    cleared = sum(len(edit.calls) for edit in edits if isinstance(edit, Cleared))
    return cleared + sum(isinstance(edit, Offloaded) for edit in edits)


def describe_own_edit(turn: Turn) -> str:
    """The edit of ours that changed the prefix; "" if there was none."""
    if isinstance(turn.compacted, Compaction):
        return "our own compaction"
    if turn.plan.kind not in ("none", "waits"):
        return f"our own edit ({turn.plan.kind})"
    if any(isinstance(record.edit, ThinkingDropped) for record in turn.appended):
        return "earlier thinking removed"
    return ""
