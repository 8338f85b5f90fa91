"""Events as OpenTelemetry spans. An extra: pip install 'everturn[otel]'.

The GenAI attribute names still change upstream, so all of them are in one table. "Input tokens" differ: in
the API they are only the uncached part, in OpenTelemetry they are the total.
"""

from collections.abc import Mapping
from typing import Any, Final

from everturn.decide.events import CompactionNotDone, Event
from everturn.errors import UsageError
from everturn.history.records import Usage
from everturn.session.events.fan_out import Sink
from everturn.session.events.serialize import ContentMode, flatten_fields, serialize_event

PROVIDER: Final = "anthropic"
# Our field, and its name in the semantic conventions (0.66b2; ecosystem 2.6).
NAMES: Final[Mapping[str, str]] = {
    "session": "gen_ai.conversation.id",
    "model": "gen_ai.request.model",
    "usage.output_tokens": "gen_ai.usage.output_tokens",
    "usage.cache_read_input_tokens": "gen_ai.usage.cache_read.input_tokens",
    # The later drafts say cache_write.
    "usage.cache_creation_input_tokens": "gen_ai.usage.cache_creation.input_tokens",
}
TOTAL_INPUT: Final = "gen_ai.usage.input_tokens"
OPERATION: Final = "gen_ai.operation.name"


def otel_sink(tracer: Any = None, content: ContentMode = "omitted") -> Sink:
    """Record each event as a span of zero length; a failed compaction has an error type."""
    tracer = tracer or _tracer()

    def tell(event: Event) -> None:
        fields = serialize_event(event, content)
        moment = int(event.moment.at.timestamp() * 1_000_000_000)
        span = tracer.start_span(
            f"everturn.{fields['event']}", attributes=attributes(event, fields), start_time=moment
        )
        span.end(end_time=moment)

    return tell


def attributes(event: Event, fields: Mapping[str, Any]) -> dict[str, Any]:
    plain = flatten_fields({name: value for name, value in fields.items() if name not in ("event", "at")})
    # The API's input count is only the uncached part; the total replaces it below.
    plain.pop("usage.input_tokens", None)
    named = {NAMES.get(name, f"everturn.{name}"): value for name, value in plain.items()}
    named["gen_ai.provider.name"] = PROVIDER
    usage = getattr(event, "usage", None)
    if isinstance(usage, Usage):
        named |= {TOTAL_INPUT: usage.context, OPERATION: "chat"}
    if isinstance(event, CompactionNotDone):
        named["error.type"] = event.reason
    return named


def _tracer() -> Any:
    try:
        from opentelemetry import trace
    except ModuleNotFoundError:
        raise UsageError(
            "Sending events to OpenTelemetry needs the package 'opentelemetry-api', which is not installed: "
            "pip install 'everturn[otel]' brings it."
        ) from None
    return trace.get_tracer("everturn")
