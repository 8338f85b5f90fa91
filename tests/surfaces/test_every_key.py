"""Every configuration key changes what somebody can observe through a public surface (CF-5).

The table has one row for each key: a scenario, a value that is not the default, and what else must be set for
the key to matter. A key without a row fails, and so does a key whose value makes no difference.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from surfaces import key_scenarios as scenes
from surfaces.key_scenarios import Scenario, run

from everturn.session.config.keys import KEYS


class Row(NamedTuple):
    scenario: Scenario
    value: Any
    # Besides the key itself; the same for both runs.
    base: Mapping[str, Any] = MappingProxyType({})


EXTRACTIVE = {"compact.strategies": ("extractive",)}
DIRECT = {"compact.strategies": ("direct",)}
DECLARED = {"micro.declarative.tool_results": True, "micro.declarative.tool_inputs": True}
CACHED = {"provider.name": "twin+cache_edits", "micro.time.enabled": False}
BUDGET = {"provider.name": "plain", "micro.budget.tokens": 3_000, "micro.budget.save_at_least": 1_000}
# Prices keep what is likely to be used again, and no files.
CLAUDE_CODE = {"policy": "claude-code"}
MASKING = {"policy": "masking"}
CLEAR_AT = {"policy": "clear-keep-3", "micro.clear_at.trigger": 8_000}
WINDOW = {"policy": "sliding-window", "micro.window.tokens": 10_000}
NOTES = {"notes.first": 1_000, "notes.growth": 500, "notes.tool_calls": 1}
KEPT = {**NOTES, "notes.keep_tokens": 100, "notes.keep_messages": 1}
HOUR = {"cache.ttl.eligible": True}
MEMORY = {"memory.enabled": True}
OPUS = {"model": scenes.OPUS}
BUDGETED = {"thinking.type": "enabled", "thinking.budget_tokens": 1_024}
HOOKS = {"hooks.files": ("~/hooks.json",)}

FRUGAL = {**EXTRACTIVE, "economy.caution": "frugal"}
HOLDS = {**EXTRACTIVE, "economy.holds": True, "economy.hold_share": 1.0, "economy.hold_after": "20ms"}

TABLE: dict[str, Row] = {
    "policy": Row(scenes.reading, "none"),
    "enabled": Row(scenes.reading, False),
    "model": Row(scenes.one_question, "claude-opus-5"),
    "window": Row(scenes.one_question, 50_000),
    "max_tokens": Row(scenes.one_question, 4_000),
    "thinking.type": Row(scenes.one_question, "adaptive", OPUS),
    "thinking.budget_tokens": Row(scenes.one_question, 2_048, BUDGETED),
    "thinking.display": Row(scenes.one_question, "summarized", {**OPUS, "thinking.type": "adaptive"}),
    "effort": Row(scenes.one_question, "low", OPUS),
    "source": Row(scenes.reading, "agent:explore"),
    "provider.name": Row(scenes.one_question, "plain"),
    "provider.api_key": Row(scenes.connecting, "another-key"),
    "provider.auth_token": Row(scenes.connecting, "a-token"),
    "provider.base_url": Row(scenes.connecting, "http://127.0.0.1:9"),
    "micro.enabled": Row(scenes.reading, False),
    "micro.steps": Row(scenes.reading, ("oversize",)),
    "micro.declare": Row(scenes.reading, False, DECLARED),
    "micro.time.enabled": Row(scenes.reading, False),
    "micro.time.idle": Row(scenes.reading, "2h"),
    "micro.time.keep": Row(scenes.reading, 2),
    "micro.cached.enabled": Row(scenes.reading, False, {**CACHED, "micro.cached.trigger": 6}),
    "micro.cached.trigger": Row(scenes.reading, 7, CACHED),
    "micro.cached.keep": Row(scenes.reading, 2, {**CACHED, "micro.cached.trigger": 6}),
    "micro.declarative.enabled": Row(scenes.reading, False, DECLARED),
    "micro.declarative.thinking": Row(scenes.thinking, False),
    "micro.declarative.tool_results": Row(scenes.reading, True),
    "micro.declarative.tool_inputs": Row(scenes.reading, True),
    "micro.declarative.trigger": Row(scenes.reading, 90_000, DECLARED),
    "micro.declarative.target": Row(scenes.reading, 20_000, DECLARED),
    "micro.declarative.idle": Row(scenes.thinking, "2h", {"micro.time.enabled": False}),
    "micro.declarative.thinking_turns": Row(scenes.thinking, 3, {"micro.time.enabled": False}),
    "micro.declarative.results_of": Row(scenes.reading, ("fetch_*",), DECLARED),
    "micro.declarative.inputs_of": Row(scenes.reading, ("fetch_*",), DECLARED),
    "micro.budget.enabled": Row(scenes.reading, False, BUDGET),
    "micro.budget.tokens": Row(scenes.reading, 2_000, BUDGET),
    "micro.budget.keep": Row(scenes.reading, 8, BUDGET),
    "micro.budget.save_at_least": Row(scenes.reading, 20_000, BUDGET),
    "micro.budget.where": Row(scenes.reading, "everywhere", {**BUDGET, "provider.name": "anthropic"}),
    "micro.oversize.enabled": Row(scenes.large_results, False),
    "micro.oversize.message": Row(scenes.large_results, 100_000),
    "micro.oversize.single": Row(scenes.large_results, 70_000),
    "micro.oversize.preview": Row(scenes.large_results, 500),
    "micro.masking.enabled": Row(scenes.reading, False, MASKING),
    "micro.masking.keep": Row(scenes.reading, 4, MASKING),
    "micro.clear_at.enabled": Row(scenes.reading, False, CLEAR_AT),
    "micro.clear_at.trigger": Row(scenes.reading, 9_000, CLEAR_AT),
    "micro.clear_at.keep": Row(scenes.reading, 1, CLEAR_AT),
    "micro.window.enabled": Row(scenes.reading, False, WINDOW),
    "micro.window.tokens": Row(scenes.reading, 8_000, WINDOW),
    "micro.window.share": Row(scenes.reading, 0.9, WINDOW),
    "micro.main": Row(scenes.reading, "first"),
    "micro.thinking_worth": Row(scenes.thinking, 1_000.0),
    "thresholds.output_reserve": Row(scenes.one_question, 5_000),
    "thresholds.auto_margin": Row(scenes.one_question, 5_000),
    "thresholds.warning_margin": Row(scenes.one_question, 5_000),
    "thresholds.error_margin": Row(scenes.one_question, 5_000),
    "thresholds.blocking_margin": Row(scenes.one_question, 5_000),
    "thresholds.auto_compaction": Row(scenes.refilling, False),
    "thresholds.auto_percent": Row(scenes.filling, 40.0),
    "cache.ttl.eligible": Row(scenes.one_question, True),
    "cache.ttl.sources": Row(scenes.one_question, ("agent:*",), HOUR),
    "cache.ttl.bedrock_1h": Row(scenes.one_question, True, {"provider.name": "bedrock"}),
    "cache.ttl.in_overage": Row(scenes.one_question, True, HOUR),
    "cache.breaks.share": Row(scenes.broken_cache, 1.0),
    "cache.breaks.tokens": Row(scenes.broken_cache, 100_000),
    "cache.breaks.max_sources": Row(scenes.broken_cache, 1),
    "cache.breaks.excluded_models": Row(scenes.broken_cache, ("*opus*",)),
    "tools.reproducible": Row(scenes.reading, ("fetch_*",)),
    "tools.write_like": Row(scenes.reading, ("fetch_*",)),
    "tools.keep": Row(scenes.reading, ("Read",)),
    "tools.reads": Row(scenes.reading, ("fetch_*",)),
    "tools.clear_all": Row(scenes.reading, True),
    "economy.enabled": Row(scenes.carrying, False, EXTRACTIVE),
    "economy.caution": Row(scenes.carrying, "careful", {**FRUGAL, "economy.above_dollars": 1.0}),
    "economy.above_dollars": Row(scenes.carrying, 1.0, FRUGAL),
    "economy.above_share": Row(scenes.carrying, 0.9, FRUGAL),
    "economy.holds": Row(scenes.pausing, False, HOLDS),
    "economy.hold_dollars": Row(scenes.pausing, 0.0, HOLDS),
    "economy.hold_share": Row(scenes.pausing, 0.0, HOLDS),
    "economy.hold_after": Row(scenes.pausing, "1h", HOLDS),
    "economy.defer_tools": Row(scenes.idle_tools, True, EXTRACTIVE),
    "economy.day_dollars": Row(scenes.pausing_caller, 0.0, {**HOLDS, "economy.hold_after": "290s"}),
    "economy.pauses": Row(scenes.pausing, ("290 0/500",), HOLDS),
    "economy.reuse": Row(scenes.restored, ("reads 0 0/9 0/9 0/9",), EXTRACTIVE),
    "economy.keep_tokens": Row(scenes.restored, 0, EXTRACTIVE),
    "economy.last_round_tokens": Row(scenes.restored, 0, EXTRACTIVE),
    "economy.outline_tokens": Row(scenes.restored, 0, EXTRACTIVE),
    "compact.summary_tokens": Row(scenes.restored, 300, EXTRACTIVE),
    "compact.enabled": Row(scenes.restored, False),
    "compact.strategies": Row(scenes.restored, ("extractive",)),
    "compact.summary_model": Row(scenes.summaries, "claude-opus-5"),
    "compact.autonomous": Row(scenes.restored, True),
    "compact.max_output": Row(scenes.summaries, 8_000),
    "compact.expected_summary": Row(scenes.restored, 9_000),
    "compact.expected_output": Row(scenes.restored, 20_000),
    "compact.retries": Row(scenes.summaries, 1),
    "compact.drop_share": Row(scenes.summaries, 0.7),
    "compact.calls": Row(scenes.summaries, 1),
    "compact.unsent_share": Row(scenes.long_answer, 0.9),
    "compact.most_unsent": Row(scenes.long_answer, 0.01),
    "compact.files": Row(scenes.restored, 2, CLAUDE_CODE),
    "compact.file_tokens": Row(scenes.restored, 500, CLAUDE_CODE),
    "compact.unanswered_tokens": Row(scenes.filling, 1_000),
    "compact.most_unanswered": Row(scenes.filling, 0.01),
    "compact.least_answer": Row(scenes.filling, 22_000),
    "compact.files_tokens": Row(scenes.restored, 1_000, CLAUDE_CODE),
    "compact.skill_tokens": Row(scenes.restored, 500),
    "compact.skills_tokens": Row(scenes.restored, 6_000),
    "compact.pin_tokens": Row(scenes.restored, 100),
    "compact.longest_pin": Row(scenes.restored, 20),
    "compact.least_words": Row(scenes.summaries, 40),
    "compact.brief_words": Row(scenes.summaries, 200),
    "compact.failures": Row(scenes.failing, 1),
    "compact.retry_after": Row(scenes.failing, "5m"),
    "compact.retry_calls": Row(scenes.failing, 5),
    "compact.refill_turns": Row(scenes.refilling, 1),
    "compact.refills": Row(scenes.refilling, 2),
    "compact.culprits": Row(scenes.refilling, 1),
    "compact.cold_share": Row(scenes.proposed, 0.5),
    "compact.defer_tokens": Row(scenes.proposed, 1_000),
    "compact.names": Row(scenes.restored, 1),
    "compact.internal_sources": Row(scenes.filling, ("main",)),
    "compact.memory_files": Row(scenes.restored, ("RULES.md",)),
    "compact.plan_files": Row(scenes.restored, ("*/plan.txt",)),
    "compact.restorable": Row(scenes.restored, ("my_listing",), DIRECT),
    "compact.todo_tools": Row(scenes.restored, ("my_todos",)),
    "compact.skill_tools": Row(scenes.restored, ("my_skill",)),
    "compact.agent_tools": Row(scenes.restored, ("my_agent",)),
    "compact.collecting_tools": Row(scenes.restored, ("my_fetch",)),
    "notes.enabled": Row(scenes.notes, False, NOTES),
    "notes.first": Row(scenes.notes, 7_000, NOTES),
    "notes.growth": Row(scenes.notes, 3_000, NOTES),
    "notes.tool_calls": Row(scenes.notes, 9, NOTES),
    "notes.section": Row(scenes.notes, 50, NOTES),
    "notes.whole": Row(scenes.notes, 100, NOTES),
    "notes.wait": Row(scenes.slow_notes, "1ms"),
    "notes.dead_after": Row(scenes.slow_notes, "30s"),
    "notes.keep_tokens": Row(scenes.notes, 2_000, KEPT),
    "notes.keep_messages": Row(scenes.notes, 6, KEPT),
    "notes.keep_at_most": Row(scenes.notes, 10, KEPT),
    "recall.enabled": Row(scenes.recall, True),
    "memory.enabled": Row(scenes.memory, True),
    "memory.nested": Row(scenes.memory, False, MEMORY),
    "memory.watch": Row(scenes.memory, True, MEMORY),
    "hooks.enabled": Row(scenes.hooks, False, HOOKS),
    "hooks.files": Row(scenes.hooks, ("~/hooks.json",)),
    "hooks.trusted": Row(scenes.chat, ("*",)),
    "events.log": Row(scenes.events, True),
    "events.transcript": Row(scenes.events, True),
    "events.prometheus": Row(scenes.events, True),
    "events.otel": Row(scenes.events, True),
    "events.content": Row(scenes.events, "included", {"events.log": True}),
    "store.folder": Row(scenes.middleware, "~/elsewhere"),
    "store.kind": Row(scenes.middleware, "memory"),
    "store.url": Row(scenes.middleware, "~/stored"),
    "store.tenant": Row(scenes.middleware, "acme", {"store.url": "~/stored"}),
    "store.deadline": Row(scenes.silent_database, 0.1, {"store.deadline": 0.2}),
    "store.fsync": Row(scenes.durable, "never", {"store.fsync": "always"}),
    "limits.rounds": Row(scenes.rounds, 2),
    "limits.conversations": Row(scenes.middleware, 1),
    "tokens.calibrate": Row(scenes.filling, False),
    "gateway.mode": Row(scenes.gateway, "manage"),
    "gateway.hold_tenants": Row(scenes.pausing_client, ("local",), HOLDS),
}


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory):
    """Runs a scenario in a folder of one name, so that paths are equal."""
    folder: Path = tmp_path_factory.mktemp("keys") / "desk"
    return lambda scenario, overrides: run(scenario, overrides, folder)


@pytest.fixture(scope="module")
def known_outcome(outcome):
    """The same; what was run is not run again."""

    @cache
    def known(scenario: Scenario, overrides: tuple[tuple[str, Any], ...]) -> str:
        return outcome(scenario, dict(overrides))

    return lambda scenario, overrides: known(scenario, tuple(overrides.items()))


@pytest.mark.spec("CF-5", "CF-2")
def test_every_key_has_a_row_in_the_table():
    assert sorted(TABLE) == sorted(KEYS)


@pytest.mark.spec("CF-5", "CF-2")
@pytest.mark.parametrize("key", TABLE)
def test_a_key_changes_what_can_be_observed(known_outcome, outcome, key):
    scenario, value, base = TABLE[key]
    # Not `!=`: pytest would compare texts of a megabyte.
    is_same = known_outcome(scenario, base) == outcome(scenario, {**base, key: value})
    assert not is_same, f"{key} = {value!r} changes nothing in {scenario.__name__}"


CASES = dict.fromkeys((row.scenario, tuple(row.base.items())) for row in TABLE.values())


@pytest.mark.parametrize(("scenario", "base"), CASES, ids=[scenario.__name__ for scenario, _ in CASES])
def test_a_scenario_has_the_same_outcome_every_time(known_outcome, outcome, scenario, base):
    """Otherwise a difference would mean nothing."""
    first, again = known_outcome(scenario, dict(base)), outcome(scenario, dict(base))
    differing = [
        pair for pair in zip(first.splitlines(), again.splitlines(), strict=False) if len({*pair}) > 1
    ]
    assert differing[:3] == []
