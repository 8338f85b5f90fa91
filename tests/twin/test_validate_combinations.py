"""Fields that exclude or require each other, and the beta headers that they need."""

from typing import Any

import pytest

CLEARING = "context-management-2025-06-27"
AT_THRESHOLD = "compact-2026-01-12"
ON_DEMAND = "compact-2026-09-04"
USES = {"type": "clear_tool_uses_20250919"}
THOUGHTS = {"type": "clear_thinking_20251015"}
COMPACT = {"type": "compact_20260112"}
FORMAT = {"format": {"type": "json_schema", "schema": {}}}
TOOL = {"name": "look", "input_schema": {"type": "object"}}
SIGNED = {"type": "compaction", "content": "so far", "signature": "elsewhere"}
EXTRA = "Extra inputs are not permitted"


def user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(content) or "hi"}


def assistant(*content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(content)}


TEXT = {"type": "text", "text": "t"}


def body(*messages: Any, model: str = "claude-opus-5", **more: Any) -> dict[str, Any]:
    return {"model": model, "max_tokens": 2000, "messages": list(messages) or [user()], **more}


def edits(*sent: Any, **more: Any) -> dict[str, Any]:
    return body(context_management={"edits": list(sent)}, **more)


def summarize(*messages: Any, **more: Any) -> dict[str, Any]:
    return body(*messages, compaction={"type": "summarize"}, **more)


PREWARM = {
    "prewarming": (body() | {"max_tokens": 0}, "accepted"),
    "prewarming a stream": (
        body(stream=True) | {"max_tokens": 0},
        "max_tokens: 0 cannot be combined with `stream`: true",
    ),
    "prewarming manual thinking": (
        body(model="claude-haiku-4-5", thinking={"type": "enabled", "budget_tokens": 1024})
        | {"max_tokens": 0},
        'max_tokens: 0 cannot be combined with `thinking.type`: "enabled"',
    ),
    "prewarming a format": (
        body(output_config=FORMAT) | {"max_tokens": 0},
        "max_tokens: 0 cannot be combined with `output_config.format`",
    ),
    "prewarming a forced tool": (
        body(tools=[TOOL], tool_choice={"type": "any"}) | {"max_tokens": 0},
        'max_tokens: 0 cannot be combined with `tool_choice` of type "any" or "tool"',
    ),
}
EDITING = {
    "clearing": (edits(USES), CLEARING, "accepted"),
    "clearing with everything": (
        edits(
            THOUGHTS | {"keep": {"type": "thinking_turns", "value": 1}},
            USES
            | {
                "trigger": {"type": "tool_uses", "value": 2},
                "keep": {"type": "tool_uses", "value": 0},
                "clear_at_least": {"type": "input_tokens", "value": 5},
                "exclude_tools": ["a"],
                "clear_tool_inputs": ["b"],
            },
        ),
        CLEARING,
        "accepted",
    ),
    "clearing without header": (edits(USES), "", f"context_management: {EXTRA}"),
    "compacting under the header of clearing": (
        edits(COMPACT),
        CLEARING,
        "context_management.edits.0: Input tag 'compact_20260112' found using 'type' does not "
        "match any of the "
        "expected tags: 'clear_thinking_20251015', 'clear_tool_uses_20250919'",
    ),
    "thinking after tools": (
        edits(USES, THOUGHTS),
        CLEARING,
        "context_management.edits: `clear_thinking_20251015` must be the first edit when combined "
        "with others",
    ),
    "thinking where there is none": (
        edits(THOUGHTS, model="claude-haiku-4-5"),
        CLEARING,
        "`clear_thinking_20251015` strategy requires `thinking` to be enabled or adaptive",
    ),
    "keeping no thinking": (
        edits(THOUGHTS | {"keep": {"type": "thinking_turns", "value": 0}}),
        CLEARING,
        "context_management.edits.0.clear_thinking_20251015.keep.thinking_turns.value: "
        "Input should be greater than or equal to 1",
    ),
    "keeping all": (edits(THOUGHTS | {"keep": "all"}), CLEARING, "accepted"),
    "compacting": (edits(COMPACT), AT_THRESHOLD, "accepted"),
    "compacting early": (
        edits(COMPACT | {"trigger": {"type": "input_tokens", "value": 49_999}}),
        AT_THRESHOLD,
        "context_management.edits.0.compact_20260112.trigger.value: "
        "Input should be greater than or equal to 50000",
    ),
    "compacting by uses": (
        edits(COMPACT | {"trigger": {"type": "tool_uses", "value": 60_000}}),
        AT_THRESHOLD,
        "context_management.edits.0.compact_20260112.trigger.type: Input should be 'input_tokens'",
    ),
    "compacting on Haiku": (
        edits(COMPACT, model="claude-haiku-4-5"),
        AT_THRESHOLD,
        "`compact_20260112` is not supported for claude-haiku-4-5.",
    ),
    "an unknown edit": (
        edits({"type": "forget"}),
        CLEARING,
        "context_management.edits.0: Input tag 'forget' found using 'type' does not match any of "
        "the expected "
        "tags: 'clear_thinking_20251015', 'clear_tool_uses_20250919', 'compact_20260112'",
    ),
}
COMPACTION = {
    "on demand": (summarize(), ON_DEMAND, "accepted", None),
    "on demand, ending with the assistant": (
        summarize(user(), assistant(TEXT)),
        ON_DEMAND,
        "accepted",
        None,
    ),
    "without header": (
        summarize(),
        AT_THRESHOLD,
        "compaction: the `compaction` parameter requires anthropic-beta: compact-2026-09-04",
        None,
    ),
    "with context_management": (
        summarize(context_management={"edits": [USES]}),
        f"{ON_DEMAND},{CLEARING}",
        "compaction: cannot be combined with `context_management`",
        None,
    ),
    "with stop sequences": (
        summarize(stop_sequences=["x"]),
        ON_DEMAND,
        "compaction: cannot be combined with `stop_sequences`",
        None,
    ),
    "with a format": (
        summarize(output_config=FORMAT),
        ON_DEMAND,
        "compaction: cannot be combined with `output_config.format`",
        None,
    ),
    "with a forced tool": (
        summarize(tools=[TOOL], tool_choice={"type": "any"}),
        ON_DEMAND,
        "compaction: cannot be combined with `tool_choice`",
        None,
    ),
    "with a budget left": (
        summarize(output_config={"task_budget": {"type": "tokens", "total": 9, "remaining": 5}}),
        f"{ON_DEMAND},task-budgets-2026-03-13",
        "compaction: cannot be combined with `output_config.task_budget.remaining`",
        None,
    ),
    "long instructions": (
        body(compaction={"type": "summarize", "instructions": "x" * 16_385}),
        ON_DEMAND,
        "compaction.instructions: String should have at most 16384 characters",
        None,
    ),
    "an unanswered call": (
        summarize(user(), assistant({"type": "tool_use", "id": "t1", "name": "n", "input": {}})),
        ON_DEMAND,
        "messages.1: the conversation to compact ends in an unanswered tool call: t1",
        "compaction_incomplete_turn",
    ),
    "nothing but a summary": (
        summarize(assistant(SIGNED)),
        ON_DEMAND,
        "there is nothing to summarize",
        "compaction_nothing_to_summarize",
    ),
    "on Haiku": (
        summarize(model="claude-haiku-4-5"),
        ON_DEMAND,
        "compaction: not supported for claude-haiku-4-5.",
        None,
    ),
    "a signed summary first": (body(assistant(SIGNED), user()), ON_DEMAND, "accepted", None),
    "a signed summary in the first user message": (body(user(SIGNED, TEXT)), ON_DEMAND, "accepted", None),
    "a signed summary before the assistant": (
        body(assistant(SIGNED), assistant(TEXT), user()),
        ON_DEMAND,
        "accepted",
        None,
    ),
    "a signed summary under the older header": (
        body(assistant(SIGNED), user()),
        AT_THRESHOLD,
        "messages.0.content.0: a signed `compaction` block requires anthropic-beta: compact-2026-09-04",
        None,
    ),
    "a signed summary later": (
        body(user(), assistant(SIGNED), user()),
        ON_DEMAND,
        "`compaction` block must be sent first, in place of the messages it summarizes; remove "
        "those messages",
        "compaction_block_misplaced",
    ),
    "two signed summaries": (
        body(assistant(SIGNED), assistant(SIGNED), user()),
        ON_DEMAND,
        "only one signed `compaction` block may be sent; keep the latest and remove the others",
        "compaction_block_ambiguous",
    ),
    "a signed summary and compacting at a threshold": (
        body(assistant(SIGNED), user(), context_management={"edits": [COMPACT]}),
        f"{ON_DEMAND},{AT_THRESHOLD}",
        "`compact_20260112` cannot run on a request that carries a signed `compaction` block",
        None,
    ),
    "an empty summary": (
        body(assistant({"type": "compaction", "content": ""}), user()),
        AT_THRESHOLD,
        "messages.0.content.0.compaction.content: String should have at least 1 character",
        None,
    ),
    "a failed summary": (
        body(user(), assistant({"type": "compaction", "content": None}, TEXT), user()),
        AT_THRESHOLD,
        "accepted",
        None,
    ),
    "a pause after compacting": (
        body(user(), assistant({"type": "compaction", "content": "so far"})),
        AT_THRESHOLD,
        "accepted",
        None,
    ),
}


@pytest.mark.spec("TW-6")
@pytest.mark.parametrize(("sent", "expected"), PREWARM.values(), ids=PREWARM.keys())
def test_prewarming_excludes_fields_that_need_a_reply(sent, expected, verdict):
    assert verdict(sent) == expected


@pytest.mark.spec("TW-6")
@pytest.mark.parametrize(("sent", "betas", "expected"), EDITING.values(), ids=EDITING.keys())
def test_context_editing_errors_have_the_wording_of_the_api(sent, betas, expected, verdict):
    assert verdict(sent, betas=betas) == expected


@pytest.mark.spec("TW-6")
@pytest.mark.parametrize(("sent", "betas", "expected", "code"), COMPACTION.values(), ids=COMPACTION.keys())
def test_compaction_errors_have_the_wording_of_the_api(sent, betas, expected, code, refusal_of):
    refusal = refusal_of(sent, betas=betas)
    judged = (refusal.message, refusal.error_code) if refusal else ("accepted", None)
    assert judged == (expected, code)


@pytest.mark.spec("TW-6")
@pytest.mark.parametrize(
    ("parameter", "value", "header"),
    [
        ("mcp_servers", [], "mcp-client-2025-11-20"),
        ("fallbacks", "default", "server-side-fallback-2026-07-01"),
        ("fallback_credit_token", "t", "fallback-credit-2026-07-01"),
        ("thread", {"type": "create"}, "message-threads-2026-08-12"),
    ],
)
def test_a_parameter_without_its_header_is_unknown(parameter, value, header, verdict):
    sent = body(**{parameter: value})
    assert verdict(sent) == f"{parameter}: {EXTRA}"
    assert verdict(sent, betas=header) == "accepted"


@pytest.mark.spec("TW-6")
def test_nested_fields_need_their_headers_too(verdict):
    binding = body(thinking={"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}})
    budget = body(output_config={"task_budget": {"type": "tokens", "total": 9}})
    assert verdict(binding) == f"thinking.adaptive.block_binding: {EXTRA}"
    assert verdict(binding, betas="thinking-binding-controls-2026-08-01") == "accepted"
    updates = body(thinking={"type": "adaptive", "display": "updates"})
    assert verdict(updates) == "thinking.adaptive.display: Input should be 'summarized' or 'omitted'"
    assert verdict(updates, betas="thinking-display-updates-2026-08-18") == "accepted"
    assert verdict(budget) == f"output_config.task_budget: {EXTRA}"
    assert verdict(budget, betas="task-budgets-2026-03-13") == "accepted"


@pytest.mark.spec("TW-6")
def test_a_thread_excludes_context_management(refusal_of):
    sent = edits(USES, thread={"type": "create"})
    refusal = refusal_of(sent, betas=f"message-threads-2026-08-12,{CLEARING}")
    assert (refusal.status, refusal.error_code) == (400, "thread_unsupported_request")


@pytest.mark.spec("TW-6")
def test_diagnostics_need_no_header(verdict):
    assert verdict(body(diagnostics={"previous_message_id": None})) == "accepted"
    assert verdict(body(diagnostics={"since": 1})) == f"diagnostics.since: {EXTRA}"
