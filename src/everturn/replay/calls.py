"""A recorded session as a list of calls: one per response, with everything before it as input (RP-2)."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Literal

import msgspec

from everturn.history.log import Log
from everturn.history.messages import Message
from everturn.history.records import Record, Usage, record_time, reported_usage
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
    """The calls of a thread. A response is split over several records; the last one has its final usage.

    Many files record no usage. With "all", calls without usage are included, with all counts at zero.
    """
    log, flattener = Log(), Flattener()
    usages = _unreported(thread.records) if which == "all" else {}
    usages |= _last_usages(thread.records)
    seen: set[str] = set()
    number, is_new, was_cleared = 0, False, False
    for record in thread.records:
        usage = usages.get(record.message_id)
        if record.kind == "assistant" and usage is not None and record.message_id not in seen:
            seen.add(record.message_id)
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


def _unreported(records: Sequence[Record]) -> dict[str, Usage]:
    """Every response of a model, with or without recorded usage."""
    return {
        record.message_id: Usage()
        for record in records
        if record.reply and record.message_id and not record.reply.is_synthetic and not record.api_error
    }


def _last_usages(records: Sequence[Record]) -> dict[str, Usage]:
    """Usage by message id. Lines are written during streaming, so the last one is the most complete."""
    found: dict[str, Usage] = {}
    for record in records:
        if record.message_id and (usage := reported_usage(record)):
            found[record.message_id] = usage
    return found


def with_calls(records: Sequence[Record]) -> Iterator[tuple[Record, Usage | None]]:
    """The records in order; the first one of each response comes with the usage of its call."""
    # A file without any usage still has calls; theirs is empty.
    usages = _last_usages(records) or _unreported(records)
    seen: set[str] = set()
    for record in records:
        usage = usages.get(record.message_id) if record.kind == "assistant" else None
        if usage is not None and record.message_id not in seen:
            seen.add(record.message_id)
            yield record, usage
        else:
            yield record, None
