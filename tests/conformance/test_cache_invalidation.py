"""Every row of the invalidation matrix: which of tools, system and messages a change makes unreadable."""

import pytest
from conformance.api import (
    EDITING,
    FIVE,
    PIXEL_PNG,
    Api,
    assistant,
    call,
    long,
    marked,
    result,
    text,
    tool,
    user,
)

pytestmark = pytest.mark.spec("TW-2")
PIXEL = {
    "type": "image",
    "source": {
        "type": "base64",
        "media_type": "image/png",
        "data": PIXEL_PNG,
    },
}
SEARCH = {"type": "web_search_20250305", "name": "web_search"}
BASE = {
    "tools": [tool("first"), tool("last", description="d" * 3000, cache_control=FIVE)],
    "system": [long("s", marker=FIVE)],
    "thinking": {"type": "adaptive"},
}
MESSAGES = [user(long("m", marker=FIVE)), assistant("yes"), user("next")]
LEVELS = ("nothing", "tools", "system", "messages")


def deepest(
    api: Api, changed: dict[str, object], *, base: dict[str, object] | None = None, messages=None
) -> str:
    """How far the second of two requests still reads what the first wrote."""
    before = BASE | (base or {})
    api.usage(*MESSAGES, **before)
    marks = sorted(e["tokens"] for e in api.ledger()[-1]["cache"]["written"])
    assert len(marks) == 3
    fields = {k: v for k, v in (before | changed).items() if v is not ...}
    read = api.usage(*(messages or MESSAGES), **fields)["cache_read_input_tokens"]
    return LEVELS[sum(read > 0 and read >= mark for mark in marks)]


def test_the_same_request_reads_everything(api: Api):
    assert deepest(api, {}) == "messages"


@pytest.mark.parametrize(
    "tools",
    [
        [tool("first"), tool("new"), tool("last", description="d" * 3000, cache_control=FIVE)],
        [tool("last", description="d" * 3000, cache_control=FIVE)],
        [tool("last", description="d" * 3000), tool("first", cache_control=FIVE)],
        [tool("first", description="Other."), tool("last", description="d" * 3000, cache_control=FIVE)],
        [
            {
                "description": "The tool first.",
                "name": "first",
                "input_schema": {"properties": {"path": {"type": "string"}}, "type": "object"},
            },
            tool("last", description="d" * 3000, cache_control=FIVE),
        ],
    ],
    ids=["added", "removed", "reordered", "edited", "schema keys reordered"],
)
def test_a_change_of_tools_invalidates_everything(api: Api, tools):
    assert deepest(api, {"tools": tools}) == "nothing"


def test_another_model_reads_nothing(api: Api):
    assert deepest(api, {"model": "claude-opus-4-8"}) == "nothing"


def test_another_speed_shares_nothing(api: Api):
    assert deepest(api, {"speed": "fast", "betas": "fast-mode-2026-02-01"}) in {"nothing", "tools"}


def test_a_change_of_system_keeps_the_tools(api: Api):
    assert deepest(api, {"system": [long("z", marker=FIVE)]}) == "tools"


def test_no_system_keeps_the_tools(api: Api):
    assert deepest(api, {"system": ...}) == "tools"


def test_web_search_put_last_keeps_the_tools_before_it(api: Api):
    assert deepest(api, {"tools": [*BASE["tools"], SEARCH]}) == "tools"


def test_citations_switched_on_keep_the_tools(api: Api):
    document = {
        "type": "document",
        "source": {"type": "text", "media_type": "text/plain", "data": "words"},
        "citations": {"enabled": True},
    }
    messages = [*MESSAGES[:2], user("next", document)]
    assert deepest(api, {}, messages=messages) == "tools"


@pytest.mark.parametrize(
    "choice",
    [
        {"type": "any"},
        {"type": "none"},
        {"type": "tool", "name": "first"},
        {"type": "auto", "disable_parallel_tool_use": True},
    ],
)
def test_a_change_of_tool_choice_keeps_tools_and_system(api: Api, choice):
    assert deepest(api, {"tool_choice": choice}) == "system"


def test_tool_choice_auto_is_the_same_as_none_given(api: Api):
    assert deepest(api, {"tool_choice": {"type": "auto"}}) == "messages"


def test_parallel_use_allowed_explicitly_is_the_default(api: Api):
    choice = {"type": "auto", "disable_parallel_tool_use": False}
    assert deepest(api, {"tool_choice": choice}) == "messages"


def test_an_image_added_after_the_marker_keeps_tools_and_system(api: Api):
    assert deepest(api, {}, messages=[*MESSAGES[:2], user("next", PIXEL)]) == "system"


def test_an_image_removed_keeps_tools_and_system(api: Api):
    with_image = [*MESSAGES[:2], user("next", PIXEL)]
    api.usage(*with_image, **BASE)
    marks = sorted(e["tokens"] for e in api.ledger()[-1]["cache"]["written"])
    assert api.usage(*MESSAGES, **BASE)["cache_read_input_tokens"] == marks[1]


def test_an_image_inside_a_tool_result_counts_too(api: Api):
    seen = [assistant(call("t1", "first")), user(result("t1", [PIXEL]))]
    assert deepest(api, {}, messages=[MESSAGES[0], *seen]) == "system"


def test_the_same_images_again_keep_everything(api: Api):
    with_image = [*MESSAGES[:2], user("next", PIXEL)]
    api.usage(*with_image, **BASE)
    assert api.usage(*with_image, **BASE)["cache_creation_input_tokens"] == 0


def test_a_change_of_thinking_keeps_tools_and_system(api: Api):
    assert deepest(api, {"thinking": {"type": "disabled"}}) == "system"


def test_the_default_thinking_named_or_not_is_the_same(api: Api):
    assert deepest(api, {"thinking": ...}) == "messages"


def test_another_budget_keeps_tools_and_system(api: Api):
    old = {
        "model": "claude-opus-4-6",
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "max_tokens": 4000,
    }
    base = old | {"tools": [tool("last", description="d" * 20_000, cache_control=FIVE)]}
    assert deepest(api, {"thinking": {"type": "enabled", "budget_tokens": 2048}}, base=base) == "system"


def test_the_display_of_thinking_changes_nothing(api: Api):
    assert deepest(api, {"thinking": {"type": "adaptive", "display": "omitted"}}) == "messages"


def test_another_effort_keeps_tools_and_system(api: Api):
    assert deepest(api, {"output_config": {"effort": "medium"}}) == "system"


@pytest.mark.parametrize(
    ("model", "effort"),
    [("claude-opus-5", "high"), ("claude-opus-5-5", "medium"), ("claude-haiku-5-5", "medium")],
)
def test_the_default_effort_named_is_the_same_as_omitted(api: Api, model: str, effort: str):
    assert deepest(api, {"output_config": {"effort": effort}}, base={"model": model}) == "messages"


def test_another_output_format_keeps_tools_and_system(api: Api):
    format = {
        "type": "json_schema",
        "schema": {"type": "object", "properties": {}, "additionalProperties": False},
    }
    assert deepest(api, {"output_config": {"format": format}}) == "system"


@pytest.mark.parametrize(
    "changed",
    [
        {"max_tokens": 77},
        {"stop_sequences": ["never"]},
        {"metadata": {"user_id": "u1"}},
        {"service_tier": "standard_only"},
    ],
    ids=lambda c: next(iter(c)),
)
def test_parameters_that_do_not_reach_the_prompt_change_nothing(api: Api, changed):
    assert deepest(api, changed) == "messages"


def test_a_stream_reads_what_a_plain_request_wrote(api: Api):
    written = api.usage(*MESSAGES, **BASE)["cache_creation_input_tokens"]
    events = api.ask(*MESSAGES, **BASE, stream=True).events
    assert events[0]["message"]["usage"]["cache_read_input_tokens"] == written


def test_a_system_message_in_the_conversation_keeps_the_prefix(api: Api):
    messages = [*MESSAGES, {"role": "system", "content": "From now on be brief."}]
    assert deepest(api, {}, messages=messages) == "messages"


def test_a_deferred_tool_is_outside_the_prefix(api: Api):
    search = {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}
    tools = [search, *BASE["tools"]]
    deferred = tool("later", defer_loading=True)
    assert deepest(api, {"tools": [*tools, deferred]}, base={"tools": tools}) == "messages"


def test_an_aside_that_expires_keeps_the_prefix(api: Api):
    betas = {"betas": "mid-conversation-system-clear-at-2026-08-21"}
    aside = {"role": "system", "content": [text("Only now.")], "clear_at": "next_user_message"}
    now = [user(long("a", marker=FIVE)), aside]
    written = api.usage(*now, **betas)["cache_creation_input_tokens"]
    later = [*now, assistant("yes"), user(text("next", FIVE))]
    assert api.usage(*later, **betas)["cache_read_input_tokens"] == written
    further = [*later, assistant("yes"), user(text("more", FIVE))]
    assert api.usage(*further, **betas)["cache_creation_input_tokens"] < 50


def test_an_effort_for_one_message_keeps_the_prefix(api: Api):
    aside = {"role": "system", "content": [text("Hard.")], "output_config": {"effort": "max"}}
    betas = {"betas": "mid-conversation-output-config-2026-07-01"}
    assert deepest(api, betas, base=betas, messages=[*MESSAGES, aside]) == "messages"


def test_an_earlier_message_edited_invalidates_from_there(api: Api):
    turns = [user(long("a", marker=FIVE)), assistant("yes"), user(long("b", marker=FIVE))]
    api.usage(*turns)
    turns[1] = assistant("no")
    first = api.usage(*turns)["cache_read_input_tokens"]
    assert 0 < first < api.count(*turns) / 1.5


def test_a_context_edit_that_clears_invalidates_from_the_first_cleared_block(api: Api):
    turns = [user(long("a", marker=FIVE))]
    for i in range(5):
        turns += [assistant(call(f"t{i}")), user(result(f"t{i}", "seen " * 200))]
    turns[-1]["content"][0] = marked(turns[-1]["content"][0])
    fields = {"tools": [tool()], "betas": EDITING}
    whole = api.usage(*turns, **fields)["cache_creation_input_tokens"]
    first = min(e["tokens"] for e in api.ledger()[-1]["cache"]["written"])
    edits = [{"type": "clear_tool_uses_20250919", "trigger": {"type": "tool_uses", "value": 4}}]
    usage = api.usage(*turns, **fields, context_management={"edits": edits})
    assert usage["cache_read_input_tokens"] == first
    assert 0 < usage["cache_creation_input_tokens"] < whole - first


def test_a_context_edit_that_clears_nothing_keeps_the_prefix(api: Api):
    edits = {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}, "betas": EDITING}
    assert deepest(api, edits) == "messages"


@pytest.mark.parametrize(("model", "keeps"), [("claude-haiku-4-5", False), ("claude-sonnet-4-6", True)])
def test_a_new_user_turn_strips_thinking_on_old_models_only(api: Api, model: str, keeps: bool):
    fields = {"model": model, "tools": [tool()], "max_tokens": 3000}
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
    api.script(
        {
            "content": [
                {"type": "thinking", "thinking": "hm " * 200},
                {"type": "tool_use", "id": "t1", "name": "look", "input": {}},
            ]
        }
    )
    start = user(long("a", 40_000))
    first = api.reply(start, **fields, **thinking)["content"]
    loop = [start, {"role": "assistant", "content": first}, user(marked(result("t1")))]
    written = api.usage(*loop, **fields, **thinking)["cache_creation_input_tokens"]
    later = [*loop, assistant("done"), user(text("new question", FIVE))]
    read = api.usage(*later, **fields, **thinking)["cache_read_input_tokens"]
    assert read == (written if keeps else 0)
