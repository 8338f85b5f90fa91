"""A framework's reply as the API would have spelled it."""

import json

import pytest

from everturn.adapters.framework import Counted, Heard, answered, is_refused, is_too_long, unreached


class Full(Exception):
    pass


class Refused(Exception):
    status_code = 400


def test_a_reply_is_a_message_of_the_api():
    call = {"type": "tool_use", "id": "a", "name": "read", "input": {}}
    counted = Counted(input_tokens=100, cache_read=60, cache_written=30, output_tokens=7)
    heard = Heard(id="m", model="claude-haiku-4-5", blocks=[call], counted=counted)
    assert json.loads(answered(heard).body) == {
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


def test_a_reply_that_nobody_counted_has_no_usage():
    assert "usage" not in json.loads(answered(Heard(id="m", model="x", blocks=[])).body)


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
    assert (is_refused(Refused()), is_refused(ValueError())) == (True, False)
    assert (unreached(Refused("no")).status, unreached(ValueError("no")).status) == (400, 0)
