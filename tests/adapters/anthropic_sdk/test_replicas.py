"""Several replicas on one store, each with a part of a conversation's requests."""

import json
import time
from pathlib import Path

import pytest
from adapters.anthropic_sdk.conftest import Bench
from postgres_proxy import Proxy
from scripted_twin import scripted_options

from everturn.decide.events import CompactionDone, PassedThrough, TranscriptShared
from everturn.twin.testing import TwinForTests

LOG = "A long log line. " * 700
SMALL = {"window": 60_000}


@pytest.fixture
def replicas(postgres_url, tenant, tmp_path):
    """Makes benches whose transcripts are in PostgreSQL: each has a twin and a local folder of its own."""
    made: list[Bench] = []

    def make(count: int, *, url: str = postgres_url, **options) -> list[Bench]:
        twin = TwinForTests(options=scripted_options())
        of = f"{tenant}-{len(made)}"
        store = {"url": url, "tenant": of, "deadline": 2.0}
        start = len(made)
        made.extend(
            Bench(twin, tmp_path / f"replica {start + each}", store=store, **options) for each in range(count)
        )
        return made[start:]

    yield make
    for each in made:
        each.middleware.close()
        each.twin.close()


def take_turns(workers: list[Bench], questions: int) -> list[str]:
    """One conversation whose requests go to the workers in turn; what the provider got, in order."""
    messages, sent = [], []
    for number in range(questions):
        worker = workers[number % len(workers)]
        before = len(worker.sent)
        messages = worker.talk(messages, f"Entry {number}: {LOG}")
        sent += [json.dumps(each) for each in worker.sent[before:]]
    for worker in workers:
        worker.check()
    return sent


def count(kind: type, workers: list[Bench]) -> int:
    return sum(isinstance(event, kind) for worker in workers for event in worker.events)


@pytest.mark.spec("GW-12", "GW-13")
@pytest.mark.parametrize("many", [2, 4])
def test_any_replica_sends_the_bytes_that_one_alone_would_send(replicas, many):
    alone, workers = replicas(1, **SMALL), replicas(many, **SMALL)
    expected = take_turns(alone, 11)
    assert take_turns(workers, 11) == expected
    assert count(CompactionDone, workers) == count(CompactionDone, alone) > 0
    # One conversation, not a copy for each replica.
    assert count(TranscriptShared, workers) == 0


def test_a_replica_that_was_left_out_sees_what_the_others_compacted(replicas):
    one, other = replicas(2, **SMALL)
    messages = one.talk([], "Look at the parser.")
    messages = other.talk(messages, *(f"Entry {number}: {LOG}" for number in range(10)))
    assert count(CompactionDone, [other]) > 0
    one.talk(messages, "And now?")
    assert len(one.sent[-1]["messages"]) < len(messages)
    one.check()
    other.check()


@pytest.mark.spec("GW-14")
def test_a_caller_that_asks_two_replicas_at_once_forks_and_loses_nothing(replicas):
    one, other = replicas(2)
    start = one.talk([], "Look at the parser.")
    left = one.talk(start, "Only one asked this.")
    right = other.talk(start, "Only the other asked this.")
    one.talk(right, "Go on.")
    other.talk(left, "Go on.")
    assert "Only one" not in str(one.sent[-1])
    assert "Only the other" not in str(other.sent[-1])
    one.check()
    other.check()


def test_without_its_database_the_caller_s_own_request_is_sent_and_it_recovers_by_itself(
    replicas, postgres_url, monkeypatch
):
    monkeypatch.setattr("everturn.session.store.breaker.FIRST_PAUSE", 0.05)
    proxy = Proxy(Path(postgres_url.partition("host=")[2]))
    (bench,) = replicas(1, url=f"postgresql://everturn@/postgres?host={proxy.host}")
    messages = bench.talk([], "Look at the parser.")
    proxy.set("closed")
    proxy.drop()
    messages = bench.talk(messages, "And now?", "And then?")
    assert [each["content"] for each in bench.sent[-1]["messages"][::2]] == [
        "Look at the parser.",
        "And now?",
        "And then?",
    ]
    problems = {event.detail for event in bench.events if isinstance(event, PassedThrough)}
    assert problems
    assert all("PostgreSQL at the local socket/postgres" in each for each in problems)
    proxy.set("open")
    bench.events.clear()
    time.sleep(0.5)
    bench.talk(messages, "Are you back?")
    bench.check()
    proxy.close()


@pytest.mark.parametrize("url", ["{folder}/kept", "sqlite:{folder}/kept/s.sqlite"])
def test_a_conversation_in_a_local_store_is_continued_after_a_restart(replicas, url, tmp_path):
    (bench,) = replicas(1, url=url.format(folder=tmp_path))
    messages = bench.talk([], "Look at the parser.", "And now?")
    bench.restart()
    bench.talk(messages, "Go on.")
    (kept,) = tmp_path.glob("kept/*/*.jsonl")
    assert kept.read_bytes().count(b'"type":"assistant"') == 3
    bench.check()
