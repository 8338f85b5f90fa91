"""What of a caller's body is ours, and what passes."""

import msgspec
import pytest

from everturn.adapters.tracking.caller_request import (
    CallerRequest,
    KnownPrefix,
    UnsupportedRequest,
    read_request,
)

HELLO = [{"role": "user", "content": "Hello."}]
BODY = {"model": "claude-opus-5", "max_tokens": 100, "messages": HELLO}
MARK = {"type": "ephemeral"}


def read(**more) -> CallerRequest:
    found = read_request({**BODY, **more}, betas=more.pop("betas", ()))
    assert isinstance(found, CallerRequest)
    return found


@pytest.mark.parametrize(
    "more",
    [
        {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}},
        {"context_management": {"edits": [{"type": "compact_20260112"}]}},
        {"compaction": {"type": "summarize"}},
        {"max_tokens": 0},
        {"messages": []},
        {"messages": [*HELLO, {"role": "system", "content": [{"type": "tool_addition"}]}]},
        {"messages": [*HELLO, {"role": "system", "content": "Be brief.", "clear_at": "next_user_message"}]},
        {"messages": [*HELLO, {"role": "tool", "content": "Be brief."}]},
        {"messages": [*HELLO, {"role": "user", "content": " "}]},
        {"messages": [{**HELLO[0], "clear_at": "next_user_message"}]},
        {"messages": [{"role": "user", "content": 7}]},
        {"messages": "Hello."},
        {"system": 7},
        {"model": None},
        {"thread": {"type": "continue", "previous_message_id": "msg_unknown"}},
    ],
    ids=str,
)
def test_what_we_could_not_spell_again_is_not_ours(more):
    found = read_request({**BODY, **more})
    assert isinstance(found, UnsupportedRequest)
    assert found.why


def test_everything_beside_the_messages_is_kept_as_it_is():
    more = {"metadata": {"user_id": "u"}, "temperature": 0.5, "something_new": [1], "container": None}
    config = {"effort": "low", "format": {"type": "json_schema"}}
    key = {"thinking": {"type": "adaptive"}, "tool_choice": {"type": "any"}, "speed": "fast"}
    found = read(**more, **key, output_config=config, stream=True)
    assert found.fields == {
        "max_tokens": 100, "metadata": {"user_id": "u"}, "temperature": 0.5, "something_new": [1]
    }  # fmt: skip
    parameters = found.parameters
    assert (parameters.thinking, parameters.tool_choice) == ({"type": "adaptive"}, {"type": "any"})
    assert (parameters.effort, parameters.speed) == ("low", "fast")
    assert parameters.extra == {"output_config": {"format": {"type": "json_schema"}}}


def test_the_callers_markers_say_where_parts_of_the_prompt_end():
    system = [
        {"type": "text", "text": "A", "cache_control": {**MARK, "ttl": "1h"}},
        {"type": "text", "text": "B"},
    ]
    tools = [{"name": "b", "input_schema": {}}, {"name": "a", "input_schema": {}, "cache_control": MARK}]
    found = read(system=system, tools=tools)
    assert [block.raw for block in found.preamble.system] == [
        b'{"type":"text","text":"A"}',
        b'{"type":"text","text":"B"}',
    ]
    assert [tool.tool for tool in found.preamble.tools] == ["b", "a"]
    assert found.preamble.marked == (0, 1)
    assert found.parameters.lifetime.ttl == "1h"
    assert b"cache_control" not in b"".join(tool.raw for tool in found.preamble.tools)


def test_markers_that_are_left_to_the_caller_stay_where_they_are():
    system = [{"type": "text", "text": "A", "cache_control": MARK}]
    found = read_request({**BODY, "system": system, "cache_control": MARK}, breakpoints="caller")
    assert isinstance(found, CallerRequest)
    assert found.preamble.marked == ()
    assert msgspec.json.decode(found.preamble.system[0].raw) == system[0]
    assert found.fields["cache_control"] == MARK


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ({}, {"stream": True}, True),
        ({"system": "S"}, {"system": [{"type": "text", "text": "S", "cache_control": MARK}]}, True),
        ({}, {"max_tokens": 99}, False),
        ({}, {"model": "claude-opus-4-5"}, False),
        ({}, {"thinking": {"type": "adaptive"}}, False),
        ({}, {"system": "S"}, False),
        ({}, {"tools": [{"name": "a"}]}, False),
        ({}, {"messages": [*HELLO, *HELLO]}, False),
    ],
    ids=str,
)
def test_equal_requests_have_equal_fingerprints(one, other, is_same):
    assert (read(**one).fingerprint == read(**other).fingerprint) is is_same


def test_a_thread_that_goes_on_is_joined_to_what_is_known():
    whole = read(messages=[*HELLO, {"role": "assistant", "content": "Hi."}, *HELLO], system="S")
    begun = KnownPrefix(whole.chain[:2], whole.preamble, whole.preamble_digest)
    thread = {"type": "continue", "previous_message_id": "msg_1"}
    found = read_request(
        {**BODY, "thread": thread}, find_prefix=lambda name: begun if name == "msg_1" else None
    )
    assert isinstance(found, CallerRequest)
    assert (found.chain, found.preamble, found.fingerprint) == (
        whole.chain,
        whole.preamble,
        whole.fingerprint,
    )
    assert (found.messages, found.known) == (HELLO, 2)


@pytest.mark.parametrize(
    "more",
    [
        {"context_management": {"edits": []}},
        {"context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}},
        {"messages": [{**HELLO[0], "clear_at": None}]},
        {"messages": [*HELLO, {"role": "system", "content": "Be brief."}]},
        {"metadata": {"user_id": "u"}, "thread": {"type": "create"}},
    ],
    ids=str,
)
def test_what_current_clients_send_is_understood(more):
    assert isinstance(read_request({**BODY, **more}), CallerRequest)
