"""The virtual clock, the ledger, and the way back to the start."""

import pytest
from conformance.api import FIVE, HOUR, Api, Json, long, text, user

START = "2026-11-15T00:00:00Z"


def now(api: Api) -> str:
    return api.send("GET", "/twin/clock").json["now"]


@pytest.mark.spec("TW-9")
def test_time_starts_where_it_is_said_to_and_stands(api: Api):
    assert now(api) == START
    api.usage("hi")
    assert now(api) == START


@pytest.mark.spec("TW-9")
def test_time_is_advanced_and_set(api: Api):
    api.advance(300)
    assert now(api) == "2026-11-15T00:05:00Z"
    api.advance(0.5)
    assert now(api).startswith("2026-11-15T00:05:00")
    api.control("clock", {"set": "2026-12-24T18:00:00Z"})
    assert now(api) == "2026-12-24T18:00:00Z"


@pytest.mark.spec("TW-9")
@pytest.mark.parametrize("when", ["2026-12-01T00:00:00+00:00", "2026-12-01T01:00:00+01:00", "2026-12-01"])
def test_time_is_set_in_any_iso_form(api: Api, when: str):
    api.control("clock", {"set": when})
    assert now(api) == "2026-12-01T00:00:00Z"


@pytest.mark.spec("TW-9")
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"advance_s": "long"},
        {"advance_s": -1},
        {"set": "tomorrow"},
        {"set": 5},
        {"advance_s": 1e300},
        {"jump": 1},
        [],
    ],
    ids=str,
)
def test_a_wrong_time_is_refused_and_changes_nothing(api: Api, body: object):
    answer = api.send("POST", "/twin/clock", body)
    assert answer.status == 400
    assert answer.error["message"]
    assert now(api) == START


@pytest.mark.spec("TW-3")
def test_an_entry_of_the_ledger_tells_the_whole_story(api: Api):
    request = [user(long("a", marker=HOUR), long("b", marker=FIVE), "tail")]
    answer = api.ask(*request)
    first = answer.json
    api.advance(60)
    second = api.reply(*request)
    one, two = api.ledger()
    assert (one["model"], one["endpoint"], one["status"], one["workspace"]) == (
        "claude-opus-5",
        "messages",
        200,
        answer.headers["anthropic-workspace-id"],
    )
    assert (one["time"], two["time"]) == (START, "2026-11-15T00:01:00Z")
    assert (one["usage"], two["usage"]) == (first["usage"], second["usage"])
    assert one["cache"]["hit_position"] is None
    assert two["cache"]["hit_position"] is not None
    assert [e["ttl"] for e in one["cache"]["written"]] == ["1h", "5m"]
    assert two["cache"]["written"] == []
    assert two["cache"]["read_tokens"] == second["usage"]["cache_read_input_tokens"]
    assert {line["kind"] for line in one["lines"]} == {"input", "cache_write_1h", "cache_write_5m", "output"}
    assert {line["kind"] for line in two["lines"]} == {"input", "cache_read", "output"}


@pytest.mark.spec("TW-3")
def test_the_ledger_has_the_request_id_of_the_answer(api: Api):
    answer = api.ask("hi")
    (entry,) = api.ledger()
    assert answer.headers["request-id"] in entry.values()


@pytest.mark.spec("TW-3")
def test_the_ledger_has_one_entry_per_request_oldest_first(api: Api):
    api.ask("a")
    api.ask(user(text("")))
    api.count("c")
    api.ask("d", stream=True)
    api.ask("e", model="claude-nope")
    assert [(e["endpoint"], e["status"]) for e in api.ledger()] == [
        ("messages", 200),
        ("messages", 400),
        ("count_tokens", 200),
        ("messages", 200),
        ("messages", 404),
    ]


@pytest.mark.spec("TW-3")
def test_the_ledger_can_be_read_for_one_workspace(api: Api):
    api.ask("a")
    theirs = api.as_key("key-b").ask("b").headers["anthropic-workspace-id"]
    assert len(api.send("GET", "/twin/ledger").json) == 2
    for name in ("key-b", theirs):
        found = api.send("GET", f"/twin/ledger?workspace={name}").json
        assert [e["workspace"] for e in found] == [theirs]


@pytest.mark.spec("TW-3")
def test_the_ledger_needs_no_key(api: Api):
    api.ask("a")
    assert len(api.send("GET", "/twin/ledger", headers={}).json) == 1


def test_a_reset_is_the_start_again(api: Api):
    request = [user(long("a", marker=FIVE))]
    written = api.usage(*request)["cache_creation_input_tokens"]
    api.script("never said")
    api.fault("overloaded")
    api.advance(60)
    api.control("reset", {})
    assert (now(api), api.ledger()) == (START, [])
    reply = api.reply(*request)
    assert reply["usage"]["cache_creation_input_tokens"] == written
    assert reply["content"] != [text("never said")]


def test_a_reset_forgets_what_diagnostics_remember(api: Api):
    first = api.reply("hi", diagnostics={"previous_message_id": None})["id"]
    api.control("reset", {})
    found: Json = api.reply("hi", diagnostics={"previous_message_id": first})["diagnostics"]
    assert found["cache_miss_reason"]["type"] == "previous_message_not_found"


@pytest.mark.parametrize("path", ["/twin/nothing", "/twin"])
def test_an_unknown_control_address_is_not_found(api: Api, path: str):
    assert api.send("POST", path, {}).status == 404


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/twin/reset"), ("GET", "/twin/script"), ("POST", "/twin/ledger")]
)
def test_a_wrong_method_on_a_control_address(api: Api, method: str, path: str):
    assert api.send(method, path, {} if method == "POST" else None).status == 405


def test_a_reset_without_a_body_works(api: Api):
    assert api.send("POST", "/twin/reset").status == 200
