"""Which thinking may still be sent (PC-16).

Newer models bind a thinking block to everything before it. When that changes, the block is refused, so it
leaves together with the change: from the first block that the change invalidates, and not inside a running
tool loop, where the API wants every block as it was and the change can wait. Models that show only the last
turn's thinking drop the rest themselves; dropping it here keeps our bytes and our count equal to theirs.
"""

from bisect import bisect_left
from typing import NamedTuple, Protocol

from everturn.history.edits import ThinkingDropped
from everturn.history.records import Record
from everturn.measure.model_table import Model, find_model
from everturn.measure.outline import Preamble
from everturn.measure.tokens import TokenCounter


class _Setting(Protocol):
    @property
    def model(self) -> Model: ...
    @property
    def head(self) -> Preamble: ...


class _Place(NamedTuple):
    """Where a record stands: its number, how many drops there were, tokens of thinking before it."""

    number: int
    drops: int
    before: int


class ThinkingTracker:
    """The thinking that would be sent, record by record."""

    def __init__(self, counts: TokenCounter) -> None:
        self._counts = counts
        self._places: dict[str, _Place] = {}
        self._total = 0
        self._drops = 0
        # What was left after a drop, by the number of the drop; both rise. Records before it that stood
        # behind what is left have that much thinking before them, and no more.
        self._floors: list[tuple[int, int]] = []
        self._first = ""
        self._made_by = ""
        self._asks_replies = False
        self._broken = ""
        self._dropped = False

    def add(self, record: Record) -> None:
        if isinstance(record.edit, ThinkingDropped):
            self._forget(record.edit.since)
        self._places[record.uuid] = _Place(len(self._places), self._drops, self._total)
        if record.kind != "assistant":
            return
        tokens = zip(record.blocks, self._counts.of(record).blocks, strict=False)
        self._total += sum(count for block, count in tokens if block.is_thinking)
        if not self._first and any(block.is_thinking for block in record.blocks):
            self._first, self._made_by = record.uuid, record.reply.model if record.reply else ""

    def tokens_after(self, uuid: str) -> int:
        """Tokens of the thinking recorded from that record on that would still be sent."""
        return self._total - self._before(uuid) if uuid in self._places else 0

    def prefix_changed(self, why: str) -> None:
        """Everything before the thinking is not what it was: a compaction, an undo, a trimmed window.

        What is thought from here on is bound to the new prefix, and whole.
        """
        if self._first:
            self._broken = why

    def ask_replies(self) -> None:
        """From a restart on, or in another view, the replies alone tell whose thinking it is."""
        self._asks_replies = True

    def took_dropped(self) -> bool:
        """Whether thinking was dropped since this was last asked: the context is smaller on purpose."""
        dropped, self._dropped = self._dropped, False
        return dropped

    def drop(
        self, now: _Setting, before: _Setting | None, *, cold: str = "", in_loop: bool
    ) -> ThinkingDropped | None:
        """The edit that keeps the next request legal; None when nothing has to go, or must not yet.

        `cold` is a reason to drop what may still be sent: a rewrite that is due anyway. What is bound to
        messages that are gone cannot wait for the end of a tool loop: they do not come back.
        """
        why = self._why(now, before) or cold
        must_go = bool(self._broken) and now.model.binds_thinking
        if not why or not self._first or (in_loop and not must_go):
            return None
        return ThinkingDropped(self._first, why)

    def _why(self, now: _Setting, before: _Setting | None) -> str:
        if before is not None and before.model != now.model:
            return f"it is {before.model.id}'s, and {now.model.id} cannot read it"
        if (before is None or self._asks_replies) and (maker := self._maker_other_than(now.model)):
            return f"it is {maker}'s, and {now.model.id} cannot read it"
        if not now.model.keeps_thinking:
            return f"{now.model.id} shows the thinking of the last turn alone"
        if not now.model.binds_thinking:
            return ""
        if before is not None and before.head != now.head:
            return "it is bound to another system prompt or other tools"
        return self._broken and f"it is bound to what came before it: {self._broken}"

    def _maker_other_than(self, model: Model) -> str:
        """ "" where it is that model's own, and where its name tells us nothing."""
        maker = find_model(self._made_by)
        return maker.id if maker is not None and maker != model else ""

    def _before(self, uuid: str) -> int:
        place = self._places[uuid]
        later = bisect_left(self._floors, (place.drops, 0))
        return min(place.before, self._floors[later][1]) if later < len(self._floors) else place.before

    def _forget(self, since: str) -> None:
        """From that record on; from the start where it is out of sight, as `view/flatten.py` does."""
        self._dropped = True
        known = since in self._places
        left = self._before(since) if known else 0
        if self._first and (not known or self._places[since].number <= self._places[self._first].number):
            self._first = self._broken = ""
            self._asks_replies = False
        while self._floors and self._floors[-1][1] >= left:
            self._floors.pop()
        self._floors.append((self._drops, left))
        self._drops += 1
        self._total = left
