"""Holds: a call that keeps the cache alive is sent while it is expected to save more than it costs."""

import math

import msgspec
import pytest

from everturn.decide.economy.holds import HoldDecision, HoldInputs, decide_hold
from everturn.decide.economy.pauses import DEFAULT_PAUSES, PauseRow, PauseTable, fit_pauses
from everturn.decide.economy.prices import RelativePrices
from everturn.decide.economy.settings import EconomySettings
from everturn.decide.economy.state import EconomyState
from everturn.history.records import CacheCreation, Usage

OPUS = RelativePrices(read=0.1, write_5m=1.25, write_1h=2.0, output=5.0, dollars=5e-6)
ANSWERED = EconomyState(spent=2.0, unmanaged=3.0, prompt=99_000, output=1_000, cached=99_000, called_at=0.0)
QUIET = HoldInputs(
    state=ANSWERED,
    silence=290.0,
    least_output=0,
    prices=OPUS,
    settings=EconomySettings(enabled=True, holds=True, hold_share=1.0),
    pauses=DEFAULT_PAUSES,
)


def test_a_hold_is_weighed_by_the_chance_of_a_return():
    chance = 105 / 200
    assert decide_hold(QUIET) == HoldDecision(
        holds=True,
        cost=pytest.approx((0.1 * 99_000 + 2.0 * 1_000) * 5e-6),
        expected=pytest.approx(chance * 1.15 * 100_000 * 5e-6),
        chance=chance,
        why="$0.060 to hold, expected saving $0.302: 52% of pauses this long end within the hour",
    )


@pytest.mark.parametrize(("read", "count"), [(0.1, 1), (0.05, 3), (0.025, 6)])
def test_the_cheaper_a_read_the_more_hours_are_held(read, count):
    given = msgspec.structs.replace(QUIET, prices=msgspec.structs.replace(OPUS, read=read))
    held = 0
    while decide_hold(given).holds and held < 10:
        held += 1
        given = given.after_hold(Usage(cache_read_input_tokens=100_000))
    assert held == count


@pytest.mark.spec("EC-8")
@pytest.mark.parametrize(("share", "holds"), [(0.149, True), (0.151, False)])
def test_a_hold_never_takes_a_conversation_more_than_its_share_above_doing_nothing(share, holds):
    dollars = decide_hold(QUIET).cost / share
    state = msgspec.structs.replace(ANSWERED, spent=dollars, unmanaged=dollars)
    settings = EconomySettings(holds=True, above_dollars=9.0)
    found = decide_hold(msgspec.structs.replace(QUIET, state=state, settings=settings))
    assert (found.holds, found.refusal) == (holds, "" if holds else "limit")


@pytest.mark.spec("EC-2")
def test_what_the_first_call_found_cached_by_others_is_no_reason_for_a_hold():
    state = msgspec.structs.replace(ANSWERED, shared=90_000)
    found = decide_hold(msgspec.structs.replace(QUIET, state=state))
    assert found.expected == pytest.approx(105 / 200 * 1.15 * 10_000 * 5e-6)
    assert (found.holds, found.refusal) == (False, "price")


def test_an_answer_that_the_api_insists_on_is_part_of_the_price():
    given = msgspec.structs.replace(QUIET, least_output=100)
    assert decide_hold(given).cost == pytest.approx(decide_hold(QUIET).cost + 5.0 * 100 * 5e-6)


def test_holds_stop_at_their_budget_and_say_so():
    state = msgspec.structs.replace(ANSWERED, held=1.96)
    found = decide_hold(msgspec.structs.replace(QUIET, state=state))
    assert (found.holds, found.why.partition("; ")[2]) == (
        False,
        "but not now: holds have cost $1.96 of $2.00",
    )


def test_a_hold_beyond_what_doing_nothing_costs_is_not_sent():
    state = msgspec.structs.replace(ANSWERED, spent=3.05)
    found = decide_hold(msgspec.structs.replace(QUIET, state=state))
    assert (found.holds, found.why.partition("; ")[2]) == (
        False,
        "but not now: $3.109 with it is above the limit of $3.090",
    )


def test_pauses_are_counted_by_how_long_they_had_lasted():
    silences = [10.0, 300.0, 500.0, 3_889.0, 4_000.0, 100_000.0, math.inf]
    assert fit_pauses(silences, rows=2) == PauseTable((PauseRow(290.0, 6, 3), PauseRow(3_880.0, 4, 2)))


def test_what_was_seen_a_few_times_is_not_taken_as_certain():
    table = PauseTable((PauseRow(290.0, 0, 0), PauseRow(3_880.0, 2, 0)))
    assert [table.chance(each) for each in (0.0, 290.0, 3_880.0, 1e6)] == [0.5, 0.5, 0.25, 0.0]


def test_without_resets_and_holds_doing_nothing_costs_what_was_paid():
    state = EconomyState()
    calls = [
        (0.0, Usage(0, 50_000, 0, 500, CacheCreation(50_000, 0))),
        (60.0, Usage(0, 2_000, 50_000, 500, CacheCreation(2_000, 0))),
        (1_000.0, Usage(0, 52_500, 0, 500, CacheCreation(52_500, 0))),
        # The provider lost the entry: that is nobody's merit or fault.
        (1_010.0, Usage(0, 53_000, 0, 500, CacheCreation(53_000, 0))),
    ]
    for at, usage in calls:
        state = state.after_reply(usage, OPUS, base=20_000, now=at)
    assert state.unmanaged == pytest.approx(state.spent)
    assert state.carry == pytest.approx(0.1 * (30_000 + 32_000 + 32_500 + 33_000))


def test_a_reset_is_compared_with_the_context_that_it_spared():
    state = EconomyState().after_reply(Usage(0, 100_000, 0, 0), OPUS, base=20_000, now=0.0)
    state = state.after_reset("b", 100_000, 30_000, 0.25)
    after = state.after_reply(Usage(0, 10_000, 20_000, 0), OPUS, base=0, now=10.0)
    assert after.spent == pytest.approx(0.625 + 0.25 + (1.25 * 10_000 + 0.1 * 20_000) * 5e-6)
    assert after.unmanaged == pytest.approx(0.625 + 0.1 * 100_000 * 5e-6)
    assert (after.base, after.carry, after.surplus) == (30_000, 0.0, 70_000)


def test_a_hold_may_cost_the_last_cent_of_its_budget():
    cost = decide_hold(QUIET).cost

    def decide(dollars: float) -> tuple[bool, str]:
        settings = msgspec.structs.replace(QUIET.settings, hold_dollars=dollars)
        found = decide_hold(msgspec.structs.replace(QUIET, settings=settings))
        return found.holds, found.refusal

    assert (decide(cost), decide(math.nextafter(cost, 0))) == ((True, ""), (False, "limit"))
