"""What other systems do: masking, the API's own clearing, a sliding window."""

import builders as b
import pytest
from decide.conversations import Bench, finished, read, reads
from message_rules import find_message_problems
from presets import with_numbers

from everturn.decide.micro.window import plan_sliding_window
from everturn.decide.settings import MicroSettings, WindowSettings
from everturn.history.edits import Cleared, Trimmed
from everturn.measure.tokens import CharactersPerToken, TokenCounter


def cleared(plan) -> tuple[str, ...]:
    return next((edit.calls for edit in plan.edits if isinstance(edit, Cleared)), ())


def test_masking_hides_one_more_result_on_every_turn_whatever_its_tool():
    bench = Bench(reads(10, 50), "masking")
    found = []
    for at in range(11, 14):
        found.append(cleared(bench.decide()))
        bench.apply(bench.decide())
        for record in read(f"c{at}", 50, tool="AskUserQuestion"):
            bench.add(record)
    assert found == [(), ("c1",), ("c2",)]


@pytest.mark.parametrize(("size", "calls"), [(100_000, ()), (100_001, ("c1", "c2"))])
def test_the_api_clears_all_but_three_once_the_prompt_exceeds_its_trigger(size, calls):
    assert cleared(Bench(reads(5), "clear-keep-3").decide(size=size)) == calls


def test_the_api_fires_again_with_each_result_for_it_looks_at_the_prompt_before_its_edits():
    bench = Bench(reads(5, 30_000), "clear-keep-3")
    bench.apply(bench.decide())
    assert bench.meter.size().tokens > 100_000
    assert bench.decide().kind == "none"
    for record in read("c6", 10):
        bench.add(record)
    assert cleared(bench.decide(size=40_100)) == ("c3",)


def windowed(tokens: int):
    return with_numbers("sliding-window", MicroSettings(window=WindowSettings(tokens=tokens)))


def turns(count: int, tokens: int = 750):
    """Prompts with one read and one answer each, about `tokens` by the padded estimate."""
    found = []
    for at in range(count):
        found += [b.user(f"prompt {at}", uuid=f"u{at}"), *read(f"c{at}", tokens * 3 // 4)]
        found += [b.assistant(f"answer {at}", id=f"m{at}", uuid=f"a{at}")]
    return found


def test_a_window_drops_the_oldest_rounds_down_to_half_and_begins_with_words():
    bench = Bench(turns(10, 1_000), windowed(9_500))
    plan = bench.decide()
    assert plan.kind == "window"
    assert plan.edits == (Trimmed("u6", plan.why),)
    bench.apply(plan)
    assert bench.decide().kind == "none"
    assert find_message_problems(bench.flat().messages) == ()
    assert len(bench.flat().messages) == 4 * 4


def test_a_window_inside_one_long_loop_cuts_between_rounds():
    bench = Bench(reads(10, 750), windowed(9_500))
    plan = bench.decide()
    assert plan.edits == (Trimmed("a-c7", plan.why),)
    bench.apply(plan)
    assert find_message_problems(bench.flat().messages) == ()


def test_a_window_never_drops_the_last_round_and_says_so():
    huge = Bench([b.user("go", uuid="u"), *read("c1", 100_000)], "sliding-window")
    assert huge.decide().edits == (Trimmed("a-c1", huge.decide().why),)
    huge.apply(huge.decide())
    assert huge.decide().why.endswith("no earlier round to drop")


def test_what_no_record_holds_takes_its_part_of_the_window():
    bench = Bench(turns(10, 1_000), windowed(12_000))
    assert bench.decide().kind == "none"
    assert bench.decide(size=13_000).edits[0].before == "u7"


@pytest.mark.spec("CF-3")
def test_under_no_policy_nothing_changes():
    plan = Bench(reads(50, 10_000), "none").decide(size=2_000_000)
    assert (plan.kind, plan.why) == ("none", "policy 'none' changes nothing")


@pytest.mark.parametrize("name", ["masking", "clear-keep-3"])
def test_a_rolling_policy_says_what_it_did(name):
    plan = Bench(finished(reads(15, 10_000)), name).decide()
    assert f"clears {len(cleared(plan))} results" in plan.why


def test_a_window_is_measured_with_the_counts_that_it_is_given():
    bench = Bench(turns(10, 1_000), windowed(9_500))
    dense = TokenCounter(CharactersPerToken(2))
    saved = [
        plan_sliding_window(bench.situation(counts=each)).tokens_saved for each in (None, bench.counts, dense)
    ]
    assert saved[0] == saved[1] > 0
    assert saved[2] > saved[1]
