"""The results that the model can see, followed record by record."""

import builders as b
import pytest
from decide.conversations import Bench, read, reads, text
from hypothesis import given
from random_logs import sound_logs

from everturn.decide.result_tracker import ResultTracker, TrackedResult
from everturn.history.edits import CacheDeleted, CacheDeletionsEnded, Cleared, Offloaded
from everturn.measure.meter import PLACEHOLDER_TOKENS, Meter
from everturn.measure.tokens import TokenCounter


def followed(records, **how) -> ResultTracker:
    results = ResultTracker(**how)
    counts = TokenCounter()
    for record in records:
        results.add(record, counts)
    return results


@pytest.mark.spec("MC-8")
def test_a_result_knows_its_tool_its_size_its_message_and_its_file():
    results = followed(reads(2, 100))
    assert list(results.active) == [
        TrackedResult("c1", "Read", 100, "r-c1", 1, "src/c1.py", 400, may_read_files=True),
        TrackedResult("c2", "Read", 100, "r-c2", 2, "src/c2.py", 400, may_read_files=True),
    ]
    assert (results.count, results.tokens, results.arrived) == (2, 200, 2)


@pytest.mark.spec("MC-8")
def test_parallel_results_are_one_group_also_between_the_pieces_of_a_split_reply():
    records = [
        b.user("go"),
        b.assistant(b.call("c1"), id="m1", uuid="p1"),
        b.result("c1"),
        b.assistant(b.call("c2"), id="m1", uuid="p2"),
        b.result("c2"),
        b.assistant(" ", id="m2", uuid="blank"),
        b.assistant(b.call("c3"), id="m2", uuid="p3"),
        b.result("c3"),
    ]
    results = followed(records)
    groups = {result.call: result.group for result in results.active}
    assert groups == {"c1": 1, "c2": 1, "c3": 2}
    assert [results.reply_after(result) for result in results.active] == ["p3", "p3", ""]


@pytest.mark.spec("MC-2")
def test_results_of_tools_that_are_kept_are_never_active():
    results = followed([*read("c1"), *read("c2", tool="AskUserQuestion"), *read("c3", tool="mcp__x__y")])
    assert [result.call for result in results.active] == ["c1"]


@pytest.mark.spec("MC-3")
def test_a_cleared_result_is_neither_cleared_nor_counted_again():
    results = followed(reads(3, 100))
    assert results.clear(["c1", "c2", "c1"]) == 2 * (100 - PLACEHOLDER_TOKENS)
    assert results.clear(["c1", "c2"]) == 0
    assert ([r.call for r in results.active], results.tokens, results.arrived) == (["c3"], 100, 3)


def test_edits_in_the_log_are_followed_whether_they_come_before_or_after_the_result():
    late = followed([*reads(2, 100), b.edited(Cleared(("c1",)), "e")])
    early = followed(reads(2, 100), cleared=["c1"])
    assert [r.call for r in late.active] == [r.call for r in early.active] == ["c2"]
    assert (late.tokens, late.arrived) == (early.tokens, early.arrived) == (100, 2)


@pytest.mark.spec("MC-12")
def test_what_is_deleted_in_the_cache_is_not_in_the_context_until_the_deletions_end():
    results = followed([*reads(3, 100), b.edited(CacheDeleted(("c1", "c2")), "e")])
    assert (results.tokens, results.count, results.was_deleted("c1")) == (100, 3, True)
    assert (results.clear(["c1", "c3"]), results.tokens) == (100 - PLACEHOLDER_TOKENS, 0)
    results.add(b.edited(CacheDeletionsEnded(), "ended"), TokenCounter())
    assert (results.tokens, results.was_deleted("c2")) == (100, False)


def test_an_offloaded_result_weighs_as_much_as_its_preview():
    edit = Offloaded("c1", "kept/c1.txt", "x" * 40, 400)
    late, early = (
        followed([*reads(2, 100), b.edited(edit, "e")]),
        followed(reads(2, 100), offloaded={"c1": edit}),
    )
    assert late.tokens == early.tokens == 110
    assert (late.was_offloaded("c1"), late.is_offload_file("kept/c1.txt"), late.is_offload_file("")) == (
        True, True, False,
    )  # fmt: skip


def test_a_result_is_new_until_it_was_sent_and_an_error_text_proves_that_it_was():
    bench = Bench(reads(2))
    assert [bench.results.was_seen(call) for call in ("c1", "c2")] == [True, False]
    bench.add(b.assistant("API Error", id="e", uuid="e", isApiErrorMessage=True))
    assert bench.results.was_seen("c2")
    assert [fresh.result.call for fresh in bench.results.newest] == ["c2"]


def test_a_result_with_an_image_has_no_characters_that_a_file_could_hold():
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
    words = [b.say("ab"), b.say(""), b.say("cd")]
    records = [b.assistant(b.call("c1"), b.call("c2"), b.call("c3"))]
    records += [
        b.result("c1", [picture, b.say("seen")]),
        b.result("c2", words),
        b.result("c3", 7, is_error=True),
    ]
    assert [fresh.result.characters for fresh in followed(records).newest] == [0, 5, 0]


def test_a_result_that_was_recorded_twice_counts_once():
    assert followed([*reads(1, 50), b.result("c1", text(50), uuid="again")]).tokens == 50


@given(sound_logs())
def test_results_agree_with_the_meter_about_every_saving(records):
    counts = TokenCounter()
    results, meter = ResultTracker(), Meter(counts)
    for record in records:
        results.add(record, counts)
        meter.add(record)
    calls = [result.call for result in results.active]
    assert results.clear(calls) == meter.clear(calls)
    assert (results.count, results.tokens) == (0, 0)


def test_a_reply_that_answers_nothing_begins_no_group():
    records = [b.assistant(b.call("c1"), id="m1", uuid="p1"), b.result("c1")]
    assert [each.group for each in followed(records).active] == [0]


def test_characters_of_a_result_are_those_of_its_texts_and_their_breaks():
    def characters(*parts: dict[str, object]) -> int:
        records = [
            b.assistant(b.call("c1", "Read"), id="m1"),
            b.user([b.answer("c1", list(parts))], uuid="r"),
        ]
        (found,) = followed(records).active
        return found.characters

    empty: dict[str, object] = {"type": "text"}
    assert characters(b.say("abc"), b.say("de")) == 6
    assert characters(b.say("abc"), empty) == 3
    assert characters(b.say("abc"), {"type": "image"}) == 0
