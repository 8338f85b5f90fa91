"""The ledger: bounded, with every key in every row, without keys of users; and what reset frees."""

import json
import tracemalloc

import pytest
from twin.asking import Desk, user

from everturn.twin.build import build_twin
from everturn.twin.ledger import workspace_id
from everturn.twin.options import TwinOptions
from everturn.twin.routes import HttpRequest, dispatch, reset

ASK = {"model": "claude-opus-5", "max_tokens": 50, "messages": [user("hi")]}


def headers(key="sk-ant-secret"):
    return {"x-api-key": key, "anthropic-version": "2026-10-21"}


@pytest.mark.spec("TW-3")
def test_the_ledger_keeps_the_newest_entries_up_to_its_size():
    desk = Desk(TwinOptions(ledger_size=3))
    ids = [desk.send(messages=[user(str(n))]).headers["request-id"] for n in range(5)]
    assert [entry["id"] for entry in desk.twin.ledger()] == ids[2:]


@pytest.mark.spec("TW-3")
def test_every_row_has_the_same_keys():
    twin = build_twin()
    body = json.dumps(ASK).encode()
    twin.messages(headers(), body)
    twin.messages({}, body)
    twin.messages(headers(), b"{")
    twin.messages(headers(), json.dumps(ASK | {"model": "claude-nope"}).encode())
    twin.count_tokens(headers(), json.dumps({key: ASK[key] for key in ("model", "messages")}).encode())
    batch = json.dumps(
        {"requests": [{"custom_id": "a", "params": ASK}, {"custom_id": "b", "params": {}}]}
    ).encode()
    dispatch(twin, HttpRequest("POST", "/v1/messages/batches", headers(), batch))
    twin.clock.advance(300)
    rows = twin.ledger()
    assert [row["status"] for row in rows] == [200, 401, 400, 404, 200, 200, 400]
    assert {tuple(row) for row in rows} == {tuple(rows[0])}


def test_no_output_contains_the_key():
    twin = build_twin()
    requests = [
        HttpRequest("POST", "/v1/messages", headers(), json.dumps(ASK).encode()),
        HttpRequest("POST", "/v1/messages", headers(), b"{"),
        HttpRequest("POST", "/twin/script", headers(), b'{"replies": ["x"]}'),
        HttpRequest("POST", "/twin/faults", headers(), b'{"faults": ["overloaded"]}'),
        HttpRequest("GET", "/twin/ledger", headers()),
        HttpRequest("GET", "/v1/models", headers()),
        HttpRequest("POST", "/twin/reset", headers(), b"{}"),
    ]
    for request in requests:
        response = dispatch(twin, request)
        assert "sk-ant-secret" not in f"{response.headers}{response.body!r}"


def test_the_ledger_of_one_workspace_is_found_by_its_key_or_its_id():
    twin = build_twin()
    for key in ("a", "b"):
        twin.messages(headers(key), json.dumps(ASK).encode())
    assert twin.ledger("b") == twin.ledger(workspace_id("b")) == twin.ledger()[1:]


def test_reset_frees_the_memory():
    twin = build_twin()
    tracemalloc.start()
    reset(twin)
    before, _ = tracemalloc.get_traced_memory()
    for n in range(40):
        large = ASK | {
            "messages": [user(f"{n} " + "x" * 200_000)],
            "diagnostics": {"previous_message_id": None},
        }
        assert twin.messages(headers(), json.dumps(large).encode()).status == 200
    held, _ = tracemalloc.get_traced_memory()
    reset(twin)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held - before > 8_000_000
    assert after - before < 1_000_000
