"""A framework's reply as the API would have spelled it."""

import json

import pytest

from everturn.adapters.framework import (
    FrameworkReply,
    FrameworkUsage,
    build_response,
    is_bad_request,
    is_too_long,
)
from everturn.adapters.tracking.summary_retries import make_send_error


class Full(Exception):
    pass


class Refused(Exception):
    status_code = 400


def test_a_reply_is_a_message_of_the_api():
    call = {"type": "tool_use", "id": "a", "name": "read", "input": {}}
    counted = FrameworkUsage(input_tokens=100, cache_read=60, cache_written=30, output_tokens=7)
    heard = FrameworkReply(id="m", model="claude-haiku-4-5", blocks=[call], usage=counted)
    assert json.loads(build_response(heard).body) == {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "claude-haiku-4-5",
        "content": [call],
        "stop_reason": "tool_use",
        "usage": {
            "input_tokens": 10,
            "cache_read_input_tokens": 60,
            "cache_creation_input_tokens": 30,
            "output_tokens": 7,
        },
    }


def test_what_was_written_for_an_hour_is_told_apart():
    counted = FrameworkUsage(
        input_tokens=100, cache_read=60, cache_written=30, written_1h=20, output_tokens=7
    )
    assert counted.to_fields() == {
        "input_tokens": 10,
        "cache_read_input_tokens": 60,
        "cache_creation_input_tokens": 30,
        "output_tokens": 7,
        "cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 20},
    }


def test_a_reply_that_nobody_counted_has_no_usage():
    assert "usage" not in json.loads(build_response(FrameworkReply(id="m", model="x", blocks=[])).body)


@pytest.mark.parametrize(
    ("problem", "too_long"),
    [
        (Full("sorry"), True),
        (ValueError("prompt is too long: 9 tokens > 8 maximum"), True),
        (Refused("no"), False),
    ],
)
def test_too_long_is_known_by_its_kind_or_by_its_words(problem, too_long):
    assert is_too_long(problem, Full) == too_long


def test_a_refusal_has_its_status():
    assert (is_bad_request(Refused()), is_bad_request(ValueError())) == (True, False)
    assert (make_send_error(Refused("no")).status, make_send_error(ValueError("no")).status) == (400, 0)
