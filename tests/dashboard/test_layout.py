"""Lines fit the screen and cannot steer it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from everturn.dashboard.layout import Column, Screen, fit, percent, plain, tokens

SCREEN = Screen(40)


@pytest.mark.parametrize(
    ("count", "short"),
    [
        (0, "0"),
        (999, "999"),
        (1_000, "1.0k"),
        (12_345, "12.3k"),
        (99_949, "99.9k"),
        (99_950, "100k"),
        (999_499, "999k"),
        (999_500, "1.0M"),
        (1_000_000, "1M"),
        (1_240_000, "1.2M"),
    ],
)
def test_tokens_are_written_short(count, short):
    assert tokens(count) == short


def test_a_trace_is_not_called_nothing():
    assert [percent(0), percent(0.0004), percent(0.0005), percent(1)] == ["0.0%", "<0.1%", "0.1%", "100.0%"]


@pytest.mark.parametrize(("cut", "shown"), [("end", "abcdef…"), ("start", "…efghij"), ("middle", "abc…hij")])
def test_what_is_too_long_is_cut_where_it_says_least(cut, shown):
    assert fit("abcdefghij", 7, cut=cut, ellipsis="…") == shown


@given(st.text(), st.integers(0, 30), st.sampled_from(["start", "middle", "end"]))
def test_a_fitted_text_is_never_wider_than_its_place(text, width, cut):
    assert cell_len(fit(plain(text, ascii_only=False), width, cut=cut, ellipsis="…")) <= width


@given(st.text())
def test_no_character_that_steers_a_terminal_gets_through(text):
    assert plain(text, ascii_only=False).isprintable()
    assert plain(text, ascii_only=True).isascii()


def test_escapes_and_reversed_writing_become_question_marks():
    assert plain("a\x1b[31mb\u202ec\u200bd\x9be", ascii_only=False) == "a?[31mb?c?d?e"


@given(st.lists(st.text(max_size=30), max_size=6), st.integers(1, 90))
def test_a_table_is_never_wider_than_the_screen(cells, width):
    columns = (Column("name", "<", grows=True), Column("calls"), Column("tokens", optional=1))
    lines = Screen(width).table(columns, [(cell, "12", "345") for cell in cells])
    assert len(lines) == len(cells) + 1
    assert all(cell_len(line) <= width for line in lines)


def test_a_narrow_table_leaves_out_what_matters_least():
    columns = (
        Column("name", "<", grows=True),
        Column("one", optional=2),
        Column("two", optional=1),
        Column("three"),
    )
    row = [("abcdefghijklmnop", "1", "2", "3")]
    assert Screen(40).table(columns, row)[0] == "name              one  two  three"
    assert Screen(27).table(columns, row) == ["name             two  three", "abcdefghijklmn…    2      3"]
    assert Screen(22).table(columns, row) == ["name             three", "abcdefghijklmn…      3"]


@given(st.text(max_size=200), st.integers(1, 60))
def test_wrapped_text_fits_and_breaks_at_words(text, width):
    assert all(cell_len(line) <= width for line in Screen(width).wrapped(text))
    assert Screen(10**6).wrapped(text) == (
        [" ".join(plain(text, ascii_only=False).split())] if text.split() else []
    )
