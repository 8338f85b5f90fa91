"""Events as Prometheus counters. An extra: pip install 'everturn[metrics]'.

Labels have few values, all known in advance: no session ids, paths or message texts. Prometheus keeps a
separate series for every label value.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

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
    """One increment of a counter: its label values and the amount."""

    labels: tuple[str, ...]
    amount: float = 1


class Metric(NamedTuple):
    name: str
    about: str
    event: type[Event]
    labels: tuple[str, ...]
    # Any: each row takes the type of event it names; `_metric` checks that the two agree.
    increments: Callable[[Any], list[CounterIncrement]]


E = TypeVar("E", bound=Event)


def _metric(
    name: str,
    about: str,
    event: type[E],
    labels: tuple[str, ...],
    increments: Callable[[E], list[CounterIncrement]],
) -> Metric:
    return Metric(name, about, event, labels, increments)


def _tokens_of_summary(event: CompactionDone | CompactionNotDone) -> list[CounterIncrement]:
    usage = event.usage
    kinds = {
        "input": usage.input_tokens,
        "cache_read": usage.cache_read_input_tokens,
        "cache_write": usage.cache_creation_input_tokens,
        "output": usage.output_tokens,
    }
    return [CounterIncrement((kind,), tokens) for kind, tokens in kinds.items() if tokens]


# One row for each counter. The client appends `_total` to the names.
METRICS: Final[tuple[Metric, ...]] = (
    _metric("everturn_micro_compactions", "Micro-compactions.", MicroCompacted, ("kind",),
            lambda e: [CounterIncrement((e.kind,))]),
    _metric("everturn_micro_compaction_saved_tokens", "Tokens that micro-compactions removed.",
            MicroCompacted, ("kind",), lambda e: [CounterIncrement((e.kind,), e.tokens_saved)]),
    _metric("everturn_compactions", "Compactions.", CompactionDone, ("trigger", "form", "way"),
            lambda e: [CounterIncrement((e.trigger, e.form, e.way))]),
    _metric("everturn_compaction_saved_tokens", "Tokens that compactions removed.", CompactionDone,
            ("way",), lambda e: [CounterIncrement((e.way,), max(0, e.tokens_before - e.tokens_after))]),
    _metric("everturn_summary_tokens", "Tokens of the calls that wrote summaries.", CompactionDone, ("kind",),
            _tokens_of_summary),
    _metric("everturn_failed_compactions", "Compactions that failed.", CompactionNotDone,
            ("trigger", "reason"), lambda e: [CounterIncrement((e.trigger, e.reason))]),
    _metric("everturn_failed_summary_tokens", "Tokens of calls whose summary was not used.",
            CompactionNotDone, ("kind",), _tokens_of_summary),
    _metric("everturn_notes_taken", "Updates of session notes.", NotesTaken, (),
            lambda e: [CounterIncrement(())]),
    _metric("everturn_notes_rejected", "Updates of session notes that could not be used.", NotesRejected, (),
            lambda e: [CounterIncrement(())]),
    _metric("everturn_cache_breaks", "Unexpected cache misses.", CacheBroken, ("cause",),
            lambda e: [CounterIncrement((e.cause,))]),
    _metric("everturn_cache_break_lost_tokens", "Tokens that had to be written again.", CacheBroken,
            ("cause",), lambda e: [CounterIncrement((e.cause,), e.tokens_lost)]),
    _metric("everturn_breakers_opened", "Times that automatic compaction stopped trying.", BreakerOpened,
            ("breaker",), lambda e: [CounterIncrement((e.breaker,))]),
    _metric("everturn_repairs", "Repairs of invalid conversations.", Repaired, ("kind",),
            lambda e: [CounterIncrement((kind,), n) for kind, n in e.kinds.items()]),
    _metric("everturn_predictions_missed", "Calls whose cache use differed from the prediction.",
            PredictionMissed, ("verdict",), lambda e: [CounterIncrement((e.verdict.replace(" ", "_"),))]),
    _metric("everturn_hook_problems", "Hooks that failed, timed out, or blocked.", HookTrouble, ("hook",),
            lambda e: [CounterIncrement((e.hook,))]),
)  # fmt: skip


def prometheus_sink(registry: Any = None) -> Sink:
    """Count events in a registry; by default the client's own."""
    client = _client()
    counters = _counters_in(client.REGISTRY if registry is None else registry, client)

    def tell(event: Event) -> None:
        for row in _rows(event):
            for increment in row.increments(event):
                counter = counters[row.name]
                (counter.labels(*increment.labels) if row.labels else counter).inc(increment.amount)

    return tell


# A registry takes each name once, and all sessions of a process count in the same one.
_counters: "WeakKeyDictionary[Any, dict[str, Any]]" = WeakKeyDictionary()


def _counters_in(registry: Any, client: Any) -> dict[str, Any]:
    if registry not in _counters:
        _counters[registry] = {
            row.name: client.Counter(row.name, row.about, row.labels, registry=registry) for row in METRICS
        }
    return _counters[registry]


_BY_EVENT: Final[Mapping[type[Event], tuple[Metric, ...]]] = {
    row.event: tuple(each for each in METRICS if each.event is row.event) for row in METRICS
}


def _rows(event: Event) -> tuple[Metric, ...]:
    return _BY_EVENT.get(type(event), ())


def _client() -> Any:
    # Any: prometheus_client is an optional dependency, so a type checker may not find it.
    try:
        import prometheus_client
    except ModuleNotFoundError:
        raise UsageError(
            "Counting events needs the package 'prometheus-client', which is not installed: "
            "pip install 'everturn[metrics]' brings it."
        ) from None
    return prometheus_client
