"""What the gateway counts, for Prometheus and for the line at the end of `everturn run` (GW-21).

Labels have few values: no session ids, paths or message texts. Reasons are sentences of our own; digits in
them are replaced, and their number is limited.
"""

import re
from collections import Counter as Tally
from decimal import Decimal
from threading import Lock
from typing import Any, Final

import prometheus_client

from everturn.decide.events import Event
from everturn.errors import StoreUnavailable
from everturn.gateway.memory import ConversationMemory
from everturn.history.records import Usage
from everturn.session.events.prometheus import prometheus_sink

MAX_REASONS: Final = 40
# So many times wait for somebody who asks. Our choice.
MAX_WAITING: Final = 1000
_TOKEN_KINDS: Final = ("input", "cache_read", "cache_write", "output")
_OTHER: Final = "other"
# To the last of several ends: what a client wrote may have brackets and quotes in it.
_VARIABLE: Final = re.compile(r"\d+|\(.*\)|'.*'|\".*\"", re.DOTALL)
_BUCKETS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1, 5, 30, 120)


class _Waiting:
    """What was counted since somebody asked for the metrics. To count with the client takes several calls and
    a lock each time, and requests come more often than questions."""

    def __init__(self) -> None:
        # By endpoint, mode and status.
        self.requests: Tally[tuple[str, str, str]] = Tally()
        # Mode and seconds.
        self.added: list[tuple[str, float]] = []
        self.tokens: Tally[str] = Tally()
        self.dollars: dict[str, float] = {}


class GatewayMetrics:
    """Safe to use from threads."""

    def __init__(self) -> None:
        # Any: the client's registry has no complete types.
        self.registry: Any = prometheus_client.CollectorRegistry()
        self._lock = Lock()
        # Requests that were relayed and not understood, and what went wrong, each by reason.
        self.passed_through: Tally[str] = Tally()
        self.degradations: Tally[str] = Tally()
        self.saved = Decimal()
        self.calls = 0
        # Input tokens of all calls, and those of them that were read from the cache.
        self._context = self._read = 0
        self._open = 0
        self._is_store_up = True
        self._waiting = _Waiting()
        # Before all metrics: it is asked first.
        self.registry.register(self)
        self._sink = prometheus_sink(self.registry)
        self._build()

    def collect(self) -> tuple[()]:
        """For the registry: bring the metrics up to date."""
        with self._lock:
            waiting, self._waiting = self._waiting, _Waiting()
        for labels, count in waiting.requests.items():
            self._requests.labels(*labels).inc(count)
        for mode, seconds in waiting.added:
            self._added.labels(mode).observe(seconds)
        for kind, count in waiting.tokens.items():
            self._tokens.labels(kind).inc(count)
        for purpose, dollars in waiting.dollars.items():
            self._dollars.labels(purpose).inc(dollars)
        return ()

    def _build(self) -> None:
        def make(kind: Any, name: str, about: str, labels: tuple[str, ...] = (), **options: Any) -> Any:
            return kind(f"everturn_gateway_{name}", about, labels, registry=self.registry, **options)

        counter, gauge = prometheus_client.Counter, prometheus_client.Gauge
        self._requests = make(counter, "requests", "Requests.", ("endpoint", "mode", "status"))
        self._added = make(
            prometheus_client.Histogram, "added_seconds", "Time until a request was sent on.", ("mode",),
            buckets=_BUCKETS,
        )  # fmt: skip
        open_requests = make(gauge, "open_requests", "Requests that are being served.")
        open_requests.set_function(lambda: self._open)
        self._tokens = make(counter, "tokens", "Tokens that the API reported.", ("kind",))
        for kind in _TOKEN_KINDS:
            self._tokens.labels(kind)
        self._dollars = make(counter, "dollars", "Cost of all calls, summaries included.", ("purpose",))
        self._saved = make(gauge, "dollars_saved_net", "Estimated saving, less the cost of summaries.")
        self._passed = make(counter, "passed_through", "Requests not understood.", ("reason",))
        self._degraded = make(counter, "degradations", "What failed and was worked around.", ("reason",))
        self._store = make(gauge, "store_up", "1: the store of conversations answered last time; 0: not.")
        self._store.set(1)
        self._conversations = make(gauge, "conversations", "Conversations in memory.")
        self._bytes = make(gauge, "conversation_bytes", "Bytes of the conversations in memory, about.")
        ratio = make(gauge, "cache_hit_ratio", "Share of input read from the prompt cache.")
        ratio.set_function(lambda: self.hit_ratio)

    # ── requests ─────────────────────────────────────────────────────────────────────────────────

    @property
    def running(self) -> int:
        """Requests that are being served."""
        return self._open

    def begin(self) -> None:
        """On the event loop, as `end`."""
        self._open += 1

    def end(self, endpoint: str, mode: str, status: int) -> None:
        self._open -= 1
        with self._lock:
            self._waiting.requests[endpoint, mode, str(status)] += 1

    def observe_added(self, mode: str, seconds: float) -> None:
        with self._lock:
            self._waiting.added.append((mode, seconds))
            is_full = len(self._waiting.added) >= MAX_WAITING
        if is_full:
            self.collect()

    def pass_through(self, reason: str) -> None:
        with self._lock:
            label = _label(self.passed_through, reason)
            self.passed_through[label] += 1
        self._passed.labels(label).inc()

    def degrade(self, reason: str) -> None:
        with self._lock:
            label = _label(self.degradations, reason)
            self.degradations[label] += 1
        self._degraded.labels(label).inc()

    def note_store(self, problem: Exception | None) -> None:
        """What came of the last work on a conversation."""
        is_up = not isinstance(problem, StoreUnavailable)
        if is_up != self._is_store_up:
            self._is_store_up = is_up
            self._store.set(int(is_up))

    def watch_memory(self, memory: ConversationMemory) -> None:
        """Counted when somebody asks."""
        self._conversations.set_function(lambda: memory.measure().conversations)
        self._bytes.set_function(lambda: memory.measure().bytes)

    # ── money ────────────────────────────────────────────────────────────────────────────────────

    def add_usage(self, usage: Usage) -> None:
        with self._lock:
            self.calls += 1
            self._read += usage.cache_read_input_tokens
            self._context += usage.context
            tokens = self._waiting.tokens
            tokens["input"] += max(0, usage.input_tokens)
            tokens["cache_read"] += max(0, usage.cache_read_input_tokens)
            tokens["cache_write"] += max(0, usage.cache_creation_input_tokens)
            tokens["output"] += max(0, usage.output_tokens)

    def add_dollars(self, purpose: str, dollars: Decimal) -> None:
        with self._lock:
            waiting = self._waiting.dollars
            waiting[purpose] = waiting.get(purpose, 0.0) + float(dollars)

    def add_saved(self, dollars: Decimal) -> None:
        with self._lock:
            self.saved += dollars
            self._saved.set(float(self.saved))

    def listen(self, event: Event) -> None:
        """Count an event of the engine: breaks by reason, compactions, repairs."""
        self._sink(event)

    def write(self) -> bytes:
        return prometheus_client.generate_latest(self.registry)

    @property
    def hit_ratio(self) -> float:
        """The share of input tokens that was read from the prompt cache."""

        with self._lock:
            return self._read / self._context if self._context else 0.0


def _label(known: "Tally[str]", reason: str) -> str:
    label = _VARIABLE.sub("N", reason)[:80]
    return label if label in known or len(known) < MAX_REASONS else _OTHER
