"""Addresses, methods, keys and the headers that every answer carries."""

import re

import pytest
from conformance.api import MODEL, Api

HELLO = {"model": MODEL, "max_tokens": 50, "messages": [{"role": "user", "content": "hi"}]}
pytestmark = pytest.mark.spec("TW-1")


def test_a_plain_message_has_the_shape_of_the_api(api: Api):
    answer = api.send("POST", "/v1/messages", HELLO)
    message = answer.json
    assert (answer.status, message["type"], message["role"], message["model"]) == (
        200,
        "message",
        "assistant",
        MODEL,
    )
    assert re.fullmatch(r"msg_[A-Za-z0-9]{24}", message["id"])
    assert message["stop_reason"] in {"end_turn", "max_tokens"}
    assert message["stop_sequence"] is None
    assert message["diagnostics"] is None


def test_usage_carries_every_field(api: Api):
    usage = api.usage("hi")
    assert {
        "input_tokens",
        "cache_creation_input_tokens",
        "cache_read_input_tokens",
        "cache_creation",
        "output_tokens",
        "output_tokens_details",
        "server_tool_use",
        "service_tier",
        "inference_geo",
    } <= set(usage)
    assert usage["cache_creation"] == {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0}
    assert usage["service_tier"] == "standard"


def test_the_extension_leaves_no_trace_where_it_is_off(api: Api):
    assert "cache_deleted_input_tokens" not in api.usage("hi")


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
def test_answers_carry_a_request_id_and_json(api: Api, path: str):
    body = HELLO if path == "/v1/messages" else {k: v for k, v in HELLO.items() if k != "max_tokens"}
    answer = api.send("POST", path, body)
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("application/json")
    assert answer.headers["request-id"].startswith("req_")


def test_a_stream_is_an_event_stream_with_a_request_id(api: Api):
    answer = api.send("POST", "/v1/messages", {**HELLO, "stream": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["request-id"].startswith("req_")


def test_request_ids_differ(api: Api):
    ids = {api.send("POST", "/v1/messages", HELLO).headers["request-id"] for _ in range(5)}
    assert len(ids) == 5


def test_an_error_repeats_its_request_id_in_the_body(api: Api):
    answer = api.send("POST", "/v1/messages", {**HELLO, "model": "claude-nope"})
    assert answer.json["request_id"] == answer.headers["request-id"]


def test_an_answer_names_its_workspace(api: Api):
    first = api.send("POST", "/v1/messages", HELLO).headers["anthropic-workspace-id"]
    other = api.as_key("key-b").send("POST", "/v1/messages", HELLO).headers["anthropic-workspace-id"]
    assert first != other


@pytest.mark.parametrize("path", ["/v1/nothing", "/", "/v1/message", "/v1/messages/"])
def test_an_unknown_address_is_not_found(api: Api, path: str):
    answer = api.send("POST", path, HELLO)
    assert answer.status == 404
    assert answer.error["type"] == "not_found_error"
    assert answer.json["request_id"] == answer.headers["request-id"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/messages"),
        ("DELETE", "/v1/messages"),
        ("PUT", "/v1/messages/count_tokens"),
        ("POST", "/v1/models"),
    ],
)
def test_a_wrong_method_is_refused_in_the_shape_of_an_error(api: Api, method: str, path: str):
    answer = api.send(method, path, HELLO if method != "GET" else None)
    assert answer.status == 405
    assert answer.json["type"] == "error"
    assert answer.error["message"]


@pytest.mark.parametrize(
    "headers",
    [
        {"x-api-key": "whatever"},
        {"authorization": "Bearer whatever"},
        {"Authorization": "bearer whatever"},
        {"X-API-KEY": "whatever"},
    ],
)
def test_any_key_is_accepted_in_either_header(api: Api, headers: dict[str, str]):
    headers = headers | {"anthropic-version": "2023-06-01", "content-type": "application/json"}
    answer = api.send("POST", "/v1/messages", HELLO, headers=headers)
    assert answer.status == 200
    assert [e["status"] for e in api.send("GET", "/twin/ledger?workspace=whatever").json] == [200]
    assert "whatever" not in api.send("GET", "/twin/ledger").data.decode()


def test_x_api_key_wins_over_a_bearer_token(api: Api):
    headers = api.usual | {"authorization": "Bearer other"}
    api.send("POST", "/v1/messages", HELLO, headers=headers)
    assert len(api.send("GET", "/twin/ledger?workspace=key-a").json) == 1
    assert len(api.send("GET", "/twin/ledger?workspace=other").json) == 0


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
@pytest.mark.parametrize("auth", [{}, {"x-api-key": ""}, {"authorization": "Bearer "}])
def test_no_key_is_an_authentication_error(api: Api, path: str, auth: dict[str, str]):
    answer = api.send("POST", path, HELLO, headers={"content-type": "application/json", **auth})
    assert (answer.status, answer.error["type"]) == (401, "authentication_error")


def test_the_models_list_asks_for_a_key_too(api: Api):
    assert api.send("GET", "/v1/models", headers={}).status == 401


@pytest.mark.parametrize("version", ["2023-06-01", "2026-10-21"])
def test_both_versions_of_the_api_are_served(api: Api, version: str):
    assert api.ask("hi", version=version).status == 200


def test_a_client_that_names_no_version_is_served(api: Api):
    headers = {"x-api-key": "k", "content-type": "application/json"}
    assert api.send("POST", "/v1/messages", HELLO, headers=headers).status == 200


def test_a_content_type_is_not_demanded(api: Api):
    headers = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
    assert api.send("POST", "/v1/messages", HELLO, headers=headers).status == 200


def test_unknown_headers_and_query_parameters_are_ignored(api: Api):
    headers = api.usual | {"x-stainless-lang": "python", "user-agent": "mine"}
    assert api.send("POST", "/v1/messages?beta=true", HELLO, headers=headers).status == 200
