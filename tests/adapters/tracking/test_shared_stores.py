"""Trackers of several replicas on one store."""

import time
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Timer

import msgspec
import pytest
from adapters.tracking.test_tracker import Caller, nobody

from everturn.adapters.tracking import ConversationTracker, UnsupportedRequest, recogniser
from everturn.adapters.tracking.chain import is_caller_message
from everturn.adapters.tracking.tracker import RequestAbandoned
from everturn.errors import StoreError, StoreUnavailable
from everturn.history.edits import Pinned
from everturn.session.store.memory import MemoryStores
from everturn.session.store.row_store import RowStore


@pytest.fixture
def stores():
    made = MemoryStores()
    yield made
    made.close()


def replica(stores: MemoryStores) -> Caller:
    made = Caller()
    made.tracker = ConversationTracker(msgspec.structs.replace(made.tracker.parts, stores=stores))
    return made


def kept(stores: MemoryStores) -> list[list[str]]:
    """What each conversation has, without the order of conversations."""
    return sorted(kept_in(stores, each.name) for each in stores.conversations("default"))


def kept_in(stores: MemoryStores, name: str) -> list[str]:
    records = stores.open("default", name, access="read").records
    return [msgspec.json.decode(each.blocks[0].raw)["text"] for each in records if is_caller_message(each)]


def copy(stores: MemoryStores, name: str) -> None:
    """A second conversation with the same records, which is the newest one then."""
    (found,) = [each for each in stores.conversations("default") if each.name == name]
    made = stores.open("default", f"{name}-copy", family=found.family)
    made.append(stores.open("default", name, access="read").records)
    made.close()


def on_next_append(monkeypatch, act) -> None:
    """Something that happens while records are appended."""
    append = RowStore.append

    def interrupted(store, records):
        monkeypatch.setattr(RowStore, "append", append)
        act()
        append(store, records)

    monkeypatch.setattr(RowStore, "append", interrupted)


@pytest.mark.spec("GW-13")
def test_a_reply_that_another_replica_has_heard_already_is_not_recorded_in_a_fork(stores):
    """The next request arrived there first: it had the reply in it."""
    one, two = replica(stores), replica(stores)
    one.hear(one.ask("Hello."), "Hi.")
    call = one.ask("Hello.", "Hi.", "And?")
    two.ask("Hello.", "Hi.", "And?", "Well.", "So?")
    one.hear(call, "Well.")
    assert kept(stores) == [["Hello.", "Hi.", "And?", "Well.", "So?"]]


@pytest.mark.spec("GW-13")
def test_another_reply_than_the_one_that_was_continued_elsewhere_is_a_branch(stores):
    one, two = replica(stores), replica(stores)
    one.hear(one.ask("Hello."), "Hi.")
    call = one.ask("Hello.", "Hi.", "And?")
    two.hear(two.ask("Hello.", "Hi.", "And?"), "Well.")
    one.hear(call, "Never mind.")
    assert kept(stores) == [
        ["Hello.", "Hi.", "And?", "Never mind."],
        ["Hello.", "Hi.", "And?", "Well."],
    ]


def test_a_reply_whose_conversation_was_removed_from_memory_is_recorded_where_its_request_is(stores):
    one = replica(stores)
    one.hear(one.ask("Hello."), "Hi.")
    call = one.ask("Hello.", "Hi.", "And?")
    one.tracker.report_failure(StoreUnavailable("It does not answer."), call)
    one.hear(call, "Well.")
    one.ask("Hello.", "Hi.", "And?", "Well.", "So?")
    assert kept(stores) == [["Hello.", "Hi.", "And?", "Well.", "So?"]]


@pytest.mark.spec("GW-14")
@pytest.mark.parametrize("where", ["stored_conversations._match", "conversation_factory.read_state"])
def test_a_failure_while_a_conversation_is_looked_for_leaves_no_lease_behind(stores, monkeypatch, where):
    one, two = replica(stores), replica(stores)
    one.hear(one.ask("Hello."), "Hi.")

    def fail(*_):
        raise StoreUnavailable("It does not answer.")

    with monkeypatch.context() as patch:
        patch.setattr(f"everturn.adapters.tracking.{where}", fail)
        with pytest.raises(StoreUnavailable):
            two.ask("Hello.", "Hi.", "And?")
    call = one.ask("Hello.", "Hi.", "And?")
    one.hear(call, "Well.")
    assert kept(stores) == [["Hello.", "Hi.", "And?", "Well."]]


# ── one list, several requests in work ───────────────────────────────────────────────────────────


@pytest.mark.spec("GW-13")
@pytest.mark.parametrize("place", ["shared", "folder"])
def test_a_conversation_that_grows_while_the_next_request_is_looked_for_is_continued(
    stores, tmp_path, monkeypatch, place
):
    """The caller was answered before its request was recorded, and goes on: the store was slow."""
    one = replica(stores) if place == "shared" else Caller(tmp_path)
    one.hear(one.ask("Hello."), "Hi.")
    find = recogniser.find_stored

    def late(*given):
        monkeypatch.setattr(recogniser, "find_stored", find)
        one.ask("Hello.", "Hi.", "And?")
        return find(*given)

    monkeypatch.setattr(recogniser, "find_stored", late)
    call = one.ask("Hello.", "Hi.", "And?", "Well.", "So?")
    assert (one.lengths, one.said(call)) == ([5], ["Hello.", "Hi.", "And?", "Well.", "So?"])


@pytest.mark.spec("GW-13")
def test_a_request_waits_for_an_earlier_one_that_is_being_recorded_and_makes_no_fork(stores, monkeypatch):
    one = replica(stores)
    one.hear(one.ask("Hello."), "Hi.")
    (tracked,) = one.tracker
    later: list[Future[object]] = []

    def go_on():
        said = ("Hello.", "Hi.", "And?", "Well.", "So?")
        later.append(pool.submit(one.ask, *said))
        end = time.monotonic() + 10
        while tracked.users < 2 and not later[0].done():
            assert time.monotonic() < end
            time.sleep(0.001)

    with ThreadPoolExecutor(1) as pool:
        on_next_append(monkeypatch, go_on)
        one.ask("Hello.", "Hi.", "And?")
        later[0].result()
    assert kept(stores) == [["Hello.", "Hi.", "And?", "Well.", "So?"]]


@pytest.mark.spec("GW-13")
def test_a_conversation_that_memory_has_less_of_than_the_store_comes_before_a_branch_of_it(stores):
    one, two, three = replica(stores), replica(stores), replica(stores)
    one.hear(one.ask("Hello."), "Hi.")
    two.hear(two.ask("Hello.", "Hi.", "And?"), "Well.")
    one.hear(one.ask("Hello.", "Hi.", "And?", "Well.", "So?"), "Fine.")
    # A request that was given up long ago arrives late, and begins a branch.
    three.ask("Hello.", "Hi.", "And?", "Well.", "So?")
    two.ask("Hello.", "Hi.", "And?", "Well.", "So?", "Fine.", "Then?")
    assert kept(stores) == [
        ["Hello.", "Hi.", "And?", "Well.", "So?"],
        ["Hello.", "Hi.", "And?", "Well.", "So?", "Fine.", "Then?"],
    ]


# ── conversations that were removed from memory ──────────────────────────────────────────────────


@pytest.mark.spec("GW-13")
def test_a_reply_is_recorded_where_its_request_is_though_another_conversation_has_the_same_list(stores):
    one = replica(stores)
    one.hear(one.ask("Hello."), "Hi.")
    call = one.ask("Hello.", "Hi.", "And?")
    ((name, *_),) = stores.conversations("default")
    copy(stores, name)
    one.tracker.report_failure(StoreUnavailable("It does not answer."), call)
    one.hear(call, "Well.")
    assert kept_in(stores, name) == ["Hello.", "Hi.", "And?", "Well."]


@pytest.mark.spec("GW-13")
def test_a_reply_is_recorded_behind_what_another_replica_has_decided_about_its_request(stores):
    one, two = replica(stores), replica(stores)
    one.hear(one.ask("Hello."), "Hi.")
    call = one.ask("Hello.", "Hi.", "And?")
    other = two.ask("Hello.", "Hi.", "And?").tracked
    assert other.transcript.resume()
    other.append_edit(Pinned("Keep it.", "pinned by the program"), "pin")
    other.transcript.release()
    one.hear(call, "Well.")
    assert kept(stores) == [["Hello.", "Hi.", "And?", "Well."]]


@pytest.mark.spec("GW-14")
def test_a_reply_waits_for_the_replica_that_writes_its_conversation(stores):
    one = replica(stores)
    one.hear(one.ask("Hello."), "Hi.")
    call = one.ask("Hello.", "Hi.", "And?")
    one.tracker.report_failure(StoreUnavailable("It does not answer."), call)
    ((name, *_),) = stores.conversations("default")
    writer = stores.open("default", name)
    Timer(0.1, writer.close).start()
    one.hear(call, "Well.")
    assert kept(stores) == [["Hello.", "Hi.", "And?", "Well."]]


@pytest.mark.spec("GW-15")
def test_a_request_whose_conversation_is_removed_while_it_is_recorded_is_not_said_to_be_managed(
    stores, monkeypatch
):
    """An earlier reply could not be recorded. What is appended to a closed transcript is nowhere."""
    one = replica(stores)
    call = one.ask("Hello.")
    one.hear(call, "Hi.")
    (tracked,) = one.tracker
    settle, problem = tracked.runner.keep_appended, StoreUnavailable("It does not answer.")

    def keep_appended():
        one.tracker.report_failure(problem, call)
        settle()

    monkeypatch.setattr(tracked.runner, "keep_appended", keep_appended)
    with pytest.raises(StoreError, match="was removed from memory meanwhile"):
        one.ask("Hello.", "Hi.", "And?")
    one.ask("Hello.", "Hi.", "And?")
    assert kept(stores) == [["Hello.", "Hi.", "And?"]]


def test_a_conversation_that_was_read_again_is_not_removed_for_a_failure_of_the_one_before(stores):
    one = replica(stores)
    call = one.ask("Hello.")
    one.hear(call, "Hi.")
    problem = StoreUnavailable("It does not answer.")
    one.tracker.report_failure(problem, call)
    again = one.ask("Hello.", "Hi.", "And?").tracked
    one.tracker.report_failure(problem, call)
    assert list(one.tracker) == [again]
    assert not again.is_evicted


def test_of_a_conversation_that_is_read_again_only_the_new_one_is_in_memory(stores):
    one, two = replica(stores), replica(stores)
    old = one.ask("Hello.").tracked
    one.hear(one.ask("Hello."), "Hi.")
    two.hear(two.ask("Hello.", "Hi.", "And?"), "Well.")
    new = one.ask("Hello.", "Hi.", "And?", "Well.", "So?").tracked
    assert (old.is_evicted, list(one.tracker)) == (True, [new])
    assert kept(stores) == [["Hello.", "Hi.", "And?", "Well.", "So?"]]


@pytest.mark.spec("GW-15")
@pytest.mark.parametrize(("where", "found"), [("in memory", [0]), ("in the store", [])])
def test_a_request_that_nobody_waits_for_when_its_turn_comes_is_not_recorded(stores, where, found):
    """Requests that were given up while a store was slow must not keep it busy."""
    one = replica(stores)
    one.hear(one.ask("Hello."), "Hi.")
    other = one if where == "in memory" else replica(stores)
    said = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hi."}]
    body = {"model": "claude-haiku-4-5", "max_tokens": 99, "messages": [*said, said[0]]}
    request = other.tracker.read(body)
    assert not isinstance(request, UnsupportedRequest)
    wanted = iter([True, False])
    with pytest.raises(RequestAbandoned):
        other.tracker.prepare(request, nobody, is_wanted=lambda: next(wanted))
    assert kept(stores) == [["Hello.", "Hi."]]
    assert [each.users for each in other.tracker] == found
