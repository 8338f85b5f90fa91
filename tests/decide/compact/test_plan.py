"""Plans: what is refused, what a plan says, and what it costs (CP-1, CP-27, CP-29)."""

import builders as b
import msgspec
import pytest
from decide.compact.bench import AUTO, LIMITS, MODEL, Bench, manual, turns

from everturn.decide.compact.settings import DEFAULTS, CompactSettings
from everturn.decide.compact.values import (
    CompactionPlan,
    CompactionRequest,
    CompactionSkipped,
    Measured,
)
from everturn.history.edits import Cleared
from everturn.history.records import Record
from everturn.measure.accounting import accounts_of
from everturn.measure.tokens import pad_estimate, rough

EMPTY = CompactionSkipped("There is nothing to compact: the conversation has no messages yet.")


@pytest.mark.spec("CP-1")
@pytest.mark.parametrize(
    "records",
    [[], [b.system(), b.progress()], [b.attachment("hello")]],
)
def test_a_view_without_messages_is_refused(records: list[Record]):
    assert Bench(records).plan(manual()) == EMPTY


@pytest.mark.spec("CP-1")
def test_a_summary_alone_is_not_summarized_again():
    assert Bench([b.boundary(), b.summary(), b.attachment("x")]).plan(manual()) == CompactionSkipped(
        "There is nothing to compact: nothing was said since the last compaction."
    )


@pytest.mark.spec("CP-1")
def test_a_plan_notes_the_size_and_what_filled_the_view():
    bench = Bench(turns(2))
    planned = bench.planned(manual(), size=12_345)
    assert planned.tokens_before == 12_345
    assert planned.metrics == accounts_of(bench.log.view).metrics()
    assert planned.metrics is not None
    assert planned.metrics.tool_results == {"Read": 2_200}


def test_system_prompt_and_tools_that_fill_the_window_are_named_before_any_summary():
    refused = Bench(turns(1)).plan(AUTO, size=LIMITS.auto + 60_000)
    assert isinstance(refused, CompactionSkipped)
    assert refused.why.startswith("System prompt and tools alone take about ")


@pytest.mark.spec("CP-27")
@pytest.mark.parametrize("size", [10, 100_000, 10_000_000])
def test_a_compaction_by_hand_is_planned_at_any_size(size: int):
    planned = Bench(turns(1)).planned(manual(instructions="mind the tests"), size=size)
    assert (planned.asked.trigger, planned.tokens_before) == ("manual", size)
    assert planned.why == f"asked for by the user at {size:,} tokens; 4 messages are summarized"


@pytest.mark.spec("CP-29")
def test_a_dry_run_says_what_goes_what_stays_what_comes_back_and_what_it_costs():
    bench = Bench([b.user("Never push to main.", uuid="rule"), *turns(4)])
    shown = bench.shown
    planned = bench.planned(manual(form="up_to", at="u4"))
    assert [record.uuid for record in planned.summarized] == shown[:13]
    assert [record.uuid for record in planned.kept] == ["u4", "a4", "r4", "b4"]
    assert planned.restoration.files == ("src/c3.py", "src/c2.py", "src/c1.py")
    assert planned.pins == ("Never push to main.",)
    assert planned.strategies == ("fork", "direct", "extractive")
    assert planned.tokens_kept < planned.expected_after
    assert planned.tokens_kept + planned.tokens_summarized == pytest.approx(planned.tokens_before, abs=2)
    assert bench.shown == shown


@pytest.mark.spec("CP-29")
def test_the_price_is_that_of_the_first_way():
    bench, size = Bench(turns(1)), 1_000_000
    dollars = {
        way: bench.planned(manual(), strategies=(way,), size=size).expected_dollars
        for way in ("fork", "direct", "notes", "extractive")
    }
    rates = MODEL.prices[-1].rates
    output = 6_000 * float(rates.output) / 1e6
    assert dollars == {
        "fork": pytest.approx(float(rates.read) + output),
        "direct": pytest.approx(float(rates.input) + output),
        "notes": 0.0,
        "extractive": 0.0,
    }


def test_why_names_the_cause():
    whys = [
        Bench(turns(9)).planned(asked, size=LIMITS.auto).why
        for asked in (AUTO, msgspec.structs.replace(AUTO, is_reactive=True))
    ]
    assert whys == [
        f"{LIMITS.auto:,} tokens are at or over the automatic threshold of {LIMITS.auto:,}; "
        "36 messages are summarized",
        f"a request of about {LIMITS.auto:,} tokens did not fit; 36 messages are summarized",
    ]


def test_what_is_cleared_is_not_counted():
    bench = Bench(turns(2))
    before = bench.planned(manual()).tokens_summarized
    bench.log.append(b.edited(Cleared(("c1",)), "e"))
    after = bench.planned(manual())
    assert isinstance(after, CompactionPlan)
    assert before - after.tokens_summarized == pytest.approx(1_092 * 4 / 3, abs=4)


def test_an_unknown_record_is_named():
    refused = Bench(turns(1)).plan(CompactionRequest(trigger="manual", form="from", at="nowhere"))
    assert isinstance(refused, CompactionSkipped)
    assert "'nowhere'" in refused.why


def test_system_prompt_and_tools_are_what_the_first_response_does_not_explain():
    records = [
        b.user("x" * 400, uuid="u"),
        b.assistant("yes", id="m1", uuid="a1", usage={"input_tokens": 20_134, "output_tokens": 5}),
        *turns(3),
    ]
    planned = Bench(records).planned(manual(), size=90_000)
    assert planned.fixed == 20_000
    assert Bench(turns(3)).planned(manual(), size=90_000).fixed == 90_000 - planned.tokens_summarized + 135


def test_a_view_that_is_measured_already_is_not_measured_again_if_all_of_it_is_summarized():
    bench = Bench(turns(2))
    known = Measured(7_777, accounts_of(bench.log.view).metrics())
    whole = bench.planned(manual(), measured=known, size=10_000)
    assert (whole.tokens_summarized, whole.tokens_kept, whole.fixed) == (7_777, 0, 10_000 - 7_777)
    part = bench.planned(manual(form="up_to", at="u2"), measured=known, size=10_000)
    assert part.tokens_summarized == part.tokens_kept < 7_777


def test_what_is_fixed_is_never_negative_and_stale_usage_does_not_tell_it():
    told = b.assistant("yes", id="m1", uuid="a1", usage={"input_tokens": 5, "output_tokens": 5})
    planned = Bench([b.user("x" * 400, uuid="u"), told]).planned(manual(), size=90_000)
    assert planned.fixed == 0
    assert Bench(turns(2)).planned(manual(), size=5).fixed == 0


@pytest.mark.parametrize(("more", "is_refused"), [(-1, False), (0, True)])
def test_an_automatic_compaction_is_refused_from_where_the_preamble_reaches_the_threshold(more, is_refused):
    bench = Bench(turns(1))
    records = bench.planned(manual()).tokens_summarized
    size = LIMITS.auto + records + more
    found = bench.plan(AUTO, size=size)
    assert isinstance(found, CompactionSkipped) is is_refused
    if is_refused:
        assert found == CompactionSkipped(
            f"System prompt and tools alone take about {LIMITS.auto:,} of the {LIMITS.auto:,} tokens at "
            "which compaction begins: no summary can help. Remove tools, or choose a model with a larger "
            "window."
        )
    assert isinstance(bench.plan(manual(), size=size), CompactionPlan)


def test_one_message_is_told_as_one_and_a_moved_cut_with_its_place():
    records = [b.user("a", uuid="u1"), b.assistant("b", id="m1", uuid="a1")]
    one = Bench(records).planned(manual(form="up_to", at="a1"), size=9)
    assert one.why == "asked for by the user at 9 tokens; 1 message is summarized; 1 is kept"
    moved = [Bench(turns(2)).planned(manual(form=form, at="r2"), size=9).why for form in ("up_to", "from")]
    inside = "record r2 lies inside a round, so the cut is before"
    assert moved == [
        f"asked for by the user at 9 tokens; 5 messages are summarized; 3 are kept; {inside} a2",
        f"asked for by the user at 9 tokens; 1 message is summarized; 7 are kept; {inside} b2",
    ]
    priced = Bench(turns(1)).planned(msgspec.structs.replace(AUTO, economics="cold reset: a test"), size=9)
    assert priced.why == "cold reset: a test; 4 messages are summarized"


def test_what_is_expected_afterwards_is_what_stays_and_what_is_added():
    bench = Bench([b.user("Never push to main.", uuid="rule"), *turns(7)])
    planned = bench.planned(manual(form="up_to", at="u7"), size=90_000)
    told = DEFAULTS.expected_summary + rough("Never push to main.")
    # Five of the six files come back, each with as much as it may take.
    assert planned.expected_after == planned.fixed + planned.tokens_kept + pad_estimate(told) + 5 * 5_000
    fewer = CompactSettings(files_tokens=12_000)
    assert (
        bench.planned(manual(form="up_to", at="u7"), size=90_000, settings=fewer).expected_after
        == planned.expected_after - 13_000
    )
