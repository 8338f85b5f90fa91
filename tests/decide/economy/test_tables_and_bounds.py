"""Fitted tables as lines of a setting, and both sides of every limit of the economic policy."""

from datetime import UTC, datetime
from decimal import Decimal

import msgspec
import pytest
from decide.economy.test_holds import ANSWERED, OPUS, QUIET
from decide.economy.test_resets import ON, WARM

from everturn.decide.economy.decisions import EconomicDecision
from everturn.decide.economy.holds import HoldDecision, decide_hold
from everturn.decide.economy.keeping import KeepRule, make_keep_rule
from everturn.decide.economy.pauses import DEFAULT_PAUSES, PauseRow, PauseTable, parse_pauses
from everturn.decide.economy.prices import RelativePrices
from everturn.decide.economy.resets import ResetDecision, decide_reset
from everturn.decide.economy.reuse import (
    DEFAULT_REUSE,
    ReuseCount,
    ReuseRow,
    ReuseTable,
    ToolExchange,
    exchange_kind,
    parse_reuse,
)
from everturn.decide.economy.settings import EconomySettings
from everturn.decide.economy.state import EconomyState, ResetMark
from everturn.decide.economy.trust import HoldCheck, check_hold
from everturn.history.records import CacheCreation, Usage
from everturn.measure.model import Rates
from everturn.measure.tool_table import ToolPurpose

AT = datetime(2026, 11, 15, tzinfo=UTC)


# ── tables ───────────────────────────────────────────────────────────────────────────────────────


def test_a_table_of_pauses_is_written_and_read_back():
    assert DEFAULT_PAUSES.to_lines()[:2] == ("290 104/198", "3880 7/94")
    assert parse_pauses(DEFAULT_PAUSES.to_lines()) == DEFAULT_PAUSES
    assert parse_pauses([" 290 1/3 "]) == PauseTable((PauseRow(290.0, 3, 1),))


@pytest.mark.parametrize("line", ["", "290", "290 1/3 5", "290 1-3", "a 1/3", "1234567890 1/3"])
def test_a_row_of_pauses_that_cannot_be_read_is_named(line):
    with pytest.raises(ValueError, match="is not a row of a table of pauses"):
        EconomySettings(pauses=(line,))


def test_a_table_of_pauses_that_cannot_be_true_is_refused():
    with pytest.raises(ValueError, match="'290 5/3' says that 5 of 3 silences ended"):
        EconomySettings(pauses=("290 5/3",))
    with pytest.raises(ValueError, match=r"row of 290 seconds .* stands behind that of 3880"):
        EconomySettings(pauses=("3880 1/3", "290 1/3"))


def test_a_reuse_table_is_written_and_read_back():
    assert DEFAULT_REUSE.to_lines()[1] == "reads 300 58/173 45/294 39/755"
    assert parse_reuse(DEFAULT_REUSE.to_lines()) == DEFAULT_REUSE
    row = ReuseRow("agents", 3, (ReuseCount(5, 1), ReuseCount(7, 2), ReuseCount(9, 0)))
    assert parse_reuse([" agents 3000 1/5 2/7 0/9 "]) == ReuseTable((row,))


@pytest.mark.parametrize(
    "line",
    ["reads 301 1/2 1/2 1/2", "reads 300 1/2 1/2", "guesses 300 1/2 1/2 1/2", "reads 300 1/2 1/2 1/2 1/2"],
)
def test_a_row_of_reuse_that_cannot_be_read_is_named(line):
    with pytest.raises(ValueError, match="is not a row of a reuse table"):
        EconomySettings(reuse=(line,))


def test_tables_of_the_settings_replace_those_of_recorded_sessions():
    given = EconomySettings(pauses=("290 1/3",), reuse=("reads 0 1/2 3/4 5/6",))
    assert given.pause_table == parse_pauses(["290 1/3"])
    assert given.reuse_table == parse_reuse(["reads 0 1/2 3/4 5/6"])
    assert (EconomySettings().pause_table, EconomySettings().reuse_table) == (DEFAULT_PAUSES, DEFAULT_REUSE)


def test_a_chance_borrows_from_its_row_and_is_nothing_for_what_was_never_seen():
    table = parse_reuse(["reads 0 3/5 1/10 0/20"])
    whole = (3 + 1 + 0 + 1) / (5 + 10 + 20 + 3)
    assert [table.chance(ToolExchange("reads", 299, age)) for age in (0, 4, 5, 19, 20)] == [
        (3 + 10 * whole) / 15, (3 + 10 * whole) / 15,
        (1 + 10 * whole) / 20, (1 + 10 * whole) / 20, (0 + 10 * whole) / 30,
    ]  # fmt: skip
    assert table.chance(ToolExchange("reads", 300, 0)) == 0.0
    assert table.chance(ToolExchange("edits", 0, 0)) == 0.0


@pytest.mark.parametrize(
    ("seconds", "chance"),
    [
        (0.0, 2 / 12),  # before the first row: as in it
        (288.9, 2 / 12),
        (3_878.9, 2 / 12),
        (3_879.0, 1 / 6),  # a second of tolerance: the timer of a hold may be early
        (3_880.0 + 1_795.0, 1 / 6),
        (3_880.0 + 1_795.1, 0.0),
    ],
)
def test_the_chance_of_a_return_is_that_of_the_last_row_that_was_reached(seconds, chance):
    assert PauseTable((PauseRow(290.0, 10, 1), PauseRow(3_880.0, 4, 0))).chance(seconds) == chance


def test_tools_are_counted_by_what_they_do():
    does: list[ToolPurpose] = [
        "reads", "searches", "lists", "runs", "edits", "writes", "runs_agent", "collects_agent", "fetches",
        "searches_web", "asks", "other",
    ]  # fmt: skip
    assert [exchange_kind(each) for each in does] == [
        "reads", "searches", "searches", "runs", "edits", "writes", "agents", "agents", "other", "other",
        "other", "other",
    ]  # fmt: skip


# ── prices ───────────────────────────────────────────────────────────────────────────────────────


def test_prices_are_relative_to_plain_input():
    named = {"input": "4", "output": "20", "write_5m": "5", "write_1h": "8", "read": "1"}
    rates = Rates(**{name: Decimal(value) for name, value in named.items()})
    assert RelativePrices.from_rates(rates) == RelativePrices(0.25, 1.25, 2.0, 5.0, 4e-6)
    free = Rates(**{name: Decimal(0) for name in named})
    assert RelativePrices.from_rates(free) == RelativePrices(0.0, 0.0, 0.0, 0.0, 0.0)


def test_each_part_of_a_usage_has_its_own_price():
    usage = Usage(100, 5_000, 20_000, 300, CacheCreation(4_000, 1_000))
    prompt = (100 + 0.1 * 20_000 + 1.25 * 4_000 + 2.0 * 1_000) * 5e-6
    assert OPUS.input_side(usage) == pytest.approx(prompt)
    assert OPUS.whole(usage) == pytest.approx(prompt + 5.0 * 300 * 5e-6)
    unknown = Usage(100, 5_000, 20_000, 300)
    assert OPUS.input_side(unknown) == pytest.approx((100 + 2_000 + 1.25 * 5_000) * 5e-6)


def test_what_is_kept_is_priced_by_what_a_refetch_costs():
    keep = make_keep_rule(DEFAULT_REUSE, 50_000, OPUS, EconomySettings(caution="balanced"))
    weight = 3.0 * 1.2
    assert keep == KeepRule(DEFAULT_REUSE, 5_600.0, 1.25, 1.25 + 0.1 * 35, keep.phi, 12_000, 3_000, 1_500)
    assert keep.phi == pytest.approx(weight)
    exchange = ToolExchange("edits", 500, 2)
    chance = DEFAULT_REUSE.chance(exchange)
    assert keep.gain(exchange) == pytest.approx(chance * weight * (5_600 + 1.25 * 500) / 500 - 4.75)
    empty = ToolExchange("edits", 0, 2)
    assert keep.gain(empty) == pytest.approx(DEFAULT_REUSE.chance(empty) * weight * (5_600 + 1.25) - 4.75)


# ── resets ───────────────────────────────────────────────────────────────────────────────────────


def reset_kind(**fields):
    return decide_reset(msgspec.structs.replace(WARM, **fields), OPUS, ON).kind


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        # Within 40,000 tokens of the window, if that frees 25,000.
        ({"size": 160_000}, None), ({"size": 160_001}, "window"),
        ({"size": 165_000, "base": 140_000}, "window"), ({"size": 165_000, "base": 140_001}, None),
        # Cold: less than half of it is read, and 20,000 tokens are freed.
        ({"read": 59_999}, "cold"), ({"read": 60_000}, None),
        ({"read": 0, "size": 60_000}, "cold"), ({"read": 0, "size": 59_999}, None),
        # Cold, and the reset costs as much as writing it again.
        ({"read": 0, "size": 100_000, "summary": 104_999.0, "unmanaged": 9.0}, "cold"),
        ({"read": 0, "size": 100_000, "summary": 105_000.0, "unmanaged": 9.0}, None),
        # Warm: 25,000 tokens are freed.
        ({"size": 65_000, "read": 64_000, "carry": 1e6}, "warm"),
        ({"size": 64_999, "read": 64_000, "carry": 1e6}, None),
    ],
)  # fmt: skip
def test_both_sides_of_each_limit_of_a_reset(fields, kind):
    assert reset_kind(**fields) == kind


def test_the_limit_of_spending_counts_the_worst_of_a_reset():
    # 30,000 tokens written, a summary of 1,000, and 2.5 refetches that read 120,000 tokens each.
    worst = (1.25 * 30_000 + 1_000 + 2.5 * (12_000 + 600 + 1.25 * 4_300)) * 5e-6
    limit = 5.5 + 0.03 * 5.5
    cold = {"read": 0, "summary": 1_000.0}
    assert reset_kind(**cold, spent=limit - worst - 1e-9) == "cold"
    assert reset_kind(**cold, spent=limit - worst + 1e-9) is None
    # At least five cents above what doing nothing costs.
    assert reset_kind(**cold, unmanaged=1.0, spent=1.05 - worst - 1e-9) == "cold"
    assert reset_kind(**cold, unmanaged=1.0, spent=1.05 - worst + 1e-9) is None


def test_a_partly_cold_reset_compares_with_what_is_read_and_written():
    found = decide_reset(msgspec.structs.replace(WARM, read=20_000, summary=2_000.0), OPUS, ON)
    assert (found.cost, found.against) == (
        pytest.approx((20_000 + 2_000) * 5e-6),
        pytest.approx((1.25 * 100_000 + 0.1 * 20_000) * 5e-6),
    )


def test_resets_that_are_due_or_too_small_have_their_price_and_nothing_to_compare_it_with():
    full = decide_reset(msgspec.structs.replace(WARM, size=170_000), OPUS, ON)
    why = "170,000 tokens are within 40,000 of the window"
    assert full == ResetDecision(kind="window", cost=pytest.approx(0.1), against=0.0, why=why)
    small = decide_reset(msgspec.structs.replace(WARM, size=50_000, read=49_000), OPUS, ON)
    assert (small.kind, small.cost, small.against) == (None, pytest.approx(0.1), 0.0)


def test_a_model_that_costs_nothing_is_reset_when_carrying_costs_anything():
    free = RelativePrices(0.0, 0.0, 0.0, 0.0, 0.0)
    found = decide_reset(WARM, free, ON)
    assert (found.kind, found.cost, found.against) == (None, 0.0, 0.0)


# ── holds ────────────────────────────────────────────────────────────────────────────────────────


def hold(**state):
    return decide_hold(msgspec.structs.replace(QUIET, state=msgspec.structs.replace(ANSWERED, **state)))


def test_a_hold_may_reach_its_limits_and_not_exceed_them():
    cost = hold().cost
    assert [hold(held=2.0 - cost + more).refusal for more in (-1e-9, 1e-9)] == ["", "limit"]
    assert [hold(spent=3.09 - cost + more).refusal for more in (-1e-9, 1e-9)] == ["", "limit"]


def test_a_hold_that_is_not_worth_its_price_says_so_even_where_a_limit_is_reached():
    given = msgspec.structs.replace(QUIET, silence=1e6)
    found = decide_hold(given)
    assert (found.holds, found.refusal, found.expected) == (False, "price", 0.0)
    assert "but not now" not in found.why
    # As dear as it saves: not worth it.
    exact = msgspec.structs.replace(
        QUIET, state=EconomyState(), prices=RelativePrices(0.0, 0.0, 0.0, 0.0, 0.0)
    )
    assert (decide_hold(exact).holds, decide_hold(exact).refusal) == (False, "price")


def test_the_second_hold_reads_what_the_first_one_wrote():
    assert hold(holds=1).cost == pytest.approx(0.1 * 100_000 * 5e-6)
    refresh = msgspec.structs.replace(QUIET, form="refresh")
    assert decide_hold(refresh).cost == pytest.approx((0.1 * 99_000 + 1.25 * 1_000) * 5e-6)
    repeat = msgspec.structs.replace(QUIET, form="repeat")
    assert decide_hold(repeat).expected == pytest.approx(54 / 200 * 1.15 * 99_000 * 5e-6)


def test_a_hold_that_cannot_be_sent_keeps_its_price():
    worth = hold()
    assert worth.refused("no reply") == HoldDecision(
        holds=False,
        cost=worth.cost,
        expected=worth.expected,
        chance=worth.chance,
        why=f"no reply ({worth.why})",
        refusal="request",
    )


def test_the_next_hold_of_a_pause_comes_an_hour_later_or_shortly_before_five_minutes_are_over():
    usage = Usage(cache_read_input_tokens=100_000)
    after = QUIET.after_hold(usage)
    assert (after.silence, QUIET.interval) == (290.0 + 3_590.0, 3_590.0)
    assert after.state == ANSWERED.after_hold(0.05)
    assert msgspec.structs.replace(QUIET, form="refresh").after_hold(usage).silence == 580.0


def test_nothing_can_be_said_about_a_hold_of_nothing():
    assert check_hold(held=0, read=0, seconds=1_000, is_same_prompt=True) is None
    found = "10 of 100 held tokens were read 10 minutes after the hold: "
    told = [HoldCheck(kept=kept, read=10, held=100, seconds=600.0).why for kept in (True, False)]
    assert told == [
        f"{found}an hour's entry survives",
        f"{found}from now on the cache is refreshed every five minutes while that is worth its price",
    ]


@pytest.mark.parametrize(
    ("kind", "done", "label"),
    [
        ("hold", True, "held"), ("hold", False, "not held"), ("reset", True, "reset"),
        ("reset", False, "not reset"), ("check", True, "hold checked"), ("check", False, "hold lost"),
        ("tools", True, "tools deferred"), ("tools", False, "tools not deferred"),
    ],
)  # fmt: skip
def test_a_decision_is_told_in_one_line_that_names_it_once(kind, done, label):
    made = EconomicDecision(at=AT, kind=kind, done=done, why="it is cheaper: by far")
    assert (made.label, made.sentence) == (label, f"{label}: it is cheaper: by far")
    named = msgspec.structs.replace(made, why=f"{label} for $1: cheaper")
    assert named.sentence == f"{label} for $1: cheaper"
    assert msgspec.structs.replace(made, why=f"a: {label}").sentence == f"{label}: a: {label}"


# ── the bill of doing nothing ────────────────────────────────────────────────────────────────────

CALLED = EconomyState(prompt=100_000, output=500, called_at=1_000.0)


def unmanaged(state, *, size=110_000, read=100_000, now=1_010.0, kept_anyway=0):
    """How many tokens would have been read of such a call."""
    dollars = state.unmanaged_call(size, read, now, OPUS, kept_anyway=kept_anyway)
    size += state.surplus
    return round((1.25 * size - dollars / OPUS.dollars) / 1.15)


def reset(state, **fields):
    return msgspec.structs.replace(state, **fields)


@pytest.mark.parametrize(
    ("state", "call", "read"),
    [
        (CALLED, {}, 100_000),
        (CALLED, {"read": 25_000}, 25_000),
        (CALLED, {"size": 90_000}, 90_000),
        # The first call reads what others have kept.
        (EconomyState(), {"read": 7_000}, 7_000),
        (EconomyState(), {"read": 7_000, "size": 6_000}, 6_000),
        # A hold has kept what would have expired: after five minutes exactly it would still be there.
        (reset(CALLED, holds=1), {"now": 1_300.0}, 100_000),
        (reset(CALLED, holds=1), {"now": 1_300.1}, 0),
        (reset(CALLED, holds=1), {"now": 1_300.1, "kept_anyway": 40_000}, 40_000),
        (reset(CALLED, holds=1), {"now": 1_300.0, "kept_anyway": 40_000, "read": 0}, 0),
        (CALLED, {"now": 9_000.0, "read": 30_000, "kept_anyway": 20_000}, 30_000),
        # After a reset: all of the old prompt within five minutes, nothing later, or what was looked at.
        (reset(CALLED, was_reset=True, surplus=50_000), {"read": 0}, 150_000),
        (reset(CALLED, was_reset=True, surplus=50_000), {"now": 2_000.0}, 0),
        (reset(CALLED, was_reset=True, surplus=50_000, share_before=0.5), {}, 75_000),
    ],
)
def test_what_would_have_been_read_if_nothing_had_been_reset_or_held(state, call, read):
    assert unmanaged(state, **call) == read


def test_a_reply_is_counted_from_the_base_and_ends_what_was_open():
    before = EconomyState(
        base=40_000, carry=10.0, spent=1.0, unmanaged=2.0, held=0.5, surplus=3, prompt=100_000, output=7,
        called_at=0.0, holds=2, was_reset=True, share_before=0.25,
    )  # fmt: skip
    usage = Usage(100, 900, 99_000, 50)
    after = before.after_reply(usage, OPUS, base=1, now=10.0, kept_anyway=4)
    assert after == EconomyState(
        base=40_000,
        cached=99_900,
        carry=10.0 + 0.1 * 60_000,
        spent=pytest.approx(1.0 + OPUS.input_side(usage)),
        unmanaged=2.0 + before.unmanaged_call(100_000, 99_000, 10.0, OPUS, kept_anyway=4),
        held=0.5,
        surplus=3,
        prompt=100_000,
        output=50,
        called_at=10.0,
    )
    assert EconomyState().after_reply(usage, OPUS, base=99_000, now=0.0).carry == 100.0
    assert EconomyState().after_reply(usage, OPUS, base=200_000, now=0.0).carry == 0.0


def test_a_reset_leaves_the_smaller_prompt_and_remembers_what_would_have_been_read():
    before = EconomyState(carry=9.0, spent=1.0, surplus=5, prompt=100_000, called_at=1.0)
    after = before.after_reset("b", 120_000, 30_000, 0.25, read=50_000)
    assert after == EconomyState(
        resets=(ResetMark("b", 30_000, 90_005),), boundary="b", base=30_000,
        spent=1.25, surplus=90_005, prompt=30_000, called_at=1.0, was_reset=True,
        share_before=0.5,
    )  # fmt: skip
    # A second reset before the next reply: the share is that of the prompt that was really sent.
    assert after.after_reset("c", 30_000, 20_000, 0.0, read=30_000).share_before == 0.5
    assert before.after_reset("b", 100, 200, 0.0, read=300_000).share_before == 1.0
    assert before.after_reset("b", 100, 200, 0.0).share_before is None
    assert EconomyState().after_reset("b", 100, 200, 0.0, read=5).share_before is None
    assert before.after_reset("b", 100, 200, 0.0).surplus == 5


def test_a_late_hold_costs_and_counts_as_none():
    assert EconomyState(spent=1.0, held=0.5).after_late_hold(0.25) == EconomyState(spent=1.25, held=0.75)
    assert EconomyState(spent=1.0, held=0.5, holds=1).after_hold(0.25) == EconomyState(
        spent=1.25, held=0.75, holds=2
    )
