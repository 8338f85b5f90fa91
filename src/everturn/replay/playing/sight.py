"""What is in sight in one thread of a replay, and what is left of it at the end (RP-6, RP-7).

What counts as a use is decided in `replay/uses/`; here the player's events are told to it.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from everturn.decide.retention import retention
from everturn.history.blocks import Block, text_of
from everturn.history.edits import Trimmed, Undone
from everturn.history.log import View
from everturn.history.records import Record
from everturn.replay.playing.acts import Act, Acts, all_records
from everturn.replay.simulated import Left
from everturn.replay.uses import Fault, SessionUses, Visibility
from everturn.view.flatten import flatten

_KEPT: Final = ("user_instructions", "paths", "identifiers", "errors")


class _Visible(Protocol):
    def see(self, record: Record) -> None: ...
    def show(self, view: View) -> None: ...
    def fetched_as(self, fault: Fault, name: str) -> None: ...
    def faults(self, call: int) -> tuple[Fault, ...]: ...


class Sight:
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

    def missing(self, act: Act) -> tuple[Fault, ...]:
        """What a call uses and does not see. From here on it is in sight: it is fetched."""
        number = next((self._numbers[each.uuid] for each in act.reply if each.uuid in self._numbers), 0)
        return self._visible.faults(number)

    def fetched(self, faults: Iterable[Fault], call: str) -> None:
        for fault in faults:
            self._visible.fetched_as(fault, call)


class _Blind:
    """No uses are known: nothing is ever missing."""

    def see(self, record: Record) -> None: ...
    def show(self, view: View) -> None: ...
    def fetched_as(self, fault: Fault, name: str) -> None: ...
    def faults(self, call: int) -> tuple[Fault, ...]:
        return ()


def sight(uses: SessionUses | None, thread: int) -> Sight:
    if uses is None:
        return Sight(_Blind(), {})
    return Sight(Visibility(uses, thread), uses.thread(thread).numbers)


def left_in(view: View, whole: Acts) -> dict[str, Left]:
    """What mattered in the whole thread and still stands in what would be sent now (BY-6)."""
    shown = flatten(view).messages
    text = "\n".join(_words(block) for message in shown for block in message.blocks)
    parts = retention(tuple(all_records(whole)), text).parts
    return {name: Left(parts[name].kept, parts[name].total) for name in _KEPT}


def _words(block: Block) -> str:
    """Everything in a block that could name something: a call's input is part of it."""
    return text_of(block) or (block.raw.decode(errors="replace") if block.is_call else "")
