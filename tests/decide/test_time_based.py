"""Clearing after a long pause, when the cache is cold anyway."""

from datetime import timedelta

import builders as b
import pytest
from decide.conversations import LATE, NOON, SOON, Bench, finished, read, reads
from presets import with_numbers

from everturn.decide.micro import MicroPlan
from everturn.decide.micro.cache_edit_state import CacheEditState
from everturn.decide.options import Options
from everturn.decide.policy import get_policy
from everturn.decide.settings import MicroSettings, TimeSettings
from everturn.history.edits import CacheDeletionsEnded, Cleared
from everturn.measure.capabilities import EXTENDED_TWIN

COLD = get_policy("when-cold").options


def keeping(keep: int) -> Options:
    return with_numbers("when-cold", MicroSettings(time=TimeSettings(keep=keep)))


@pytest.mark.spec("MC-6", "MC-7", "MC-3", "MC-4", "MC-5")
def test_after_more_than_an_hour_all_but_the_newest_five_are_cleared():
    bench = Bench(finished(reads(7, 100)), COLD)
    why = "61 minutes idle, the cache is cold: clears 2 results, saves 184 tokens"
    size = bench.meter.size().tokens
    assert bench.decide(LATE) == MicroPlan(
        "time",
        edits=(Cleared(("c1", "c2"), why=why, tokens_before=size, tokens_saved=184),),
        why=why,
        tokens_saved=184,
        forgotten=("src/c1.py", "src/c2.py"),
        detector_notice="deleted",
        resets_cached=True,
    )


@pytest.mark.spec("MC-6")
@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"idle": timedelta(minutes=60)}, "time: 60 minutes idle, the cache may be warm"),
        ({"idle": timedelta(minutes=-1)}, "time: the clock went backwards"),
        ({"idle": LATE, "last_reply": None}, "time: no reply with a readable time"),
        ({"idle": LATE, "source": ""}, "time: source '' is not the main thread"),
        ({"idle": LATE, "source": "agent:main"}, "time: source 'agent:main' is not the main thread"),
    ],
)
def test_it_does_not_fire_and_says_why(how, why):
    assert Bench(finished(reads(7)), COLD).decide(**how) == MicroPlan("none", why=why)


@pytest.mark.spec("MC-6")
def test_one_moment_more_than_an_hour_and_any_source_of_the_main_thread_will_do():
    bench = Bench(finished(reads(7)), COLD)
    moment = timedelta(minutes=60, microseconds=1)
    assert bench.decide(moment, source="main:compact").kind == "time"


@pytest.mark.spec("MC-7")
@pytest.mark.parametrize(("keep", "cleared"), [(5, 2), (1, 6), (0, 6), (-3, 6), (7, 0)])
def test_never_fewer_than_one_result_is_kept(keep, cleared):
    plan = Bench(finished(reads(7)), keeping(keep)).decide(LATE)
    assert sum(len(edit.calls) for edit in plan.edits if isinstance(edit, Cleared)) == cleared


@pytest.mark.spec("MC-2")
def test_what_cannot_be_reproduced_is_neither_cleared_nor_counted_among_the_newest():
    asked = read("asked", tool="AskUserQuestion")
    bench = Bench(finished([*asked, *reads(5), *read("todo", tool="TodoWrite")]), COLD)
    assert bench.decide(LATE).kind == "none"
    bench = Bench(finished([*asked, *reads(6)]), COLD)
    assert [edit.calls for edit in bench.decide(LATE).edits] == [("c1",)]


def test_a_result_that_the_model_has_not_seen_yet_is_never_cleared():
    parallel = [b.assistant(b.call("p1"), b.call("p2"), id="mp"), b.result("p1"), b.result("p2")]
    bench = Bench([*reads(2), *parallel], keeping(1))
    assert [edit.calls for edit in bench.decide(LATE).edits] == [("c1", "c2")]
    fresh = Bench(parallel, keeping(1))
    assert fresh.decide(LATE).why == "time: idle long enough, but nothing to clear beyond the newest 1"


@pytest.mark.spec("MC-3")
def test_the_view_is_a_new_one_and_the_second_time_nothing_happens():
    bench = Bench(finished(reads(7)), COLD)
    before = bench.log.view
    shown = bench.flat()
    bench.apply(bench.decide(LATE))
    assert bench.decide(LATE).kind == "none"
    assert (before.cleared, set(bench.log.view.cleared)) == ({}, {"c1", "c2"})
    pairs = list(zip(shown.messages, bench.flat().messages, strict=True))
    assert [at for at, (old, new) in enumerate(pairs) if old != new] == [2, 4]


@pytest.mark.spec("MC-5", "MC-12")
def test_deletions_in_the_cache_that_went_cold_are_ended_and_not_saved_twice():
    bench = Bench(finished(reads(12, 100)))
    bench.apply(bench.decide(SOON, capabilities=EXTENDED_TWIN))
    plan = bench.decide(LATE, capabilities=EXTENDED_TWIN)
    assert (plan.kind, plan.tokens_saved, plan.resets_cached) == ("time", 0, True)
    assert [type(edit) for edit in plan.edits] == [Cleared, CacheDeletionsEnded]
    bench.apply(plan)
    assert bench.cached == CacheEditState()


def test_times_are_those_of_the_situation_alone():
    bench = Bench(finished(reads(7)), COLD)
    assert bench.decide(LATE, last_reply=NOON + LATE).why == "time: 0 minutes idle, the cache may be warm"
