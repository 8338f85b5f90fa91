"""Events as counters of Prometheus. An extra: pip install 'everturn[metrics]'.

Labels take few values each, all of them ours: no session, no path, no word that anybody said. A label whose
values are not known beforehand would make a new series for each.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from everturn.decide.events import (
    BreakerOpened,
    CacheBroken,
    CompactionDone,
    CompactionNotDone,
    Event,
    HookTrouble,
    MicroCompacted,
    NotesRejected,
    NotesTaken,
    PredictionMissed,
    Repaired,
)
from everturn.errors import UsageError
from everturn.session.events.fan_out import Sink


class CounterIncrement(NamedTuple):
    """What one event adds to one counter: labels and an amount, as often as needed."""

    labels: tuple[str, ...]
    amount: float = 1


class Metric(NamedTuple):
    name: str
    about: str
    event: type[Event]
    labels: tuple[str, ...]
    # Any: each row takes the event that it names.
    count: Callable[[Any], list[CounterIncrement]]


def _tokens_of_summary(event: CompactionDone | CompactionNotDone) -> list[CounterIncrement]:
    usage = event.usage
    kinds = {
        "input": usage.input_tokens,
        "cache_read": usage.cache_read_input_tokens,
        "cache_write": usage.cache_creation_input_tokens,
        "output": usage.output_tokens,
    }
    return [CounterIncrement((kind,), tokens) for kind, tokens in kinds.items() if tokens]


# One row for each counter. Names get `_total` from the client.
METRICS: Final[tuple[Metric, ...]] = (
    Metric("everturn_micro_compactions", "Micro-compactions.", MicroCompacted, ("kind",),
           lambda e: [CounterIncrement((e.kind,))]),
    Metric("everturn_micro_compaction_saved_tokens", "Tokens that micro-compactions took out of contexts.",
           MicroCompacted, ("kind",), lambda e: [CounterIncrement((e.kind,), e.tokens_saved)]),
    Metric("everturn_compactions", "Compactions.", CompactionDone, ("trigger", "form", "way"),
           lambda e: [CounterIncrement((e.trigger, e.form, e.way))]),
    Metric("everturn_compaction_saved_tokens", "Tokens that compactions took out.", CompactionDone,
           ("way",), lambda e: [CounterIncrement((e.way,), max(0, e.tokens_before - e.tokens_after))]),
    Metric("everturn_summary_tokens", "Tokens of the calls that wrote summaries.", CompactionDone, ("kind",),
           _tokens_of_summary),
    Metric("everturn_failed_compactions", "Compactions that came to nothing.", CompactionNotDone,
           ("trigger", "reason"), lambda e: [CounterIncrement((e.trigger, e.reason))]),
    Metric("everturn_failed_summary_tokens", "Tokens of calls whose summary was not used.", CompactionNotDone,
           ("kind",), _tokens_of_summary),
    Metric("everturn_notes_taken", "Times that session notes were brought up to date.", NotesTaken, (),
           lambda e: [CounterIncrement(())]),
    Metric("everturn_notes_rejected", "Times that session notes could not be used.", NotesRejected, (),
           lambda e: [CounterIncrement(())]),
    Metric("everturn_cache_breaks", "Prompt caches found cold.", CacheBroken, ("cause",),
           lambda e: [CounterIncrement((e.cause,))]),
    Metric("everturn_cache_break_lost_tokens", "Tokens that had to be written again.", CacheBroken,
           ("cause",), lambda e: [CounterIncrement((e.cause,), e.tokens_lost)]),
    Metric("everturn_breakers_opened", "Times that automatic compaction stopped trying.", BreakerOpened,
           ("breaker",), lambda e: [CounterIncrement((e.breaker,))]),
    Metric("everturn_repairs", "Repairs of views that arrived broken.", Repaired, ("kind",),
           lambda e: [CounterIncrement((kind,), n) for kind, n in e.kinds.items()]),
    Metric("everturn_predictions_missed", "Calls whose cache use came out otherwise than predicted.",
           PredictionMissed, ("verdict",), lambda e: [CounterIncrement((e.verdict.replace(" ", "_"),))]),
    Metric("everturn_hook_problems", "Hooks that failed, were late, or blocked.", HookTrouble, ("hook",),
           lambda e: [CounterIncrement((e.hook,))]),
)  # fmt: skip


def prometheus_sink(registry: Any = None) -> Sink:
    """Counters in a registry; the client's own where none is given."""
    client = _client()
    where = {"registry": registry} if registry is not None else {}
    counters = {row.name: client.Counter(row.name, row.about, row.labels, **where) for row in METRICS}

    def tell(event: Event) -> None:
        for row in _rows(event):
            for counted in row.count(event):
                counter = counters[row.name]
                (counter.labels(*counted.labels) if row.labels else counter).inc(counted.amount)

    return tell


_BY_EVENT: Final[Mapping[type[Event], tuple[Metric, ...]]] = {
    row.event: tuple(each for each in METRICS if each.event is row.event) for row in METRICS
}


def _rows(event: Event) -> tuple[Metric, ...]:
    return _BY_EVENT.get(type(event), ())


def _client() -> Any:
    try:
        import prometheus_client
    except ModuleNotFoundError:
        raise UsageError(
            "Counting events needs the package 'prometheus-client', which is not installed: "
            "pip install 'everturn[metrics]' brings it."
        ) from None
    return prometheus_client
