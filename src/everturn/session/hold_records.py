"""Holds in a transcript: the model never sees them, but they were paid.

A hold is written when it is answered, by whoever has sent it. What it cost is otherwise part of the state
that a session writes with its next step; if the process is ended before, the transcript tells it.
"""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from everturn.history.records import Record, Usage
from everturn.session.events.sinks import FIELD, SUBTYPE


class _HeldFields(msgspec.Struct, frozen=True):
    event: str = ""
    at: datetime | None = None
    model: str = ""
    dollars: float = 0.0
    usage: Usage | None = None


class _HoldLine(msgspec.Struct, frozen=True):
    told: _HeldFields = msgspec.field(default=_HeldFields(), name=FIELD)


class RecordedHold(msgspec.Struct, frozen=True):
    """What one hold has cost; when it was sent and which model was asked, as far as the line has it."""

    dollars: float
    usage: Usage
    model: str = ""
    at: datetime | None = None


def read_holds(records: Iterable[Record]) -> list[RecordedHold]:
    """The holds that were paid, in order."""
    lines = (record.raw for record in records if record.subtype == SUBTYPE and b'"cache_held"' in record.raw)
    return [found for line in lines if (found := _read(line)) is not None]


def _read(line: bytes) -> RecordedHold | None:
    try:
        told = msgspec.json.decode(line, type=_HoldLine).told
    except (ValueError, RecursionError, msgspec.MsgspecError):
        return None
    return RecordedHold(told.dollars, told.usage, told.model, told.at) if told.usage is not None else None
