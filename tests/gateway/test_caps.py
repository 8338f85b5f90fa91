"""Caps on summaries: shared between replicas, and kept over restarts."""

from concurrent.futures import ThreadPoolExecutor
from datetime import date
from decimal import Decimal

import pytest
from gateway.lab import OpenLab, RawUpstream
from gateway.test_manage import LONG, OK, SMALL, answering, body_of, is_summary

from everturn.errors import StoreUnavailable
from everturn.gateway.caps import CapKey, SummaryCaps
from everturn.gateway.limits import CapSettings
from everturn.gateway.tokens import TokenEntry, Tokens, digest_token
from everturn.session.bill import UsageTotals
from everturn.session.store.memory import MemoryStores
from everturn.session.store.places import open_stores

MONDAY, TUESDAY = date(2026, 11, 16), date(2026, 11, 17)


def test_caps_count_what_summaries_used_in_a_session_and_on_a_day():
    stores = MemoryStores()
    caps = SummaryCaps(CapSettings(session_calls=2, tenant_calls=3), lambda: stores)
    days = [("a", MONDAY), ("a", MONDAY), ("a", MONDAY), ("b", MONDAY), ("b", MONDAY), ("b", TUESDAY)]
    told = [caps.begin(CapKey("tenant", session, day)) for session, day in days]
    assert told == ["", "", "session_calls", "", "tenant_calls", ""]
    assert caps.begin(CapKey("other", "a", MONDAY)) == ""
    stores.close()


@pytest.mark.parametrize(
    ("settings", "exceeded"),
    [
        (CapSettings(session_tokens=100), "session_tokens"),
        (CapSettings(session_dollars=0.25), "session_dollars"),
        (CapSettings(tenant_tokens=100), "tenant_tokens"),
        (CapSettings(tenant_dollars=0.25), "tenant_dollars"),
    ],
)
def test_tokens_and_dollars_are_counted_when_a_summary_has_ended(settings: CapSettings, exceeded: str):
    stores = MemoryStores()
    caps, key = SummaryCaps(settings, lambda: stores), CapKey("tenant", "a", MONDAY)
    half = UsageTotals(calls=1, input=20, written=10, read=15, output=5, dollars=Decimal("0.125"))
    told = []
    for _ in range(3):
        told.append(caps.begin(key))
        caps.end(key, half)
    assert told == ["", "", exceeded]
    stores.close()


@pytest.mark.spec("GW-20")
@pytest.mark.parametrize("kind", ["folder", "sqlite"])
def test_a_restart_does_not_give_a_session_new_summaries(lab: OpenLab, tmp_path, kind: str):
    """The caps of a gateway without options are kept, too."""
    upstream = RawUpstream(answering(OK))
    store = {"store.url": f"sqlite:{tmp_path}/kept/c.sqlite"} if kind == "sqlite" else {}
    sent, used = body_of(12), []
    for turn in range(2):
        sent["messages"][0]["content"] = f"Begin number {turn}. {LONG}"
        running = lab(
            upstream, mode="manage", overrides={**SMALL, **store}, caps=CapSettings(session_calls=1)
        )
        found = running.ask(sent, headers={"x-claude-code-session-id": "one"})
        assert found.status == 200
        used.append(sum(map(is_summary, upstream.seen)))
        running.settle()
        running.gateway.tenants.close()
    assert used == [1, 1]
    assert "no summary: the cap session_calls is used up" in found.headers["x-everturn-note"]


@pytest.mark.spec("GW-20")
def test_replicas_share_the_caps_of_a_tenant(lab: OpenLab, postgres_url: str, tenant: str):
    upstream = RawUpstream(answering(OK))
    pair = [
        lab(
            upstream,
            f"replica {number}",
            mode="manage",
            overrides={**SMALL, "store.url": postgres_url},
            caps=CapSettings(tenant_calls=1),
            tokens=Tokens((TokenEntry(tenant, digest_token("evt_t")),)),
        )
        for number in range(2)
    ]
    notes = []
    for number, running in enumerate(pair):
        sent = body_of(12)
        sent["messages"][0]["content"] = f"Begin {number} of {tenant}. {LONG}"
        notes.append(running.ask(sent, headers={"x-everturn-token": "evt_t"}).headers["x-everturn-note"])
    assert sum(map(is_summary, upstream.seen)) == 1
    assert notes[0].startswith("compacted: ")
    assert "no summary: the cap tenant_calls is used up" in notes[1]


@pytest.mark.spec("GW-20")
def test_replicas_that_ask_at_once_never_exceed_the_cap_on_calls_together(
    postgres_url: str, tenant: str, tmp_path
):
    stores = [open_stores(postgres_url, folder=tmp_path / str(each)) for each in range(2)]
    caps = [SummaryCaps(CapSettings(tenant_calls=7), lambda each=each: each) for each in stores]
    with ThreadPoolExecutor(8) as pool:
        keys = [CapKey(tenant, f"s{number}", MONDAY) for number in range(24)]
        told = list(pool.map(lambda at: caps[at % 2].begin(keys[at]), range(24)))
    assert (told.count(""), told.count("tenant_calls")) == (7, 17)
    for each in stores:
        each.close()


def test_no_summary_is_made_while_nobody_knows_what_was_used(lab: OpenLab, monkeypatch):
    upstream = RawUpstream(answering(OK))
    running = lab(upstream, mode="manage", overrides=SMALL)

    def raise_unavailable(*_):
        raise StoreUnavailable("It does not answer.")

    monkeypatch.setattr(SummaryCaps, "begin", raise_unavailable)
    found = running.ask(body_of(12))
    assert found.status == 200
    assert found.headers["x-everturn-note"].startswith("compacted: ")  # by the summary without a model
    assert sum(map(is_summary, upstream.seen)) == 0
