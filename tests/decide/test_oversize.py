"""Results too large to show go to a file, decided once."""

import builders as b
import pytest
from decide.conversations import LATE, Bench, finished, reads
from hypothesis import given
from hypothesis import strategies as st

from everturn.decide.micro import OffloadPlan
from everturn.decide.micro.oversize import file_name, preview
from everturn.decide.options import Options
from everturn.decide.settings import MicroSettings, OversizeSettings
from everturn.history.blocks import text_of
from everturn.history.edits import Offloaded

SMALL = Options(micro=MicroSettings(oversize=OversizeSettings(message=1_000, single=600, preview=100)))


def ran(call: str) -> b.Fields:
    return b.call(call, "Bash", command="make")


def answered(*lengths: int, errors: tuple[str, ...] = ()) -> list:
    """One message with results of these many characters: c0, c1, ..."""
    calls = [f"c{at}" for at in range(len(lengths))]
    contents = [b.answer(call, call[0] * length) for call, length in zip(calls, lengths, strict=True)]
    contents = [{**each, "is_error": True} if each["tool_use_id"] in errors else each for each in contents]
    return [b.user("go"), b.assistant(*(ran(call) for call in calls)), b.user(contents, uuid="answers")]


def moved(plan) -> list[str]:
    return [offload.call for offload in plan.offload]


@pytest.mark.spec("MC-17")
def test_a_message_may_hold_two_hundred_thousand_characters_and_a_result_fifty_thousand():
    assert moved(Bench(answered(50_000, 50_000, 50_000, 50_000)).decide()) == []
    assert moved(Bench(answered(50_000, 50_000, 50_000, 49_999, 2)).decide()) == ["c0"]
    assert moved(Bench(answered(10, 50_001)).decide()) == ["c1"]


@pytest.mark.spec("MC-21")
def test_a_file_that_was_read_is_moved_only_where_its_message_does_not_fit():
    def read(*calls: tuple[str, str, int]) -> list:
        said = b.assistant(*(b.call(call, tool, file_path=f"src/{call}.py") for call, tool, _ in calls))
        contents = [b.answer(call, "x" * length) for call, _, length in calls]
        return [b.user("go"), said, b.user(contents, uuid="answers")]

    alone = read(("r", "Read", 990))
    beside = read(("r", "Read", 900), ("s", "Bash", 700))
    several = read(("r", "read_many_files", 990), ("s", "read_many_files", 500))
    viewed = b.assistant(b.call("v", "str_replace_based_edit_tool", command="view", path="a.py"))
    assert moved(Bench(alone, SMALL).decide()) == []
    assert moved(Bench(beside, SMALL).decide()) == ["s"]
    assert moved(Bench(several, SMALL).decide()) == ["r"]
    assert moved(Bench([b.user("go"), viewed, b.result("v", "x" * 990)], SMALL).decide()) == []
    full = read(("r", "Read", 950), ("s", "Bash", 640))
    assert moved(Bench(full, SMALL).decide()) == ["r", "s"]


@pytest.mark.spec("MC-17")
def test_the_largest_go_first_until_the_rest_fits():
    bench = Bench(answered(300, 500, 200, 400), SMALL)
    assert moved(bench.decide()) == ["c1"]
    assert moved(Bench(answered(500, 300, 500, 300), SMALL).decide()) == ["c0", "c2"]


@pytest.mark.spec("MC-17")
def test_the_plan_says_what_to_write_and_what_stays_behind():
    lines = "a line of text\n" * 60
    records = [b.user("go"), b.assistant(ran("toolu_1")), b.result("toolu_1", lines)]
    plan = Bench(records, SMALL).decide()
    begun = "a line of text\n" * 5 + "a line of text"
    why = "a result may hold 600 characters"
    assert plan.offload == (OffloadPlan("toolu_1", "toolu_1.txt", lines, begun, 900, why),)
    assert (plan.kind, plan.edits, plan.tokens_saved) == ("oversize", (), 225 - 225 * 89 // 900)
    assert plan.offload[0].written_to("/kept/toolu_1.txt") == Offloaded(
        "toolu_1", "/kept/toolu_1.txt", begun, 900, why
    )


@pytest.mark.spec("MC-17")
def test_a_decision_once_made_is_repeated_in_every_later_request():
    bench = Bench(answered(900, 300), SMALL)
    bench.apply(bench.decide())
    assert moved(bench.decide()) == []
    sent = bench.flat().messages
    for record in [b.assistant(ran("later"), id="m2"), b.result("later", "x" * 990)]:
        bench.add(record)
    bench.apply(bench.decide())
    assert bench.flat().messages[: len(sent)] == sent
    assert "All of it is in kept/c0.txt" in text_of(sent[-1].blocks[0])


@pytest.mark.spec("MC-17")
def test_a_result_that_was_sent_whole_stays_whole_though_its_message_grows():
    bench = Bench(answered(500, 400), SMALL)
    assert moved(bench.decide()) == []
    bench.results.settle()
    bench.add(b.result("c2", "x" * 450))
    assert moved(bench.decide()) == ["c2"]


@pytest.mark.spec("MC-17")
def test_errors_small_results_and_pictures_stay():
    assert moved(Bench(answered(700, 700, errors=("c0",)), SMALL).decide()) == ["c1"]
    many = Bench(answered(*[100] * 11), SMALL)
    assert moved(many.decide()) == []
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 4_000}}
    records = [b.user("go"), b.assistant(ran("c0")), b.result("c0", [picture, b.say("x" * 700)])]
    assert moved(Bench(records, SMALL).decide()) == []


def test_reading_an_offloaded_file_does_not_offload_it_again():
    bench = Bench(answered(900), SMALL)
    bench.apply(bench.decide())
    call = b.call("again", "Read", file_path="kept/c0.txt")
    for record in [b.assistant(call, id="m2"), b.result("again", "x" * 900)]:
        bench.add(record)
    assert moved(bench.decide()) == []


@pytest.mark.spec("PC-16")
def test_what_was_never_sent_binds_no_thinking_and_waits_for_no_loop():
    plan = Bench(answered(900), SMALL).decide(in_tool_loop=True, binds_thinking=True)
    assert (plan.kind, plan.edits, moved(plan)) == ("oversize", (), ["c0"])


def test_it_happens_beside_a_clearing_and_both_are_told():
    bench = Bench([*finished(reads(7, 10)), *answered(900)[1:]], SMALL)
    plan = bench.decide(LATE)
    assert (plan.kind, moved(plan), len(plan.edits)) == ("time", ["c0"], 1)
    assert "clears 3 results" in plan.why
    assert "moves 1 new result to files" in plan.why
    assert plan.tokens_saved == plan.edits[0].tokens_saved + 200


@given(st.text(max_size=300), st.integers(0, 200))
def test_a_preview_is_a_beginning_within_its_limit_and_not_less_than_half(text, limit):
    shown = preview(text, limit)
    assert text.startswith(shown)
    assert min(len(text), limit // 2) <= len(shown) <= max(limit, 0)


@given(st.text(max_size=150), st.text(max_size=150))
def test_a_file_name_is_a_plain_name_and_another_for_another_call(one, other):
    name = file_name(one)
    assert set(name.removesuffix(".txt")) <= set(
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
    )
    assert 5 <= len(name) <= 120
    assert (name == file_name(other)) == (one == other)
