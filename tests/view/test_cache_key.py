"""What shapes the prompt without being a block; that it agrees with the twin is in `test_outline.py`."""

from typing import Any

import pytest
from view.talks import model

from everturn.measure.outline import CacheKeySalts
from everturn.view.cache_key import compute_key_salts
from everturn.view.key_parameters import KeyParameters, TtlChoice


def salted(name: str = "claude-opus-5", **fields: Any):
    return compute_key_salts(
        model(name), KeyParameters(fields.pop("lifetime", TtlChoice("5m", "")), **fields)
    )


PLAIN = salted()


@pytest.mark.parametrize(
    "fields",
    [
        {"effort": "high"},
        {"thinking": {"type": "adaptive"}},
        {"thinking": {"type": "adaptive", "display": "omitted"}},
        {"tool_choice": {"type": "auto", "disable_parallel_tool_use": False}},
        {"speed": "standard"},
        {"lifetime": TtlChoice("1h", "markers are no part of the key")},
        {"betas": ("x",)},
    ],
    ids=str,
)
def test_a_default_spelled_out_and_what_never_is_sent_change_nothing(fields: dict[str, Any]):
    assert salted(**fields) == PLAIN


@pytest.mark.parametrize(
    "fields",
    [
        {"effort": "low"},
        {"thinking": {"type": "disabled"}},
        {"thinking": {"type": "enabled", "budget_tokens": 1024}},
        {"tool_choice": {"type": "none"}},
        {"tool_choice": {"type": "tool", "name": "Read"}},
        {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
        {"extra": {"output_format": {"type": "json_schema"}}},
    ],
    ids=str,
)
def test_what_is_rendered_into_the_messages_leaves_tools_and_system_alone(fields: dict[str, Any]):
    made = salted(**fields)
    assert made.messages != PLAIN.messages
    assert (made.scope, made.tools, made.system) == (PLAIN.scope, PLAIN.tools, PLAIN.system)


def test_models_and_speeds_share_nothing():
    scopes = [PLAIN.scope, salted(speed="fast").scope, salted("claude-opus-4-8").scope]
    assert len(set(scopes)) == 3


def test_a_forced_choice_brings_more_hidden_words():
    forced = [salted(tool_choice={"type": kind}).forced_tokens for kind in ("auto", "none", "any", "tool")]
    assert forced == [0, 0, 406 - 286, 406 - 286]


AUTO = ("auto", None, True)
ONE = {"type": "tool", "name": "Read", "disable_parallel_tool_use": True}
BUDGET = {"type": "enabled", "budget_tokens": 9}


@pytest.mark.parametrize(
    ("name", "fields", "scope", "messages", "forced"),
    [
        ("claude-opus-5", {}, "standard", (AUTO, ("adaptive", None), "high", b"{}"), 0),
        ("claude-opus-4-8", {"speed": "fast"}, "fast", (AUTO, ("disabled", None), "high", b"{}"), 0),
        (
            "claude-haiku-4-5",
            {"thinking": BUDGET, "extra": {"b": 1, "a": 2}},
            "standard",
            (AUTO, ("enabled", 9), None, b'{"a":2,"b":1}'),
            0,
        ),
        (
            "claude-opus-5",
            {"tool_choice": ONE, "effort": "low"},
            "standard",
            (("tool", "Read", False), ("adaptive", None), "low", b"{}"),
            120,
        ),
    ],
)
def test_salts_are_made_of_all_that_shapes_the_prompt(name, fields, scope, messages, forced):
    assert salted(name, **fields) == CacheKeySalts((name, scope), messages=messages, forced_tokens=forced)
