"""Gateways whose conversations are in a database."""

import pytest
from gateway.lab import OpenLab
from gateway.test_identity import Client

from everturn.session.store.places import open_stores


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
    lab: OpenLab, twin_url: str, postgres_url: str, tmp_path, mode
):
    store = {"url": postgres_url, "deadline": 5.0}
    pair = [lab(twin_url, f"replica {n}", mode=mode, overrides={"store": store}) for n in range(2)]
    client = Client(pair[0])
    names = set()
    for number in range(6):
        client.lab = pair[number % 2]
        names.add(client.ask(f"Entry {number} of {tmp_path.name}."))
        client.lab.settle()
    # An observed request is answered before it is recognised, if that takes longer.
    assert len(names - {"pending"}) == 1
    recorded = [each.gateway.tenants.bill.parts["conversation"].calls for each in pair]
    assert recorded == [3, 3]


def test_a_database_that_does_not_answer_delays_nobody_and_is_told(lab: OpenLab, twin_url: str, tmp_path):
    url = "postgresql://nobody@127.0.0.1:9/none"
    running = lab(twin_url, overrides={"store": {"url": url, "deadline": 0.5}})
    client = Client(running)
    client.ask("Hello.")
    running.settle()
    client.ask("Are you there?")
    assert client.note == "not tracked: everturn failed"
