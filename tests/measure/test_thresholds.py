"""The marks on the way to a full context."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everturn.measure.reserves import auto_compact_threshold
from everturn.measure.thresholds import (
    ContextThresholds,
    ThresholdLevels,
    ThresholdSettings,
    check_thresholds,
    compute_thresholds,
)

WINDOW, OUTPUT = 200_000, 64_000


@pytest.mark.spec("TOK-12", "TOK-13", "TOK-15")
def test_the_marks_of_a_200k_window():
    assert compute_thresholds(WINDOW, OUTPUT) == ContextThresholds(
        effective=180_000, auto=167_000, shown=167_000, warning=147_000, error=147_000, blocking=177_000
    )


def test_the_manual_draws_the_marks_where_the_code_puts_them():
    manual = (Path(__file__).parents[2] / "docs" / "measure.md").read_text(encoding="utf-8")
    drawn = next(line for line in manual.splitlines() if re.fullmatch(r"[ \d,]+", line) and line.strip())
    marks = compute_thresholds(WINDOW, OUTPUT)
    numbers = [int(number.replace(",", "")) for number in drawn.split()]
    assert numbers == [marks.warning, marks.auto, marks.blocking, marks.effective, WINDOW]


@pytest.mark.spec("TOK-12")
def test_a_model_with_a_small_output_limit_reserves_only_that():
    assert compute_thresholds(WINDOW, 8_192).effective == 191_808


@pytest.mark.spec("TOK-14")
@pytest.mark.parametrize(
    ("percent", "auto"),
    [(50, 90_000), (0.001, 1), (92.777, 166_998), (93, 167_000), (100, 167_000)],
)
def test_a_percentage_lowers_the_automatic_mark_and_never_raises_it(percent: float, auto: int):
    assert compute_thresholds(WINDOW, OUTPUT, ThresholdSettings(auto_percent=percent)).auto == auto


@pytest.mark.spec("TOK-14")
@pytest.mark.parametrize("percent", [None, 0, -5, 100.5, float("nan"), float("inf")])
def test_a_percentage_outside_its_range_is_ignored(percent: float | None):
    assert compute_thresholds(WINDOW, OUTPUT, ThresholdSettings(auto_percent=percent)) == compute_thresholds(
        WINDOW, OUTPUT
    )


@pytest.mark.spec("TOK-15")
def test_without_automatic_compaction_the_whole_effective_window_is_shown():
    off = ThresholdSettings(auto_compaction=False, warning_margin=30_000, error_margin=10_000)
    assert compute_thresholds(WINDOW, OUTPUT, off) == ContextThresholds(
        effective=180_000, auto=167_000, shown=180_000, warning=150_000, error=170_000, blocking=177_000
    )


@pytest.mark.spec("TOK-15")
@pytest.mark.parametrize(
    ("used", "percent"),
    [(0, 100), (1_000, 100), (1_001, 99), (99_000, 51), (99_001, 50), (200_000, 0), (999_999, 0)],
)
def test_the_percent_left_is_rounded_half_up_and_never_negative(used: int, percent: int):
    shown = ContextThresholds(effective=0, auto=0, shown=200_000, warning=0, error=0, blocking=0)
    assert check_thresholds(used, shown).percent_left == percent


@pytest.mark.spec("TOK-16")
def test_each_level_is_reached_at_its_own_mark():
    marks = ContextThresholds(effective=100, auto=40, shown=40, warning=10, error=20, blocking=30)
    assert [check_thresholds(used, marks) for used in (9, 10, 20, 30, 40)] == [
        ThresholdLevels(78, above_warning=False, above_error=False, above_auto=False, at_blocking=False),
        ThresholdLevels(75, above_warning=True, above_error=False, above_auto=False, at_blocking=False),
        ThresholdLevels(50, above_warning=True, above_error=True, above_auto=False, at_blocking=False),
        ThresholdLevels(25, above_warning=True, above_error=True, above_auto=False, at_blocking=True),
        ThresholdLevels(0, above_warning=True, above_error=True, above_auto=True, at_blocking=True),
    ]


@pytest.mark.spec("TOK-16")
def test_the_levels_do_not_imply_each_other():
    marks = ContextThresholds(effective=100, auto=10, shown=10, warning=40, error=30, blocking=20)
    assert check_thresholds(10, marks) == ThresholdLevels(
        0, above_warning=False, above_error=False, above_auto=True, at_blocking=False
    )


@pytest.mark.spec("TOK-16")
def test_automatic_compaction_is_above_its_mark_only_when_it_is_enabled():
    off = ThresholdSettings(auto_compaction=False)
    assert check_thresholds(999_999, compute_thresholds(WINDOW, OUTPUT, off), off) == ThresholdLevels(
        0, above_warning=True, above_error=True, above_auto=False, at_blocking=True
    )


def test_a_small_window_gives_up_at_most_half_for_each_reserve():
    assert compute_thresholds(16_000, 32_000) == ContextThresholds(
        effective=8_000, auto=4_000, shown=4_000, warning=2_000, error=2_000, blocking=5_000
    )


def test_a_negative_reserve_reserves_nothing():
    odd = ThresholdSettings(auto_margin=-1, warning_margin=-1, error_margin=-1, blocking_margin=-1)
    assert compute_thresholds(50_000, -1, odd) == ContextThresholds(*[50_000] * 6)


def test_a_window_of_nothing_is_full_and_divides_nothing():
    nothing = compute_thresholds(0, 0)
    assert nothing == ContextThresholds(effective=0, auto=0, shown=0, warning=0, error=0, blocking=0)
    assert check_thresholds(0, nothing).percent_left == 0


@given(
    st.integers(-10, 2_000_000),
    st.integers(-10, 200_000),
    st.one_of(st.none(), st.floats(-10, 200)),
    st.booleans(),
    st.integers(0, 3_000_000),
)
def test_the_marks_keep_their_order_in_every_window(window, output, percent, auto, used):
    settings = ThresholdSettings(auto_percent=percent, auto_compaction=auto)
    marks = compute_thresholds(window, output, settings)
    assert 0 <= marks.auto <= marks.blocking <= marks.effective <= max(window, 0)
    assert 0 <= marks.warning <= marks.shown <= marks.effective
    assert 0 <= check_thresholds(used, marks, settings).percent_left <= 100
    if window >= 46_000 + 20_000:
        assert marks.effective == window - min(max(output, 0), 20_000)
        assert marks.blocking == marks.effective - 3_000


@pytest.mark.parametrize(
    ("window", "percent", "threshold"),
    [
        (200_000, None, 167_000),
        (200_000, 50, 90_000),
        (200_000, 100, 167_000),
        (200_000, 100.5, 167_000),
        (200_000, 0, 167_000),
        (200_000, 1, 1_800),
        (30_000, None, 7_500),
        (0, None, 0),
    ],
)
def test_the_automatic_threshold_of_a_window_has_the_default_reserves_and_a_share_only_lowers_it(
    window, percent, threshold
):
    assert auto_compact_threshold(window, percent) == threshold
