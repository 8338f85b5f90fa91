"""Comparison of policies: sums, savings and their signs."""

import io
from collections.abc import Iterable
from decimal import Decimal

import msgspec
import pytest
from replay.scripts import MODEL, START, session, steps, text

from everturn.dashboard.replay_table import draw, markdown
from everturn.measure.model_table import find_model
from everturn.replay.compare import Comparison, ComparisonTable, Saving
from everturn.replay.playing.prepared import index_uses
from everturn.replay.policies import REPLAY_POLICIES, parse_policy
from everturn.replay.runs import ReplayRun
from everturn.replay.simulate import simulate

RATES = find_model(MODEL).rates(on=START.date(), prompt_tokens=0)
MILLION = Decimal(1_000_000)


def compare_runs(sessions: Iterable[Iterable[ReplayRun]]) -> ComparisonTable:
    comparison = Comparison()
    for runs in sessions:
        comparison.add(runs)
    return comparison.compared()


def runs_of(made, *names, window=0):
    uses = index_uses(made)
    return [simulate(made, parse_policy(name, window=window), uses) for name in names or REPLAY_POLICIES]


def long_session():
    return session(steps(*[text(3_000, f"word{at}") for at in range(30)], gaps={11: 400, 21: 4_000}))


@pytest.mark.spec("RP-7")
@pytest.mark.parametrize("name", [*REPLAY_POLICIES, "claude-code+1h", "none+refresh"])
def test_dollars_by_kind_are_all_that_was_spent(name):
    (run,) = runs_of(long_session(), name, window=60_000)
    row = compare_runs([[run]]).rows[0]
    assert row.dollars == run.totals.dollars == sum(call.dollars for call in run.calls)
    main = [call for call in run.calls if call.source == "main"]
    assert row.spent.read == sum(call.read for call in main) * RATES.read / MILLION
    assert row.spent.output == sum(call.output for call in main) * RATES.output / MILLION


@pytest.mark.spec("BY-10", "RP-7")
def test_savings_are_taken_over_the_calls_that_both_made():
    runs = runs_of(long_session(), "none", "claude-code", window=60_000)
    none, ours = runs
    ended = len(none.calls)
    assert none.ended_early
    spent = sum((call.dollars for call in ours.calls if call.number <= ended), Decimal(0))
    row = compare_runs([runs]).rows[1]
    assert row.against_none == Saving(none.totals.dollars - spent, none.totals.dollars)


@pytest.mark.spec("BY-10")
def test_what_edits_and_summaries_cost_is_subtracted_and_a_loss_is_shown_as_one():
    runs = runs_of(long_session(), "none", "masking")
    row = compare_runs([runs]).rows[1]
    # Rolling edits break the cache on every turn: fewer tokens, more dollars.
    assert row.mean < compare_runs([runs]).rows[0].mean
    assert row.against_none.dollars == runs[0].totals.dollars - runs[1].totals.dollars < 0
    out = io.StringIO()
    draw(compare_runs([runs]), out, color=False)
    assert row.against_none.share < 0
    assert "masking" in out.getvalue()
    assert row.against_none.share < 0


@pytest.mark.spec("BY-10")
def test_what_the_providers_cache_saves_is_told_apart_from_what_we_save():
    (run,) = runs_of(long_session(), "none")
    row = compare_runs([[run]]).rows[0]
    plain = sum(call.context * RATES.input + call.output * RATES.output for call in run.calls) / MILLION
    assert row.by_cache == Saving(plain - run.totals.dollars, plain)
    assert row.against_none == Saving(Decimal(0), run.totals.dollars)


@pytest.mark.spec("RP-7")
def test_a_row_has_all_that_is_asked_of_it():
    run = runs_of(long_session(), "recorded")[0]
    other = runs_of(long_session(), "claude-code", window=60_000)[0]
    row = compare_runs([[run, other]]).rows[1]
    main = [call for call in other.calls if call.source == "main"]
    prompts = sum(call.context for call in other.calls)
    assert row.peak == max(call.context for call in main)
    assert row.mean == pytest.approx(sum(call.context for call in main) / len(main))
    assert row.hit_rate == sum(call.read for call in other.calls) / prompts
    assert row.compactions == sum(call.source == "compact" for call in other.calls) > 0
    assert sum(row.breaks.values()) == sum(bool(call.broke) for call in other.calls) > 0
    assert row.refetches_per_100 == 100 * row.refetches / len(main)
    assert set(row.left) == {"user_instructions", "paths", "identifiers", "errors"}
    assert row.left["user_instructions"].kept == row.left["user_instructions"].total == 1
    assert row.against_recorded is not None


@pytest.mark.spec("RP-7")
def test_a_window_that_slides_forgets_what_the_user_asked_for():
    (run,) = runs_of(session(steps(*[text(9_000, f"word{at}") for at in range(20)])), "sliding-window")
    assert run.totals.left["user_instructions"].kept == 0


def test_sessions_add_up():
    one, two = runs_of(session(steps("one")), "none"), runs_of(session(steps("one", "two")), "none")
    row = compare_runs([one, two]).rows[0]
    assert (row.sessions, row.calls) == (2, 5)
    assert row.dollars == one[0].totals.dollars + two[0].totals.dollars
    assert row.floor == one[0].floor + two[0].floor


def test_the_comparison_is_json():
    value = compare_runs([runs_of(long_session(), "none", "masking")])
    assert msgspec.json.decode(msgspec.json.encode(value), type=type(value)) == value


def test_nothing_to_compare_is_a_table_without_rows():
    assert Comparison().compared().rows == ()


def test_the_tables_fit_into_any_terminal():
    value = compare_runs([runs_of(long_session(), "none", "claude-code", "masking", window=60_000)])
    for width in (40, 80, 200):
        out = io.StringIO()
        out_console(value, out, width)
        assert max(len(line) for line in out.getvalue().splitlines()) <= width


def out_console(value, out, width):
    import os
    from unittest.mock import patch

    with patch.dict(os.environ, {"COLUMNS": str(width)}):
        draw(value, out, color=False)


def test_the_page_of_results_has_a_row_for_every_policy():
    value = compare_runs([runs_of(long_session(), "none", "claude-code")])
    lines = markdown(value)
    assert sum(line.startswith("| claude-code |") for line in lines) >= 3
