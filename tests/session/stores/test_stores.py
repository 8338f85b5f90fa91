"""What every store promises, whichever it is."""

import threading
import time
from contextlib import closing
from pathlib import Path

import builders as b
import msgspec
import pytest
from faults.talks import flat, talk

from everturn.errors import InputError, SessionLocked, StoreError, UsageError
from everturn.history.records import Record
from everturn.session.store import folder
from everturn.session.store.factory import CounterStep, StoreFactory
from everturn.session.store.places import open_stores
from everturn.session.store.sqlite_index import SqliteIndex
from everturn.session.transcripts import open_transcript


def bare(records) -> list[Record]:
    return [msgspec.structs.replace(record, raw=b"") for record in records]


def test_what_was_appended_is_there_again_when_it_is_opened(stores, tenant):
    batches = talk(seed=3, length=12)
    store = stores.open(tenant, "one")
    for batch in batches:
        store.append(batch)
    store.close()
    again = stores.open(tenant, "one")
    assert (bare(again.records), again.notes, again.read_only_reason) == (bare(flat(batches)), (), "")
    again.append([b.user("more")])
    assert bare(again.reopen().records) == bare([*flat(batches), b.user("more")])


def test_every_store_writes_the_same_bytes(stores, tenant, tmp_path):
    """So that a transcript can be moved from one to another, and every command opens it."""
    with_files = open_stores(str(tmp_path / "plain"))
    copies = []
    for each in (stores, with_files):
        store = each.open(tenant, "one")
        for batch in talk(seed=5, length=9):
            store.append(batch)
        copies.append(Path(store.write_copy()).read_bytes())
        store.close()
    with_files.close()
    assert copies[0] == copies[1]


def test_a_copy_is_a_transcript_that_every_command_opens(stores, tenant):
    batches = talk(seed=7, length=6)
    store = stores.open(tenant, "one")
    for batch in batches:
        store.append(batch)
    copy = open_transcript(store.write_copy())
    assert (bare(copy.records), copy.flaws) == (bare(flat(batches)), ())


def test_a_record_that_is_there_is_not_stored_again_and_another_with_its_uuid_is_refused(stores, tenant):
    store = stores.open(tenant, "one")
    store.append([b.user("hi", uuid="u1")])
    store.append([b.user("hi", uuid="u1")])
    with pytest.raises(UsageError, match="already holds another record with the uuid u1"):
        store.append([b.user("something else", uuid="u1")])
    assert bare(store.reopen().records) == bare([b.user("hi", uuid="u1")])


def test_one_writer_at_a_time_and_any_number_of_readers(stores, tenant):
    store = stores.open(tenant, "one")
    store.append([b.user("hi")])
    with pytest.raises(SessionLocked, match="being written"):
        stores.open(tenant, "one")
    reader = stores.open(tenant, "one", access="read")
    assert bare(reader.records) == bare([b.user("hi")])
    with pytest.raises(StoreError, match="opened for reading only"):
        reader.append([b.user("no")])
    reader.close()
    store.close()
    stores.open(tenant, "one").append([b.user("next")])


def test_a_closed_store_says_so(stores, tenant):
    store = stores.open(tenant, "one")
    store.close()
    assert store.is_closed
    with pytest.raises(StoreError, match="it was closed"):
        store.append([b.user("late")])


def test_a_conversation_that_does_not_exist_is_not_created_by_reading(stores, tenant):
    with pytest.raises(InputError, match=f"There is no conversation absent of the tenant {tenant}"):
        stores.open(tenant, "absent", access="read")
    assert list(stores.conversations(tenant)) == []


def test_the_state_is_replaced_as_a_whole(stores, tenant):
    store = stores.open(tenant, "one")
    store.append([b.user("hi")])
    assert store.read_state() == b""
    assert [store.write_state(b'{"breaker":1}'), store.write_state(b'{"breaker":2}')] == ["", ""]
    assert msgspec.json.decode(store.reopen().read_state())["breaker"] == 2


def test_blobs_are_files_that_an_agent_can_read(stores, tenant):
    store = stores.open(tenant, "one")
    path = Path(store.write_blob("result.txt", b"a large result"))
    assert path.read_bytes() == b"a large result"
    assert path.parent == Path(store.blob_folder)


def test_replies_are_found_by_their_id_within_the_tenant(stores, tenant):
    for name in ("one", "two"):
        store = stores.open(tenant, name)
        store.append([b.user(f"hi {name}"), b.assistant("hello", uuid=f"a-{name}", id=f"msg_{name}")])
        store.close()
    found = [stores.find_by_message(tenant, each) for each in ("msg_one", "msg_two", "msg_none", "msg_\0")]
    assert found == ["one", "two", None, None]
    assert stores.find_by_message(f"{tenant}x", "msg_one") is None


def test_a_reply_that_a_fork_copied_belongs_to_the_conversation_that_had_it_first(stores, tenant):
    reply = b.assistant("hello", id="msg_1")
    for name in ("first", "fork"):
        store = stores.open(tenant, name)
        store.append([reply])
        store.close()
    assert stores.find_by_message(tenant, "msg_1") == "first"


def test_tenants_see_nothing_of_each_other(stores, tenant):
    other = f"{tenant}x"
    store = stores.open(tenant, "one")
    store.append([b.user("mine")])
    same_name = stores.open(other, "one")
    assert same_name.records == ()
    same_name.append([b.user("yours")])
    assert [bare(each.reopen().records) for each in (store, same_name)] == [
        bare([b.user("mine")]),
        bare([b.user("yours")]),
    ]
    stores.count(tenant, [CounterStep("calls", 3)])
    assert stores.read_counters(other, ["calls"]) == {"calls": 0}


def test_conversations_are_listed_newest_first_without_those_that_are_empty(stores, tenant):
    for name in ("one", "two", "three"):
        store = stores.open(tenant, name)
        if name != "two":
            store.append([b.user("hi")])
        store.close()
    assert {each.name for each in stores.conversations(tenant)} == {"one", "three"}
    assert len(stores.conversations(tenant, most=1)) == 1
    changed = [each.changed_at for each in stores.conversations(tenant)]
    assert changed == sorted(changed, reverse=True)


@pytest.mark.parametrize("kind", ["folder", "sqlite"])
def test_a_link_to_nothing_hides_no_other_conversation(stores, tenant, url, tmp_path):
    for name in ("one", "two", "three"):
        with stores.open(tenant, name) as store:
            store.append([b.user("hi")])
    (tmp_path / "kept" / tenant / "gone.jsonl").symlink_to(tmp_path / "removed")
    assert {each.name for each in stores.conversations(tenant)} == {"one", "two", "three"}
    stores.close()
    with closing(open_stores(url, folder=tmp_path / "local", fsync="never")) as again:
        assert {each.name for each in again.conversations(tenant)} == {"one", "two", "three"}


def test_conversations_of_one_family_are_listed_together(stores, tenant):
    for name, family in (("1-xa", "xa"), ("2-xb", "xb"), ("3-xa", "xa")):
        store = stores.open(tenant, name, family=family)
        store.append([b.user(f"hi {name}")])
        store.close()
    assert {each.name for each in stores.conversations(tenant, family="xa")} == {"1-xa", "3-xa"}
    first = stores.first_lines(tenant, 10)
    assert {name: msgspec.json.decode(line)["uuid"] for name, line in first.items()} == {
        name: f"hi {name}" for name in ("1-xa", "2-xb", "3-xa")
    }


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "a\0b", "x" * 201, "two words"])
def test_a_name_that_could_be_a_path_is_refused(stores, tenant, name):
    with pytest.raises(UsageError, match="cannot be the name of a conversation"):
        stores.open(tenant, name)
    with pytest.raises(UsageError, match="cannot be the name of a tenant"):
        stores.open(name, "one")


def test_counters_are_added_to_together_or_not_at_all(stores, tenant):
    session, day = CounterStep("session/s1", 4, 10), CounterStep("day/2026-11-16", 4, 5)
    assert stores.count(tenant, [session, day]) == ""
    assert stores.count(tenant, [session, day]) == "day/2026-11-16"
    assert stores.read_counters(tenant, [session.name, day.name, "new"]) == {
        session.name: 4,
        day.name: 4,
        "new": 0,
    }
    assert stores.count(tenant, [CounterStep(session.name, 6, 10)]) == ""
    assert stores.count(tenant, [CounterStep(session.name, -6, 10), CounterStep(day.name, 100)]) == ""
    assert stores.read_counters(tenant, [session.name, day.name]) == {session.name: 4, day.name: 104}
    with pytest.raises(UsageError, match="names a counter twice"):
        stores.count(tenant, [session, session])


def test_a_cap_holds_when_many_add_at_once(stores: StoreFactory, tenant):
    refused: list[str] = []

    def add() -> None:
        for _ in range(10):
            refused.append(stores.count(tenant, [CounterStep("calls", 1, 25), CounterStep("all", 1)]))

    threads = [threading.Thread(target=add) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(refused) == [""] * 25 + ["calls"] * 15
    assert stores.read_counters(tenant, ["calls", "all"]) == {"calls": 25, "all": 25}


def test_the_counters_of_a_folder_are_opened_once_by_many_at_once(tmp_path, monkeypatch):
    opened: list[Path] = []

    def open_slowly(path: Path) -> SqliteIndex:
        opened.append(path)
        time.sleep(0.05)
        return SqliteIndex(path)

    monkeypatch.setattr(folder, "SqliteIndex", open_slowly)
    with closing(open_stores(str(tmp_path))) as stores:
        threads = [
            threading.Thread(target=stores.count, args=("local", [CounterStep("calls", 1)])) for _ in range(4)
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert stores.read_counters("local", ["calls"]) == {"calls": 4}
    assert len(opened) == 1


def test_closing_the_factory_closes_what_is_open(stores, tenant):
    store = stores.open(tenant, "one")
    store.append([b.user("hi")])
    reopened = store.reopen()
    stores.close()
    assert (store.is_closed, reopened.is_closed) == (True, True)


def test_a_healthy_store_has_nothing_to_say(stores):
    assert stores.check() == ""
