"""Several processes on one folder, each with a part of a conversation's requests."""

import logging
import subprocess
import sys

import pytest

from everturn.decide.events import CompactionDone, TranscriptShared

LOG = "A long log line. " * 700
SMALL = {"window": 60_000}


def take_turns(workers, questions=16):
    """One conversation whose requests go to the workers in turn."""
    messages = []
    for number in range(questions):
        worker = workers[number % len(workers)]
        messages = worker.talk(messages, f"Entry {number}: {LOG}")
    for worker in workers:
        worker.check()
    return sum(entry["dollars"] for entry in workers[0].twin.ledger)


def count_compactions(*workers):
    return sum(isinstance(event, CompactionDone) for worker in workers for event in worker.events)


@pytest.mark.parametrize("count", [2, 4])
def test_workers_on_one_folder_compact_as_often_as_one_and_pay_as_much(benches, count):
    alone = benches(**SMALL)
    cost = take_turns([alone])
    workers = [benches(**SMALL, folder_name=f"of {count}") for _ in range(count)]
    together = take_turns(workers) - cost
    assert count_compactions(*workers) == count_compactions(alone) > 0
    assert together < 1.15 * cost
    assert len(workers[0].transcripts) == count


def test_a_worker_says_whose_conversation_it_continues(benches, caplog):
    one, other = benches(), benches()
    messages = one.talk([], "Look at the parser.")
    with caplog.at_level(logging.WARNING, "everturn"):
        messages = other.talk(messages, "And now?")
        other.talk(one.talk(messages, "Go on."), "Go on.")
    shared = [event for event in other.events if isinstance(event, TranscriptShared)]
    assert [event.records for event in shared] == [2, 6]
    assert all(event.holder.startswith("process ") for event in shared)
    assert caplog.text.count("each keeps a copy") == 2


def test_workers_that_fork_keep_their_own_words(benches):
    one, other = benches(), benches()
    start = one.talk([], "Look at the parser.")
    one.talk(start, "Only one asked this.")
    other.talk(start, "Only the other asked this.")
    assert "Only one" not in str(other.sent[-1])
    one.check()
    other.check()


def test_a_process_that_ended_without_closing_leaves_its_conversation_to_the_next(twin, tmp_path, benches):
    bench = benches()
    messages = bench.talk([], "Look at the parser.")
    code = "import sys; from everturn.session.store import JsonlStore; JsonlStore.open(sys.argv[1])"
    (path,) = [bench.folder / name for name in bench.transcripts]
    bench.middleware.close()
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)
    bench.open()
    bench.talk(messages, "And now?")
    assert len(bench.transcripts) == 1
    assert [event for event in bench.events if isinstance(event, TranscriptShared)] == []
