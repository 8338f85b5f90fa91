"""max_tokens 0: the prefix is written, nothing is said."""

import pytest
from conformance.api import FIVE, Api, Json, long, text, tool, user

pytestmark = pytest.mark.spec("TW-2", "TW-6")
SYSTEM: Json = {"system": [long("s", marker=FIVE)]}


def test_a_prewarm_says_nothing_and_writes(api: Api):
    api.script("for later")
    warm = api.reply("warm", max_tokens=0, **SYSTEM)
    assert (warm["content"], warm["stop_reason"]) == ([], "max_tokens")
    assert warm["usage"]["output_tokens"] == 0
    assert warm["usage"]["cache_creation_input_tokens"] > 512
    assert [i["type"] for i in warm["usage"]["iterations"]] == ["message"]
    real = api.usage("question", **SYSTEM)
    assert real["cache_read_input_tokens"] == warm["usage"]["cache_creation_input_tokens"]


@pytest.mark.spec("TW-3")
def test_a_prewarm_is_billed_as_any_write(api: Api):
    usage = api.usage("warm", max_tokens=0, **SYSTEM)
    dollars = (usage["cache_creation_input_tokens"] * 6.25 + usage["input_tokens"] * 5) / 1e6
    assert api.ledger()[-1]["dollars"] == pytest.approx(dollars)


@pytest.mark.parametrize(
    "fields",
    [
        {"stream": True},
        {"thinking": {"type": "enabled", "budget_tokens": 1024}, "model": "claude-haiku-4-5"},
        {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
        {"tool_choice": {"type": "any"}, "tools": [tool()]},
        {"tool_choice": {"type": "tool", "name": "look"}, "tools": [tool()]},
    ],
    ids=["stream", "enabled", "format", "any", "tool"],
)
def test_a_prewarm_is_not_combined_with(api: Api, fields: Json):
    assert "max_tokens" in api.refused("warm", max_tokens=0, **SYSTEM, **fields)


def test_a_prewarm_needs_words(api: Api):
    assert api.ask(user(text("  ")), max_tokens=0, **SYSTEM).status == 400


@pytest.mark.parametrize("wrong", [-1, 1.5, "10", None, True])
def test_a_wrong_max_tokens_is_refused(api: Api, wrong: object):
    assert api.refused("hi", max_tokens=wrong).startswith("max_tokens")


def test_a_refused_prewarm_uses_no_script(api: Api):
    api.script("for later")
    api.refused("warm", max_tokens=0, stream=True)
    api.reply("warm", max_tokens=0)
    assert api.reply("hi")["content"] == [text("for later")]
