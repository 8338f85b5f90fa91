"""The handling of one request: usage, bills, errors, prewarming, truncation, the models endpoint."""

import json
from datetime import UTC, datetime

import pytest
from twin.asking import FIVE, HOUR, Desk, assistant, parts, text, user

from everturn.twin.faults import InjectedFault
from everturn.twin.ledger import workspace_id
from everturn.twin.options import TwinOptions


@pytest.mark.spec("TW-3")
def test_usage_has_all_its_fields():
    desk = Desk()
    desk.script([{"type": "thinking", "thinking": "hm, " * 10}, text("yes")])
    usage = desk.ask(messages=[user(text("some words", HOUR), text("more", FIVE), "end")])["usage"]
    assert usage == {
        "input_tokens": 2 + 3,
        "cache_creation_input_tokens": 4 + 4 + 2,
        "cache_read_input_tokens": 0,
        "cache_creation": {"ephemeral_5m_input_tokens": 2, "ephemeral_1h_input_tokens": 4 + 4},
        "output_tokens": 1 + 16 + 2,
        "output_tokens_details": {"thinking_tokens": 16},
        "server_tool_use": None,
        "service_tier": "standard",
        "inference_geo": "global",
    }


@pytest.mark.spec("TW-3")
def test_the_ledger_has_the_price_of_a_request_line_by_line():
    desk = Desk()
    desk.script("first", "second")
    body = {"messages": [user(text("some words", FIVE), "end")]}
    desk.ask(**body)
    desk.clock.advance(60)
    answered = desk.ask(**body)
    entry = desk.last()
    assert entry["id"].startswith("req_")
    assert {name: entry[name] for name in ("time", "workspace", "model", "endpoint", "status")} == {
        "time": "2026-11-15T00:01:00Z",
        "workspace": workspace_id("k"),
        "model": "claude-opus-5",
        "endpoint": "messages",
        "status": 200,
    }
    assert entry["usage"] == answered["usage"]
    assert entry["lines"] == [
        {"kind": "input", "tokens": 5, "dollars_per_mtok": 5.0, "dollars": 25e-6, "iteration": "message"},
        {"kind": "cache_read", "tokens": 8, "dollars_per_mtok": 0.5, "dollars": 4e-6, "iteration": "message"},
        {"kind": "output", "tokens": 4, "dollars_per_mtok": 25.0, "dollars": 1e-4, "iteration": "message"},
    ]
    assert entry["dollars"] == pytest.approx(129e-6)
    assert entry["cache"] == {
        "hit_position": 0,
        "read_tokens": 8,
        "write_1h_tokens": 0,
        "write_5m_tokens": 0,
        "input_tokens": 5,
        "written": [],
        "refreshed": {"position": 0, "tokens": 8, "ttl": "5m", "expires": "2026-11-15T00:06:00Z"},
    }


@pytest.mark.spec("TW-3")
def test_the_read_price_of_sonnet_5_5_goes_by_the_clock_of_the_twin():
    desk = Desk(TwinOptions(min_cache={"claude-sonnet-5-5": 0}), model="claude-sonnet-5-5")
    rates = []
    for day in (6, 7):
        desk.clock.set(datetime(2026, 10, day, 12, tzinfo=UTC))
        for _ in range(2):
            desk.ask(messages=[user(text("some words", FIVE))])
        rates += [line["dollars_per_mtok"] for line in desk.last()["lines"] if line["kind"] == "cache_read"]
    assert rates == [0.2, 0.1]


@pytest.mark.spec("TW-3")
def test_the_price_step_of_haiku_5_5_is_at_100_000_prompt_tokens():
    options = TwinOptions(counter=lambda block, model: len(block.body.get("text", "")))
    desk = Desk(options, model="claude-haiku-5-5")
    for length, price in [(100_000 - 7, 0.1), (100_000 - 6, 0.5)]:
        desk.ask(messages=[user("x" * length)])
        assert desk.last()["lines"][0]["dollars_per_mtok"] == price


@pytest.mark.spec("TW-3")
def test_refused_requests_are_listed_with_zero_usage_and_use_up_no_script():
    desk = Desk()
    desk.script("only one")
    desk.break_with(InjectedFault("overloaded"))
    assert desk.refused(messages=[]) == "messages: at least one message is required"
    assert desk.refused(messages=[user("hi")]) == "Overloaded"
    assert desk.ask(messages=[user("hi")])["content"] == [text("only one")]
    assert [(e["status"], e["dollars"], (e["error"] or {}).get("type")) for e in desk.twin.ledger()] == [
        (400, 0.0, "invalid_request_error"),
        (529, 0.0, "overloaded_error"),
        (200, desk.last()["dollars"], None),
    ]
    assert desk.twin.ledger()[0]["usage"] == {
        "input_tokens": 0,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": 0,
    }


def test_an_error_has_the_shape_of_the_api():
    answer = Desk().send(messages=[user("hi")], model="claude-nope")
    assert answer.status == 404
    id = answer.headers["request-id"]
    assert json.loads(answer.body) == {
        "type": "error",
        "error": {"type": "not_found_error", "message": "model: claude-nope"},
        "request_id": id,
    }


def test_a_request_without_a_key_is_a_401_and_a_bearer_token_is_a_key():
    twin = Desk().twin
    body = json.dumps({"model": "claude-opus-5", "max_tokens": 5, "messages": [user("hi")]}).encode()
    version = {"anthropic-version": "2026-10-21"}
    assert twin.messages(version, body).status == 401
    assert twin.messages({**version, "Authorization": "Bearer abc"}, body).status == 200
    assert twin.messages({**version, "Authorization": "Bearer abc", "X-Api-Key": "xyz"}, body).status == 200
    assert [entry["workspace"] for entry in twin.ledger()] == [
        "",
        workspace_id("abc"),
        workspace_id("xyz"),
    ]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"model": NaN}',
        b"[" * 200_000,
        b'{"a":' * 200_000,
        b"\xff\xfe",
        b'{"model":"claude-opus-5","max_tokens":1,"messages":[{"role":"user","content":"\\ud800"}]}',
        b'{"model":"claude-opus-5","max_tokens":1'
        + b"0" * 400
        + b',"messages":[{"role":"user","content":"x"}]}',
        b'{"model":"claude-opus-5","max_tokens":1,"messages":[{"role":"user","content":[{"type":"tool_result",'
        b'"tool_use_id":"t","content":' + b'[{"type":"text","content":' * 480 + b"1" + b"}]" * 480 + b"}]}]}",
    ],
    ids=lambda body: body[:20].decode("latin-1"),
)
def test_any_invalid_body_gets_an_error_in_the_format_of_the_api(body):
    answer = Desk().twin.messages({"x-api-key": "k", "anthropic-version": "2026-10-21"}, body)
    assert (answer.status, json.loads(answer.body)["error"]["type"]) == (400, "invalid_request_error")


def test_a_body_above_32_mb_is_a_413():
    answer = Desk(TwinOptions(max_body_bytes=100)).send(messages=[user("x" * 100)])
    assert (answer.status, json.loads(answer.body)["error"]["type"]) == (413, "request_too_large")


def test_prewarming_writes_the_cache_without_a_reply():
    desk = Desk()
    told = desk.ask(max_tokens=0, system=[text("You help.", HOUR)], messages=[user("warm")])
    assert (told["content"], told["stop_reason"], told["usage"]["output_tokens"]) == ([], "max_tokens", 0)
    assert [part["type"] for part in told["usage"]["iterations"]] == ["message"]
    read, *_ = desk.usage(system=[text("You help.", HOUR)], messages=[user("now for real")])
    assert read == parts(told["usage"])[1] > 0


def test_a_reply_is_cut_at_max_tokens_and_at_the_end_of_the_window():
    desk = Desk(TwinOptions(counter=lambda block, model: len(block.body.get("text", ""))))
    desk.script("word " * 100, "word " * 100)
    told = desk.ask(messages=[user("hi")], max_tokens=21)
    assert (told["stop_reason"], told["usage"]["output_tokens"]) == ("max_tokens", 21)
    assert told["content"] == [text("word " * 4)]
    told = desk.ask(messages=[user("x" * 999_900)], max_tokens=500)
    assert told["stop_reason"] == "model_context_window_exceeded"
    assert told["usage"]["output_tokens"] == 1_000_000 - 999_907


def test_a_prompt_above_the_window_is_an_error_with_its_size():
    desk = Desk(TwinOptions(counter=lambda block, model: len(block.body.get("text", ""))))
    words = desk.refused(messages=[user("x" * 1_000_000)])
    assert words == "prompt is too long: 1000007 tokens > 1000000 maximum"


def test_count_tokens_counts_what_a_message_would_be_billed():
    desk = Desk()
    body = {"system": "You help.", "messages": [user("some words"), assistant("yes"), user("more")]}
    counted = desk.ask(endpoint="count_tokens", **body)
    assert counted == {"input_tokens": sum(desk.usage(**body))}
    assert [entry["endpoint"] for entry in desk.twin.ledger()] == ["count_tokens", "messages"]


def test_equal_twins_give_equal_bytes():
    answers = [Desk().send(messages=[user("hello")]).body for _ in range(2)]
    assert answers[0] == answers[1]


def test_reset_forgets_cache_and_ledger():
    desk = Desk()
    body = {"messages": [user(text("some words", FIVE))]}
    desk.ask(**body)
    desk.twin.reset()
    assert desk.twin.ledger() == []
    assert desk.usage(**body)[0] == 0


def test_models_are_listed_by_pages_and_found_by_every_id():
    twin = Desk().twin
    first = json.loads(twin.models({"limit": "2"}).body)
    assert (len(first["data"]), first["has_more"], first["first_id"]) == (2, True, first["data"][0]["id"])
    rest = json.loads(twin.models({"after_id": first["last_id"], "limit": "1000"}).body)
    assert not rest["has_more"]
    back = json.loads(twin.models({"before_id": rest["first_id"], "limit": "1"}).body)
    assert [model["id"] for model in back["data"]] == [first["last_id"]]
    for id in ("claude-haiku-4-5", "claude-haiku-4-5-20251001"):
        found = json.loads(twin.model(id).body)
        assert (found["id"], found["max_input_tokens"], found["max_tokens"]) == (
            "claude-haiku-4-5-20251001",
            200_000,
            64_000,
        )
    assert twin.model("claude-nope").status == 404
    assert twin.models({"limit": "many"}).status == 400


@pytest.mark.spec("TW-11")
def test_token_counts_are_deterministic_differ_by_model_and_can_be_replaced():
    words = {"messages": [user("The same words for every model. " * 50)]}
    old, new = (
        Desk(model=id).ask(endpoint="count_tokens", **words) for id in ("claude-opus-4-6", "claude-opus-5")
    )
    assert old == Desk(model="claude-opus-4-6").ask(endpoint="count_tokens", **words)
    assert 1.3 < new["input_tokens"] / old["input_tokens"] < 1.4
    desk = Desk(TwinOptions(counter=lambda block, model: 1000))
    assert desk.ask(endpoint="count_tokens", **words) == {"input_tokens": 1007}
    ratio = Desk(TwinOptions(chars_per_token={"claude-opus-5": 1.0}))
    assert ratio.ask(endpoint="count_tokens", **words) == {"input_tokens": 50 * 32 + 7}
