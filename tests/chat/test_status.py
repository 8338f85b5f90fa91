"""The status line at every width."""

from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everturn.chat.screen.status import (
    StatusFigures,
    format_dollars,
    format_duration,
    format_status,
    format_waiting,
)
from everturn.dashboard.layout import Screen

FIGURES = StatusFigures(
    used_share=0.34,
    level="ok",
    hit_rate=0.92,
    cache_seconds_left=272.4,
    dollars=Decimal("0.01234"),
    model="claude-opus-5",
)


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (80, "context 34%  cache 92%  warm 4:32  $0.0123  claude-opus-5"),
        (55, "ctx 34%  cache 92%  warm 4:32  $0.0123  claude-opus-5"),
        (40, "ctx 34%  cache 92%  warm 4:32  $0.0123"),
        (30, "ctx 34%  cache 92%  $0.0123"),
        (20, "ctx 34%  $0.0123"),
        (10, "ctx 34%"),
    ],
)
def test_what_matters_least_goes_first(width, line):
    assert format_status(FIGURES, Screen(width)).plain == line


def test_before_the_first_call_there_is_no_cache_to_speak_of():
    new = msgspec.structs.replace(
        FIGURES, used_share=0.0, hit_rate=None, cache_seconds_left=None, dollars=Decimal()
    )
    assert format_status(new, Screen(80)).plain == "context 0%  $0.0000  claude-opus-5"


def test_a_context_that_holds_little_is_not_called_empty():
    little = msgspec.structs.replace(FIGURES, used_share=0.001)
    assert format_status(little, Screen(80)).plain.startswith("context <1%  ")


def test_a_cache_whose_time_is_over_is_cold():
    cold = msgspec.structs.replace(FIGURES, cache_seconds_left=None)
    assert format_status(cold, Screen(80)).plain == "context 34%  cache 92%  cold  $0.0123  claude-opus-5"


@given(st.integers(1, 120), st.text(max_size=60))
def test_the_line_is_never_wider_than_the_screen(width, model):
    figures = msgspec.structs.replace(FIGURES, model=model)
    assert format_status(figures, Screen(width)).cell_len <= width


@given(st.integers(20, 120), st.text(max_size=200), st.floats(0, 100_000))
def test_a_waiting_line_leaves_the_last_column_free(width, what, seconds):
    assert len(format_waiting(what, seconds, Screen(width, ascii_only=True))) < width


def test_a_waiting_line_tells_how_long_and_how_to_stop_where_there_is_room():
    assert format_waiting("Bash make test", 4.4, Screen(40)) == "Bash make test 4s  Ctrl-C stops"
    assert format_waiting("Bash make test", 75, Screen(24)) == "Bash make test 1:15"


@pytest.mark.parametrize(("seconds", "said"), [(0, "0:00"), (-3, "0:00"), (59.6, "1:00"), (3_725, "1:02:05")])
def test_time_is_told_as_on_a_kitchen_timer(seconds, said):
    assert format_duration(seconds) == said


@pytest.mark.parametrize(
    ("amount", "said"), [("0", "$0.0000"), ("0.12345", "$0.1234"), ("1234.5", "$1,234.50")]
)
def test_small_amounts_have_more_digits(amount, said):
    assert format_dollars(Decimal(amount)) == said


def test_practice_with_the_twin_shows_no_price():
    practice = msgspec.structs.replace(FIGURES, is_practice=True)
    lines = [format_status(practice, Screen(width)).plain for width in (80, 40, 20)]
    assert lines == [
        "context 34%  cache 92%  warm 4:32  practice, nothing billed  claude-opus-5",
        "ctx 34%  cache 92%  warm 4:32  practice",
        "ctx 34%  practice",
    ]
