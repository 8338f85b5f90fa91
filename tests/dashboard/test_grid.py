"""The grid adds up, whatever is in it."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everturn.dashboard.grid import BUFFER, FREE, LABELS, SYMBOLS, Cell, apportion, grid

weights = st.lists(st.integers(0, 10**7), max_size=15)


def counts(cells) -> Counter[str]:
    return Counter(cell.key for row in cells for cell in row)


@given(weights, st.integers(0, 10**6))
def test_shares_add_up_and_are_at_most_one_away_from_exact(parts, total):
    shares = apportion(parts, total)
    whole = sum(parts)
    assert sum(shares) == (total if whole else 0)
    assert all(abs(s * whole - p * total) < whole for s, p in zip(shares, parts, strict=True) if whole)


@given(weights, st.integers(1, 2 * 10**6), st.integers(1, 10), st.integers(1, 20))
def test_the_cells_are_always_exactly_as_many_as_the_grid_has(parts, window, rows, columns):
    cells = grid([(str(at), n) for at, n in enumerate(parts)], window, rows=rows, columns=columns)
    assert [len(row) for row in cells] == [columns] * rows


@given(st.lists(st.integers(0, 10**5), min_size=1, max_size=12))
def test_whatever_is_worth_half_a_cell_is_shown(parts):
    window = max(sum(parts), 200_000)
    shown = counts(grid([(str(at), n) for at, n in enumerate(parts)], window))
    assert all(shown[str(at)] for at, n in enumerate(parts) if n * 400 >= window)


def test_a_window_is_drawn_in_order_with_partial_last_cells():
    cells = grid(
        [("human", 15_000), ("tool_results", 2_400), (FREE, 62_600), (BUFFER, 20_000)], 100_000, columns=4
    )
    # 2,500 tokens a cell.
    assert cells[:2] == (
        (Cell("human"),) * 4,
        (Cell("human"), Cell("human"), Cell("tool_results", full=False), Cell(FREE)),
    )
    assert counts(cells) == {"human": 6, "tool_results": 1, FREE: 25, BUFFER: 8}


def test_small_kinds_take_their_cell_from_the_largest():
    parts = [(str(at), 500) for at in range(7)] + [("large", 6_500)]
    assert counts(grid(parts, 10_000, rows=1, columns=10))["large"] == 3
    assert set(counts(grid(parts, 10_000, rows=1, columns=10))) == {str(at) for at in range(7)} | {"large"}


def test_more_than_the_window_holds_still_fills_the_grid_exactly():
    assert counts(grid([("human", 300_000), ("assistant", 100_000)], 200_000)) == {
        "human": 150,
        "assistant": 50,
    }


def test_nothing_at_all_is_free():
    assert counts(grid([], 0)) == {FREE: 200}


def test_every_kind_has_a_mark_of_its_own_in_shape_and_in_letter():
    assert set(SYMBOLS) == {*LABELS, FREE, BUFFER}
    shapes = [mark for symbol in SYMBOLS.values() for mark in {symbol.full, symbol.partial}]
    letters = [mark for symbol in SYMBOLS.values() for mark in {symbol.letter, symbol.letter.lower()}]
    assert len(set(shapes)) == len(shapes)
    assert len(set(letters)) == len(letters)


@pytest.mark.parametrize(
    ("weights", "total", "shares"), [([], 5, ()), ([0, 0], 5, (0, 0)), ([1, 1], 3, (2, 1))]
)
def test_shares_of_little(weights, total, shares):
    assert apportion(weights, total) == shares
