"""Plans: what is refused, what a plan says, and what it costs (CP-1, CP-27, CP-29)."""

import builders as b
import msgspec
import pytest
from decide.compact.bench import AUTO, LIMITS, MODEL, Bench, manual, turns

from everturn.decide.compact.values import CompactionPlan, CompactionRequest, CompactionSkipped
from everturn.history.edits import Cleared
from everturn.history.records import Record
from everturn.measure.accounting import accounts_of

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
