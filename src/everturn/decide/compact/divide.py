"""Where a view is divided: what is summarized and what is kept, never through a round (CP-12).

`at` is the first record behind the cut. Forms: `values.py`; whether to compact at all: `triggers.py`.
"""

from collections.abc import Sequence

import msgspec

from everturn.decide.compact.values import CompactionRequest, CompactionSkipped
from everturn.history.blocks import text_of
from everturn.history.log import View
from everturn.history.messages import is_blank
from everturn.history.records import Record
from everturn.history.rounds import find_cut_points
from everturn.view.flatten import is_sent


class Division(msgspec.Struct, frozen=True):
    """Both sides of a cut. `moved` says where and why the cut is not where it was asked for."""

    summarized: tuple[Record, ...]
    kept: tuple[Record, ...] = ()
    moved: str = ""


def divide_view(view: View, asked: CompactionRequest) -> Division | CompactionSkipped:
    records = tuple(view.records)
    if asked.form == "full":
        return _checked(Division(records))
    places = [at for at, record in enumerate(records) if record.uuid == asked.at]
    if not places:
        return CompactionSkipped(
            f"The view has no record {asked.at!r} to divide it at. Name one that the model can still see."
        )
    cut = _nearest_cut(records, places[0], asked)
    moved = "" if cut == places[0] else _moved(records, places[0], cut)
    # The old boundary stays behind: its place is taken by the new one, whichever side it was on.
    first = 1 if view.boundary is not None else 0
    if asked.form == "from":
        return _checked(Division(records[cut:], records[first:cut], moved))
    return _checked(Division(records[:cut], records[cut:], moved))


def _nearest_cut(records: Sequence[Record], at: int, asked: CompactionRequest) -> int:
    """The nearest place that splits nothing; of two, the one that keeps more word for word."""
    prefer = -1 if asked.form == "up_to" else 1
    return min(find_cut_points(records), key=lambda cut: (abs(cut - at), -prefer * cut))


def _moved(records: Sequence[Record], wanted: int, cut: int) -> str:
    where = f"before {records[cut].uuid}" if cut < len(records) else "at the end"
    return f"record {records[wanted].uuid} lies inside a round, so the cut is {where}"


def _checked(found: Division) -> Division | CompactionSkipped:
    # A summary alone is nothing to summarize: it would only be told again.
    if not any(is_said(each) and not each.compact_summary for each in found.summarized):
        part = "part that would be summarized" if found.kept else "conversation"
        is_old = any(each.compact_summary for each in found.summarized)
        since = "nothing was said since the last compaction" if is_old else f"the {part} has no messages yet"
        return CompactionSkipped(f"There is nothing to compact: {since}.")
    return found


def is_said(record: Record) -> bool:
    """A message of the conversation that the model sees: no attachment and no bookkeeping."""
    is_message = record.kind in ("user", "assistant") and is_sent(record)
    return is_message and not all(map(is_blank, record.blocks))


def first_words(records: Sequence[Record], characters: int = 200) -> str:
    """How a stretch of the conversation begins, so that a summarizer can find the place."""
    for record in records:
        for block in record.blocks if is_said(record) else ():
            if words := " ".join(text_of(block).split()):
                return words[:characters]
    return ""


def messages_in(records: Sequence[Record]) -> int:
    """How many messages records are: pieces of one response count once."""
    return len({record.message_id or record.uuid for record in records if is_said(record)})
