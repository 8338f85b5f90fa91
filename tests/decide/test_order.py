"""The order of micro-compaction, and the laws that hold for every kind."""

import builders as b
import pytest
from decide.conversations import LATE, SOON, Bench, finished, read, reads
from hypothesis import given
from hypothesis import strategies as st
from message_rules import find_message_problems

from everturn.decide.micro.order import STEPS
from everturn.decide.policy import POLICIES
from everturn.history.edits import Cleared
from everturn.measure.capabilities import ANTHROPIC, EXTENDED_TWIN, PLAIN, PROVIDERS


@pytest.mark.spec("MC-1")
def test_when_the_pause_was_long_nothing_but_the_time_based_kind_runs():
    bench = Bench(finished(reads(20, 10_000)))
    late, soon = (bench.decide(idle, capabilities=EXTENDED_TWIN) for idle in (LATE, SOON))
    assert (late.kind, late.delete) == ("time", ())
    assert (soon.kind, soon.edits) == ("cached", ())


@pytest.mark.spec("MC-1")
def test_a_time_based_clearing_that_waits_lets_nothing_else_run():
    bench = Bench(reads(20, 10_000))
    plan = bench.decide(LATE, capabilities=EXTENDED_TWIN, in_tool_loop=True, binds_thinking=True)
    assert (plan.kind, plan.delete) == ("waits", ())


@pytest.mark.spec("MC-1")
def test_a_long_pause_leaves_the_turn_to_the_time_based_kind_also_when_it_is_decided_twice():
    bench = Bench(finished(reads(6, 10_000)))
    bench.apply(bench.decide(LATE, capabilities=PLAIN))
    assert [bench.decide(idle, capabilities=PLAIN).kind for idle in (LATE, SOON)] == ["none", "none"]
    bench = Bench(finished(reads(6, 20_000)))
    bench.apply(bench.decide(LATE, capabilities=PLAIN))
    assert [bench.decide(idle, capabilities=PLAIN).kind for idle in (LATE, SOON)] == ["none", "budget"]


@pytest.mark.spec("OV-4", "MC-1")
def test_each_provider_gets_the_gentlest_layer_that_it_can():
    bench = Bench(finished(reads(20, 10_000)))
    kinds = {name: bench.decide(SOON, capabilities=able).kind for name, able in PROVIDERS.items()}
    assert kinds == {
        "anthropic": "none",
        "bedrock": "none",
        "vertex": "none",
        "twin+cache_edits": "cached",
        "plain": "budget",
    }
    assert {bench.decide(LATE, capabilities=able).kind for able in PROVIDERS.values()} == {"time"}


def test_nothing_has_a_reason_from_every_kind_that_was_tried():
    plan = Bench(finished(reads(2, 100))).decide(SOON, capabilities=ANTHROPIC)
    assert plan.why == (
        "oversize: every new result may be shown; time: 2 minutes idle, the cache may be warm; "
        "cached: the provider takes no cache edits; budget: the provider can clear without losing the cache"
    )


def test_every_step_that_a_policy_names_exists_and_every_kind_is_used_by_one():
    named = {step for policy in POLICIES.values() for step in policy.options.steps}
    assert named == set(STEPS)


conversations = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.integers(1, 12_000),
        st.sampled_from(["Read", "Bash", "Edit", "AskUserQuestion"]),
        st.booleans(),
    ),
    min_size=1,
    max_size=8,
)
moments = st.fixed_dictionaries(
    {
        "idle": st.sampled_from([SOON, LATE]),
        "capabilities": st.sampled_from([PLAIN, ANTHROPIC, EXTENDED_TWIN]),
        "binds_thinking": st.booleans(),
    }
)


def recorded(shape) -> list:
    found = []
    for at, (calls, tokens, tool, thinks) in enumerate(shape):
        found.append(b.user(f"prompt {at}", uuid=f"u{at}"))
        for number in range(calls):
            found += read(f"t{at}-{number}", tokens, tool, "hm" if thinks else "")
        found.append(b.assistant(f"answer {at}", id=f"m{at}", uuid=f"a{at}"))
    return [*found, b.user("go on", uuid="u-next")]


@pytest.mark.spec("MC-3")
@given(conversations, moments, st.sampled_from(sorted(POLICIES)))
def test_a_plan_once_applied_leaves_nothing_to_decide_at_the_same_moment(shape, moment, name):
    bench = Bench(recorded(shape), name)
    plan = bench.decide(**moment)
    bench.apply(plan)
    again = bench.decide(**moment)
    assert again.kind == "none", (plan.why, again.why)
    assert find_message_problems(bench.flat().messages) == ()


@pytest.mark.spec("MC-3")
@given(conversations, moments, st.sampled_from(sorted(POLICIES)))
def test_what_a_plan_says_it_saves_is_what_the_results_lose(shape, moment, name):
    bench = Bench(recorded(shape), name)
    plan = bench.decide(**moment)
    cleared = [call for edit in plan.edits if isinstance(edit, Cleared) for call in edit.calls]
    if cleared:
        assert bench.results.clear(cleared) == plan.tokens_saved


@pytest.mark.spec("PC-17")
@given(conversations, st.lists(moments, max_size=6))
def test_what_was_cleared_once_is_cleared_the_same_way_in_every_later_request(shape, then):
    bench = Bench(recorded(shape), "frugal")
    hidden: dict[str, bytes] = {}
    for at, moment in enumerate(then):
        bench.apply(bench.decide(**moment))
        shown = {
            block.call: block.raw for m in bench.flat().messages for block in m.blocks if block.is_result
        }
        assert {call: shown[call] for call in hidden} == hidden
        hidden = {call: shown[call] for call in bench.log.view.cleared}
        for record in [
            *read(f"n{at}", 9_000),
            b.assistant("so", id=f"s{at}", uuid=f"s{at}"),
            b.user(f"on {at}"),
        ]:
            bench.add(record)


@pytest.mark.spec("PC-17")
def test_our_own_policies_break_a_warm_prefix_seldom_and_in_one_batch():
    def breaks(name: str) -> int:
        bench = Bench([b.user("go", uuid="u")], name)
        found = 0
        for at in range(60):
            for record in read(f"c{at}", 2_000):
                bench.add(record)
            plan = bench.decide(SOON, capabilities=PLAIN)
            bench.apply(plan)
            found += bool(plan.edits)
        return found

    assert {name: breaks(name) for name in ("claude-code", "masking", "clear-keep-3")} == {
        "claude-code": 3,
        "masking": 50,
        "clear-keep-3": 23,
    }
