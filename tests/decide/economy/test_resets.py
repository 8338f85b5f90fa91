"""Resets by price: a cold cache, a carry that has cost as much as a reset, a window that is nearly full."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everturn.decide.economy.prices import RelativePrices
from everturn.decide.economy.resets import ResetDecision, ResetInputs, decide_reset, spending_limit
from everturn.decide.economy.settings import EconomySettings

OPUS = RelativePrices(read=0.1, write_5m=1.25, write_1h=2.0, output=5.0, dollars=5e-6)
ON = EconomySettings(enabled=True, caution="balanced")
WARM = ResetInputs(
    size=120_000, window=200_000, read=118_000, base=40_000, carry=0.0, summary=0.0, spent=5.0, unmanaged=5.5
)


def test_a_cold_cache_is_a_reason_to_reset_with_both_prices():
    cold = msgspec.structs.replace(WARM, read=0)
    assert decide_reset(cold, OPUS, ON) == ResetDecision(
        kind="cold",
        cost=1.25 * 16_000 * 5e-6,
        against=1.25 * 120_000 * 5e-6,
        why="120,000 of 120,000 tokens would be written again for $0.750, a reset costs $0.100",
    )


def test_a_reset_of_a_cold_cache_that_costs_more_than_writing_it_again_is_not_made():
    dear = msgspec.structs.replace(WARM, read=0, summary=200_000.0)
    found = decide_reset(dear, OPUS, ON)
    assert (found.kind, round(found.cost, 3), round(found.against, 3)) == (None, 1.1, 0.75)


@pytest.mark.parametrize(
    ("caution", "due"), [("frugal", 64_937.5), ("balanced", 154_812.5), ("careful", 289_625.0)]
)
def test_a_warm_reset_waits_until_carrying_has_cost_as_much_as_resetting(caution, due):
    settings = EconomySettings(enabled=True, caution=caution)
    # K = 1.25 * 16,000 + phi * 2.5 * (0.1 * 120,000 + 600 + 1.25 * 4,300), in input tokens (EC-5).
    expected = 20_000 + settings.phi * 2.5 * (12_000 + 600 + 5_375)
    assert expected == due
    kinds = [
        decide_reset(msgspec.structs.replace(WARM, carry=carry), OPUS, settings).kind
        for carry in (due - 1, due)
    ]
    assert kinds == [None, "warm"]


def test_the_price_of_a_summary_delays_a_warm_reset():
    asked = msgspec.structs.replace(WARM, carry=160_000.0, summary=5 * 3_500 + 12_000)
    found = decide_reset(asked, OPUS, ON)
    assert found == ResetDecision(
        kind=None,
        cost=found.cost,
        against=0.8,
        why="carrying 80,000 tokens has cost $0.800 since the last reset, a reset and what it forgets "
        "cost $0.922",
    )


def test_a_context_that_has_hardly_grown_is_not_reset():
    small = msgspec.structs.replace(WARM, size=59_000, read=0, carry=1e9)
    assert decide_reset(small, OPUS, ON).why == (
        "a reset would free 19,000 tokens, too few to be worth a summary"
    )


def test_close_to_the_window_a_reset_is_made_whatever_it_costs():
    full = msgspec.structs.replace(WARM, size=160_001, spent=1e6)
    assert decide_reset(full, OPUS, ON).kind == "window"


def test_a_reset_that_would_cost_more_than_doing_nothing_ever_did_is_not_made_and_says_so():
    late = msgspec.structs.replace(WARM, carry=1e6, spent=5.5)
    assert decide_reset(late, OPUS, ON) == ResetDecision(
        kind=None,
        cost=154_812.5 * 5e-6,
        against=5.0,
        why="carrying 80,000 tokens has cost $5.000 since the last reset, a reset and what it forgets cost "
        "$0.774; but not now: $5.912 with it is above the limit of $5.665",
    )


@given(
    size=st.integers(0, 1_000_000),
    read=st.floats(0, 1),
    base=st.integers(0, 200_000),
    carry=st.floats(0, 1e7),
    summary=st.floats(0, 1e6),
    unmanaged=st.floats(0, 100),
    ahead=st.floats(-5, 5),
    price=st.sampled_from([0.025, 0.05, 0.1]),
)
def test_no_reset_below_the_window_takes_a_session_beyond_its_limit(
    size, read, base, carry, summary, unmanaged, ahead, price
):
    prices = msgspec.structs.replace(OPUS, read=price)
    asked = ResetInputs(
        size=size,
        window=1_000_000,
        read=int(size * read),
        base=base,
        carry=carry,
        summary=summary,
        spent=max(0.0, unmanaged + ahead),
        unmanaged=unmanaged,
    )
    found = decide_reset(asked, prices, ON)
    # At worst a reset writes 30,000 tokens and makes us fetch 2.5 results of 4,300 again.
    again = 2.5 * (price * size + 600 + 1.25 * 4_300)
    now = (1.25 * 30_000 + summary + again) * 5e-6
    assert found.kind in (None, "window") or asked.spent + now <= spending_limit(unmanaged, ON)
