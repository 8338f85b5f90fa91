"""Build the event sinks that the options enable (TL-2)."""

from collections.abc import Callable
from typing import Any

import msgspec

from everturn.decide.events import EventContext
from everturn.decide.options import EventSettings
from everturn.history.records import Record
from everturn.session.events.fan_out import FanOut, Sink, SinkProblem
from everturn.session.events.sinks import log_sink, transcript_sink


def build_sinks(
    settings: EventSettings,
    *,
    append: Callable[[Record], None],
    new_id: Callable[[], str],
    last: Callable[[], Record | None],
    report: Callable[[SinkProblem], None],
) -> FanOut:
    """Raises `UsageError` if a sink needs a package that is not installed."""
    content = settings.content
    sinks: list[tuple[str, Sink]] = []
    if settings.log:
        sinks.append(("log", log_sink(content=content)))
    if settings.transcript:
        sinks.append(("transcript", transcript_sink(append, new_id=new_id, last=last, content=content)))
    if settings.prometheus:
        from everturn.session.events.prometheus import prometheus_sink

        sinks.append(("prometheus", prometheus_sink()))
    if settings.otel:
        from everturn.session.events.otel import otel_sink

        sinks.append(("otel", otel_sink(content=content)))
    return FanOut(sinks, report)


def with_session(event: Any, session: str) -> Any:
    """Add the session id to an event that has none: flows do not know the id (TL-1)."""
    moment = getattr(event, "moment", None)
    if not isinstance(moment, EventContext) or moment.session:
        return event
    return msgspec.structs.replace(event, moment=msgspec.structs.replace(moment, session=session))
