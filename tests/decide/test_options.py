"""Options: their defaults, and what is derived from them."""

from typing import Any

import msgspec
import pytest

from everturn.decide.options import DEFAULT_MODEL, DEFAULT_POLICY, Options, Secret, ThinkingSettings
from everturn.decide.settings import MicroSettings, TimeSettings
from everturn.measure.model_table import find_model

# Every default by its configuration key, except `tools.*`: a change of one changes what every user gets.
DEFAULTS = {
    "policy": "economic",
    "enabled": True,
    "model": "",
    "window": None,
    "max_tokens": 16000,
    "thinking.type": "",
    "thinking.budget_tokens": None,
    "thinking.display": "",
    "effort": "",
    "source": "main",
    "provider.name": "anthropic",
    "provider.api_key": "(not set)",
    "provider.auth_token": "(not set)",
    "provider.base_url": "",
    "micro.enabled": True,
    "micro.steps": ("oversize", "time", "cached", "budget"),
    "micro.declare": True,
    "micro.time.enabled": True,
    "micro.time.idle": "PT3600S",
    "micro.time.keep": 5,
    "micro.cached.enabled": True,
    "micro.cached.trigger": 12,
    "micro.cached.keep": 5,
    "micro.declarative.enabled": True,
    "micro.declarative.thinking": True,
    "micro.declarative.tool_results": False,
    "micro.declarative.tool_inputs": False,
    "micro.declarative.trigger": 180000,
    "micro.declarative.target": 40000,
    "micro.declarative.idle": "PT3600S",
    "micro.declarative.thinking_turns": 1,
    "micro.declarative.results_of": (),
    "micro.declarative.inputs_of": (),
    "micro.budget.enabled": True,
    "micro.budget.tokens": 40000,
    "micro.budget.keep": 3,
    "micro.budget.save_at_least": 20000,
    "micro.budget.where": "uncached",
    "micro.oversize.enabled": True,
    "micro.oversize.message": 200000,
    "micro.oversize.single": 50000,
    "micro.oversize.preview": 2000,
    "micro.masking.enabled": True,
    "micro.masking.keep": 10,
    "micro.clear_at.enabled": True,
    "micro.clear_at.trigger": 100000,
    "micro.clear_at.keep": 3,
    "micro.window.enabled": True,
    "micro.window.tokens": 100000,
    "micro.window.share": 0.5,
    "micro.main": "main",
    "micro.thinking_worth": 1.0,
    "thresholds.output_reserve": 20000,
    "thresholds.auto_margin": 13000,
    "thresholds.warning_margin": 20000,
    "thresholds.error_margin": 20000,
    "thresholds.blocking_margin": 3000,
    "thresholds.auto_compaction": True,
    "thresholds.auto_percent": None,
    "cache.ttl.eligible": False,
    "cache.ttl.sources": ("main*", "sdk", "agent:*"),
    "cache.ttl.bedrock_1h": False,
    "cache.ttl.in_overage": False,
    "cache.breaks.share": 0.05,
    "cache.breaks.tokens": 2000,
    "cache.breaks.max_sources": 10,
    "cache.breaks.excluded_models": ("*haiku*",),
    "compact.enabled": True,
    "compact.strategies": ("notes", "fork", "direct", "extractive"),
    "compact.summary_model": "",
    "compact.autonomous": False,
    "compact.max_output": 20000,
    "compact.expected_summary": 3000,
    "compact.summary_tokens": 3_000,
    "compact.expected_output": 6000,
    "compact.retries": 3,
    "compact.drop_share": 0.2,
    "compact.calls": 3,
    "compact.unsent_share": 0.03,
    "compact.most_unsent": 0.5,
    "compact.files": 5,
    "compact.file_tokens": 5000,
    "compact.unanswered_tokens": 40000,
    "compact.most_unanswered": 0.25,
    "compact.least_answer": 4000,
    "compact.files_tokens": 50000,
    "compact.skill_tokens": 5000,
    "compact.skills_tokens": 25000,
    "compact.pin_tokens": 2000,
    "compact.longest_pin": 400,
    "compact.least_words": 12,
    "compact.brief_words": 60,
    "compact.failures": 3,
    "compact.retry_after": "PT600S",
    "compact.retry_calls": 20,
    "compact.refill_turns": 3,
    "compact.refills": 3,
    "compact.culprits": 3,
    "compact.cold_share": 0.7,
    "compact.defer_tokens": 10000,
    "compact.names": 5,
    "compact.internal_sources": ("compact", "session_memory"),
    "compact.memory_files": ("CLAUDE.md", "CLAUDE.local.md", "AGENTS.md", "GEMINI.md", "MEMORY.md"),
    "compact.plan_files": ("*/.claude/plans/*", ".claude/plans/*"),
    "compact.restorable": (
        "skill_listing",
        "deferred_tools_delta",
        "agent_listing_delta",
        "mcp_instructions_delta",
        "todo_reminder",
        "task_reminder",
        "plan_mode",
        "restored_*",
        "compaction_*",
    ),
    "compact.todo_tools": (),
    "compact.skill_tools": (),
    "compact.agent_tools": (),
    "compact.collecting_tools": (),
    "notes.enabled": False,
    "notes.first": 10000,
    "notes.growth": 5000,
    "notes.tool_calls": 3,
    "notes.section": 2000,
    "notes.whole": 12000,
    "notes.wait": "PT15S",
    "notes.dead_after": "PT60S",
    "notes.keep_tokens": 10000,
    "notes.keep_messages": 5,
    "notes.keep_at_most": 40000,
    "recall.enabled": False,
    "memory.enabled": False,
    "memory.nested": True,
    "memory.watch": False,
    "hooks.enabled": True,
    "hooks.files": (),
    "hooks.trusted": (),
    "events.log": False,
    "events.transcript": False,
    "events.prometheus": False,
    "events.otel": False,
    "events.content": "omitted",
    "gateway.mode": "observe",
    "gateway.hold_tenants": (),
    "economy.enabled": True,
    "economy.caution": "balanced",
    "economy.holds": False,
    "economy.hold_dollars": 2.0,
    "economy.hold_share": 0.15,
    "economy.day_dollars": 10.0,
    "economy.hold_after": "PT290S",
    "economy.defer_tools": False,
    "economy.above_share": 0.03,
    "economy.above_dollars": 0.05,
    "economy.keep_tokens": 12000,
    "economy.last_round_tokens": 3000,
    "economy.outline_tokens": 1500,
    "economy.pauses": (),
    "economy.reuse": (),
    "store.url": "(not set)",
    "store.tenant": "default",
    "store.deadline": 5.0,
    "store.folder": "",
    "store.kind": "files",
    "store.fsync": "always",
    "limits.rounds": 200,
    "limits.conversations": 256,
    "tokens.calibrate": True,
    "models": {},
}


def leaves(value: Any, path: str = "") -> dict[str, Any]:
    if not isinstance(value, dict) or not value:
        return {path: value}
    below = (leaves(each, f"{path}.{name}" if path else name) for name, each in value.items())
    return {key: found for each in below for key, found in each.items()}


def test_what_nobody_has_configured_has_these_values():
    found = leaves(msgspec.to_builtins(Options(), enc_hook=repr))
    assert {key: value for key, value in found.items() if not key.startswith("tools.")} == DEFAULTS


def test_the_default_policy_and_model_are_known():
    assert (DEFAULT_POLICY, DEFAULT_MODEL) == ("economic", "claude-opus-5")
    assert find_model(DEFAULT_MODEL) is not None


def test_a_secret_is_compared_and_tested_by_its_value_and_never_printed():
    key = Secret("sk-1")
    assert (key.reveal(), bool(key), repr(key)) == ("sk-1", True, "(set, not shown)")
    assert (bool(Secret()), repr(Secret())) == (False, "(not set)")
    assert {key, Secret("sk-1"), Secret("sk-2")} == {Secret("sk-2"), Secret("sk-1")}
    assert key != "sk-1"


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        (ThinkingSettings(), None),
        (ThinkingSettings(budget_tokens=5), None),
        (ThinkingSettings(type="adaptive"), {"type": "adaptive"}),
        (ThinkingSettings(type="enabled", budget_tokens=5), {"type": "enabled", "budget_tokens": 5}),
        (ThinkingSettings(type="enabled", display="omitted"), {"type": "enabled", "display": "omitted"}),
    ],
)
def test_the_thinking_field_has_what_was_set_and_is_not_sent_without_a_type(settings, field):
    assert settings.to_field() == field


def derived(options: Options) -> tuple[bool, bool, tuple[str, ...], bool, bool]:
    auto = options.effective_thresholds.auto_compaction
    return options.may_compact, options.keeps_notes, options.steps, options.declares, auto


def test_a_part_that_is_switched_off_takes_with_it_what_depends_on_it():
    options = msgspec.convert({"notes": {"enabled": True}}, Options)
    every = ("oversize", "time", "cached", "budget")
    assert derived(options) == (True, True, every, True, True)

    def without(**changes: Any) -> tuple[bool, bool, tuple[str, ...], bool, bool]:
        return derived(msgspec.structs.replace(options, **changes))

    no_compaction = msgspec.structs.replace(options.compact, enabled=False)
    manual_only = msgspec.structs.replace(options.thresholds, auto_compaction=False)
    silent = msgspec.structs.replace(MicroSettings().declarative, enabled=False)
    assert without(enabled=False) == (False, False, (), False, False)
    assert without(compact=no_compaction) == (False, False, every, True, False)
    assert without(thresholds=manual_only) == (True, True, every, True, False)
    assert without(micro=MicroSettings(enabled=False)) == (True, True, (), False, True)
    assert without(micro=MicroSettings(declare=False)) == (True, True, every, False, True)
    assert without(micro=MicroSettings(declarative=silent)) == (True, True, every, False, True)
    others = ("oversize", "cached", "budget")
    assert without(micro=MicroSettings(time=TimeSettings(enabled=False))) == (True, True, others, True, True)
    assert derived(Options()) == (True, False, every, True, True)
