"""Message batches, through the SDK and over the paths of the API."""

import json
from datetime import UTC, datetime

import anthropic
import pytest
from twin.asking import FIVE, text, user

from everturn.twin.build import build_twin
from everturn.twin.options import TwinOptions
from everturn.twin.routes import HttpRequest, dispatch
from everturn.twin.testing import TwinForTests

PARAMS = {
    "model": "claude-opus-5",
    "max_tokens": 100,
    "messages": [user("hi")],
    "thinking": {"type": "disabled"},
}
OPEN = {
    "type": "message_batch",
    "processing_status": "in_progress",
    "request_counts": {"processing": 2, "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0},
    "ended_at": None,
    "created_at": "2026-11-15T00:00:00Z",
    "expires_at": "2026-11-16T00:00:00Z",
    "archived_at": None,
    "cancel_initiated_at": None,
    "results_url": None,
}


def item(name, **changes):
    return {"custom_id": name, "params": PARAMS | changes}


class Box:
    def __init__(self, **options):
        self.twin = build_twin(options=TwinOptions(**options))

    def send(self, method, path="", body=None, key="k", query=None):
        headers = {"x-api-key": key, "host": "localhost:8585", "anthropic-version": "2026-10-21"}
        data = b"" if body is None else json.dumps(body).encode()
        path = f"/v1/messages/batches{path}"
        return dispatch(self.twin, HttpRequest(method, path, headers, data, query or {}))

    def ask(self, *args, **more):
        response = self.send(*args, **more)
        assert response.status == 200, response.body
        return json.loads(response.body)

    def refused(self, *args, **more):
        response = self.send(*args, **more)
        return response.status, json.loads(response.body)["error"]["message"]

    def create(self, *items, **more):
        return self.ask("POST", body={"requests": list(items or (item("a"), item("b")))}, **more)

    def results(self, id):
        lines = self.send("GET", f"/{id}/results").body.splitlines()
        return {line["custom_id"]: line["result"] for line in map(json.loads, lines)}


@pytest.mark.spec("TW-1", "TW-9")
def test_a_batch_ends_when_the_clock_says_so_and_its_results_are_messages():
    box = Box(batch_seconds=600)
    box.twin.speaker.add([])
    batch = box.create(item("good"), item("bad", model="claude-nope"))
    id = batch.pop("id")
    assert id.startswith("msgbatch_01")
    assert batch == OPEN
    box.twin.clock.advance(599)
    assert box.ask("GET", f"/{id}")["processing_status"] == "in_progress"
    box.twin.clock.advance(1)
    assert box.ask("GET", f"/{id}") == OPEN | {
        "id": id,
        "processing_status": "ended",
        "request_counts": {"processing": 0, "succeeded": 1, "errored": 1, "canceled": 0, "expired": 0},
        "ended_at": "2026-11-15T00:10:00Z",
        "results_url": f"http://localhost:8585/v1/messages/batches/{id}/results",
    }
    results = box.results(id)
    assert results["good"]["message"]["content"][0]["type"] == "text"
    assert results["bad"]["error"]["error"] == {"type": "not_found_error", "message": "model: claude-nope"}


@pytest.mark.spec("TW-3")
def test_requests_in_a_batch_cost_half_and_use_the_cache():
    box = Box(min_cache={"claude-opus-5": 0})
    fields = {"messages": [user(text("x" * 4000, FIVE))]}
    headers = {"x-api-key": "k", "anthropic-version": "2026-10-21"}
    box.twin.messages(headers, json.dumps(PARAMS | fields).encode())
    id = box.create(item("a", **fields), item("b", max_tokens=0))["id"]
    box.twin.clock.advance(300)
    whole, half, refused = box.twin.ledger()
    assert (whole["batch_id"], half["batch_id"], refused["batch_id"]) == (None, id, id)
    assert half["usage"]["service_tier"] == "batch"
    assert half["usage"]["cache_read_input_tokens"] == whole["usage"]["cache_creation_input_tokens"]
    rates = {line["kind"]: line["dollars_per_mtok"] for line in half["lines"]}
    assert rates == {"input": 2.5, "cache_read": 0.25, "output": 12.5}
    assert (refused["status"], refused["error"]["message"]) == (
        400,
        "max_tokens: 0 is not supported in message batches",
    )


def test_a_canceled_batch_ends_without_answers():
    box = Box()
    id = box.create()["id"]
    assert box.ask("POST", f"/{id}/cancel")["processing_status"] == "canceling"
    ended = box.ask("GET", f"/{id}")
    assert (ended["processing_status"], ended["request_counts"]["canceled"]) == ("ended", 2)
    assert box.results(id) == {"a": {"type": "canceled"}, "b": {"type": "canceled"}}
    assert box.refused("POST", f"/{id}/cancel")[0] == 400
    assert box.twin.ledger() == []


def test_a_batch_that_takes_longer_than_a_day_expires():
    box = Box(batch_seconds=100_000)
    id = box.create()["id"]
    box.twin.clock.advance(86_400)
    assert box.ask("GET", f"/{id}")["request_counts"]["expired"] == 2


def test_only_an_ended_batch_has_results_and_can_be_deleted():
    box = Box()
    id = box.create()["id"]
    assert box.refused("GET", f"/{id}/results")[0] == 404
    assert box.refused("DELETE", f"/{id}")[0] == 400
    box.twin.clock.advance(300)
    assert box.ask("DELETE", f"/{id}") == {"id": id, "type": "message_batch_deleted"}
    assert box.refused("GET", f"/{id}") == (404, f"Message batch {id} not found.")


def test_batches_are_listed_newest_first_for_one_workspace():
    box = Box()
    ids = [box.create()["id"] for _ in range(3)]
    box.create(key="other")
    listed = box.ask("GET", query={"limit": "2"})
    assert ([batch["id"] for batch in listed["data"]], listed["has_more"]) == ([ids[2], ids[1]], True)
    rest = box.ask("GET", query={"limit": "2", "after_id": listed["last_id"]})
    assert ([batch["id"] for batch in rest["data"]], rest["has_more"]) == ([ids[0]], False)
    back = box.ask("GET", query={"before_id": ids[0]})
    assert [batch["id"] for batch in back["data"]] == [ids[2], ids[1]]
    assert box.refused("GET", f"/{ids[0]}", key="other")[0] == 404


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "requests: Object missing required field `requests`"),
        ({"requests": []}, "requests: List should have 1 to 100000 items, not 0"),
        (
            {"requests": [item("a b")]},
            "requests.0.custom_id: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'",
        ),
        ({"requests": [item("a"), item("a")]}, "requests.1.custom_id: Duplicate custom_id `a`"),
    ],
)
def test_a_batch_that_is_no_batch_is_refused(body, message):
    assert Box().refused("POST", body=body) == (400, message)


@pytest.mark.parametrize(
    ("method", "path", "status"), [("PUT", "", 405), ("GET", "/x/y", 404), ("GET", "/x/cancel", 405)]
)
def test_other_paths_and_methods_are_refused(method, path, status):
    assert Box().refused(method, path)[0] == status


@pytest.mark.spec("TW-1")
def test_the_sdk_creates_polls_reads_cancels_and_deletes_batches():
    twin = TwinForTests()
    twin.script("one", "two")
    batches = twin.client().messages.batches
    batch = batches.create(requests=[item("a"), item("b")])
    assert batch.created_at == datetime(2026, 11, 15, tzinfo=UTC)
    twin.advance(300)
    assert batches.retrieve(batch.id).processing_status == "ended"
    answers = {line.custom_id: line.result.message.content[0].text for line in batches.results(batch.id)}
    assert answers == {"a": "one", "b": "two"}
    assert [each.id for each in batches.list()] == [batch.id]
    other = batches.create(requests=[item("a")])
    assert batches.cancel(other.id).processing_status == "canceling"
    batches.delete(batch.id)
    with pytest.raises(anthropic.NotFoundError):
        batches.retrieve(batch.id)
    twin.close()
