"""Sinks without optional dependencies: the transcript, and a log with one JSON object per line (TL-2)."""

import logging
from collections.abc import Callable, Mapping
from datetime import UTC
from typing import Any, Final

import msgspec

from everturn.decide.events import (
    BreakerOpened,
    CacheBroken,
    CompactionNotDone,
    Event,
    ForksRepeated,
    HoldChecked,
    HookTrouble,
    KeyChangesRepeated,
    PassedThrough,
    TranscriptDamaged,
    TranscriptShared,
)
from everturn.history.records import Record
from everturn.session.events.fan_out import Sink
from everturn.session.events.serialize import ContentMode, event_name, serialize_event
from everturn.wire.claude_code_writer import encode_record

LOGGER: Final = "everturn.events"
# Events that are logged as warnings; all others as info.
WARNINGS: Final = (
    CompactionNotDone,
    CacheBroken,
    KeyChangesRepeated,
    BreakerOpened,
    HookTrouble,
    PassedThrough,
    ForksRepeated,
    TranscriptDamaged,
    TranscriptShared,
)
SUBTYPE: Final = "everturn_event"
FIELD: Final = "everturnEvent"


def level_of(event: Event) -> int:
    is_lost_hold = isinstance(event, HoldChecked) and not event.kept
    return logging.WARNING if is_lost_hold or isinstance(event, WARNINGS) else logging.INFO


def log_sink(logger: logging.Logger | None = None, content: ContentMode = "omitted") -> Sink:
    """Log each event as one line of JSON, so that no text in it can forge a log line."""
    target = logger or logging.getLogger(LOGGER)

    def tell(event: Event) -> None:
        level = level_of(event)
        if target.isEnabledFor(level):
            target.log(level, "%s", msgspec.json.encode(serialize_event(event, content)).decode())

    return tell


def transcript_sink(
    append: Callable[[Record], None],
    *,
    new_id: Callable[[], str],
    last: Callable[[], Record | None],
    content: ContentMode = "omitted",
) -> Sink:
    """Append each event as a system record after the last one. The model never sees it, and other tools
    ignore it."""

    def tell(event: Event) -> None:
        append(event_record(serialize_event(event, content), event, uuid=new_id(), after=last()))

    return tell


def event_record(fields: Mapping[str, Any], event: Event, *, uuid: str, after: Record | None) -> Record:
    bare = Record(
        kind="system",
        uuid=uuid,
        parent=after.uuid if after else "",
        timestamp=event.moment.at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        session=after.session if after else event.moment.session,
        agent=after.agent if after else "",
        sidechain=after.sidechain if after else False,
        subtype=SUBTYPE,
    )
    line = msgspec.json.decode(encode_record(bare))
    line |= {"content": event_name(event), FIELD: dict(fields)}
    return msgspec.structs.replace(bare, raw=msgspec.json.encode(line))
