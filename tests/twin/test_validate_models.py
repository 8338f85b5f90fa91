"""What each model allows: output, thinking, sampling, forced tools, the window."""

import json
from typing import Any

import pytest

from everturn.measure.model_table import find_model
from everturn.twin.parse import parse_request
from everturn.twin.validate import check_window
from everturn.twin.values import ApiError

ADVICE = 'Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.'
TOOL = {"name": "look", "input_schema": {"type": "object"}}
ENABLED = {"type": "enabled", "budget_tokens": 1024}
DISABLED = {"type": "disabled"}
ADAPTIVE = {"type": "adaptive"}
BETWEEN = {"type": "between_tools"}
NO_FORCING = 'tool_choice: type "tool" and "any" are not supported for this model.'


def body(model: str, **more: Any) -> dict[str, Any]:
    return {"model": model, "max_tokens": 2000, "messages": [{"role": "user", "content": "hi"}], **more}


def unsupported(mode: str) -> str:
    return f'"thinking.type.{mode}" is not supported for this model. {ADVICE}'


THINKING = [
    ("claude-fable-5-2", ADAPTIVE, "accepted"),
    ("claude-fable-5-2", DISABLED, unsupported("disabled")),
    ("claude-fable-5-1", ENABLED, unsupported("enabled")),
    ("claude-opus-5-5", ENABLED, unsupported("enabled")),
    ("claude-opus-5-5", DISABLED, unsupported("disabled")),
    ("claude-opus-5", DISABLED, "accepted"),
    ("claude-opus-5", ENABLED, unsupported("enabled")),
    ("claude-opus-4-7", ENABLED, unsupported("enabled")),
    ("claude-opus-4-8", ADAPTIVE, "accepted"),
    ("claude-opus-4-6", ENABLED, "accepted"),
    ("claude-sonnet-4-6", ADAPTIVE, "accepted"),
    ("claude-sonnet-5-5", BETWEEN, "accepted"),
    (
        "claude-sonnet-5-5",
        DISABLED,
        '"thinking.type.disabled" is not supported for this model. '
        'Use "thinking.type.adaptive" or "thinking.type.between_tools" instead.',
    ),
    ("claude-haiku-5-5", DISABLED, "accepted"),
    ("claude-haiku-4-5", ENABLED, "accepted"),
    ("claude-haiku-4-5", ADAPTIVE, "adaptive thinking is not supported on this model"),
    ("claude-opus-4-5", ADAPTIVE, "adaptive thinking is not supported on this model"),
    ("claude-mythos-preview", ENABLED, "accepted"),
]


@pytest.mark.spec("TW-6")
@pytest.mark.parametrize(("model", "thinking", "expected"), THINKING)
def test_each_model_has_its_modes_of_thinking(model, thinking, expected, verdict):
    assert verdict(body(model, thinking=thinking)) == expected


REQUESTS = {
    "more output than the model has": (
        body("claude-haiku-4-5") | {"max_tokens": 64_001},
        "max_tokens: 64001 > 64000, which is the maximum allowed number of output tokens for "
        "claude-haiku-4-5",
    ),
    "all the output the model has": (body("claude-opus-5") | {"max_tokens": 128_000}, "accepted"),
    "unthinking at high effort": (
        body("claude-opus-5", thinking=DISABLED, output_config={"effort": "xhigh"}),
        '"thinking.type.disabled" is not supported for this model at effort "xhigh". '
        'Lower "output_config.effort" to "high" or less, or use "thinking.type.adaptive".',
    ),
    "a budget beyond max_tokens": (
        body("claude-haiku-4-5", thinking={"type": "enabled", "budget_tokens": 2000}),
        "`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our documentation at "
        "https://docs.claude.com/en/docs/build-with-claude/extended-thinking#max-tokens-and-context-window-size",
    ),
    "a forced tool and manual thinking": (
        body("claude-opus-4-6", thinking=ENABLED, tools=[TOOL], tool_choice={"type": "any"}),
        "Thinking may not be enabled when tool_choice forces tool use.",
    ),
    "a forced tool": (
        body("claude-opus-5", tools=[TOOL], tool_choice={"type": "tool", "name": "look"}),
        "accepted",
    ),
    "a forced tool on 5.5": (
        body("claude-opus-5-5", tools=[TOOL], tool_choice={"type": "tool", "name": "look"}),
        NO_FORCING,
    ),
    "any tool on Sonnet 5.5": (
        body("claude-sonnet-5-5", tools=[TOOL], tool_choice={"type": "any"}),
        NO_FORCING,
    ),
    "auto on 5.5": (body("claude-opus-5-5", tools=[TOOL], tool_choice={"type": "auto"}), "accepted"),
    "a tool that is not there": (
        body("claude-opus-5", tools=[TOOL], tool_choice={"type": "tool", "name": "feel"}),
        "Tool 'feel' not found in provided tools",
    ),
    "auto without tools": (body("claude-opus-5", tool_choice={"type": "auto"}), "accepted"),
    "a choice without tools": (
        body("claude-opus-5", tool_choice={"type": "any"}),
        "tool_choice may only be specified while providing tools.",
    ),
    "sampling on an older model": (body("claude-haiku-4-5", temperature=0.2), "accepted"),
    "sampling on a newer model": (
        body("claude-opus-4-7", temperature=0.2),
        "`temperature` is deprecated for this model.",
    ),
    "sampling at its default": (body("claude-opus-4-7", temperature=1), "accepted"),
    "top_k on a newer model": (body("claude-opus-5", top_k=5), "`top_k` is deprecated for this model."),
    "temperature out of range": (
        body("claude-haiku-4-5", temperature=1.5),
        "temperature: Input should be less than or equal to 1",
    ),
    "temperature below zero": (
        body("claude-haiku-4-5", temperature=-0.5),
        "temperature: Input should be greater than or equal to 0",
    ),
    "thinking on a model that cannot": (
        body("claude-3-5-haiku-latest", thinking=ENABLED),
        "'claude-3-5-haiku-latest' does not support thinking.",
    ),
    "effort where there is none": (
        body("claude-haiku-4-5", output_config={"effort": "low"}),
        "This model does not support the effort parameter.",
    ),
    "a blank stop sequence": (
        body("claude-opus-5", stop_sequences=[" "]),
        "stop_sequences: each stop sequence must contain non-whitespace",
    ),
    "fast where there is none": (
        body("claude-sonnet-5", speed="fast"),
        '`speed`: "fast" is not supported for claude-sonnet-5.',
    ),
}


@pytest.mark.spec("TW-6")
@pytest.mark.parametrize(("sent", "expected"), REQUESTS.values(), ids=REQUESTS.keys())
def test_the_limits_of_a_model_are_checked(sent, expected, verdict):
    assert verdict(sent) == expected


@pytest.mark.spec("TW-6")
@pytest.mark.parametrize("name", ["temperature", "top_p", "top_k"])
def test_the_new_version_rejects_sampling_parameters_even_with_their_defaults(name, verdict):
    sent = body("claude-haiku-4-5") | {name: 1}
    assert verdict(sent, version="2026-10-21") == f"{name}: Extra inputs are not permitted"


def window_verdict(model: str, tokens: int, max_tokens: int, endpoint: Any = "messages") -> str:
    data = json.dumps(body(model) | {"max_tokens": max_tokens}).encode()
    request = parse_request(endpoint, {"anthropic-version": "2023-06-01"}, data, workspace="w")
    try:
        check_window(tokens, request)
    except ApiError as refusal:
        return refusal.message
    return "accepted"


@pytest.mark.spec("TW-6")
def test_a_prompt_must_fit_the_window_and_before_4_5_the_answer_too():
    assert find_model("claude-opus-4-1").refuses_overflow
    assert window_verdict("claude-opus-5", 1_000_123, 100) == (
        "prompt is too long: 1000123 tokens > 1000000 maximum"
    )
    assert window_verdict("claude-opus-5", 1_000_000, 100) == "accepted"
    assert window_verdict("claude-opus-5", 1_000_123, 100, endpoint="count_tokens") == "accepted"
    assert window_verdict("claude-opus-4-1", 188_240, 21_333) == (
        "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, "
        "decrease input length or `max_tokens` and try again"
    )
    assert window_verdict("claude-haiku-4-5", 188_240, 21_333) == "accepted"
