"""The embedded store: transcripts are the truth, the database beside them finds things."""

import os
import sqlite3
from datetime import datetime

import builders as b
import pytest
from click.testing import CliRunner

from everturn import Session
from everturn.cli import main
from everturn.errors import SessionLocked, StoreError
from everturn.session.hooks.run import CallbackHook, Hooks
from everturn.session.store.folder import SqliteStores
from everturn.session.store.jsonl_store import JsonlStore
from everturn.session.store.migrations import Migration
from everturn.session.store.places import open_stores
from everturn.session.store.sqlite_index import MIGRATIONS
from everturn.twin.testing import TwinForTests


@pytest.fixture
def path(tmp_path):
    return tmp_path / "kept" / "everturn.sqlite"


def test_two_gateways_on_one_store_are_told_what_to_do(path):
    first = open_stores(f"sqlite:{path}")
    with pytest.raises(SessionLocked) as caught:
        open_stores(f"sqlite:{path}")
    assert str(caught.value) == (
        f"The store {path} is used by process {os.getpid()}. An SQLite store belongs to one process: end the "
        "other one, choose another file, or use PostgreSQL for several gateways."
    )
    first.close()
    open_stores(f"sqlite:{path}").close()


def test_what_a_crash_kept_out_of_the_index_is_found_after_it(path):
    stores = open_stores(f"sqlite:{path}")
    store = stores.open("t", "one")
    store.append([b.assistant("first", id="msg_1")])
    stores.close()
    # As after a crash between the append and the index.
    with JsonlStore.open(path.parent / "t" / "one.jsonl") as beside:
        beside.append([b.assistant("second", id="msg_2")])
    with JsonlStore.open(path.parent / "t" / "two.jsonl") as beside:
        beside.append([b.assistant("third", id="msg_3")])
    stores = open_stores(f"sqlite:{path}")
    assert [stores.find_by_message("t", f"msg_{each}") for each in (1, 2, 3)] == ["one", "one", "two"]
    stores.close()


def test_a_transcript_that_was_deleted_is_forgotten(path):
    stores = open_stores(f"sqlite:{path}")
    stores.open("t", "one").append([b.assistant("first", id="msg_1")])
    stores.close()
    (path.parent / "t" / "one.jsonl").unlink()
    stores = open_stores(f"sqlite:{path}")
    assert (list(stores.conversations("t")), stores.find_by_message("t", "msg_1")) == ([], None)
    stores.close()


def test_a_file_that_is_no_database_is_refused_and_stays(path):
    path.parent.mkdir()
    path.write_text("This is not a database. " * 100)
    with pytest.raises(StoreError, match=r"failed: file is not a database\. Check that it is an SQLite file"):
        open_stores(f"sqlite:{path}")
    assert path.read_text().startswith("This is not a database.")
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_session_that_could_not_be_opened_does_not_lock_its_conversation(path, error):
    def broken() -> datetime:
        raise error("the clock is broken")

    given = {"client": TwinForTests().client(), "config": None, "store": {"url": f"sqlite:{path}"}}
    with Session.open("one", **given) as one:
        hooks = Hooks((CallbackHook("SessionStart", lambda _: {"additionalContext": "Be brief."}),))
        with pytest.raises(error, match="the clock is broken"):
            Session.open("two", clock=broken, hooks=hooks, **given)
        with Session.open("two", **given) as two:
            two.send("Second.")
        one.send("First.")


def test_several_sessions_of_one_process_share_a_store_until_the_last_is_closed(path):
    store = {"url": f"sqlite:{path}"}
    twin = TwinForTests()
    given = {"client": twin.client(), "config": None, "store": store}
    with Session.open("one", **given) as one, Session.open("two", **given) as two:
        one.send("First.")
        two.send("Second.")
        with pytest.raises(SessionLocked, match=r"one\.jsonl is being written by process"):
            Session.open("one", **given)
        with Session.open("one", access="read", **given) as reader:
            assert len(reader.conversation.log.records) == 2
        one.close()
        two.send("Third.")
        with pytest.raises(SessionLocked, match=r"An SQLite store belongs to one process"):
            SqliteStores(path)
    stores = SqliteStores(path)
    assert sorted(each.name for each in stores.conversations("default")) == ["one", "two"]
    stores.close()
    twin.close()


def test_an_index_that_fails_loses_no_record(path, caplog):
    stores = SqliteStores(path)
    store = stores.open("t", "one")
    store.append([b.user("before")])
    other = sqlite3.connect(path)
    other.execute("DROP TABLE conversation")
    other.close()
    store.append([b.user("after")])
    assert [record.uuid for record in store.reopen().records] == ["before", "after"]
    assert "no such table: conversation" in caplog.text
    stores.close()


def add_folders(kept):
    for name in (".git", "my project", "lost+found", "t/dir.jsonl", "t/.folder.jsonl"):
        (kept / name).mkdir()


def add_a_pipe(kept):
    os.mkfifo(kept / "t" / "pipe.jsonl")


def add_links(kept):
    (kept / "t" / "loop.jsonl").symlink_to("loop.jsonl")
    (kept / "loop").symlink_to("loop")
    (kept / "t" / "gone.jsonl").symlink_to("nothing")


def add_files(kept):
    (kept / "a file").touch()
    (kept / "t" / "no name.jsonl").write_text('{"type":"user"}\n')
    (kept / "t" / "._one.jsonl").write_bytes(b"\0\5\x16\7")


@pytest.mark.parametrize("add", [add_folders, add_a_pipe, add_links, add_files])
def test_what_lies_beside_the_transcripts_hides_none_of_them(path, add):
    stores = open_stores(f"sqlite:{path}")
    stores.open("t", "one").append([b.assistant("first", id="msg_1")])
    stores.close()
    add(path.parent)
    for url in (f"sqlite:{path}", str(path.parent)):
        stores = open_stores(url)
        found = ([each.name for each in stores.conversations("t")], stores.find_by_message("t", "msg_1"))
        assert found == (["one"], "one")
        assert stores.find_by_message("t", "msg_2") is None
        assert list(stores.first_lines("t", 9)) == ["one"]
        stores.close()
    listed = CliRunner().invoke(main, ["export", "--store", f"sqlite:{path}", "--tenant", "t"])
    assert (listed.exit_code, listed.stdout.split()[2:]) == (0, ["one"])


@pytest.mark.parametrize("name", ["t", "t/one.jsonl"])
def test_what_cannot_be_read_is_skipped_with_a_warning_and_not_forgotten(path, name, monkeypatch, caplog):
    stores = open_stores(f"sqlite:{path}")
    stores.open("t", "one").append([b.assistant("first", id="msg_1")])
    stores.open("u", "two").append([b.assistant("second", id="msg_2")])
    stores.close()
    closed, listdir, stat = path.parent / name, os.listdir, os.stat

    # The owner of the machine may read everything, also where tests run as this user.
    def refuse_listing(folder):
        if os.fspath(folder) == str(closed):
            raise PermissionError(13, "Permission denied", str(folder))
        return listdir(folder)

    def refuse_looking(at, **how):
        if os.fspath(at) == str(path.parent / "t" / "one.jsonl"):
            raise PermissionError(13, "Permission denied", str(at))
        return stat(at, **how)

    with monkeypatch.context() as patch:
        patch.setattr(os, "listdir", refuse_listing)
        patch.setattr(os, "stat", refuse_looking)
        open_stores(f"sqlite:{path}").close()
    assert f"{closed} " in caplog.text
    assert "cannot be read: Permission denied." in caplog.text
    stores = open_stores(f"sqlite:{path}")
    assert [stores.find_by_message(*each) for each in (("t", "msg_1"), ("u", "msg_2"))] == ["one", "two"]
    stores.close()


def test_a_version_of_the_schema_that_is_no_number_is_explained(path):
    SqliteStores(path).close()
    database = sqlite3.connect(path)
    with database:
        database.execute("UPDATE schema_version SET version = 'x'")
    database.close()
    with pytest.raises(StoreError) as raised:
        SqliteStores(path)
    assert str(raised.value) == (
        f"The database {path} is damaged: its schema_version holds 'x' and 1 instead of two numbers. Move it "
        "away: what it knows of transcripts is read from them again, and its counters begin at 0."
    )


@pytest.mark.spec("GW-17")
def test_the_schema_moves_forward_and_an_old_program_is_told(path):
    added = Migration(2, 1, ("ALTER TABLE counter ADD COLUMN note TEXT",))
    removed = Migration(3, 3, ("DROP TABLE counter",))
    SqliteStores(path).close()
    SqliteStores(path, migrations=(*MIGRATIONS, added)).close()
    SqliteStores(path).close()
    SqliteStores(path, migrations=(*MIGRATIONS, added, removed)).close()
    with pytest.raises(StoreError, match="its schema has version 3 and needs a program that knows at least"):
        SqliteStores(path)
