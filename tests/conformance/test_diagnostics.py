"""Cache diagnostics: every state of the answer and every reason for a miss."""

import pytest
from conformance.api import FIVE, Api, Json, assistant, long, text, tool, user

pytestmark = pytest.mark.spec("TW-5")
BASE: Json = {"system": [long("s", marker=FIVE)], "tools": [tool("one"), tool("two")]}
TURNS = [user(long("a")), assistant("yes"), user("next")]


def first(api: Api, *messages: object, **fields: object) -> str:
    answer = api.reply(*(messages or TURNS), diagnostics={"previous_message_id": None}, **(BASE | fields))
    assert answer["diagnostics"] is None
    return answer["id"]


def diagnosed(api: Api, previous: str | None, *messages: object, **fields: object) -> Json | None:
    fields = {k: v for k, v in (BASE | fields).items() if v is not ...}
    body = api.reply(*(messages or TURNS), diagnostics={"previous_message_id": previous}, **fields)
    return body["diagnostics"]


def reason(api: Api, previous: str, *messages: object, **fields: object) -> Json:
    found = diagnosed(api, previous, *messages, **fields)
    assert found is not None
    return found["cache_miss_reason"]


def kind(api: Api, previous: str, *messages: object, **fields: object) -> str:
    why = reason(api, previous, *messages, **fields)
    has_tokens = "cache_missed_input_tokens" in why
    assert has_tokens is why["type"].endswith("_changed")
    assert not has_tokens or why["cache_missed_input_tokens"] > 0
    return why["type"]


def test_not_asked_is_null(api: Api):
    assert api.reply("hi")["diagnostics"] is None


def test_the_first_turn_is_null(api: Api):
    assert first(api)


def test_the_same_and_the_appended_are_null(api: Api):
    before = first(api)
    assert diagnosed(api, before) is None
    assert diagnosed(api, before, *TURNS, assistant("so"), user("more")) is None


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"model": "claude-opus-4-8"}, "model_changed"),
        ({"speed": "fast", "betas": "fast-mode-2026-02-01"}, "model_changed"),
        ({"system": [long("z", marker=FIVE)]}, "system_changed"),
        ({"system": ...}, "system_changed"),
        ({"tools": [tool("one")]}, "tools_changed"),
        ({"tools": [tool("two"), tool("one")]}, "tools_changed"),
        ({"tools": [tool("one"), tool("two"), tool("three")]}, "tools_changed"),
        ({"tool_choice": {"type": "any"}}, "unavailable"),
        ({"thinking": {"type": "disabled"}}, "unavailable"),
        ({"output_config": {"effort": "low"}}, "unavailable"),
    ],
    ids=str,
)
def test_a_changed_parameter_is_named(api: Api, changed: Json, expected: str):
    assert kind(api, first(api), **changed) == expected


@pytest.mark.parametrize(
    "same",
    [
        {"tool_choice": {"type": "auto"}},
        {"thinking": {"type": "adaptive"}},
        {"thinking": {"type": "adaptive", "display": "omitted"}},
        {"output_config": {"effort": "high"}},
        {"max_tokens": 77},
    ],
    ids=str,
)
def test_a_default_spelled_out_is_no_divergence(api: Api, same: Json):
    assert diagnosed(api, first(api), **same) is None


def test_an_altered_message_is_named(api: Api):
    before = first(api)
    assert kind(api, before, user(long("a")), assistant("no"), user("next")) == "messages_changed"


def test_a_removed_message_is_named(api: Api):
    before = first(api)
    assert kind(api, before, user(long("a"))) == "messages_changed"


def test_only_the_earliest_is_reported(api: Api):
    before = first(api)
    other = {"system": [long("z")], "tools": [tool("three")]}
    changed = [user("else")]
    assert kind(api, before, *changed, model="claude-opus-4-8", **other) == "model_changed"
    assert kind(api, before, *changed, **other) == "system_changed"
    assert kind(api, before, *changed, tools=[tool("three")]) == "tools_changed"
    assert kind(api, before, *changed) == "messages_changed"


def test_a_marker_moved_is_no_divergence(api: Api):
    before = first(api)
    assert diagnosed(api, before, user(long("a", marker=FIVE)), assistant("yes"), user("next")) is None


def test_an_unknown_message_is_not_found(api: Api):
    assert reason(api, "msg_nothing") == {"type": "previous_message_not_found"}


def test_a_message_that_did_not_ask_is_not_found(api: Api):
    silent = api.reply(*TURNS, **BASE)["id"]
    assert kind(api, silent) == "previous_message_not_found"


def test_another_workspace_finds_nothing(api: Api):
    assert kind(api.as_key("key-b"), first(api)) == "previous_message_not_found"


def test_the_diagnosis_is_on_message_start(api: Api):
    before = first(api)
    body = {"diagnostics": {"previous_message_id": before}, **BASE, "system": "other"}
    events = api.ask(*TURNS, stream=True, **body).events
    assert events[0]["message"]["diagnostics"]["cache_miss_reason"]["type"] == "system_changed"


def test_the_diagnosis_does_not_depend_on_the_hit(api: Api):
    before = first(api)
    api.advance(301)
    assert diagnosed(api, before) is None


def test_the_old_header_is_still_taken(api: Api):
    before = first(api, betas="cache-diagnosis-2026-04-07")
    assert diagnosed(api, before, betas="cache-diagnosis-2026-04-07") is None


@pytest.mark.parametrize("wrong", ["msg", 5, {"previous": None}, {"previous_message_id": 5}], ids=str)
def test_a_wrong_request_is_refused(api: Api, wrong: object):
    assert api.refused("hi", diagnostics=wrong).startswith("diagnostics")


def test_a_string_and_its_block_are_no_divergence(api: Api):
    """A string and its one block are the same message to the diagnosis too."""
    before = first(api, user("same words"))
    assert diagnosed(api, before, {"role": "user", "content": "same words"}) is None
    assert diagnosed(api, before, {"role": "user", "content": [text("same words")]}) is None
