"""A recorded session as a list of calls: one per response, with everything before it as input (RP-2)."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Literal

import msgspec

from everturn.history.log import Log
from everturn.history.messages import Message
from everturn.history.records import Record, Usage, fuller_usage, name_responses, record_time, reported_usage
from everturn.history.threads import Thread
from everturn.view.flatten import Flattener


class RecordedCall(msgspec.Struct, frozen=True):
    """The input of one response and the usage it reported. `first` is its first record."""

    number: int
    first: Record
    at: datetime | None
    model: str
    usage: Usage
    messages: tuple[Message, ...]
    # Whether the view was replaced since the previous call (by a compaction or an undo).
    view_is_new: bool
    # Whether results were cleared since the previous call.
    was_cleared: bool


def iter_calls(thread: Thread, which: Literal["reported", "all"] = "reported") -> Iterator[RecordedCall]:
    """The calls of a thread. A response is split over several records.

    Many files record no usage. With "all", calls without usage are included, with all counts at zero.
    """
    log, flattener = Log(), Flattener()
    names = name_responses(thread.records)
    usages = _unreported(names) if which == "all" else {}
    usages |= _reported(thread.records, names)
    seen: set[str] = set()
    number, is_new, was_cleared = 0, False, False
    for record, name in zip(thread.records, names, strict=True):
        usage = usages.get(name)
        if usage is not None and name not in seen:
            seen.add(name)
            number += 1
            model = record.reply.model if record.reply else ""
            messages = tuple(flattener.since(0))
            yield RecordedCall(
                number, record, record_time(record), model, usage, messages, is_new, was_cleared
            )
            is_new = was_cleared = False
        before = len(log.view.cleared)
        if log.append(record) == "replaced":
            is_new = True
            flattener = Flattener(hidden=log.view.cleared, offloaded=log.view.offloaded)
            for shown in log.view.records:
                flattener.add(shown)
        elif not record.is_boundary:
            flattener.add(record)
        was_cleared = was_cleared or len(log.view.cleared) > before


def _unreported(names: Iterable[str]) -> dict[str, Usage]:
    """Every response of a model, with or without recorded usage."""
    return {name: Usage() for name in names if name}


def _reported(records: Sequence[Record], names: Sequence[str]) -> dict[str, Usage]:
    """Usage by response."""
    found: dict[str, Usage] = {}
    for record, name in zip(records, names, strict=True):
        if name and (usage := reported_usage(record)):
            found[name] = fuller_usage(found.get(name), usage)
    return found


def with_calls(records: Sequence[Record]) -> Iterator[tuple[Record, Usage | None]]:
    """The records in order; the first one of each response comes with the usage of its call."""
    names = name_responses(records)
    # A file without any usage still has calls; theirs is empty.
    usages = _reported(records, names) or _unreported(names)
    seen: set[str] = set()
    for record, name in zip(records, names, strict=True):
        is_first = name in usages and name not in seen
        seen.add(name)
        yield record, usages[name] if is_first else None
