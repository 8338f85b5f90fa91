"""Faults, each kind, for as many requests as they were asked for."""

import http.client
import json
import time
from urllib.parse import urlsplit

import pytest
from conformance.api import COMPACT_NOW, FIVE, Api, Json, long, parse_events, text, user

pytestmark = pytest.mark.spec("TW-10")


@pytest.mark.parametrize(
    ("kind", "status", "type_"),
    [
        ("overloaded", 529, "overloaded_error"),
        ("rate_limit", 429, "rate_limit_error"),
        ("server_error", 500, "api_error"),
        ("request_too_large", 413, "request_too_large"),
        ("timeout", 504, "timeout_error"),
        ("prompt_too_long", 400, "invalid_request_error"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_fault_is_an_error_of_its_kind_once(api: Api, kind: str, status: int, type_: str, stream: bool):
    api.fault(kind)
    answer = api.ask("hi", stream=stream)
    assert (answer.status, answer.error["type"]) == (status, type_)
    assert answer.json["request_id"] == answer.headers["request-id"]
    assert api.ask("hi", stream=stream).status == 200


def test_overloaded_in_its_words(api: Api):
    api.fault("overloaded")
    assert api.ask("hi").said == (529, "overloaded_error", "Overloaded")


@pytest.mark.parametrize("times", [1, 2, 5])
def test_a_fault_lasts_as_many_requests_as_asked(api: Api, times: int):
    api.fault("overloaded", times=times)
    assert [api.ask("hi").status for _ in range(times + 1)] == [529] * times + [200]


def test_faults_come_in_order(api: Api):
    api.control(
        "faults",
        {"faults": [{"kind": "overloaded"}, {"kind": "rate_limit", "times": 2}, {"kind": "server_error"}]},
    )
    assert [api.ask("hi").status for _ in range(5)] == [529, 429, 429, 500, 200]


def test_a_rate_limit_asks_for_one_second(api: Api):
    api.fault("rate_limit")
    assert api.ask("hi").headers["retry-after"] == "1"


@pytest.mark.parametrize(("given", "seen"), [(7, "7"), (None, None)])
def test_a_rate_limit_asks_for_what_it_is_told(api: Api, given: object, seen: str | None):
    api.fault("rate_limit", retry_after=given)
    assert api.ask("hi").headers.get("retry-after") == seen


def test_a_rate_limit_carries_its_limits(api: Api):
    api.fault("rate_limit")
    headers = api.ask("hi").headers
    for what in ("requests", "tokens", "input-tokens", "output-tokens"):
        for field in ("limit", "remaining", "reset"):
            assert f"anthropic-ratelimit-{what}-{field}" in headers


def test_a_cut_stream_has_no_end(api: Api):
    api.script("word " * 50)
    api.fault("cut_stream")
    parts = urlsplit(api.url)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=10)
    body = {"model": "claude-opus-5", "max_tokens": 300, "stream": True, "messages": [user("hi")]}
    connection.request("POST", "/v1/messages", json.dumps(body), api.usual)
    response = connection.getresponse()
    assert response.status == 200
    with pytest.raises((http.client.IncompleteRead, ConnectionError)) as cut:
        response.read()
    connection.close()
    partial = cut.value.partial if isinstance(cut.value, http.client.IncompleteRead) else b""
    assert b"message_stop" not in partial
    assert api.ask("hi").status == 200


@pytest.mark.parametrize(
    ("error", "type_"),
    [("overloaded", "overloaded_error"), ("rate_limit", "rate_limit_error"), ("server_error", "api_error")],
)
def test_an_error_event_of_each_kind(api: Api, error: str, type_: str):
    api.fault("stream_error", error=error)
    events = list(parse_events(api.ask("hi", stream=True).data))
    assert (events[-1]["type"], events[-1]["error"]["type"]) == ("error", type_)


@pytest.mark.parametrize(
    ("vendor", "words"),
    [
        ("anthropic", "prompt is too long: "),
        ("bedrock", "Input is too long for requested model."),
        ("bedrock_new", "The model returned the following errors: prompt is too long: "),
        ("vertex", "Prompt is too long"),
        ("openai", "This model's maximum context length is "),
        (
            "openai_responses",
            "Your input exceeds the context window of this model. Please adjust your input and try again.",
        ),
        ("gemini", "The input token count ("),
    ],
)
def test_a_prompt_is_too_long_in_the_words_of_each_vendor(api: Api, vendor: str, words: str):
    api.fault("prompt_too_long", vendor=vendor)
    answer = api.ask("hi")
    assert answer.status == 400
    assert words in answer.data.decode()


def test_prompt_too_long_names_the_figures_it_was_given(api: Api):
    api.fault("prompt_too_long", tokens=250_000, limit=200_000)
    assert api.refused("hi") == "prompt is too long: 250000 tokens > 200000 maximum"


def test_slow_faults_cost_no_real_time_on_a_virtual_clock(api: Api):
    api.fault("slow_first_byte", delay_s=500)
    api.fault("slow_stream", delay_s=50)
    began = time.monotonic()
    assert api.ask("hi").status == 200
    assert api.ask("hi", stream=True).events[-1]["type"] == "message_stop"
    assert time.monotonic() - began < 5
    assert api.send("GET", "/twin/clock").json["now"] >= "2026-11-15T00:08:20Z"


def test_garbage_is_no_json(api: Api):
    api.fault("garbage")
    answer = api.ask("hi")
    assert answer.status == 200
    with pytest.raises(json.JSONDecodeError):
        _ = answer.json


def test_lost_cache_entries_are_written_again(api: Api):
    request = [user(long("a", marker=FIVE))]
    written = api.usage(*request)["cache_creation_input_tokens"]
    api.fault("lost_cache")
    assert api.read_write_plain(*request)[:2] == (0, written)
    assert api.read_write_plain(*request)[:2] == (written, 0)


def test_faults_belong_to_the_key_that_sent_them(api: Api):
    api.fault("overloaded")
    assert api.as_key("key-b").ask("hi").status == 200
    assert api.ask("hi").status == 529


def test_faults_without_a_key_are_for_all(api: Api):
    headers = {"content-type": "application/json"}
    api.send("POST", "/twin/faults", {"faults": [{"kind": "overloaded", "times": 2}]}, headers=headers)
    assert [api.ask("hi").status, api.as_key("key-b").ask("hi").status, api.ask("hi").status] == [
        529,
        529,
        200,
    ]


def test_refused_requests_and_counts_use_up_no_fault(api: Api):
    api.fault("overloaded")
    api.refused(user(text("")))
    api.count("hi")
    assert api.ask("hi").status == 529


def test_a_fault_may_name_counting(api: Api):
    api.fault("server_error", endpoint="count_tokens")
    assert api.ask("hi").status == 200
    assert api.counted("hi").status == 500
    assert api.counted("hi").status == 200


def test_a_fault_may_name_compaction(api: Api):
    api.fault("overloaded", endpoint="compaction")
    assert api.ask("hi").status == 200
    fields: Json = {"compaction": {"type": "summarize"}, "betas": COMPACT_NOW}
    assert api.ask("hi", **fields).status == 529
    assert api.ask("hi", **fields).status == 200


def test_a_fault_meant_for_messages_leaves_compaction_alone(api: Api):
    api.fault("overloaded")
    assert api.ask("hi", compaction={"type": "summarize"}, betas=COMPACT_NOW).status == 200
    assert api.ask("hi").status == 529


def test_a_fault_may_come_later(api: Api):
    api.fault("overloaded", after=2)
    assert [api.ask("hi").status for _ in range(4)] == [200, 200, 529, 200]


def test_a_failed_request_uses_no_script_and_writes_no_cache(api: Api):
    api.script("kept")
    api.fault("overloaded")
    request = [user(long("a", marker=FIVE))]
    api.ask(*request)
    reply = api.reply(*request)
    assert reply["content"] == [text("kept")]
    assert reply["usage"]["cache_read_input_tokens"] == 0


def test_random_faults_are_the_same_for_the_same_seed(api: Api):
    def run(seed: int) -> list[int]:
        api.control("reset", {})
        api.control("faults", {"random": {"seed": seed, "chances": {"overloaded": 0.3, "rate_limit": 0.2}}})
        return [api.ask("hi").status for _ in range(40)]

    first = run(7)
    assert first == run(7)
    assert set(first) == {200, 429, 529}
    assert first != run(8)


def test_a_failed_request_is_in_the_ledger(api: Api):
    api.fault("overloaded")
    api.ask("hi")
    (entry,) = api.ledger()
    assert (entry["status"], entry["error"]["type"], entry["dollars"]) == (529, "overloaded_error", 0)


@pytest.mark.parametrize(
    "body",
    [
        {"faults": [{"kind": "meteor"}]},
        {"faults": [{}]},
        {"faults": [{"kind": "overloaded", "times": 0}]},
        {"faults": [{"kind": "overloaded", "times": "many"}]},
        {"faults": [{"kind": "overloaded", "surprise": 1}]},
        {"faults": {"kind": "overloaded"}},
        {"faults": [{"kind": "prompt_too_long", "vendor": "nobody"}]},
        {"random": {"chances": {"overloaded": 2}}},
    ],
    ids=str,
)
def test_a_wrong_fault_is_refused_and_changes_nothing(api: Api, body: Json):
    answer = api.send("POST", "/twin/faults", body)
    assert answer.status == 400
    assert api.ask("hi").status == 200
