"""What is in sight in one thread of a replay, and what is left of it at the end (RP-6, RP-7).

What counts as a use is decided in `replay/refetches/`; here the player's events are told to it.
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
    def fetched_as(self, fault: Refetch, name: str) -> None: ...
    def faults(self, call: int) -> tuple[Refetch, ...]: ...


class RefetchTracker:
    """Told everything that happens to the view; asked what a call misses."""

    def __init__(self, visible: _Visible, numbers: Mapping[str, int]) -> None:
        self._visible = visible
        # Calls are known to the index of uses by the records of their replies.
        self._numbers = numbers

    def saw(self, records: Iterable[Record], view: View) -> None:
        """These records were appended, and this is the view now."""
        is_replaced = False
        for record in records:
            self._visible.see(record)
            is_replaced = is_replaced or record.compact_summary or isinstance(record.edit, Trimmed | Undone)
        if is_replaced:
            self._visible.show(view)

    def missing(self, act: ReplayStep) -> tuple[Refetch, ...]:
        """What a call uses and does not see. From here on it is in sight: it is fetched."""
        number = next((self._numbers[each.uuid] for each in act.reply if each.uuid in self._numbers), 0)
        return self._visible.faults(number)

    def fetched(self, faults: Iterable[Refetch], call: str) -> None:
        for fault in faults:
            self._visible.fetched_as(fault, call)


class _NoRefetches:
    """No uses are known: nothing is ever missing."""

    def see(self, record: Record) -> None: ...
    def show(self, view: View) -> None: ...
    def fetched_as(self, fault: Refetch, name: str) -> None: ...
    def faults(self, call: int) -> tuple[Refetch, ...]:
        return ()


def make_tracker(uses: SessionUses | None, thread: int) -> RefetchTracker:
    if uses is None:
        return RefetchTracker(_NoRefetches(), {})
    return RefetchTracker(Visibility(uses, thread), uses.thread(thread).numbers)


def measure_retained(view: View, whole: ReplayThread) -> dict[str, RetainedCount]:
    """What mattered in the whole thread and still stands in what would be sent now (BY-6)."""
    shown = flatten(view).messages
    text = "\n".join(_words(block) for message in shown for block in message.blocks)
    parts = measure_retention(tuple(all_records(whole)), text).parts
    return {name: RetainedCount(parts[name].kept, parts[name].total) for name in _KEPT}


def _words(block: Block) -> str:
    """Everything in a block that could name something: a call's input is part of it."""
    return text_of(block) or (block.raw.decode(errors="replace") if block.is_call else "")
