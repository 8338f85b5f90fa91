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
    """What one response was given and what it reported. `first` is its first record."""

    number: int
    first: Record
    at: datetime | None
    model: str
    usage: Usage
    messages: tuple[Message, ...]
    # Whether the view was another one than at the call before: a compaction, an undo.
    view_is_new: bool
    # Whether results were cleared since the call before.
    was_cleared: bool


def iter_calls(thread: Thread, which: Literal["reported", "all"] = "reported") -> Iterator[RecordedCall]:
    """The calls of a thread. A response is split over several records; the last of them knows its usage.

    Many files know no usage: with "all" their calls are told too, with a usage of nothing.
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
    """Every response that a model gave, whether or not its usage was written down."""
    return {
        record.message_id: Usage()
        for record in records
        if record.reply and record.message_id and not record.reply.is_synthetic and not record.api_error
    }


def _last_usages(records: Sequence[Record]) -> dict[str, Usage]:
    """Usage by message id. Lines are written while streaming: the last one knows most."""
    found: dict[str, Usage] = {}
    for record in records:
        if record.message_id and (usage := reported_usage(record)):
            found[record.message_id] = usage
    return found
