"""Sessions and commands on every store."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from small_session import SmallSession

import everturn
from everturn.cli import main
from everturn.errors import SessionLocked
from everturn.session.store.migrations import Migration
from everturn.session.store.postgres.schema import MIGRATIONS
from everturn.session.store.postgres.stores import PostgresStores
from everturn.session.transcripts import open_transcript


@pytest.mark.spec("GW-12")
@pytest.mark.parametrize("kind", ["folder", "sqlite", "postgres"], indirect=True)
def test_a_session_in_a_store_continues_where_it_was_left_and_is_exported_as_it_was_recorded(
    twin, url, tenant, tmp_path, kind
):
    store = {"url": url, "tenant": tenant, "folder": str(tmp_path / "local")}
    with everturn.Session.open("work", client=twin.client(), store=store, config=None) as session:
        session.send("My cat is called Minka.")
    with everturn.Session.open("work", client=twin.client(), store=store, config=None) as session:
        session.send("What is it called?")
        assert "Minka" in str(session.conversation.log.view.records[0])
        assert session.recall("Minka")
        session.compact()
        recorded = [record.uuid for record in session.conversation.log.records]
    out = tmp_path / "out.jsonl"
    runner = CliRunner()
    said = runner.invoke(main, ["export", "work", "--store", url, "--tenant", tenant, "--out", str(out)])
    assert (said.exit_code, said.output) == (0, "")
    assert [record.uuid for record in open_transcript(out).records] == recorded
    printed = runner.invoke(main, ["export", "work", "--store", url, "--tenant", tenant])
    assert printed.stdout_bytes == out.read_bytes()
    if kind != "postgres":
        assert out.read_bytes() == next(Path(tmp_path, "kept").glob("*/work.jsonl")).read_bytes()
    listed = runner.invoke(main, ["export", "--store", url, "--tenant", tenant, "--json"])
    assert [each["conversation"] for each in json.loads(listed.stdout)] == ["work"]
    opened = [runner.invoke(main, [command, str(out)]) for command in ("context", "audit", "undo")]
    assert [each.exit_code for each in opened] == [0, 0, 0]


@pytest.mark.spec("CP-36")
def test_a_session_in_a_store_is_rewound_and_returns_to_the_branch_left_behind(twin, url, tenant, tmp_path):
    store = {"url": url, "tenant": tenant, "folder": str(tmp_path / "local")}
    with everturn.Session.open("work", client=twin.client(), store=store, config=None) as session:
        session.send("My cat is called Minka.")
        session.send("What is it called?")
        records = session.conversation.log.records
        assert session.branches() == ()
        done = session.rewind(records[2].uuid)
        assert done == everturn.Rewind("What is it called?", records[3].uuid, 2)
        assert [(each.uuid, each.messages) for each in session.branches()] == [(records[3].uuid, 2)]
        session.rewind(records[3].uuid)
        said = [each for each in session.conversation.log.records if each.kind in ("user", "assistant")]
        assert [each.uuid for each in said] == [each.uuid for each in records]


@pytest.mark.spec("GW-14")
def test_a_second_session_on_one_name_is_told_who_has_it(twin, postgres_url, tenant, tmp_path):
    store = {"url": postgres_url, "tenant": tenant, "folder": str(tmp_path)}
    with everturn.Session.open("work", client=twin.client(), store=store, config=None) as session:
        session.send("Hello.")
        with pytest.raises(
            SessionLocked, match=r"The conversation work of the tenant \S+ is being written by"
        ):
            everturn.Session.open("work", client=twin.client(), store=store, config=None)
        reader = everturn.Session.open("work", client=twin.client(), store=store, config=None, access="read")
        assert len(reader.conversation.log.records) == 2
        reader.close()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["export", "x"], 2, "No store is named: use --store URL, or configure `store.url`."),
        (["export", "x", "--store", "kept"], 1, "There is no conversation x of the tenant default in"),
        (["export", "x", "--store", "sqlite:no.sqlite"], 1, "There is no store"),
        (["export", "x", "--store", "sqlite:a.jsonl"], 1, "a.jsonl is not an SQLite database. Give the"),
        (["export", "--store", "kept"], 0, "The tenant default has no conversation in"),
        (["export", "--store", "redis://h"], 1, "redis: is not a kind of store."),
    ],
)
def test_an_export_that_cannot_be_done_is_explained(arguments, code, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.jsonl").write_text("{}\n")
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == code
    assert said in done.output


def test_an_sqlite_store_is_exported_while_a_gateway_has_it_open(tmp_path):
    import builders as b

    from everturn.session.store.places import open_stores

    stores = open_stores(f"sqlite:{tmp_path}/kept/s.sqlite")
    stores.open("default", "work").append([b.user("hi")])
    done = CliRunner().invoke(main, ["export", "work", "--store", f"sqlite:{tmp_path}/kept/s.sqlite"])
    assert (done.exit_code, json.loads(done.stdout)["uuid"]) == (0, "hi")
    stores.close()


def test_the_end_of_a_name_is_enough_to_export_a_conversation(tmp_path):
    import builders as b

    from everturn.session.store.places import open_stores

    stores = open_stores(str(tmp_path / "kept"))
    for name in ("2026-11-19-a1", "2026-11-19-b2", "2026-11-20-b2"):
        stores.open("default", name).append([b.user("hi", uuid=name)])
    stores.close()

    def export(given: str) -> tuple[int, str]:
        done = CliRunner().invoke(main, ["export", given, "--store", str(tmp_path / "kept")])
        return done.exit_code, json.loads(done.stdout)["uuid"] if done.exit_code == 0 else done.stderr

    assert [export(name) for name in ("a1", "2026-11-20-b2")] == [(0, "2026-11-19-a1"), (0, "2026-11-20-b2")]
    code, said = export("b2")
    assert (code, "2 conversations end with b2. Give the whole name of one." in said) == (2, True)


def test_an_export_says_that_the_end_of_the_conversation_is_lost_and_so_does_the_exported_file(
    twin, tmp_path
):
    store = {"url": f"sqlite:{tmp_path}/kept/s.sqlite", "tenant": "acme"}
    with everturn.Session.open("work", client=twin.client(), store=store, config=None) as session:
        session.send("My cat is called Minka.")
        session.send("What is it called?")
        path = Path(session.path)
    whole, out = path.read_bytes(), tmp_path / "out.jsonl"
    arguments = ["export", "work", "--store", store["url"], "--tenant", "acme"]

    def export(*more: str) -> tuple[int, str]:
        done = CliRunner().invoke(main, [*arguments, *more])
        return done.exit_code, done.stderr

    assert export("--out", str(out)) == (0, "")
    assert CliRunner().invoke(main, ["recall", str(out), "Minka"]).stderr == ""
    rest = b"".join(whole.splitlines(keepends=True)[:-2])
    path.write_bytes(rest)
    sizes = f"it has {len(rest):,} bytes, and had {len(whole):,} when its state was written"
    lost = f"line 2: the end of the file is missing: {sizes}"
    assert export("--out", str(out)) == export() == (0, f"Warning: work: {lost}\n")
    found = CliRunner().invoke(main, ["recall", str(out), "Minka"])
    assert (found.exit_code, found.stderr) == (0, f"Warning: {out} is damaged: {lost}\n")


@pytest.mark.spec("GW-17")
def test_a_session_works_beside_a_replica_of_the_next_version_and_says_when_it_is_too_old(
    twin, new_database, tmp_path
):
    added = Migration(2, 1, ("ALTER TABLE everturn.line ADD COLUMN note text",))
    removed = Migration(3, 2, ("DROP TABLE everturn.counter",))
    store = {"url": new_database, "folder": str(tmp_path)}
    with everturn.Session.open("work", client=twin.client(), store=store, config=None) as session:
        session.send("Hello.")
        PostgresStores(new_database, tmp_path, migrations=(*MIGRATIONS, added)).close()
        session.send("Are you still there?")
    with everturn.Session.open("work", client=twin.client(), store=store, config=None) as session:
        assert len(session.conversation.log.records) == 4
    PostgresStores(new_database, tmp_path, migrations=(*MIGRATIONS, added, removed)).close()
    done = CliRunner().invoke(main, ["export", "work", "--store", new_database])
    assert done.exit_code == 1
    assert "its schema has version 3 and needs a program that knows at least version 2" in done.output


def test_commands_on_files_work_on_files_wherever_other_conversations_are_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("EVERTURN_STORE_URL", str(tmp_path / "elsewhere"))
    file = tmp_path / "work.jsonl"
    small = SmallSession()
    for number in range(8):
        small.human("Look at the parser.")
        small.reply(f"m{number}", {"type": "text", "text": "Well. " * 2_000}, plain=9)
    file.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in small.lines))
    done = CliRunner().invoke(main, ["compact", str(file), "--set", "compact.strategies=extractive"])
    assert done.exit_code == 0, done.output
    assert len(file.read_bytes().splitlines()) > len(small.lines)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.spec("GW-13")
async def test_an_asynchronous_caller_is_continued_by_another_replica(twin, postgres_url, tenant, tmp_path):
    store = {"url": postgres_url, "tenant": tenant}
    replicas = [everturn.middleware(folder=tmp_path / str(each), store=store, config=None) for each in (1, 2)]
    clients = [twin.async_client(middleware=[each], max_retries=0) for each in replicas]
    messages = []
    for number in range(4):
        messages.append({"role": "user", "content": f"Question {number}."})
        reply = await clients[number % 2].messages.create(
            model="claude-haiku-4-5", max_tokens=100, messages=messages
        )
        messages.append({"role": "assistant", "content": reply.content})
    stores = PostgresStores(postgres_url, tmp_path)
    (kept,) = stores.conversations(tenant)
    assert len(stores.open(tenant, kept.name, access="read").records) == 8
    stores.close()
    for each in replicas:
        each.close()
