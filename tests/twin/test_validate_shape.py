"""The error messages for wrong shapes and missing beta headers."""

from typing import Any

import pytest

from everturn.twin.options import TwinOptions


def body(**more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "hi"}]
    return {"model": "claude-opus-5", "max_tokens": 100, "messages": messages, **more}


def block(**fields: Any) -> dict[str, Any]:
    return body(messages=[{"role": "user", "content": [fields]}])


EXTRA = "Extra inputs are not permitted"
TEXT = {"type": "text", "text": "t"}
WRONG = {
    "not an object": (b"[]", "The request body must be a JSON object."),
    "an unknown parameter": (body(foo=1), f"foo: {EXTRA}"),
    "an unknown field of a block": (block(**TEXT, foo=1), f"messages.0.content.0.text.foo: {EXTRA}"),
    "a marker on thinking": (
        body(
            messages=[
                {"role": "user", "content": "hi"},
                {
                    "role": "assistant",
                    "content": [
                        {
                            "type": "thinking",
                            "thinking": "",
                            "signature": "",
                            "cache_control": {"type": "ephemeral"},
                        }
                    ],
                },
            ]
        ),
        f"messages.1.content.0.thinking.cache_control: {EXTRA}",
    ),
    "an unknown field of a message": (
        body(messages=[{"role": "user", "content": "hi", "name": "me"}]),
        f"messages.0.name: {EXTRA}",
    ),
    "a field deep in a result": (
        block(type="tool_result", tool_use_id="t", content=[{**TEXT, "foo": 1}]),
        f"messages.0.content.0.tool_result.content.0.text.foo: {EXTRA}",
    ),
    "no max_tokens": (
        {"model": "claude-opus-5", "messages": [{"role": "user", "content": "hi"}]},
        "max_tokens: Field required",
    ),
    "no messages": ({"model": "claude-opus-5", "max_tokens": 1}, "messages: Field required"),
    "no model": ({"max_tokens": 1, "messages": [{"role": "user", "content": "hi"}]}, "model: Field required"),
    "messages of the wrong type": (body(messages="hi"), "messages: Input should be a valid list"),
    "an unknown role": (
        body(messages=[{"role": "robot", "content": "hi"}]),
        "messages.0.role: Input should be 'user', 'assistant' or 'system'",
    ),
    "content of the wrong type": (
        body(messages=[{"role": "user", "content": 5}]),
        "messages.0.content: Input should be a valid list",
    ),
    "text of the wrong type": (
        block(type="text", text=5),
        "messages.0.content.0.text.text: Input should be a valid string",
    ),
    "a block without its field": (block(type="image"), "messages.0.content.0.image.source: Field required"),
    "input that is no object": (
        block(type="tool_use", id="t", name="n", input="x"),
        "messages.0.content.0.tool_use.input: Input should be a valid dictionary",
    ),
    "an id with a space": (
        block(type="tool_use", id="a b", name="n", input={}),
        "messages.0.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
    ),
    "max_tokens below zero": (
        body(max_tokens=-1),
        "max_tokens: Input should be greater than or equal to 0",
    ),
    "max_tokens as a word": (body(max_tokens="5"), "max_tokens: Input should be a valid integer"),
    "max_tokens as a truth": (body(max_tokens=True), "max_tokens: Input should be a valid integer"),
    "an unknown lifetime": (
        body(cache_control={"type": "ephemeral", "ttl": "2h"}),
        "cache_control.ephemeral.ttl: Input should be '5m' or '1h'",
    ),
    "a marker of another type": (
        block(**TEXT, cache_control={"type": "forever"}),
        "messages.0.content.0.text.cache_control: Input tag 'forever' found using 'type' does not match any "
        "of the expected tags: 'ephemeral'",
    ),
    "a tool without schema": (body(tools=[{"name": "t"}]), "tools.0.custom.input_schema: Field required"),
    "a schema without type": (
        body(tools=[{"name": "t", "input_schema": {}}]),
        "tools.0.custom.input_schema.type: Field required",
    ),
    "a tool's name with a space": (
        body(tools=[{"name": "a b", "input_schema": {"type": "object"}}]),
        "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'",
    ),
    "two tools of one name": (
        body(tools=[{"name": "t", "input_schema": {"type": "object"}}] * 2),
        "tools: Tool names must be unique.",
    ),
    "a deferred tool with a marker": (
        body(
            tools=[
                {
                    "name": "t",
                    "input_schema": {"type": "object"},
                    "defer_loading": True,
                    "cache_control": {"type": "ephemeral"},
                }
            ]
        ),
        "tools.0.custom: Tool 't' cannot have both defer_loading=true and cache_control set. "
        "Tools with defer_loading cannot use prompt caching.",
    ),
    "only deferred tools": (
        body(tools=[{"name": "t", "input_schema": {"type": "object"}, "defer_loading": True}]),
        "At least one tool must have defer_loading=false.",
    ),
    "a choice at the top of a schema": (
        body(tools=[{"name": "t", "input_schema": {"type": "object", "anyOf": []}}]),
        "tools.0.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level",
    ),
    "domains allowed and blocked": (
        body(
            tools=[
                {
                    "type": "web_search_20250305",
                    "name": "web_search",
                    "allowed_domains": ["a"],
                    "blocked_domains": ["b"],
                }
            ]
        ),
        "tools.0.web_search_20250305: Only one of `allowed_domains` or `blocked_domains` can be set.",
    ),
    "a map that is none": (
        body(tools=[{"type": "browser_toolset_20260801", "configs": []}]),
        "tools.0.browser_toolset_20260801.configs: Input should be a valid dictionary",
    ),
    "a source without type": (
        block(type="image", source={"url": "u"}),
        "messages.0.content.0.image.source: Unable to extract tag using discriminator 'type'",
    ),
    "an image as system": (
        body(system=[{"type": "image", "source": {"type": "url", "url": "u"}}]),
        "system.0.type: Input should be 'text'",
    ),
    "an unknown field of the system": (body(system=[{**TEXT, "foo": 1}]), f"system.0.foo: {EXTRA}"),
    "empty system text": (
        body(system=[{"type": "text", "text": ""}]),
        "system: text content blocks must be non-empty",
    ),
    "an unknown kind of thinking": (
        body(thinking={"type": "deep"}),
        "thinking: Input tag 'deep' found using 'type' does not match any of the expected tags: 'adaptive', "
        "'between_tools', 'disabled', 'enabled'",
    ),
    "a small budget": (
        body(thinking={"type": "enabled", "budget_tokens": 1000}),
        "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
    ),
    "a word for effort": (
        body(output_config={"effort": "hard"}),
        "output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'",
    ),
    "cache references, which are not public": (
        block(type="tool_result", tool_use_id="t", cache_reference="t"),
        f"messages.0.content.0.tool_result.cache_reference: {EXTRA}",
    ),
}


@pytest.mark.spec("TW-6")
@pytest.mark.parametrize(("sent", "expected"), WRONG.values(), ids=WRONG.keys())
def test_the_error_for_a_wrong_shape_has_its_path(sent, expected, verdict):
    assert verdict(sent) == expected


@pytest.mark.spec("TW-6")
def test_an_unknown_model_is_not_found(refusal_of):
    refusal = refusal_of(body(model="claude-nope"))
    assert (refusal.status, refusal.kind, refusal.message) == (404, "not_found_error", "model: claude-nope")


@pytest.mark.spec("TW-6")
def test_the_version_header_must_be_present_and_known(verdict):
    assert verdict(body(), version="") == "accepted"
    strict = TwinOptions(version_header="required")
    assert verdict(body(), version="", options=strict) == "anthropic-version: header is required"
    assert verdict(body(), version="2024-01-01") == 'anthropic-version: "2024-01-01" is not a valid version'
    assert verdict(body(), version="2026-10-21") == "accepted"


@pytest.mark.spec("TW-6")
def test_a_kind_of_block_without_its_header_is_not_an_expected_one(verdict):
    sent = body(messages=[{"role": "user", "content": [{"type": "compaction", "content": "so far"}, TEXT]}])
    assert verdict(sent).startswith(
        "messages.0.content.0: Input tag 'compaction' found using 'type' does not match any of "
        "the expected tags:"
    )
    assert verdict(sent, betas="compact-2026-01-12") == "accepted"
    sent["messages"][0]["content"][0]["citations"] = []
    assert verdict(sent, betas="compact-2026-09-04") == f"messages.0.content.0.compaction.citations: {EXTRA}"


@pytest.mark.spec("TW-6")
def test_a_kind_of_tool_without_its_header_is_not_an_expected_one(verdict):
    sent = body(tools=[{"type": "bash_20241022", "name": "bash"}])
    assert verdict(sent).startswith("tools.0: Input tag 'bash_20241022' found using 'type' does not match")
    assert verdict(sent, betas="computer-use-2024-10-22") == "accepted"


def test_cache_edits_exist_only_where_the_extension_is_on(verdict):
    content = [{"type": "cache_edits", "edits": [{"type": "delete", "cache_reference": "t"}]}, TEXT]
    sent = body(messages=[{"role": "user", "content": content}])
    assert verdict(sent).startswith(
        "messages.0.content.0: Input tag 'cache_edits' found using 'type' does not"
    )
    assert verdict(sent, options=TwinOptions(extensions=frozenset({"cache_edits"}))) == "accepted"


def test_counting_tokens_takes_no_max_tokens(verdict):
    assert verdict(body(), endpoint="count_tokens") == f"max_tokens: {EXTRA}"
