"""The connection to a model, and errors in words."""

import json
import sys

import pytest

from everturn.catalog.practice import is_practice
from everturn.chat.model_connection import (
    DEFAULT_ADVICE,
    ERROR_ADVICE,
    INVALID_KEY,
    NO_PACKAGE,
    TWIN_CHOSEN,
    TWIN_WITHOUT_KEY,
    connect_to_model,
    describe_error,
)
from everturn.decide.options import ProviderSettings, Secret
from everturn.errors import UsageError
from everturn.session.upstream import UpstreamError

KEYS = ProviderSettings(api_key=Secret("sk-wrong"), base_url="http://127.0.0.1:9")


def test_without_a_key_it_is_the_twin_and_says_so():
    connection = connect_to_model(ProviderSettings())
    assert (connection.send is None, connection.client, connection.notice) == (False, None, TWIN_WITHOUT_KEY)
    unused = connect_to_model(ProviderSettings(base_url="http://127.0.0.1:9"))
    assert unused.notice.endswith("ANTHROPIC_BASE_URL is ignored without a key.")


def test_the_twin_can_be_asked_for_although_there_is_a_key():
    connection = connect_to_model(KEYS, "twin")
    assert (connection.send is None, connection.client, connection.notice) == (False, None, TWIN_CHOSEN)


def test_what_the_twin_answers_is_marked_as_practice():
    body = {"model": "claude-opus-4-5", "max_tokens": 99, "messages": [{"role": "user", "content": "Hello"}]}
    send = connect_to_model(ProviderSettings()).send
    assert send is not None
    assert is_practice(send(json.dumps(body).encode(), ()).request_id)


def test_with_a_key_it_is_the_sdk_at_the_address_that_was_given():
    connection = connect_to_model(KEYS)
    assert connection.client is not None
    assert (str(connection.client.base_url), connection.client.api_key, connection.notice) == (
        "http://127.0.0.1:9",
        "sk-wrong",
        "",
    )
    connection.client.close()


@pytest.mark.parametrize("key", ["two words", "sk-é", "sk\n"])
def test_what_cannot_be_a_key_is_not_sent_anywhere(key: str):
    for keys in (ProviderSettings(api_key=Secret(key)), ProviderSettings(auth_token=Secret(key))):
        connection = connect_to_model(keys)
        assert (connection.client, connection.notice) == (None, INVALID_KEY)


def test_without_the_package_every_turn_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "anthropic", None)
    connection = connect_to_model(KEYS)
    assert (connection.notice, connection.client) == (NO_PACKAGE, None)
    assert connection.send is not None
    with pytest.raises(UsageError, match=r"pip install 'everturn\[chat\]'"):
        connection.send(b"{}", ())


@pytest.mark.parametrize(
    ("problem", "says"),
    [
        (UpstreamError(401, "authentication_error", "invalid x-api-key"), "rejected the key"),
        (UpstreamError(402, "billing_error", "no credit"), "no credit left"),
        (UpstreamError(403, "permission_error", "no"), "lacks permission"),
        (UpstreamError(404, "not_found_error", "model: claude-9"), "/model NAME"),
        (UpstreamError(404, "not_found_error", "Not found"), "ANTHROPIC_BASE_URL"),
        (UpstreamError(413, "request_too_large", "too large"), "too large"),
        (UpstreamError(429, "rate_limit_error", "slow down"), "Rate limit reached"),
        (UpstreamError(504, "timeout_error", "late"), "timed out"),
        (UpstreamError(529, "overloaded_error", "Overloaded"), "internal error"),
        (UpstreamError(0, "APITimeoutError", "Request timed out."), "in time"),
        (UpstreamError(0, "APIConnectionError", "Connection error."), "Could not connect"),
        (UpstreamError(400, "invalid_request_error", "messages.0: no"), "rejected the request"),
    ],
)
def test_every_error_says_what_to_do_and_what_the_provider_said(problem, says):
    words = describe_error(problem)
    assert says in words
    assert words.endswith(f"({problem})")


def test_no_row_of_the_table_is_hidden_by_an_earlier_one():
    problems = [
        (401, ""),
        (402, ""),
        (403, ""),
        (404, "model: x"),
        (404, ""),
        (413, ""),
        (429, ""),
        (504, ""),
        (500, ""),
    ]
    met = [UpstreamError(status, "", message) for status, message in problems]
    met += [UpstreamError(0, kind, "") for kind in ("APITimeoutError", "APIConnectionError")]
    told = {describe_error(each).split(" (")[0] for each in met}
    assert told == {row.advice for row in ERROR_ADVICE}
    assert DEFAULT_ADVICE not in told
