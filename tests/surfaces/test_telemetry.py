"""What a session tells about its decisions, and to whom (TL)."""

import json
import logging
from collections import Counter

import prometheus_client
import pytest
from surfaces.desk import (
    RULES,
    SUMMARY,
    Desk,
    assistant_line,
    call,
    tool,
    user_line,
)

from everturn.decide.events import Event
from everturn.session.hooks.run import CallbackHook, Hooks

trace = pytest.importorskip("opentelemetry.trace")

# Breaks are not reported for Haiku (CB-9).
SONNET = "claude-sonnet-4-6"
READ = tool("Read", lambda given: "line of code\n" * 400)
CANARY = "CANARY-WORDS"
KEY = "sk-ant-api03-CANARY-0123456789"
SINKS = {"log": True, "transcript": True, "prometheus": True, "otel": True}


@pytest.fixture
def desk(tmp_path, twin):
    return Desk(tmp_path, twin, model=SONNET)


def blow_up(payload):
    raise RuntimeError("no hook today")


def live(desk, **options):
    """A session in which everything happens that is worth an event, except for notes."""
    desk.write(
        user_line(f"Look. {CANARY}"), assistant_line(call("toolu_lost", file_path="a.py")), user_line("On.")
    )
    hooks = Hooks((CallbackHook("PreCompact", blow_up),))
    compact = {"strategies": ["fork"], "failures": 1}
    with desk.open(tools=[READ], hooks=hooks, compact=compact, **options) as session:
        desk.use_tool(session, 8)
        desk.twin.advance(3_601)
        desk.talk(session, 2)
        desk.twin.faults("lost_cache")
        desk.talk(session, 1)
        desk.twin.script(SUMMARY)
        session.compact()
        desk.talk(session, 2)
        desk.twin.faults({"kind": "server_error", "times": 9})
        session.compact()
        desk.twin.twin.faults.clear()
        desk.twin.script(SUMMARY)
        session.compact()
        return session.id


def names(events):
    return [type(event).__struct_config__.tag for event in events]


EXPECTED = {
    "repaired": 1,
    "micro_compacted": 1,
    "prediction_missed": 1,
    "cache_broken": 1,
    "hook_trouble": 3,
    "compaction_done": 2,
    "compaction_not_done": 1,
    "breaker_opened": 1,
    "breaker_closed": 1,
}


@pytest.mark.spec("TL-1")
def test_every_decision_is_a_typed_event_with_its_numbers_and_its_session(desk):
    session = live(desk)
    told = [event for event in desk.events if type(event).__name__ != "Compacting"]
    assert Counter(names(told)) == EXPECTED
    assert {type(event) for event in told} <= set(Event.__subclasses__())
    moments = {(event.moment.session, event.moment.source, event.moment.model) for event in desk.events}
    assert moments == {(session, "main", SONNET)}
    by_name = dict(zip(names(told), told, strict=True))
    repaired, micro = by_name["repaired"], by_name["micro_compacted"]
    assert repaired.kinds == {"missing_result": 1}
    assert (micro.kind, micro.results) == ("time", 3)
    assert micro.tokens_saved == micro.tokens_before - micro.tokens_after > 3_000
    broken, missed = by_name["cache_broken"], by_name["prediction_missed"]
    assert (broken.cause, broken.tokens_lost > 4_000) == ("server_side", True)
    assert missed.predicted_read > missed.reported_read == 0
    done, failed = by_name["compaction_done"], by_name["compaction_not_done"]
    assert (done.trigger, done.form, done.way, done.attempts) == ("manual", "full", "fork", 1)
    assert done.tokens_after < done.tokens_before
    assert done.usage.cache_read_input_tokens > 4_000
    assert done.figures.total > 0
    assert (failed.reason, failed.ways) == ("api_error", ("fork",))
    assert (by_name["breaker_opened"].breaker, by_name["breaker_opened"].count) == ("failures", 1)


class Tracer:
    """What we use of OpenTelemetry's."""

    def __init__(self):
        self.spans = []

    def start_span(self, name, **more):
        self.spans.append((name, more["attributes"]))
        return self

    def end(self, **more):
        pass


@pytest.fixture
def tracer(monkeypatch):
    made = Tracer()
    monkeypatch.setattr(trace, "get_tracer", lambda *_: made)
    return made


def counted(name):
    """What the process has counted under this name, over all labels."""
    found = [each for family in prometheus_client.REGISTRY.collect() for each in family.samples]
    return sum(sample.value for sample in found if sample.name == name)


@pytest.mark.spec("TL-2")
def test_events_go_to_the_transcript_the_log_opentelemetry_and_prometheus(desk, tracer, caplog):
    counters = {
        "everturn_compactions_total": 2,
        "everturn_micro_compactions_total": 1,
        "everturn_cache_breaks_total": 1,
        "everturn_repairs_total": 1,
    }
    before = {name: counted(name) for name in counters}
    with caplog.at_level(logging.INFO, logger="everturn.events"):
        session = live(desk, events=SINKS)
    heard = names(desk.events)
    assert Counter(heard) >= Counter(EXPECTED)
    lines = [json.loads(record.getMessage()) for record in caplog.records]
    assert [line["event"] for line in lines] == heard
    kept = [line["everturnEvent"] for line in desk.lines() if line.get("subtype") == "everturn_event"]
    assert kept == lines
    assert [name for name, _ in tracer.spans] == [f"everturn.{name}" for name in heard]
    assert {given["gen_ai.conversation.id"] for _, given in tracer.spans} == {session}
    assert {name: counted(name) - before[name] for name in counters} == counters
    # The model saw none of it.
    assert "everturn_event" not in json.dumps(desk.bodies)


@pytest.mark.spec("TL-2")
def test_two_sessions_of_one_process_count_together(desk, tracer):
    before = counted("everturn_repairs_total")
    for name in ("one", "two"):
        desk.path = desk.folder / f"{name}.jsonl"
        desk.write(user_line("Hi."), assistant_line(call("toolu_lost", file_path="a.py")), user_line("On."))
        with desk.open(events={"prometheus": True}) as session:
            assert session.remarks == []
    assert counted("everturn_repairs_total") - before == 2


@pytest.mark.spec("TL-3")
@pytest.mark.parametrize(("content", "has_words"), [("omitted", False), ("included", True)])
def test_no_words_leave_through_a_sink_unless_they_are_asked_for_and_no_secret_ever(
    desk, tracer, caplog, content, has_words
):
    with caplog.at_level(logging.INFO, logger="everturn.events"):
        live(desk, events={**SINKS, "content": content})
        # A hook of somebody else quotes what it was about, and a key.
        hook = CallbackHook("PreCompact", lambda _: {"decision": "block", "reason": f"{CANARY} {KEY}"})
        with desk.open(hooks=Hooks((hook,)), events={**SINKS, "content": content}) as session:
            session.compact()
    kept = [line["everturnEvent"] for line in desk.lines() if line.get("subtype") == "everturn_event"]
    metrics = prometheus_client.generate_latest().decode()
    sinks = {"log": caplog.text, "otel": repr(tracer.spans), "transcript": json.dumps(kept)}
    assert {name: CANARY in said for name, said in sinks.items()} == dict.fromkeys(sinks, has_words)
    assert CANARY not in metrics
    assert not any(KEY in said for said in (*sinks.values(), metrics))
    # The program that asked to be told hears everything.
    assert any(CANARY in repr(event) for event in desk.events)
    assert RULES[:40] not in "".join(sinks.values())
