"""Tracks what is visible in one thread of a replay, and what remains of it at the end (RP-6, RP-7).

What counts as a use is defined in `replay/refetches/`; this module passes the player's events to it.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from everturn.decide.retention import measure_retention
from everturn.history.blocks import Block, text_of
from everturn.history.edits import Trimmed, Undone
from everturn.history.log import View
from everturn.history.records import Record
from everturn.replay.playing.steps import ReplayStep, ReplayThread, all_records
from everturn.replay.refetches import Refetch, SessionUses, Visibility
from everturn.replay.runs import RetainedCount
from everturn.view.flatten import flatten

_KEPT: Final = ("user_instructions", "paths", "identifiers", "errors")


class _Visible(Protocol):
    def see(self, record: Record) -> None: ...
    def show(self, view: View) -> None: ...
    def fetched_as(self, refetch: Refetch, name: str) -> None: ...
    def refetch(self, call: int) -> tuple[Refetch, ...]: ...


class RefetchTracker:
    """Receives every change of the view and returns what a call is missing."""

    def __init__(self, visible: _Visible, numbers: Mapping[str, int]) -> None:
        self._visible = visible
        # The index of uses identifies calls by the records of their replies.
        self._numbers = numbers

    def observe(self, records: Iterable[Record], view: View) -> None:
        """These records were appended; `view` is the view after that."""
        is_replaced = False
        for record in records:
            self._visible.see(record)
            is_replaced = is_replaced or record.compact_summary or isinstance(record.edit, Trimmed | Undone)
        if is_replaced:
            self._visible.show(view)

    def refetch_missing(self, step: ReplayStep) -> tuple[Refetch, ...]:
        """What a call uses and does not see. After this call it counts as fetched and visible."""
        number = next((self._numbers[each.uuid] for each in step.reply if each.uuid in self._numbers), 0)
        return self._visible.refetch(number)

    def mark_fetched(self, refetches: Iterable[Refetch], call: str) -> None:
        for refetch in refetches:
            self._visible.fetched_as(refetch, call)


class _NoRefetches:
    """Used without an index of uses: nothing is ever missing."""

    def see(self, record: Record) -> None: ...
    def show(self, view: View) -> None: ...
    def fetched_as(self, refetch: Refetch, name: str) -> None: ...
    def refetch(self, call: int) -> tuple[Refetch, ...]:
        return ()


def make_tracker(uses: SessionUses | None, thread: int) -> RefetchTracker:
    if uses is None:
        return RefetchTracker(_NoRefetches(), {})
    return RefetchTracker(Visibility(uses, thread), uses.thread(thread).numbers)


def measure_retained(view: View, whole: ReplayThread) -> dict[str, RetainedCount]:
    """Which important items of the whole thread are still in what would be sent now (BY-6)."""
    shown = flatten(view).messages
    text = "\n".join(_words(block) for message in shown for block in message.blocks)
    parts = measure_retention(tuple(all_records(whole)), text).parts
    return {name: RetainedCount(parts[name].kept, parts[name].total) for name in _KEPT}


def _words(block: Block) -> str:
    """The text of a block, including the input of a tool call."""
    return text_of(block) or (block.raw.decode(errors="replace") if block.is_call else "")
