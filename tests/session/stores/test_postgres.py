"""What only a database can do: stop answering, lose an answer, give a lease to somebody else."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import builders as b
import pytest
from postgres_proxy import Proxy
from postgres_server import sql

from everturn.errors import LeaseLost, StoreError, StoreUnavailable, UsageError
from everturn.session.store.migrations import Migration
from everturn.session.store.places import open_stores
from everturn.session.store.postgres.schema import MIGRATIONS
from everturn.session.store.postgres.stores import PostgresStores

DEADLINE = 0.4


@pytest.fixture
def proxy(postgres_url) -> Iterator[Proxy]:
    made = Proxy(Path(parse_qs(urlsplit(postgres_url).query)["host"][0]))
    yield made
    made.close()


@pytest.fixture
def far(proxy, tmp_path) -> Iterator[PostgresStores]:
    """Stores behind the proxy, with a short deadline."""
    url = f"postgresql://everturn@/postgres?host={proxy.host}"
    made = PostgresStores(url, tmp_path / "far", deadline=DEADLINE)
    yield made
    proxy.set("open")
    made.close()


@pytest.fixture
def near(postgres_url, tmp_path) -> Iterator[PostgresStores]:
    made = PostgresStores(postgres_url, tmp_path / "near")
    yield made
    made.close()


def lines(url: str, tenant: str) -> int:
    return sql(url, "SELECT count(*) FROM everturn.line WHERE tenant = $1", tenant)[0][0]


def expire(url: str, tenant: str) -> None:
    sql(url, "UPDATE everturn.conversation SET lease_until = '-infinity' WHERE tenant = $1", tenant)


# ── a server that does not answer ────────────────────────────────────────────────────────────────


def test_a_server_that_is_not_there_is_named_without_its_password(tmp_path):
    url = f"postgresql://me:secret@/db?host={tmp_path}&password=hidden"
    with pytest.raises(StoreUnavailable) as caught:
        open_stores(url, folder=tmp_path)
    assert str(caught.value).startswith("PostgreSQL at the local socket/db cannot be used: ")
    assert str(caught.value).endswith(
        ". Check that the server runs, the address, and that it has connections left."
    )
    assert "secret" not in str(caught.value)
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("password", ["ab/c+d@e=", "ab/cd", "12/34", "ab?cd", "ab#cd", "12#34"])
def test_a_password_that_ends_the_host_too_early_is_not_repeated(password, tmp_path):
    with pytest.raises(UsageError) as caught:
        open_stores(f"postgresql://me:{password}@h/db", folder=tmp_path)
    assert str(caught.value) == (
        "What was given is not an address of PostgreSQL. Write postgresql://USER@HOST:PORT/DATABASE, with "
        '"/", "?", "#" and "@" in a password as %XX, or the password in PGPASSWORD.'
    )


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://h:port/db", "is not an address of PostgreSQL"),
        ("redis://h/0", "redis: is not a kind of store. Use memory:, a folder, sqlite:PATH or postgresql://"),
        ("sqlite:", "has no path"),
    ],
)
def test_a_wrong_url_is_explained(url, said, tmp_path):
    with pytest.raises(UsageError, match=said):
        open_stores(url, folder=tmp_path)


def test_a_server_that_stalls_costs_the_deadline_then_nothing_and_is_back_by_itself(far, proxy, tenant):
    store = far.open(tenant, "one")
    proxy.set("stalled")
    took = []
    for _ in range(4):
        start = time.monotonic()
        with pytest.raises(StoreUnavailable):
            far.conversations(tenant)
        took.append(time.monotonic() - start)
    # Three failures, each at its deadline; then the breaker, which asks nobody.
    assert [each > DEADLINE / 2 for each in took] == [True, True, True, False]
    assert max(took) < DEADLINE * 4
    with pytest.raises(StoreUnavailable, match="did not answer 3 times in a row; it is asked again in"):
        store.append([b.user("not sent")])
    proxy.set("open")
    time.sleep(0.6)
    # Nothing was sent, so the store is as it was.
    store.append([b.user("hi")])
    assert far.check() == ""
    assert [record.uuid for record in store.reopen().records] == ["hi"]


def test_an_append_without_an_answer_closes_the_store_until_it_is_opened_again(far, proxy, tenant):
    store = far.open(tenant, "one")
    proxy.set("stalled")
    with pytest.raises(StoreUnavailable, match=r"did not answer within 0\.4 s"):
        store.append([b.user("who knows")])
    proxy.set("open")
    with pytest.raises(StoreError, match="an append failed; open it again to see what it holds"):
        store.append([b.user("next")])
    again = store.reopen()
    known = [record.uuid for record in again.records]
    assert known in ([], ["who knows"])
    again.append([b.user("next")])
    assert [record.uuid for record in again.reopen().records] == [*known, "next"]


def test_a_connection_that_broke_is_replaced_without_anybody_noticing(far, proxy, tenant):
    store = far.open(tenant, "one")
    for number in range(3):
        proxy.drop()
        store.append([b.user(f"said {number}")])
    assert len(store.reopen().records) == 3


def test_an_answer_that_was_lost_is_asked_for_again_and_nothing_is_stored_twice(
    far, proxy, tenant, postgres_url
):
    store = far.open(tenant, "one")
    reached = far._database._perform_once  # pyright: ignore

    async def lose_the_first(act):
        far._database._perform_once = reached
        proxy_mode = proxy._mode
        proxy._loop.call_soon_threadsafe(setattr, proxy, "_mode", "deaf")
        try:
            return await reached(act)
        finally:
            proxy._loop.call_soon_threadsafe(setattr, proxy, "_mode", proxy_mode)
            await asyncio.sleep(0.05)

    far._database._perform_once = lose_the_first
    store.append([b.user("once")])
    assert lines(postgres_url, tenant) == 1
    store.append([b.user("next")])
    assert [record.uuid for record in store.reopen().records] == ["once", "next"]


# ── leases ───────────────────────────────────────────────────────────────────────────────────────


def test_a_replica_that_slept_too_long_is_told_who_took_over(near, far, tenant, postgres_url):
    slept = far.open(tenant, "one")
    slept.append([b.user("first")])
    expire(postgres_url, tenant)
    other = near.open(tenant, "one")
    other.append([b.user("second")])
    with pytest.raises(LeaseLost, match=r"taken over by \S+:\d+ while this one did not renew its lease"):
        slept.append([b.user("third")])
    assert slept.write_state(b"{}").startswith("The conversation one of the tenant")
    assert [record.uuid for record in other.reopen().records] == ["first", "second"]


def test_a_lease_that_expired_is_taken_back_if_nobody_else_asked(near, tenant, postgres_url):
    store = near.open(tenant, "one")
    store.append([b.user("first")])
    expire(postgres_url, tenant)
    store.append([b.user("second")])
    assert [record.uuid for record in store.reopen().records] == ["first", "second"]


def test_a_lease_is_renewed_while_its_store_is_open(postgres_url, tmp_path, near, tenant):
    holder = PostgresStores(postgres_url, tmp_path, lease=0.3)
    holder.open(tenant, "one")
    asked = "SELECT lease_until > clock_timestamp() FROM everturn.conversation WHERE tenant = $1"
    valid = []
    for _ in range(4):
        time.sleep(0.2)
        valid += sql(postgres_url, asked, tenant)
    holder.close()
    assert valid == [(True,)] * 4
    # Released at once: nobody has to wait for it to expire.
    near.open(tenant, "one").append([b.user("mine now")])


def test_a_store_that_has_lost_its_lease_does_not_end_that_of_another_one_in_its_process(
    postgres_url, tmp_path, tenant
):
    """A summary may be written meanwhile, and takes longer than a lease that nobody renews."""
    holder = PostgresStores(postgres_url, tmp_path, lease=0.3)
    old = holder.open(tenant, "one")
    expire(postgres_url, tenant)
    new = holder.open(tenant, "one")
    assert "was taken over" in old.write_state(b"{}")
    old.close()
    time.sleep(0.6)
    asked = "SELECT lease_until > clock_timestamp() FROM everturn.conversation WHERE tenant = $1"
    assert sql(postgres_url, asked, tenant) == [(True,)]
    new.append([b.user("still mine")])
    holder.close()


def test_two_replicas_never_both_compact_one_view(near, far, tenant):
    one = far.open(tenant, "one")
    one.append([b.user("hi", uuid="u1")])
    one.release()
    two = near.open(tenant, "one")
    assert [record.uuid for record in two.records] == ["u1"]
    two.append([b.boundary(uuid="b2", parent="u1"), b.summary(uuid="s2", parent="b2")])
    two.release()
    assert not one.resume()
    with pytest.raises(StoreError):
        one.append([b.boundary(uuid="b1", parent="u1"), b.summary(uuid="s1", parent="b1")])
    assert [record.uuid for record in one.reopen().records] == ["u1", "b2", "s2"]


# ── blobs ────────────────────────────────────────────────────────────────────────────────────────


def test_a_blob_is_kept_once_and_is_on_every_machine_that_opens_the_conversation(
    near, far, tenant, postgres_url
):
    store = near.open(tenant, "one")
    for name in ("a.txt", "b.txt"):
        store.write_blob(name, b"the same large result")
    store.close()
    kept = sql(postgres_url, "SELECT data FROM everturn.blob WHERE tenant = $1", tenant)
    assert kept == [(b"the same large result",)]
    elsewhere = Path(far.open(tenant, "one").blob_folder)
    assert {each.name: each.read_bytes() for each in elsewhere.iterdir()} == dict.fromkeys(
        ("a.txt", "b.txt"), b"the same large result"
    )


# ── migrations ───────────────────────────────────────────────────────────────────────────────────

ADDED = Migration(2, 1, ("ALTER TABLE everturn.conversation ADD COLUMN note text NOT NULL DEFAULT 'new'",))
REMOVED = Migration(3, 2, ("ALTER TABLE everturn.conversation DROP COLUMN changed_at",))


@pytest.mark.spec("GW-17")
def test_old_and_new_replicas_share_a_schema_for_one_version(new_database, tmp_path):
    old = PostgresStores(new_database, tmp_path)
    store = old.open("t", "one")
    store.append([b.user("before")])
    new = PostgresStores(new_database, tmp_path, migrations=(*MIGRATIONS, ADDED))
    store.append([b.user("after")])
    new.open("t", "two").append([b.user("new")])
    later = PostgresStores(new_database, tmp_path)
    assert {each.name for each in later.conversations("t")} == {"one", "two"}
    assert sql(new_database, "SELECT DISTINCT note FROM everturn.conversation") == [("new",)]
    assert sql(new_database, "SELECT version, oldest FROM everturn.schema_version") == [(2, 1)]
    for each in (old, new, later):
        each.close()


@pytest.mark.spec("GW-17")
def test_a_schema_that_is_too_new_is_refused_with_the_version_that_is_needed(new_database, tmp_path):
    PostgresStores(new_database, tmp_path, migrations=(*MIGRATIONS, ADDED, REMOVED)).close()
    with pytest.raises(StoreError) as caught:
        open_stores(new_database, folder=tmp_path)
    assert str(caught.value).endswith(
        "was written by a newer everturn: its schema has version 3 and needs a program that knows at least "
        "version 2; this one knows 1. Update everturn."
    )


@pytest.mark.spec("GW-17")
def test_replicas_that_start_together_migrate_once(new_database, tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: PostgresStores(new_database, tmp_path), range(4)))
    for each in made:
        each.close()
    assert sql(new_database, "SELECT version, oldest FROM everturn.schema_version") == [(1, 1)]


@pytest.mark.spec("GW-17")
def test_a_migration_that_fails_leaves_the_schema_as_it_was(new_database, tmp_path):
    PostgresStores(new_database, tmp_path).close()
    wrong = Migration(2, 1, (*ADDED.statements, "SELECT nonsense"))
    with pytest.raises(StoreError, match='refused: column "nonsense" does not exist'):
        PostgresStores(new_database, tmp_path, migrations=(*MIGRATIONS, wrong))
    assert sql(new_database, "SELECT version, oldest FROM everturn.schema_version") == [(1, 1)]
    PostgresStores(new_database, tmp_path, migrations=(*MIGRATIONS, ADDED)).close()


def test_an_append_whose_retry_finds_no_server_may_have_been_stored(far, proxy, tenant):
    store = far.open(tenant, "one")
    reached = far._database._perform_once

    async def break_and_close(act):
        far._database._perform_once = reached
        proxy._loop.call_soon_threadsafe(setattr, proxy, "_mode", "closed")
        await asyncio.sleep(0.05)
        raise ConnectionResetError("broken in the middle")

    far._database._perform_once = break_and_close
    with pytest.raises(StoreUnavailable, match="broken in the middle"):
        store.append([b.user("who knows")])
    assert store.read_only_reason == "an append failed; open it again to see what it holds"
