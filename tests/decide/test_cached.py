"""Deleting in the provider's cache: when, what, and exactly once."""

import builders as b
import msgspec
import pytest
from decide.conversations import SOON, Bench, finished, read, reads
from hypothesis import given
from hypothesis import strategies as st

from everturn.decide.micro import MicroPlan
from everturn.decide.micro.cache_edit_state import (
    CacheEditState,
    Group,
    apply_plan,
    consume_pending,
    expire_deletions,
    rebuild_state,
    record_savings,
    register_results,
)
from everturn.history.edits import CacheDeleted, CacheDeletionsEnded
from everturn.measure.capabilities import ANTHROPIC, EXTENDED_TWIN, PLAIN

TWIN = {"capabilities": EXTENDED_TWIN}
FIRST_SEVEN = tuple(f"c{at}" for at in range(1, 8))


@pytest.mark.spec("MC-9", "MC-4", "MC-5")
def test_at_twelve_active_results_all_but_five_are_deleted_and_no_message_changes():
    bench = Bench(finished(reads(12, 100)))
    plan = bench.decide(**TWIN)
    assert plan == MicroPlan(
        "cached",
        why="12 active results: deletes 7 in the cache, saves 700 tokens",
        tokens_saved=700,
        delete=FIRST_SEVEN,
        forgotten=tuple(f"src/{call}.py" for call in FIRST_SEVEN),
        detector_notice="deleted",
    )
    before = bench.flat()
    bench.apply(plan)
    assert bench.log.view.cleared == {}
    changed = [
        [block.kind for block in new.blocks if block not in old.blocks]
        for old, new in zip(before.messages, bench.flat().messages, strict=True)
    ]
    assert [kinds for kinds in changed if kinds] == [["cache_edits"]]


@pytest.mark.spec("MC-9")
def test_eleven_are_too_few():
    plan = Bench(finished(reads(11))).decide(**TWIN)
    assert plan.kind == "none"
    assert "cached: 11 of 12 active results" in plan.why


@pytest.mark.spec("MC-12", "OV-4")
@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"capabilities": ANTHROPIC}, "cached: the provider takes no cache edits"),
        ({"capabilities": PLAIN}, "cached: the provider takes no cache edits"),
        (TWIN | {"source": "agent:1"}, "cached: source 'agent:1' is not the main thread"),
        (TWIN | {"source": ""}, "cached: source '' is not the main thread"),
    ],
)
def test_only_the_main_thread_of_a_provider_that_can(how, why):
    plan = Bench(finished(reads(12))).decide(**how)
    assert plan.kind == "none"
    assert why in plan.why


@pytest.mark.spec("MC-8")
def test_results_are_registered_in_groups_per_user_message_and_once():
    bench = Bench(reads(2))
    two = [b.assistant(b.call("p1"), b.call("p2"), id="mp"), b.result("p1"), b.result("p2")]
    state = register_results(CacheEditState(), bench.results)
    for record in two:
        bench.add(record)
    state = register_results(state, bench.results)
    assert state == register_results(state, bench.results)
    assert state.groups == (Group(1, ("c1",)), Group(2, ("c2",)), Group(3, ("p1", "p2")))


@pytest.mark.spec("MC-10")
def test_what_is_pending_is_consumed_exactly_once():
    bench = Bench(finished(reads(12)))
    plan = bench.decide(**TWIN)
    state = apply_plan(bench.cached, bench.results, plan)
    assert (state.pending, state.pinned) == (FIRST_SEVEN, ())
    assert state.groups == tuple(Group(at, (f"c{at}",)) for at in range(8, 13))
    state, edit = consume_pending(state, why="built")
    assert edit == CacheDeleted(FIRST_SEVEN, "built")
    assert (state.pending, state.pinned, state.deleted) == ((), (FIRST_SEVEN,), frozenset(FIRST_SEVEN))
    assert consume_pending(state) == (state, None)


@pytest.mark.spec("MC-10")
def test_a_plan_whose_request_was_never_built_joins_the_next_block():
    bench = Bench(finished(reads(12)))
    bench.cached = apply_plan(bench.cached, bench.results, bench.decide(**TWIN))
    for record in finished([record for at in range(13, 20) for record in read(f"c{at}")]):
        bench.add(record)
    state, edit = consume_pending(apply_plan(bench.cached, bench.results, bench.decide(**TWIN)))
    assert edit == CacheDeleted(tuple(f"c{at}" for at in range(1, 15)))
    assert state.pinned == (edit.calls,)


@pytest.mark.spec("MC-10")
def test_the_pinned_block_stays_where_it_was_first_sent():
    bench = Bench(finished(reads(12)))
    bench.apply(bench.decide(**TWIN))
    sent = bench.flat().messages
    for record in finished(read("c13"), "more"):
        bench.add(record)
    bench.apply(bench.decide(**TWIN))
    assert bench.flat().messages[: len(sent)] == sent


@pytest.mark.spec("MC-11")
def test_the_saving_of_an_edit_is_the_rise_of_the_reported_total():
    def edit(state: CacheEditState, *calls: str) -> CacheEditState:
        plan = MicroPlan("cached", delete=calls)
        return consume_pending(apply_plan(state, Bench([]).results, plan)).state

    state, nothing_yet = record_savings(CacheEditState(), 0)
    state, first = record_savings(edit(state, "c1"), 700)
    state, idle = record_savings(state, 700)
    state, second = record_savings(edit(state, "c2"), 1_150)
    _, restarted = record_savings(edit(state, "c3"), 90)
    assert (nothing_yet, first, idle, second, restarted) == (0, 700, 0, 450, 0)


@pytest.mark.spec("MC-12")
def test_an_expiry_drops_what_was_pinned_and_rests_until_the_cache_is_written_again():
    bench = Bench(finished(reads(12)))
    bench.apply(bench.decide(**TWIN))
    bench.cached, ended = expire_deletions(bench.cached, why="five minutes idle")
    assert ended == CacheDeletionsEnded("five minutes idle")
    bench.add(b.edited(ended, "ended"))
    assert not any(
        block.kind == "cache_edits" for message in bench.flat().messages for block in message.blocks
    )
    assert "nothing to delete from" in bench.decide(**TWIN).why
    bench.apply(bench.decide(**TWIN))
    assert bench.decide(**TWIN).delete == FIRST_SEVEN


@pytest.mark.spec("MC-12")
def test_an_expiry_without_deletions_says_nothing_to_the_log():
    assert expire_deletions(CacheEditState(), why="idle") == (CacheEditState(rests=True), None)


def test_a_resumed_session_knows_what_is_deleted():
    bench = Bench(finished(reads(12)))
    bench.apply(bench.decide(**TWIN))
    edits = [record.edit for record in bench.log.records if record.edit]
    again = rebuild_state(bench.results, edits)
    assert (again.active, again.pinned) == (bench.cached.active, bench.cached.pinned)
    assert rebuild_state(bench.results, [*edits, CacheDeletionsEnded()]).pinned == ()


@pytest.mark.spec("MC-11")
def test_a_resumed_session_claims_no_saving_before_it_knows_the_total():
    state = rebuild_state(Bench([]).results, [CacheDeleted(("c1",))])
    state = consume_pending(msgspec.structs.replace(state, pending=("c2",))).state
    state, unknown = record_savings(state, 1_150)
    state = consume_pending(msgspec.structs.replace(state, pending=("c3",))).state
    assert (unknown, record_savings(state, 1_200).saved) == (0, 50)


def test_what_the_model_has_not_seen_is_not_deleted():
    calls = [f"p{at}" for at in range(14)]
    records = [b.user("go"), b.assistant(*(b.call(call) for call in calls)), *map(b.result, calls)]
    assert "the model has not seen" in Bench(records).decide(**TWIN).why


@pytest.mark.spec("MC-10")
@given(st.lists(st.tuples(st.integers(0, 6), st.booleans()), max_size=12))
def test_no_reference_is_ever_deleted_twice(turns):
    bench = Bench([b.user("go")])
    deleted: list[str] = []
    for at, (count, is_built) in enumerate(turns):
        for number in range(count):
            for record in read(f"t{at}-{number}", 10):
                bench.add(record)
        plan = bench.decide(SOON, **TWIN)
        if is_built:
            bench.apply(plan)
        else:
            bench.cached = apply_plan(bench.cached, bench.results, plan)
    deleted = [call for block in (*bench.cached.pinned, bench.cached.pending) for call in block]
    assert len(deleted) == len(set(deleted))
    active = register_results(bench.cached, bench.results).active
    assert not set(deleted) & set(active)
    assert len(deleted) + len(active) == bench.results.arrived == sum(n for n, _ in turns)
