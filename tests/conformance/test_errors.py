"""Refusals, with their status, type and wording: the table of errors, row by row."""

import pytest
from conformance.api import NEWEST_VERSION, Api, Json, assistant, call, result, tool, user

pytestmark = pytest.mark.spec("TW-6")
BAD_REQUEST = (400, "invalid_request_error")
TOOLS: Json = {"tools": [tool("look")]}
HAIKU: Json = {"model": "claude-haiku-4-5"}
ENABLED: Json = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 3000}


# Size


@pytest.mark.parametrize(("model", "window"), [("claude-haiku-4-5", 200_000), ("claude-opus-5", 1_000_000)])
def test_a_prompt_over_the_window_is_too_long(api: Api, model: str, window: int):
    turns = [user("w" * (window * 4))]
    size = api.count(*turns, model=model)
    assert api.ask(*turns, model=model).said == (
        *BAD_REQUEST,
        f"prompt is too long: {size} tokens > {window} maximum",
    )


def test_input_and_output_over_the_window_are_accepted_and_cut(api: Api):
    api.script({"content": "word " * 60_000})
    turns = [user("w" * 600_000)]
    size = api.count(*turns, **HAIKU)
    assert 140_000 < size < 200_000
    reply = api.reply(*turns, **HAIKU, max_tokens=64_000)
    assert reply["stop_reason"] == "model_context_window_exceeded"
    assert size + reply["usage"]["output_tokens"] == 200_000


@pytest.mark.parametrize("model", ["claude-opus-4-1", "claude-sonnet-4-20250514"])
def test_before_4_5_input_and_output_over_the_window_are_refused(api: Api, model: str):
    turns = [user("w" * 670_000)]
    size = api.count(*turns, model=model)
    room = 200_000 - size
    assert 0 < room < 30_000
    assert api.refused(*turns, model=model, max_tokens=room + 1) == (
        f"input length and `max_tokens` exceed context limit: {size} + {room + 1} > 200000, "
        "decrease input length or `max_tokens` and try again"
    )
    assert api.ask(*turns, model=model, max_tokens=room).status == 200


def test_more_messages_than_a_request_may_have_are_refused(api: Api):
    assert api.refused(*[user("a")] * 100_001).startswith("messages: ")


@pytest.mark.parametrize(("model", "cap"), [("claude-haiku-4-5", 64_000), ("claude-opus-5", 128_000)])
def test_more_output_than_the_model_has_is_refused(api: Api, model: str, cap: int):
    assert api.ask("hi", model=model, max_tokens=cap + 1).said == (
        *BAD_REQUEST,
        f"max_tokens: {cap + 1} > {cap}, which is the maximum allowed number of output tokens for {model}",
    )
    assert api.ask("hi", model=model, max_tokens=cap).status == 200


# Tool calls and their results


def test_a_call_without_a_result_is_refused(api: Api):
    assert api.refused(user("go"), assistant(call("toolu_x")), user("and?"), **TOOLS) == (
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_x. "
        "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
    )


def test_every_missing_result_is_named(api: Api):
    words = api.refused(user("go"), assistant(call("a"), call("b"), call("c")), user(result("b")), **TOOLS)
    assert words.startswith(
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: a, c."
    )


def test_a_result_without_a_call_is_refused(api: Api):
    assert api.refused(user("go"), assistant("ok"), user("x", result("toolu_x")), **TOOLS) == (
        "messages.2.content.1: unexpected `tool_use_id` found in `tool_result` blocks: toolu_x. "
        "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
    )


def test_a_result_in_the_first_message_is_refused(api: Api):
    words = api.refused(user(result("toolu_x")), **TOOLS)
    assert words.startswith(
        "messages.0.content.0: unexpected `tool_use_id` found in `tool_result` blocks: toolu_x."
    )


def test_text_before_a_result_is_refused(api: Api):
    words = api.refused(user("go"), assistant(call("t1")), user("first words", result("t1")), **TOOLS)
    assert words.startswith(
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: t1."
    )


def test_text_after_results_is_fine(api: Api):
    assert api.ask(user("go"), assistant(call("t1")), user(result("t1"), "and now?"), **TOOLS).status == 200


def test_results_may_be_spread_over_user_messages_that_merge(api: Api):
    turns = [user("go"), assistant(call("a"), call("b")), user(result("a")), user(result("b"))]
    assert api.ask(*turns, **TOOLS).status == 200


def test_a_call_at_the_very_end_is_refused(api: Api):
    assert api.ask(user("go"), assistant(call("t1")), **TOOLS).status == 400


def test_a_server_tool_without_its_result_is_refused(api: Api):
    pending = {"type": "server_tool_use", "id": "srvtoolu_x", "name": "web_search", "input": {"query": "q"}}
    words = api.refused(
        user("go"),
        assistant(pending),
        user("more"),
        tools=[{"type": "web_search_20250305", "name": "web_search"}],
    )
    assert words.endswith(
        "`web_search` tool use with id `srvtoolu_x` was found without a corresponding "
        "`web_search_tool_result` block"
    )


def test_two_calls_of_one_id_are_refused(api: Api):
    assert "unique" in api.refused(user("go"), assistant(call("t1"), call("t1")), user(result("t1")), **TOOLS)


# Thinking


@pytest.mark.parametrize(
    "model", ["claude-opus-4-7", "claude-opus-4-8", "claude-opus-5", "claude-fable-5-2", "claude-haiku-5-5"]
)
def test_manual_thinking_is_refused_since_4_7(api: Api, model: str):
    assert api.refused("hi", model=model, **ENABLED) == (
        '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and '
        '"output_config.effort" to control thinking behavior.'
    )


@pytest.mark.parametrize(
    "model",
    ["claude-fable-5", "claude-fable-5-1", "claude-fable-5-2", "claude-opus-5-5", "claude-sonnet-5-5"],
)
def test_thinking_cannot_be_switched_off_where_it_is_always_on(api: Api, model: str):
    words = api.refused("hi", model=model, thinking={"type": "disabled"})
    assert words.startswith('"thinking.type.disabled" is not supported for this model.')


@pytest.mark.parametrize("model", ["claude-opus-5", "claude-sonnet-5", "claude-haiku-5-5", "claude-opus-4-8"])
def test_thinking_can_be_switched_off_elsewhere(api: Api, model: str):
    assert api.ask("hi", model=model, thinking={"type": "disabled"}).status == 200


@pytest.mark.parametrize("model", ["claude-haiku-4-5", "claude-sonnet-4-5", "claude-opus-4-5"])
def test_adaptive_thinking_is_refused_up_to_4_5(api: Api, model: str):
    assert api.refused("hi", model=model, thinking={"type": "adaptive"}) == (
        "adaptive thinking is not supported on this model"
    )


def test_with_manual_thinking_a_tool_turn_must_start_with_thinking(api: Api):
    turns = [user("go"), assistant(call("t1")), user(result("t1"))]
    words = api.refused(*turns, **TOOLS, **HAIKU, **ENABLED)
    assert words.startswith(
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. "
        "When `thinking` is enabled, a final `assistant` message must start with a thinking block"
    )


def test_adaptive_thinking_demands_no_thinking_block(api: Api):
    turns = [user("go"), assistant(call("t1")), user(result("t1"))]
    assert api.ask(*turns, **TOOLS, thinking={"type": "adaptive"}).status == 200


@pytest.mark.parametrize("budget", [0, 1023, 3000, "many"])
def test_a_wrong_budget_is_refused(api: Api, budget: object):
    thinking = {"type": "enabled", "budget_tokens": budget}
    assert "budget_tokens" in api.refused("hi", **HAIKU, max_tokens=3000, thinking=thinking)


# What a model takes


@pytest.mark.parametrize("model", ["claude-opus-4-6", "claude-sonnet-5", "claude-opus-5", "claude-fable-5-2"])
def test_prefill_is_refused_since_4_6(api: Api, model: str):
    assert api.refused("hi", assistant("I think"), model=model) == (
        "This model does not support assistant message prefill. "
        "The conversation must end with a user message."
    )


def test_prefill_works_on_older_models(api: Api):
    assert api.ask("hi", assistant("I think"), **HAIKU).status == 200


@pytest.mark.parametrize(
    "model", ["claude-opus-5-5", "claude-sonnet-5-5", "claude-fable-5-1", "claude-fable-5-2"]
)
@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "look"}])
def test_a_forced_tool_is_refused_on_new_models(api: Api, model: str, choice: Json):
    words = api.refused("hi", model=model, tool_choice=choice, **TOOLS)
    assert "tool_choice" in words
    assert words.endswith('type "tool" and "any" are not supported for this model.')


def test_a_forced_tool_works_elsewhere(api: Api):
    reply = api.reply(
        "hi", tool_choice={"type": "tool", "name": "look"}, **TOOLS, thinking={"type": "disabled"}
    )
    assert reply["content"][-1]["name"] == "look"
    assert reply["stop_reason"] == "tool_use"


@pytest.mark.parametrize("field", ["temperature", "top_p", "top_k"])
def test_sampling_is_refused_by_the_new_version(api: Api, field: str):
    assert api.refused("hi", version=NEWEST_VERSION, **{field: 1}, **HAIKU) == (
        f"{field}: Extra inputs are not permitted"
    )


def test_sampling_works_on_old_models_in_the_old_version(api: Api):
    assert api.ask("hi", temperature=0.5, **HAIKU).status == 200


def test_a_document_in_an_assistant_message_is_refused_by_the_new_version(api: Api):
    document = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "d"}}
    turns = [user("a"), assistant(document, "x"), user("b")]
    assert api.ask(*turns, version=NEWEST_VERSION).status == 400


def test_citations_on_a_users_text_are_refused_by_the_new_version(api: Api):
    cited = {
        "type": "text",
        "text": "x",
        "citations": [
            {
                "type": "char_location",
                "cited_text": "x",
                "document_index": 0,
                "document_title": None,
                "start_char_index": 0,
                "end_char_index": 1,
            }
        ],
    }
    assert api.ask(user(cited), version=NEWEST_VERSION).status == 400


def test_an_unknown_model_is_not_found(api: Api):
    assert api.ask("hi", model="claude-nope").said == (404, "not_found_error", "model: claude-nope")
    assert api.counted("hi", model="claude-nope").said == (404, "not_found_error", "model: claude-nope")
