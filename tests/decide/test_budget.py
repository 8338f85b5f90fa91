"""Clearing by size, where no cache is lost by it."""

import pytest
from decide.conversations import Bench, finished, reads

from everturn.decide.micro.budget import plan_budget_clearing
from everturn.history.edits import Cleared
from everturn.measure.capabilities import ANTHROPIC, BEDROCK, EXTENDED_TWIN, PLAIN, Capabilities


def cleared(plan) -> tuple[str, ...]:
    return next((edit.calls for edit in plan.edits if isinstance(edit, Cleared)), ())


@pytest.mark.spec("MC-16")
def test_the_oldest_are_cleared_until_the_rest_fits():
    plan = Bench(finished(reads(8, 10_000))).decide(capabilities=PLAIN)
    assert (plan.kind, cleared(plan), plan.tokens_saved) == ("budget", ("c1", "c2", "c3", "c4"), 4 * 9_992)
    assert plan.resets_cached is False


@pytest.mark.spec("MC-16")
def test_the_last_three_stay_even_when_they_do_not_fit():
    assert cleared(Bench(finished(reads(4, 30_000))).decide(capabilities=PLAIN)) == ("c1",)


@pytest.mark.spec("MC-16")
@pytest.mark.parametrize(
    ("tokens", "kind"), [(20_008, "budget"), (20_007, "none"), (10_000, "none"), (9_000, "none")]
)
def test_nothing_is_done_for_less_than_twenty_thousand_tokens(tokens, kind):
    assert Bench(finished(reads(4, tokens))).decide(capabilities=PLAIN).kind == kind


@pytest.mark.spec("MC-16", "OV-4")
@pytest.mark.parametrize(
    ("capabilities", "kind"),
    [
        (PLAIN, "budget"),
        (Capabilities(context_editing=True), "budget"),
        (Capabilities(caching=True), "budget"),
        (ANTHROPIC, "none"),
        (BEDROCK, "none"),
        (EXTENDED_TWIN, "none"),
    ],
)
def test_it_is_for_providers_without_a_cache_or_without_a_gentler_way(capabilities, kind):
    assert Bench(finished(reads(8, 10_000))).decide(capabilities=capabilities).kind == kind


def test_a_frugal_policy_clears_by_size_everywhere():
    assert Bench(finished(reads(8, 10_000)), "frugal").decide(capabilities=ANTHROPIC).kind == "budget"


def test_what_is_deleted_in_the_cache_weighs_nothing():
    bench = Bench(finished(reads(12, 10_000)), "frugal")
    bench.apply(bench.decide(capabilities=EXTENDED_TWIN))
    assert len(bench.cached.deleted) == 7
    plan = plan_budget_clearing(bench.situation())
    assert plan.why == "9,992 tokens to save, fewer than 20,000"
