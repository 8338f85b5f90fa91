"""What each provider declares, and what the engine is left with where something is missing (OV-4)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from builders import assistant, call, result
from builders import user as words
from view.talks import HEAD, model, user

from everturn.decide.micro import MicroContext, plan_micro_compaction
from everturn.decide.micro.declarative import build_context_management
from everturn.decide.options import Options
from everturn.decide.result_tracker import ResultTracker
from everturn.measure.capabilities import ANTHROPIC, PLAIN, PROVIDERS, Capabilities
from everturn.measure.outline import Outline
from everturn.measure.tokens import TokenCounter
from everturn.twin.costs import TwinCosts
from everturn.view.breakpoints import place_breakpoints
from everturn.view.key_parameters import TtlSettings, choose_ttl
from everturn.view.system_prompt import SystemPromptSections, system_blocks

OPTIONS = Options()
NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)


def declared(able: Capabilities) -> set[str]:
    return {name for name, value in msgspec.structs.asdict(able).items() if value is True}


@pytest.mark.spec("OV-4")
def test_each_provider_declares_what_it_can():
    """api-facts 1.3 (runs), 2.5 (compaction), 3 (diagnosis: Anthropic's own API only), 9 (edits: nobody)."""
    full = {
        "caching",
        "runs_are_one",
        "context_editing",
        "native_compaction",
        "diagnostics",
        "token_counting",
    }
    assert {name: declared(able) for name, able in PROVIDERS.items()} == {
        "anthropic": full,
        "bedrock": {"caching", "context_editing"},
        "vertex": full - {"runs_are_one", "diagnostics"},
        "twin+cache_edits": full | {"cache_edits"},
        "plain": {"runs_are_one"},
    }
    lasting = {
        name: (able.ttls, able.scopes, able.max_breakpoints, able.lookback)
        for name, able in PROVIDERS.items()
    }
    cached = (("5m", "1h"), (), 4, 20)
    assert lasting == {**dict.fromkeys(PROVIDERS, cached), "plain": ((), (), 0, 20)}


def results() -> ResultTracker:
    """Thirty reads, all of which the model has seen."""
    made, counts = ResultTracker(OPTIONS.tools), TokenCounter()
    made.add(words("go"), counts)
    for n in range(30):
        made.add(assistant(call(f"c{n}", file_path=f"{n}.py"), id=f"m{n}"), counts)
        made.add(result(f"c{n}", "x" * 400), counts)
    made.add(assistant("done", id="last"), counts)
    made.settle()
    return made


def plan(able: Capabilities, *, idle: timedelta) -> str:
    situation = MicroContext(
        results=results(),
        options=OPTIONS,
        source="main",
        now=NOW,
        last_reply=NOW - idle,
        capabilities=able,
    )
    return plan_micro_compaction(situation).kind


def layers(able: Capabilities) -> dict[str, Any]:
    """What of the engine is at work with such a provider."""
    outline = Outline(TwinCosts(model()))
    outline.set_preamble(HEAD)
    outline.replace_from(0, [user("go")])
    marks = place_breakpoints(outline, HEAD, ttl="5m", capabilities=able, previous=-1, writes="its own")
    asked = build_context_management(
        ["Read"], thinking="present", settings=OPTIONS.micro.declarative, capabilities=able
    )
    return {
        "markers": len(marks.places),
        "ttl": choose_ttl("main", "conversation", TtlSettings(eligible=True, bedrock_1h=True), able).ttl,
        "asks the API to clear": asked is not None,
        "while warm": plan(able, idle=timedelta(minutes=1)),
        "when cold": plan(able, idle=timedelta(hours=2)),
    }


@pytest.mark.spec("OV-4")
def test_the_engine_degrades_layer_by_layer():
    whole = {
        "markers": 4,
        "ttl": "1h",
        "asks the API to clear": True,
        "while warm": "none",
        "when cold": "time",
    }
    assert {name: layers(able) for name, able in PROVIDERS.items()} == {
        "anthropic": whole,
        "bedrock": whole,
        "vertex": whole,
        "twin+cache_edits": {**whole, "while warm": "cached"},
        "plain": {**whole, "markers": 0, "ttl": "5m", "asks the API to clear": False},
    }


@pytest.mark.spec("OV-4")
def test_without_any_capability_there_is_still_a_system_prompt_and_time_based_clearing():
    made = SystemPromptSections()
    made.static("manners", lambda: "Be kind.")
    assert [part.scope for part in system_blocks(made, capabilities=PLAIN)] == ["org"]
    assert plan(Capabilities(), idle=timedelta(hours=2)) == "time"


def test_a_provider_is_described_by_what_it_has_and_everything_else_is_off():
    assert Capabilities() == PLAIN
    assert msgspec.structs.replace(ANTHROPIC, cache_edits=True) == PROVIDERS["twin+cache_edits"]
