"""Gateways whose conversations are in a database."""

import json
import time
from uuid import uuid4

import pytest
from gateway.lab import MODEL, Connection, OpenLab, RawUpstream, Seen, message, reply
from gateway.test_identity import Client
from gateway.test_manage import LONG, OK, SMALL, answering, body_of
from postgres_server import sql

from everturn.gateway.tokens import TokenEntry, Tokens, digest_token
from everturn.session.store.places import open_stores

TOOL = {"name": "look", "description": "Look.", "input_schema": {"type": "object", "properties": {}}}


def test_a_conversation_in_sqlite_is_found_again_after_a_restart(lab: OpenLab, twin_url: str, tmp_path):
    url = f"sqlite:{tmp_path}/kept/conversations.sqlite"
    first = lab(twin_url, overrides={"store": {"url": url}})
    client = Client(first, "s1")
    name = client.ask("Remember the number 17.")
    first.settle()
    first.gateway.tenants.close()
    client.lab = lab(twin_url, overrides={"store": {"url": url}})
    assert client.ask("And 18.") == name
    client.lab.settle()
    client.lab.gateway.tenants.close()
    # No files of conversations in the folder of a gateway without a store.
    assert (first.transcripts(), client.lab.transcripts()) == ([], [])
    stores = open_stores(url, folder=tmp_path / "local", fsync="never")
    [kept] = stores.conversations("local")
    stores.close()
    assert kept.name.endswith(name)


@pytest.mark.spec("GW-13")
@pytest.mark.parametrize("mode", ["observe", "manage"])
def test_two_gateways_on_one_postgresql_serve_one_conversation_in_turn(
    lab: OpenLab, twin_url: str, postgres_url: str, mode
):
    store = {"url": postgres_url, "deadline": 30.0}
    pair = [lab(twin_url, f"replica {n}", mode=mode, overrides={"store": store}) for n in range(2)]
    client = Client(pair[0])
    # Of this test alone: others use the same server meanwhile, and would continue the same words.
    own, names = uuid4(), set()
    for number in range(6):
        client.lab = pair[number % 2]
        names.add(client.ask(f"Entry {number} of {own}."))
        client.lab.settle()
    assert len(names) == 1
    recorded = [each.gateway.tenants.bill.parts["conversation"].calls for each in pair]
    assert recorded == [3, 3]


def test_a_database_that_does_not_answer_delays_nobody_and_is_told(lab: OpenLab, twin_url: str, tmp_path):
    url = "postgresql://nobody@127.0.0.1:9/none"
    running = lab(twin_url, overrides={"store": {"url": url, "deadline": 0.5}})
    client = Client(running)
    client.ask("Hello.")
    running.settle()
    client.ask("Are you there?")
    assert client.note == "not tracked: the store does not answer"


@pytest.mark.spec("GW-10", "GW-13")
def test_a_thread_is_continued_by_a_replica_that_has_not_seen_it(
    lab: OpenLab, postgres_url: str, tenant: str
):
    """Only the new message arrives there, and the id of a reply; the same bytes leave."""
    number = iter(range(1, 100))

    def answer(connection: Connection, _: Seen) -> None:
        id = next(number)
        connection.send(reply(json.dumps(message(f"Reply {id}.", f"msg_{tenant}_{id}")).encode()))

    upstream = RawUpstream(answer)
    replicas = [
        lab(upstream, f"replica {each}", mode="manage", overrides={"store": {"url": postgres_url}})
        for each in range(2)
    ]
    asked = {"model": MODEL, "max_tokens": 100, "system": f"You serve {tenant}.", "tools": [TOOL]}
    sent = {**asked, "thread": {"type": "create"}, "messages": [{"role": "user", "content": "Begin."}]}
    found = replicas[0].ask(sent)
    for at in (1, 0, 1):
        replicas[1 - at].settle()
        thread = {"type": "continue", "previous_message_id": json.loads(found.body)["id"]}
        said = {"role": "user", "content": f"Turn at replica {at}."}
        before = found
        found = replicas[at].ask({"model": MODEL, "max_tokens": 100, "thread": thread, "messages": [said]})
        assert found.headers["x-everturn-session"] == before.headers["x-everturn-session"]
        assert "x-everturn-note" not in found.headers
    bodies = [json.loads(each.body) for each in upstream.seen]
    assert {json.dumps([each["system"], each["tools"]]) for each in bodies} == {
        json.dumps([bodies[0]["system"], bodies[0]["tools"]])
    }
    assert [len(each["messages"]) for each in bodies] == [1, 3, 5, 7]
    last = [each["content"][0]["text"] for each in bodies[-1]["messages"]]
    assert last == [
        "Begin.", "Reply 1.", "Turn at replica 1.", "Reply 2.", "Turn at replica 0.", "Reply 3.",
        "Turn at replica 1.",
    ]  # fmt: skip


@pytest.mark.spec("GW-13")
def test_whichever_replica_serves_a_request_sends_the_same_bytes(
    lab: OpenLab, postgres_url: str, tenant: str
):
    """Also for a compacted view. A refused request is sent again elsewhere, as a load balancer does."""
    refusal = b'{"type":"error","error":{"type":"overloaded_error","message":"busy"}}'
    upstream = RawUpstream(answering(reply(refusal, "529 Overloaded")))
    replicas = [
        lab(upstream, f"replica {each}", mode="manage", overrides={**SMALL, "store.url": postgres_url})
        for each in range(3)
    ]
    sent = body_of(12)
    sent["messages"][0]["content"] = f"Begin {tenant}. {LONG}"
    upstream.answers = [answering(OK)]
    assert "compacted: " in replicas[0].ask(sent).headers["x-everturn-note"]
    replicas[0].settle()
    upstream.answers = [answering(reply(refusal, "529 Overloaded"))]
    sent["messages"] += [{"role": "assistant", "content": "Hello."}, {"role": "user", "content": "More."}]
    upstream.seen.clear()
    assert [each.ask(sent).status for each in (*replicas, replicas[0])] == [529] * 4
    assert len({each.body for each in upstream.seen}) == 1
    assert len(upstream.seen[0].body) < len(json.dumps(sent)) / 2


@pytest.mark.spec("GW-3", "GW-16")
@pytest.mark.parametrize("cut", [0, 1, 40, 80])
def test_what_arrives_of_a_reply_that_is_cut_off_is_relayed_where_ends_wait_for_their_record(
    lab: OpenLab, postgres_url: str, cut: int
):
    whole = json.dumps(message()).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(whole)

    def answer(connection: Connection, _: Seen) -> None:
        connection.send(head + whole[: cut // 2])
        time.sleep(0.02)
        connection.send(whole[cut // 2 : cut])
        raise OSError

    running = lab(RawUpstream(answer), overrides={"store": {"url": postgres_url}})
    asked = json.dumps({"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": "Hi."}]})
    with running.post(asked.encode(), "connection: close") as sock:
        got = b""
        while piece := sock.recv(65536):
            got += piece
    assert got.partition(b"\r\n\r\n")[2] == whole[:cut]


def test_a_reply_is_recorded_before_its_response_ends(lab: OpenLab, postgres_url: str, tenant: str):
    """The next request may arrive at another replica at once."""
    upstream = RawUpstream(reply(json.dumps(message("Yes.", f"msg_{tenant}")).encode()))
    running = lab(upstream, mode="manage", overrides={"store": {"url": postgres_url}})
    asked = {"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": f"Hi {tenant}."}]}
    assert running.ask(asked).status == 200
    found = "SELECT count(*) FROM everturn.message WHERE id = $1"
    assert sql(postgres_url, found, f"msg_{tenant}") == [(1,)]


@pytest.mark.spec("GW-14")
def test_a_conversation_that_another_replica_is_writing_is_not_copied(
    lab: OpenLab, twin_url: str, postgres_url: str, tenant: str, tmp_path, monkeypatch
):
    """A copy could be compacted, too. The request goes out as it came, and says why."""
    monkeypatch.setattr("everturn.adapters.tracking.tracker.LEASE_SECONDS", 0.2)
    replicas = [
        lab(
            twin_url,
            f"replica {each}",
            mode="manage",
            overrides={"store": {"url": postgres_url}},
            tokens=Tokens((TokenEntry(tenant, digest_token("evt_t")),)),
        )
        for each in range(2)
    ]
    client = Client(replicas[0])
    client.headers["x-everturn-token"] = "evt_t"
    name = client.ask("Hello.")
    replicas[0].settle()
    stores = open_stores(postgres_url, folder=tmp_path / "other")
    [kept] = stores.conversations(tenant)
    held = stores.open(tenant, kept.name)
    for client.lab in replicas:
        assert client.ask("Are you there?") == "none"
        note = "not tracked: another replica is writing this conversation"
        assert (client.mode, client.note) == ("observe", note)
    held.close()
    for client.lab in replicas:
        assert (client.ask("And now?"), client.mode) == (name, "manage")
    assert [each.name for each in stores.conversations(tenant)] == [kept.name]
    stores.close()
