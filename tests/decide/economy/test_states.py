"""What the economic policy remembers, from one state to the next, as whole values."""

from decimal import Decimal

import msgspec
import pytest

from everturn.decide.economy.amounts import format_compared
from everturn.decide.economy.keeping import make_keep_rule
from everturn.decide.economy.prices import RelativePrices
from everturn.decide.economy.resets import ResetInputs
from everturn.decide.economy.reuse import DEFAULT_REUSE
from everturn.decide.economy.settings import COLD_TOKENS, EconomySettings
from everturn.decide.economy.state import MAX_RESETS, EconomyState, ResetMark
from everturn.history.records import CacheCreation, Usage
from everturn.measure.model import Rates

MARKS = (ResetMark("b1", 30_000, 90_000), ResetMark("b2", 20_000, 120_000))
BUSY = EconomyState(
    resets=MARKS, boundary="b2", base=20_000, carry=7.0, spent=1.0, unmanaged=2.0, held=0.5, surplus=120_000,
    shared=3, prompt=50_000, output=700, cached=40_000, called_at=10.0, holds=2, share_before=0.5,
    quiet_below=9, unpriced="x",
)  # fmt: skip


def test_in_the_view_of_another_compaction_its_numbers_hold_and_nothing_was_carried():
    earlier = BUSY.in_view("b1", 60_000)
    assert earlier == EconomyState(
        resets=MARKS, boundary="b1", base=30_000, carry=0.0, spent=1.0, unmanaged=2.0, held=0.5,
        surplus=90_000, shared=3, prompt=60_000, output=0, cached=40_000, called_at=10.0, holds=2,
        was_reset=True, share_before=None, quiet_below=9, unpriced="x",
    )  # fmt: skip
    unknown = BUSY.in_view("", 30_000)
    assert (unknown.boundary, unknown.base, unknown.surplus, unknown.cached) == ("", None, 0, 30_000)
    assert BUSY.in_view("b2", 1) is BUSY


def test_after_a_rewind_the_last_prompt_is_as_large_as_the_next_one_if_there_was_one():
    assert BUSY.rewound(45_000) == EconomyState(
        resets=MARKS, boundary="b2", base=20_000, carry=7.0, spent=1.0, unmanaged=2.0, held=0.5,
        surplus=120_000, shared=3, prompt=45_000, output=0, cached=40_000, called_at=10.0, holds=2,
        quiet_below=9, unpriced="x",
    )  # fmt: skip
    assert BUSY.rewound(30_000).cached == 30_000
    assert EconomyState().rewound(45_000) == EconomyState()


@pytest.mark.parametrize(
    ("window", "size", "surplus"), [(200_000, 80_000, 120_000), (200_000, 80_001, 119_999), (5, 6, 0)]
)
def test_without_resets_the_context_would_end_at_the_window_too(window: int, size: int, surplus: int):
    assert BUSY.within(window, size).surplus == surplus


def test_a_failed_reset_costs_and_changes_nothing_else():
    assert EconomyState(spent=1.0, carry=3.0).after_failed_reset(0.25) == EconomyState(spent=1.25, carry=3.0)


def test_after_an_undo_price_is_no_reason_until_the_context_has_grown():
    undone = BUSY.after_undo("b1", 60_000)
    assert undone.quiet_below == 60_000 + COLD_TOKENS
    assert (undone.boundary, undone.base, undone.was_reset) == ("b1", 30_000, True)


def test_the_newest_resets_are_remembered_and_a_large_message_that_is_kept_is_not_in_the_base():
    state = EconomyState()
    for at in range(MAX_RESETS + 1):
        state = state.after_reset(f"b{at}", 10, 4, 0.0, kept=1)
    assert (len(state.resets), state.resets[0].boundary) == (MAX_RESETS, "b1")
    assert state.resets[-1] == ResetMark(f"b{MAX_RESETS}", 3, 6 * (MAX_RESETS + 1))
    assert EconomyState().after_reset("b", 10, 4, 0.0, kept=9).base == 0


@pytest.mark.parametrize(
    ("state", "acted"),
    [
        (EconomyState(), False),
        (EconomyState(spent=1.0, unmanaged=1.0), False),
        (EconomyState(resets=MARKS[:1]), True),
        (EconomyState(held=0.1), True),
        (EconomyState(holds=1), True),
    ],
)
def test_a_reset_or_a_hold_is_an_act(state: EconomyState, acted: bool):
    assert state.has_acted is acted


RATES = Rates(*(Decimal(each) for each in ("5", "25", "0.5", "6.25", "10")))


def test_prices_are_in_units_of_an_input_token_and_without_a_cache_all_are_one():
    cached = RelativePrices(read=0.1, write_5m=1.25, write_1h=2.0, output=5.0, dollars=5e-6, ttl="1h")
    assert RelativePrices.from_rates(RATES, "1h") == cached
    assert RelativePrices.without_cache(RATES) == RelativePrices(1.0, 1.0, 1.0, 5.0, 5e-6)
    assert (cached.write, RelativePrices.from_rates(RATES).write) == (2.0, 1.25)
    free = Rates(*(Decimal(0) for _ in range(5)))
    assert RelativePrices.from_rates(free) == RelativePrices(0.0, 0.0, 0.0, 0.0, 0.0)


def test_a_call_costs_its_input_by_kind_and_its_output():
    prices = RelativePrices.from_rates(RATES)
    usage = Usage(100, 1_000, 10_000, 50, CacheCreation(600, 400))
    units = 100 + 0.1 * 10_000 + 1.25 * 600 + 2.0 * 400
    assert prices.input_side(usage) == pytest.approx(units * 5e-6)
    assert prices.whole(usage) == pytest.approx((units + 5.0 * 50) * 5e-6)
    assert prices.input_side(Usage(100, 1_000)) == pytest.approx((100 + 1_250) * 5e-6)


@pytest.mark.parametrize(
    ("amounts", "digits", "shown"),
    [
        ((1.0, 2.0), 3, ("$1.000", "$2.000")),
        ((0.1234, 0.1231), 3, ("$0.1234", "$0.1231")),
        ((0.123456, 0.123457), 3, ("$0.123456", "$0.123457")),
        ((0.1234561, 0.1234562), 3, ("$0.123", "$0.123")),
        ((1.0, 1.0), 2, ("$1.00", "$1.00")),
        ((1.001, 1.0), 2, ("$1.001", "$1.000")),
    ],
)
def test_amounts_have_as_many_digits_as_it_takes_to_tell_them_apart(amounts, digits, shown):
    assert format_compared(*amounts, digits=digits) == shown


def test_in_a_small_window_a_quarter_of_the_threshold_is_kept_of_each_part():
    prices = RelativePrices.from_rates(RATES)
    rule = make_keep_rule(DEFAULT_REUSE, 10_000, prices, EconomySettings())
    most = max(rule.max_tokens, rule.last_round, rule.outline)
    assert rule.within(4 * most) == rule
    small = rule.within(4_003)
    assert (small.max_tokens, small.last_round, small.outline) == (1_000, 1_000, 1_000)
    assert (small.refetch, small.write, small.carry, small.phi) == (
        rule.refetch, rule.write, rule.carry, rule.phi,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("unanswered", "kept", "freed"),
    [
        pytest.param(0, 0, 80_000, id="nothing"),
        pytest.param(16_000, 0, 80_000, id="as much as is usual"),
        pytest.param(16_001, 10_001, 80_000, id="a little more"),
        pytest.param(60_000, 54_000, 57_000, id="more than the base with the head"),
        pytest.param(130_000, 124_000, 0, id="more than there is"),
    ],
)
def test_a_reset_keeps_a_large_message_that_nobody_has_answered(unanswered: int, kept: int, freed: int):
    given = ResetInputs(
        size=120_000, window=200_000, read=0, base=40_000, carry=0.0, summary=0.0, spent=0.0, unmanaged=0.0,
        head=3_000, unanswered=unanswered,
    )  # fmt: skip
    assert (given.kept, given.freed, given.refetched_from) == (kept, freed, 120_000)
    assert msgspec.structs.replace(given, is_cached=False).refetched_from == 40_000


def test_what_the_provider_kept_by_itself_counts_for_doing_nothing_too():
    prices = RelativePrices.from_rates(RATES)
    held = EconomyState(prompt=100_000, called_at=0.0, holds=1, held=0.1)
    usage = Usage(cache_creation_input_tokens=100_000)
    lost, kept = (
        held.after_reply(usage, prices, base=0, now=9_000.0, kept_anyway=tokens).unmanaged
        for tokens in (0, 40_000)
    )
    assert lost == pytest.approx(1.25 * 100_000 * 5e-6)
    assert kept == pytest.approx((1.25 * 60_000 + 0.1 * 40_000) * 5e-6)
