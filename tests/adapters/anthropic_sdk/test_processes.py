"""Several processes on one folder, each with a part of a conversation's requests."""

import logging
import subprocess
import sys
import threading

import pytest

from everturn.decide.events import CompactionDone, SummaryUncached, TranscriptShared

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


def with_reminder(number, said):
    return f"{said}\n\n<reminder>Todo: {number}.</reminder>"


def in_front(number, said):
    return [{"type": "text", "text": f"Todo: {number}."}, {"type": "text", "text": said}]


def plain(number, said):
    return said


def take_turns_with_reminders(workers, spell, questions=14):
    """The same, with something in the newest message that is left out later."""
    history = []
    for number in range(questions):
        said = f"Entry {number}: {LOG}"
        reply = workers[number % len(workers)].ask([*history, user(spell(number, said))])
        history += [user(said), {"role": "assistant", "content": reply.content}]
    for worker in workers:
        worker.check()
    return sum(entry["dollars"] for entry in workers[0].twin.ledger)


def user(content):
    return {"role": "user", "content": content}


@pytest.mark.parametrize("spell", [plain, with_reminder, in_front], ids=lambda each: each.__name__)
def test_workers_with_a_small_window_read_each_others_cache_for_a_summary(benches, spell):
    alone = benches(window=40_000)
    cost = take_turns_with_reminders([alone], spell)
    workers = [benches(window=40_000, folder_name="of 4") for _ in range(4)]
    together = take_turns_with_reminders(workers, spell) - cost
    assert count_compactions(*workers) == count_compactions(alone) > 2
    assert together < 1.05 * cost
    uncached = [event for each in workers for event in each.events if isinstance(event, SummaryUncached)]
    assert uncached == []
    # Each has one copy, and adds to it what the others recorded.
    assert len(workers[0].transcripts) == 4


def test_a_copy_that_somebody_works_on_is_not_waited_for_while_files_are_read(benches):
    """Who holds its lock may wait for the files."""
    one, other = benches(), benches()
    messages = other.talk(one.talk([], "Look at the parser."), "And now?")
    (copy,) = one.middleware.tracker
    with copy.lock.acquire():
        asking = threading.Thread(target=one.talk, args=(messages, "Go on."), daemon=True)
        asking.start()
        asking.join(20)
        assert not asking.is_alive()
    one.check()


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
