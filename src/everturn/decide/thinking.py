"""Which thinking may still be sent (PC-16, MC-13).

Newer models bind a thinking block to everything before it. If that changes, the API refuses the block, so it
is dropped together with the change: from the first block that the change invalidates, and not inside a
running tool loop, where the API requires every block unchanged and the change can wait. Models that show only
the last turn's thinking drop the rest themselves; dropping it here keeps our bytes and our count equal to
theirs.

After a long pause the cache is cold, and only the thinking of the last turns is sent again. Dropping from the
start of the history is allowed on every model (api-facts 7): the rest is bound to messages, not to the
thinking before it.
"""

import copy
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from everturn.history.edits import ThinkingDropped
from everturn.history.messages import Message, find_last_prompt
from everturn.history.records import Record, is_sent, reported_usage
from everturn.measure.model_table import Model, find_model
from everturn.measure.outline import Preamble
from everturn.measure.tokens import TokenCounter


class _Setting(Protocol):
    @property
    def model(self) -> Model: ...
    @property
    def preamble(self) -> Preamble: ...


class _Thought(NamedTuple):
    """The thinking of one record: the record's number, its tokens, its turn, and the model."""

    number: int
    tokens: int
    record: str
    turn: int
    model: str


class ThinkingTracker:
    """The thinking that would be sent, record by record."""

    def __init__(self, counts: TokenCounter) -> None:
        self._counts = counts
        self._numbers: dict[str, int] = {}
        # The thinking that would be sent, oldest first.
        self._thoughts: list[_Thought] = []
        # A turn is everything between two messages of a person: a tool loop is one turn.
        self._turn = 0
        self._asks_replies = False
        # Why recorded thinking is bound to another prefix than the one that is sent, and from where on.
        self._broken = ""
        self._broken_since = ""
        # Whether thinking came back with an undo and no reply has followed yet; what it was written with, if
        # that is known.
        self._has_come_back = False
        self._written_with: Preamble | None = None
        self._dropped = False

    def copy(self) -> "ThinkingTracker":
        made = copy.copy(self)
        made._numbers, made._thoughts = dict(self._numbers), list(self._thoughts)
        return made

    def add(self, record: Record) -> None:
        if isinstance(record.edit, ThinkingDropped):
            self._forget(record.edit)
        number = self._numbers[record.uuid] = len(self._numbers)
        if _is_said_by_person(record):
            self._turn += 1
        if record.kind != "assistant":
            return
        if reported_usage(record) is not None:
            # What was answered was accepted: a log that is read again has no other sign of that.
            self._has_come_back = False
        counted = zip(record.blocks, self._counts.of(record).blocks, strict=False)
        tokens = [count for block, count in counted if block.is_thinking]
        if tokens or any(block.is_thinking for block in record.blocks):
            model = record.reply.model if record.reply else ""
            self._thoughts.append(_Thought(number, sum(tokens), record.uuid, self._turn, model))

    @property
    def is_sent(self) -> bool:
        return bool(self._thoughts)

    def tokens_after(self, uuid: str) -> int:
        """Tokens of the thinking recorded from that record on that would still be sent."""
        return (
            sum(each.tokens for each in self._thoughts[self._index(uuid) :]) if uuid in self._numbers else 0
        )

    def tokens_dropped_by(self, edit: ThinkingDropped) -> int:
        """What that edit would save now."""
        return sum(each.tokens for each in self._thoughts[self._range(edit)])

    def prefix_changed(self, why: str, since: str = "") -> None:
        """The prefix of all recorded thinking has changed: a compaction, an undo, a trimmed window; or
        only of the thinking from the record `since` on.

        Thinking recorded from here on is bound to the new prefix, and valid.
        """
        first = self._index(since) if since else 0
        known = self._index(self._broken_since) if self._broken_since else 0
        if self._thoughts[first:] and not (self._broken and known <= first):
            self._broken, self._broken_since = why, since

    def find_dropped(self, before: "ThinkingTracker") -> str:
        """The first record whose thinking is in view here and was dropped there; "" if there is none."""
        known = {each.record for each in before._thoughts}
        return next((each.record for each in self._thoughts if each.record not in known), "")

    def came_back(self, written_with: Preamble | None) -> None:
        """An undo shows thinking again. While it was out of view, system prompt and tools may have changed:
        it is valid with those that it was written with. None if they are not known.
        """
        self._has_come_back, self._written_with = True, written_with

    def ask_replies(self) -> None:
        """After a restart, or in a new view, only the replies tell which model wrote the thinking."""
        self._asks_replies = True

    def took_dropped(self) -> bool:
        """Whether thinking was dropped since the last call of this: the context is smaller on purpose."""
        dropped, self._dropped = self._dropped, False
        return dropped

    def drop(
        self, now: _Setting, before: _Setting | None, *, cold: str = "", keep_turns: int = 1, in_loop: bool
    ) -> ThinkingDropped | None:
        """The edit that keeps the next request valid; None if nothing has to be dropped,
        or must not be yet.

        `cold` is a reason to drop thinking that may still be sent, except that of the last `keep_turns`
        turns: the cache is written again anyway. Thinking bound to messages that are gone cannot wait for the
        end of a tool loop: they do not come back.
        """
        if self._has_come_back and self._written_with != now.preamble:
            self.prefix_changed("an undo brought it back under another system prompt or tools")
        self._has_come_back = False
        must_go = bool(self._broken) and now.model.binds_thinking
        if not self._thoughts or (in_loop and not must_go):
            return None
        if why := self._why(now, before):
            return ThinkingDropped(self._thoughts[0].record, why)
        if must_go:
            first = self._index(self._broken_since) if self._broken_since else 0
            why = f"it is bound to what came before it: {self._broken}"
            return ThinkingDropped(self._thoughts[first].record, why)
        return self._all_but_last(keep_turns, cold) if cold else None

    def drop_refused(self, refusal: str) -> ThinkingDropped | None:
        """After the API has refused thinking that seemed valid: all of it is dropped. What it is bound to is
        not always known, for example after a rewind to a reply of an earlier process. None if none is sent.
        """
        return (
            ThinkingDropped(self._thoughts[0].record, f"the API refused it: {refusal}")
            if self._thoughts
            else None
        )

    def _all_but_last(self, turns: int, why: str) -> ThinkingDropped | None:
        """Only turns with thinking are counted, as the API does."""
        kept = sorted({each.turn for each in self._thoughts})[-max(1, turns) :]
        first, until = self._thoughts[0], next(each for each in self._thoughts if each.turn == kept[0])
        return ThinkingDropped(first.record, why, until.record) if first != until else None

    def _why(self, now: _Setting, before: _Setting | None) -> str:
        if before is not None and before.model.id != now.model.id:
            return f"it was written by {before.model.id}, and {now.model.id} cannot read it"
        if (before is None or self._asks_replies) and (maker := self._maker_other_than(now.model)):
            return f"it was written by {maker}, and {now.model.id} cannot read it"
        if not now.model.keeps_thinking:
            return f"{now.model.id} uses only the thinking of the last turn"
        if now.model.binds_thinking and before is not None and before.preamble != now.preamble:
            return "it is bound to a different system prompt or different tools"
        return ""

    def _maker_other_than(self, model: Model) -> str:
        """ "" if that model wrote it, or if the model name is not known."""
        maker = find_model(self._thoughts[0].model)
        return maker.id if maker is not None and maker.id != model.id else ""

    def _forget(self, edit: ThinkingDropped) -> None:
        self._dropped = True
        del self._thoughts[self._range(edit)]
        if not self._thoughts[self._index(self._broken_since) if self._broken_since else 0 :]:
            self._broken = self._broken_since = ""
        if not self._thoughts:
            self._asks_replies = False

    def _range(self, edit: ThinkingDropped) -> slice:
        """From `since` on; from the start if it is not in view, as in `view/flatten.py`."""
        return slice(self._index(edit.since), self._index(edit.until) if edit.until else None)

    def _index(self, uuid: str) -> int:
        number = self._numbers.get(uuid, 0)
        return bisect_left(self._thoughts, number, key=lambda each: each.number)


def _is_said_by_person(record: Record) -> bool:
    if record.kind != "user" or record.meta or not is_sent(record):
        return False
    return not any(block.is_result for block in record.blocks)


# ── what a request had that the next one has not ─────────────────────────────────────────────────


def explain_removed(records: Sequence[Record]) -> str:
    """Why thinking that the last request had was dropped since; "" if it was not. The thinking of the last
    reply itself was in no request.
    """
    dropped: list[ThinkingDropped] = []
    reply: set[str] = set()
    message = ""
    for record in reversed(records):
        if isinstance(record.edit, ThinkingDropped) and not reply:
            dropped.append(record.edit)
        elif record.kind == "assistant" and record.message_id:
            message = message or record.message_id
            if record.message_id != message:
                break
            reply.add(record.uuid)
    return next((edit.why for edit in dropped if edit.since not in reply), "")


def shows_thinking(messages: Sequence[Message]) -> bool:
    """Whether a model that keeps only the last turn's thinking is shown any in these messages."""
    shown = messages[find_last_prompt(messages) :]
    return any(block.is_thinking for message in shown for block in message.blocks)
