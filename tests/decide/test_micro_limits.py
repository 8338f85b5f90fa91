"""Both sides of every limit of micro-compaction, and what happens when nothing is to be kept."""

import builders as b
import msgspec
import pytest
from decide.conversations import LATE, NOON, Bench, finished, read, reads
from presets import with_numbers

from everturn.decide.micro.oversize import file_name, preview
from everturn.decide.settings import (
    BudgetSettings,
    CachedSettings,
    ClearAtSettings,
    MaskingSettings,
    MicroSettings,
    OversizeSettings,
    TimeSettings,
    WindowSettings,
)
from everturn.history.edits import Cleared, Trimmed
from everturn.measure.capabilities import EXTENDED_TWIN, PLAIN


def cleared(plan) -> tuple[str, ...]:
    return next((edit.calls for edit in plan.edits if isinstance(edit, Cleared)), ())


def numbers(policy: str, **kinds: object):
    return with_numbers(policy, msgspec.structs.replace(MicroSettings(), **kinds))


@pytest.mark.parametrize(("keep", "calls"), [(2, ("c1",)), (1, ("c1", "c2")), (0, ("c1", "c2", "c3"))])
@pytest.mark.parametrize("policy", ["masking", "clear-keep-3"])
def test_a_baseline_that_keeps_nothing_clears_everything(policy, keep, calls):
    kinds = {"masking": MaskingSettings(keep=keep), "clear_at": ClearAtSettings(keep=keep)}
    bench = Bench(reads(3, 50), numbers(policy, **kinds))
    assert cleared(bench.decide(size=100_001)) == calls


@pytest.mark.parametrize(
    ("keep", "calls"), [(2, ("c1",)), (1, ("c1", "c2")), (0, ("c1", "c2")), (-3, ("c1", "c2"))]
)
def test_after_a_pause_the_newest_result_always_stays(keep, calls):
    bench = Bench(finished(reads(3, 50)), numbers("when-cold", time=TimeSettings(keep=keep)))
    assert cleared(bench.decide(now=NOON + LATE, last_reply=NOON)) == calls


def test_a_pause_as_long_as_the_limit_is_not_longer_than_it():
    bench = Bench(finished(reads(9, 50)), "when-cold")
    idle = TimeSettings().idle
    assert bench.decide(now=NOON + idle, last_reply=NOON).kind == "none"
    assert bench.decide(now=NOON + 1.001 * idle, last_reply=NOON).kind == "time"


@pytest.mark.parametrize(
    ("trigger", "keep", "calls"), [(4, 0, 0), (3, 0, 3), (3, 1, 2), (3, 3, 0), (3, 9, 0)]
)
def test_from_its_trigger_on_all_but_the_newest_are_deleted_in_the_cache(trigger, keep, calls):
    options = numbers("claude-code", cached=CachedSettings(trigger=trigger, keep=keep))
    plan = Bench(finished(reads(3, 50)), options).decide(capabilities=EXTENDED_TWIN)
    assert len(plan.delete) == calls


@pytest.mark.parametrize(("tokens", "calls"), [(299, 1), (300, 0)])
def test_results_that_hold_as_much_as_their_budget_stay(tokens, calls):
    budget = BudgetSettings(tokens=tokens, keep=0, save_at_least=1)
    plan = Bench(finished(reads(3, 100)), numbers("frugal", budget=budget)).decide(capabilities=PLAIN)
    assert len(cleared(plan)) == calls


@pytest.mark.parametrize(("size", "kind"), [(9_500, "none"), (9_501, "window")])
def test_a_conversation_as_large_as_its_window_stays(size, kind):
    options = numbers("sliding-window", window=WindowSettings(tokens=9_500))
    assert Bench(reads(4, 500), options).decide(size=size).kind == kind


def test_where_nothing_fits_beside_the_system_prompt_the_last_round_stays():
    options = numbers("sliding-window", window=WindowSettings(tokens=1_000))
    plan = Bench(reads(3, 500), options).decide(size=90_000)
    assert plan.edits == (Trimmed("a-c3", plan.why),)


OVERSIZE = OversizeSettings(single=400, message=1_000, preview=100)


@pytest.mark.parametrize(
    ("sizes", "moved"),
    [
        ([400], []),
        ([401], ["c0"]),
        ([350, 350, 300], []),
        # The largest go until the rest fits.
        ([350, 350, 301], ["c0"]),
        ([200, 210, 320, 330], ["c3"]),
        ([300, 310, 320, 330, 390], ["c2", "c3", "c4"]),
        ([900, 350, 350], ["c0"]),
    ],
)
def test_results_over_their_limit_and_the_largest_of_a_message_are_moved(sizes, moved):
    calls = [b.call(f"c{at}", "Bash", command="x") for at in range(len(sizes))]
    answers = [b.answer(f"c{at}", "y" * size) for at, size in enumerate(sizes)]
    records = [b.user("go", uuid="u"), b.assistant(*calls, id="m", uuid="a"), b.user(answers, uuid="r")]
    plan = Bench(records, numbers("claude-code", oversize=OVERSIZE)).decide()
    assert [each.call for each in plan.offload] == moved


def test_a_file_that_was_read_is_moved_only_where_its_message_does_not_fit():
    options = numbers("claude-code", oversize=OVERSIZE)
    assert Bench([b.user("go", uuid="u"), *read("c1", 200)], options).decide().offload == ()
    assert len(Bench([b.user("go", uuid="u"), *read("c1", 300)], options).decide().offload) == 1


@pytest.mark.parametrize(
    ("text", "limit", "shown"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdefg", 6, "abcdef"),
        ("abc\ndefg", 6, "abc"),
        ("ab\ncdefg", 6, "ab\ncde"),
    ],
)
def test_a_preview_ends_with_a_line_unless_that_takes_more_than_half(text, limit, shown):
    assert preview(text, limit) == shown


def test_the_name_of_a_file_is_the_call_or_tells_it_from_all_others():
    assert file_name("toolu_1-a") == "toolu_1-a.txt"
    assert file_name("a" * 100) == "a" * 100 + ".txt"
    names = [file_name(call) for call in ("", "a/b", "a_b", "a?b", "a" * 101)]
    assert len(set(names)) == 5
    assert [name[:4] for name in names[1:4]] == ["a_b-", "a_b.", "a_b-"]
    assert len(names[4]) == 100 + len("-") + 12 + len(".txt")
