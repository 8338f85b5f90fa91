"""Trackers of several replicas on one store."""

import msgspec
import pytest
from adapters.tracking.test_tracker import Caller

from everturn.adapters.tracking import ConversationTracker
from everturn.errors import StoreUnavailable
from everturn.session.store.memory import MemoryStores


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
    names = [each.name for each in stores.conversations("default")]
    opened = [stores.open("default", name, access="read") for name in names]
    return sorted(
        [msgspec.json.decode(record.blocks[0].raw)["text"] for record in each.records] for each in opened
    )


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
@pytest.mark.parametrize("where", ["stored_conversations._match", "recogniser.read_state"])
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
