"""Which thinking may still be sent (PC-16).

Newer models bind a thinking block to everything before it. When that changes, the block is refused, so it
leaves together with the change: from the first block that the change invalidates, and never inside a
running tool loop, where the API wants every block as it was. Models that show only the last turn's thinking
drop the rest themselves; dropping it here keeps our bytes and our count equal to theirs.
"""

from typing import Protocol

from everturn.history.edits import ThinkingDropped
from everturn.history.records import Record
from everturn.measure.models import Model
from everturn.measure.outline import Head
from everturn.measure.tokens import Counts


class _Setting(Protocol):
    @property
    def model(self) -> Model: ...
    @property
    def head(self) -> Head: ...


class ThinkingLedger:
    """The thinking that would be sent, record by record."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts
        self._before: dict[str, int] = {}
        self._total = 0
        self._first = ""
        self._broken = ""
        self._dropped = False

    def add(self, record: Record) -> None:
        if isinstance(record.edit, ThinkingDropped):
            self._forget(record.edit.since)
        if record.kind != "assistant":
            return
        self._before[record.uuid] = self._total
        tokens = zip(record.blocks, self._counts.of(record).blocks, strict=False)
        self._total += sum(count for block, count in tokens if block.is_thinking)
        if any(block.is_thinking for block in record.blocks):
            self._first = self._first or record.uuid

    def tokens_after(self, uuid: str) -> int:
        """Tokens of the thinking recorded from that record on."""
        return self._total - self._before.get(uuid, self._total)

    def prefix_changed(self, why: str) -> None:
        """Everything before the thinking is not what it was: a compaction, an undo, a trimmed window."""
        self._broken = why

    def took_dropped(self) -> bool:
        """Whether thinking was dropped since this was last asked: the context is smaller on purpose."""
        dropped, self._dropped = self._dropped, False
        return dropped

    def drop(
        self, now: _Setting, before: _Setting | None, *, cold: str = "", in_loop: bool
    ) -> ThinkingDropped | None:
        """The edit that keeps the next request legal; None when nothing has to go, or must not yet.

        `cold` is a reason to drop what may still be sent: a rewrite that is due anyway.
        """
        why = self._why(now, before) or cold
        if not why or not self._first or in_loop:
            return None
        self._broken = ""
        return ThinkingDropped(self._first, why)

    def _why(self, now: _Setting, before: _Setting | None) -> str:
        if before is not None and before.model != now.model:
            return f"it is {before.model.id}'s, and {now.model.id} cannot read it"
        if not now.model.keeps_thinking:
            return f"{now.model.id} shows the thinking of the last turn alone"
        if not now.model.binds_thinking:
            return ""
        if before is not None and before.head != now.head:
            return "it is bound to another system prompt or other tools"
        return self._broken and f"it is bound to what came before it: {self._broken}"

    def _forget(self, since: str) -> None:
        self._dropped = True
        if self._before.get(since, 0) <= self._before.get(self._first, 0):
            self._first = ""
        self._total = self._before.get(since, self._total)
