"""Texts within a budget: cut at the end, or in the middle, and how much of them is gone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everturn.decide.compact.budget import TruncatedText, truncate_middle, truncate_parts


def test_what_fits_is_whole():
    assert truncate_middle("a b c", 5, len) == TruncatedText("a b c")


@pytest.mark.spec("CP-37")
def test_of_what_does_not_fit_the_head_and_the_tail_are_kept_and_what_is_gone_is_counted():
    text = "\n".join(f"line {n}" for n in range(100))
    found = truncate_middle(text, 30, len)
    # Fifteen characters each, and whole lines.
    head, tail = "line 0\nline 1\n", "\nline 99"
    gone = len(text) - len(head) - len(tail)
    assert found == TruncatedText(f"{head}\n[... {gone:,} characters left out ...]\n{tail}", True, gone)


@pytest.mark.spec("CP-37")
@given(st.text(alphabet="ab \n", max_size=400), st.integers(0, 60))
def test_nothing_is_invented_and_nothing_is_shown_twice(text, tokens):
    found = truncate_middle(text, tokens, len)
    if not found.is_cut:
        assert (found.text, len(text) <= tokens) == (text, True)
        return
    head, _, tail = found.text.partition(f"\n[... {found.left_out:,} characters left out ...]\n")
    assert (text.startswith(head), text.endswith(tail)) == (True, True)
    assert len(head) + len(tail) + found.left_out == len(text)
    assert len(head) + len(tail) <= tokens


def test_of_several_texts_short_ones_are_whole_and_each_long_one_has_its_head_and_its_tail():
    parts = ["short", "A" * 40 + "a" * 40, "B" * 30 + "b" * 30]
    found = truncate_parts(parts, 65, len)
    assert found == TruncatedText(
        f"short\n\n{'A' * 15}\n[... 50 characters left out ...]\n{'a' * 15}"
        f"\n\n{'B' * 15}\n[... 30 characters left out ...]\n{'b' * 15}",
        is_cut=True,
        left_out=80,
    )
    assert truncate_parts(parts, 149, len) == TruncatedText("\n\n".join(parts))
