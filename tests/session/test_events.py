"""Where events go: every sink, one that fails among them, and no word that anybody said."""

import builtins
import json
import logging
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import prometheus_client
import pytest
from builders import compute_view, user

from everturn.decide.compact.values import CompactionChain
from everturn.decide.events import (
    BreakerOpened,
    CacheBroken,
    CompactionDone,
    CompactionNotDone,
    Event,
    EventContext,
    MicroCompacted,
    NotesRejected,
    Repaired,
    Source,
)
from everturn.decide.retention import ScoredSummary
from everturn.errors import UsageError
from everturn.history.records import Record, Usage
from everturn.measure.tokens import TokenCounter
from everturn.redaction import MAX_CHARACTERS, REDACTED, redact_secrets
from everturn.session.events.fan_out import MAX_FAILURES, FanOut, SinkProblem
from everturn.session.events.otel import NAMES, otel_sink
from everturn.session.events.prometheus import METRICS, prometheus_sink
from everturn.session.events.serialize import ContentMode, event_name, flatten_fields, serialize_event
from everturn.session.events.sinks import FIELD, SUBTYPE, level_of, log_sink, transcript_sink
from everturn.wire.claude_code_reader import parse_session_file

WHEN = datetime(2026, 11, 15, 12, tzinfo=UTC)
NOW = EventContext(at=WHEN, session="session-7", model="claude-opus-5")
CANARY = "CANARY-WORDS-OF-A-MESSAGE"
KEY = "sk-ant-api03-CANARY-0123456789"
DONE = CompactionDone(
    moment=NOW,
    trigger="auto",
    form="full",
    way="fork",
    tokens_before=170_000,
    tokens_after=9_000,
    attempts=1,
    usage=Usage(10, 20, 30, 40),
    chain=CompactionChain(follows="b0"),
)


def made(kind: type[Event], private: str, plain: str) -> Event:
    """An event of this kind with these words wherever it takes words."""
    return msgspec.structs.replace(_built(kind, private, plain), moment=NOW)


def _built(kind: Any, private: str, plain: str) -> Any:
    hints = get_type_hints(kind, include_extras=True)
    fields = {f.name: _word(hints[f.name], private, plain) for f in msgspec.structs.fields(kind)}
    return kind(**fields)


def _word(hint: Any, private: str, plain: str) -> Any:
    if hint is Source:
        return ScoredSummary((user(private),), private)
    if getattr(hint, "__metadata__", None):
        return private
    arguments = get_args(hint)
    if get_origin(hint) is tuple:
        return (_word(arguments[0], private, plain),)
    if get_origin(hint) is not None and str(get_origin(hint)).endswith("Mapping'>"):
        return {_word(arguments[0], private, plain): 3}
    if hint is str:
        return plain
    if hint in (int, float, bool):
        return hint(1)
    if hint is datetime:
        return WHEN
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return _built(hint, private, plain)
    # A choice of fixed words, or something that need not be there.
    return next(part for part in arguments if isinstance(part, str)) if str in map(type, arguments) else None


class Span:
    def __init__(self, told: list[str], name: str, **more: Any) -> None:
        told.append(repr((name, more)))
        self.more = more

    def end(self, **more: Any) -> None:
        self.ended = more


class Tracer:
    """What we use of OpenTelemetry's."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.spans: list[tuple[str, Span]] = []

    def start_span(self, name: str, **more: Any) -> Span:
        span = Span(self.told, name, **more)
        self.spans.append((name, span))
        return span


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.levels: list[int] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
        self.levels.append(record.levelno)


def logger(level: int = logging.DEBUG) -> tuple[logging.Logger, Lines]:
    found, lines = logging.Logger("test", level), Lines()
    found.addHandler(lines)
    return found, lines


def transcript(records: list[Record], content: ContentMode = "omitted") -> Callable[[Event], None]:
    ids = iter(f"e{n}" for n in range(1_000))
    return transcript_sink(
        records.append,
        new_id=lambda: next(ids),
        last=lambda: records[-1] if records else None,
        content=content,
    )


# ── TL-3 ─────────────────────────────────────────────────────────────────────────────────────────


def everything_told(content: ContentMode) -> str:
    """All that all sinks say about all events, with a canary in every word of theirs."""
    target, lines = logger()
    records: list[Record] = []
    tracer, registry = Tracer(), prometheus_client.CollectorRegistry()
    sinks = {
        "transcript": transcript(records, content),
        "log": log_sink(target, content),
        "otel": otel_sink(tracer, content),
        "prometheus": prometheus_sink(registry),
    }
    fan_out = FanOut(list(sinks.items()))
    for kind in Event.__subclasses__():
        fan_out(made(kind, private=f"{CANARY} {KEY}", plain=f"our words {KEY}"))
    assert fan_out.problems == []
    metrics = prometheus_client.generate_latest(registry).decode()
    return "\n".join([*lines.lines, *tracer.told, *(record.raw.decode() for record in records), metrics])


@pytest.mark.spec("TL-3")
def test_no_content_and_no_secret_leaves_through_any_sink():
    said = everything_told("omitted")
    assert CANARY not in said
    assert KEY not in said
    assert "our words" in said


@pytest.mark.spec("TL-3")
def test_content_leaves_where_it_is_asked_for_and_secrets_do_not_even_then():
    said = everything_told("included")
    assert CANARY in said
    assert KEY not in said


@pytest.mark.spec("TL-3")
@pytest.mark.parametrize(
    "secret",
    [
        KEY,
        "ghp_abcdefghij0123456789",
        "github_pat_11AAAAAAA0abcdef",
        "xoxb-123456789012-abc",
        "AKIAIOSFODNN7EXAMPLE",
        "AIzaSyA-0123456789abcdefghijk",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefgh",
        "Bearer abcdefgh12345678",
        "Authorization: Basic dXNlcjpwYXNzd29yZA==",
        '"api_key": "hunter2hunter2"',
        "password=hunter2",
        "-----BEGIN RSA PRIVATE KEY-----",
        "https://me:hunter2@example.org/",
    ],
)
def test_what_looks_like_a_secret_is_struck_out(secret):
    found = redact_secrets(f"before {secret} after")
    assert REDACTED in found
    assert found.startswith("before ")
    tail = secret.split()[-1].strip('"')
    assert "hunter2" not in found
    assert tail not in found or tail == "KEY-----"


def test_ordinary_words_are_left_as_they_are():
    text = "read less: 4,000 tokens; the tools Task and mcp__files__read changed (sk-1); ask: https://x.org/a"
    assert redact_secrets(text) == text


def test_striking_out_costs_what_the_text_is_long():
    for text in (
        "sk-" * 2_000_000,
        "eyJ" * 2_000_000,
        "token" * 1_000_000,
        "://a:" * 1_000_000,
        "bearer " * 1_000_000,
    ):
        began = time.perf_counter()
        assert len(redact_secrets(text)) <= MAX_CHARACTERS + len(REDACTED) * 1_000
        assert time.perf_counter() - began < 1


def test_the_fields_of_an_event_are_plain_values():
    event = CompactionNotDone(
        moment=NOW, trigger="auto", form="full", reason="too_long", ways=("fork", "direct"), tokens_before=9,
        usage=Usage(1), chain=CompactionChain(), detail=CANARY,
    )  # fmt: skip
    fields = serialize_event(event)
    assert fields["event"] == "compaction_not_done"
    assert (fields["at"], fields["session"], fields["ways"]) == (
        "2026-11-15T12:00:00Z",
        "session-7",
        ["fork", "direct"],
    )
    assert "detail" not in fields
    assert serialize_event(event, "included")["detail"] == CANARY
    repairs = Repaired(moment=NOW, kinds={"blank_text": 1}, details=(CANARY,))
    assert "details" not in serialize_event(repairs)
    assert serialize_event(repairs, "included")["details"] == [CANARY]


def test_nested_fields_get_dotted_names():
    assert flatten_fields({"a": {"b": {"c": 1}, "d": ""}, "e": [1, "x"], "f": [], "g": None, "h": False}) == {
        "a.b.c": 1, "e": ["1", "x"], "h": False,
    }  # fmt: skip


# ── the sinks ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("TL-2")
def test_the_transcript_gets_a_record_that_the_model_never_sees():
    records = [user("hello", sessionId="s")]
    tell = transcript(records)
    tell(DONE)
    tell(NotesRejected(moment=NOW, why="too old"))
    data = b"\n".join(record.raw for record in records)
    again = parse_session_file(data)
    assert again.flaws == ()
    assert again.records[1:] == tuple(records[1:])
    first = again.records[1]
    assert (first.kind, first.subtype, first.parent, first.session) == ("system", SUBTYPE, "hello", "s")
    assert [TokenCounter().of(record).whole.total for record in again.records[1:]] == [0, 0]
    assert json.loads(first.raw)[FIELD] == serialize_event(DONE)
    assert [record.uuid for record in compute_view(again.records).records] == ["hello", "e0", "e1"]


@pytest.mark.spec("TL-2")
def test_the_log_gets_one_json_object_per_line():
    target, lines = logger()
    tell = log_sink(target)
    tell(DONE)
    tell(NotesRejected(moment=NOW, why="two\nlines"))
    tell(BreakerOpened(moment=NOW, breaker="failures", count=3))
    assert json.loads(lines.lines[0]) == serialize_event(DONE)
    assert [len(line.splitlines()) for line in lines.lines] == [1, 1, 1]
    assert lines.levels == [logging.INFO, logging.INFO, logging.WARNING]
    assert level_of(DONE) == logging.INFO


@pytest.mark.spec("BY-6")
def test_a_sink_writes_the_score_and_nothing_that_it_was_computed_from():
    scored = ScoredSummary((user("Fix the login test."),), "1. Fix the login test.")
    done = msgspec.structs.replace(DONE, scored=scored)
    assert serialize_event(done, "included") == serialize_event(DONE) | {"score": scored.figures.score}
    assert serialize_event(DONE)["score"] is None
    assert "login" not in repr(done)


def test_a_log_that_is_not_listening_is_told_nothing():
    deaf, lines = logger(logging.WARNING)
    log_sink(deaf)(DONE)
    assert lines.lines == []


@pytest.mark.spec("TL-2")
def test_opentelemetry_gets_a_span_with_the_names_of_its_conventions():
    tracer = Tracer()
    otel_sink(tracer)(DONE)
    ((name, span),) = tracer.spans
    nanoseconds = int(WHEN.timestamp()) * 1_000_000_000
    assert name == "everturn.compaction_done"
    assert (span.more["start_time"], span.ended) == (nanoseconds, {"end_time": nanoseconds})
    attributes = span.more["attributes"]
    # The API's input is the uncached part, the convention's is all of it.
    assert {key: value for key, value in attributes.items() if key.startswith("gen_ai.")} == {
        "gen_ai.conversation.id": "session-7",
        "gen_ai.request.model": "claude-opus-5",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.operation.name": "chat",
        "gen_ai.usage.input_tokens": 60,
        "gen_ai.usage.cache_read.input_tokens": 30,
        "gen_ai.usage.cache_creation.input_tokens": 20,
        "gen_ai.usage.output_tokens": 40,
    }
    assert attributes["everturn.tokens_before"] == 170_000
    assert all(isinstance(value, str | int | float | bool | list) for value in attributes.values())
    assert all(name.startswith("gen_ai.") for name in NAMES.values())


def test_a_failed_compaction_is_an_error_to_opentelemetry():
    tracer = Tracer()
    otel_sink(tracer)(made(CompactionNotDone, "x", "y"))
    assert tracer.spans[0][1].more["attributes"]["error.type"] == "no_summary"


def test_the_real_api_of_opentelemetry_takes_our_spans():
    pytest.importorskip("opentelemetry")
    fan_out = FanOut([("otel", otel_sink())])
    for kind in Event.__subclasses__():
        fan_out(made(kind, "x", "y"))
    assert fan_out.problems == []


def counted(registry: prometheus_client.CollectorRegistry) -> dict[str, float]:
    lines = prometheus_client.generate_latest(registry).decode().splitlines()
    pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#") and "_created" not in line)
    return {name: float(value) for name, value in pairs if float(value)}


@pytest.mark.spec("TL-2")
def test_prometheus_counts_events_and_tokens():
    registry = prometheus_client.CollectorRegistry()
    tell = prometheus_sink(registry)
    tell(DONE)
    tell(DONE)
    tell(MicroCompacted(moment=NOW, kind="time", results=2, tokens_before=9, tokens_after=4, tokens_saved=5))
    tell(CacheBroken(moment=NOW, cause="expiry", why="w", parts=(), tokens_lost=800, idle=1))
    tell(Repaired(moment=NOW, kinds={"blank_text": 2, "missing_result": 1}))
    assert counted(registry) == {
        'everturn_compactions_total{form="full",trigger="auto",way="fork"}': 2,
        'everturn_compaction_saved_tokens_total{way="fork"}': 322_000,
        'everturn_summary_tokens_total{kind="input"}': 20,
        'everturn_summary_tokens_total{kind="cache_read"}': 60,
        'everturn_summary_tokens_total{kind="cache_write"}': 40,
        'everturn_summary_tokens_total{kind="output"}': 80,
        'everturn_micro_compactions_total{kind="time"}': 1,
        'everturn_micro_compaction_saved_tokens_total{kind="time"}': 5,
        'everturn_cache_breaks_total{cause="expiry"}': 1,
        'everturn_cache_break_lost_tokens_total{cause="expiry"}': 800,
        'everturn_repairs_total{kind="blank_text"}': 2,
        'everturn_repairs_total{kind="missing_result"}': 1,
    }


@pytest.mark.spec("TL-2", "TL-3")
def test_no_label_of_prometheus_takes_free_words_or_a_session():
    assert not {"session", "uuid", "path", "why", "source", "model"} & {
        name for row in METRICS for name in row.labels
    }
    registry = prometheus_client.CollectorRegistry()
    tell = prometheus_sink(registry)
    for kind in Event.__subclasses__():
        tell(made(kind, CANARY, "free words"))
    said = prometheus_client.generate_latest(registry).decode()
    assert not [word for word in (CANARY, "free words", "session-7") if word in said]
    assert all(row.name.startswith("everturn_") for row in METRICS)


@pytest.mark.parametrize(
    ("package", "extra", "sink"),
    [("prometheus_client", "metrics", prometheus_sink), ("opentelemetry", "otel", otel_sink)],
)
def test_a_sink_whose_package_is_missing_says_which_extra_brings_it(package, extra, sink, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UsageError, match=rf"pip install 'everturn\[{extra}\]'"):
        sink()


def test_no_sink_imports_its_package_before_it_is_made(monkeypatch):
    real = builtins.__import__

    def refuse(name: str, *more: Any, **rest: Any) -> Any:
        assert name.partition(".")[0] not in ("prometheus_client", "opentelemetry")
        return real(name, *more, **rest)

    for module in [name for name in sys.modules if name.startswith("everturn.session.events")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(builtins, "__import__", refuse)


# ── fan-out ──────────────────────────────────────────────────────────────────────────────────────


def broken(_: Event) -> None:
    raise ConnectionError(CANARY)


@pytest.mark.spec("TL-2")
def test_a_sink_that_fails_is_reported_and_the_others_are_told():
    heard: list[str] = []
    reported: list[SinkProblem] = []
    fan_out = FanOut(
        [("bad", broken), ("good", lambda event: heard.append(event_name(event)))], reported.append
    )
    fan_out(DONE)
    fan_out(DONE)
    assert heard == ["compaction_done"] * 2
    assert reported == fan_out.problems == [SinkProblem("bad", "raised ConnectionError")]
    assert CANARY not in str(reported)


def test_a_sink_that_goes_on_failing_is_left_out():
    calls: list[Event] = []

    def bad(event: Event) -> None:
        calls.append(event)
        raise OSError

    fan_out = FanOut([("bad", bad)])
    for _ in range(MAX_FAILURES + 5):
        fan_out(DONE)
    assert (len(calls), fan_out.sinks) == (MAX_FAILURES, ())
    assert fan_out.problems[-1] == SinkProblem("bad", "raised OSError", is_disabled=True)


def test_a_sink_that_recovers_is_kept():
    fails = iter([True] * (MAX_FAILURES - 1) + [False] + [True] * (MAX_FAILURES - 1) + [False])

    def moody(_: Event) -> None:
        if next(fails):
            raise OSError

    fan_out = FanOut([("moody", moody)])
    for _ in range(2 * MAX_FAILURES):
        fan_out(DONE)
    assert fan_out.sinks == ("moody",)


def test_a_report_that_fails_costs_nothing_either():
    def report(_: SinkProblem) -> None:
        raise ValueError

    fan_out = FanOut([("bad", broken)], report)
    fan_out(DONE)
    assert len(fan_out.problems) == 1
