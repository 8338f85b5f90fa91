"""Bills: every kind of token on its own line, and the modifiers."""

from dataclasses import replace
from datetime import date
from decimal import Decimal

import pytest

from everturn.measure.model import Rates
from everturn.measure.model_table import Model, find_model
from everturn.measure.pricing import (
    BilledTokens,
    PricedUsage,
    PriceLine,
    compute_priced_usage,
    price_in_dollars,
    price_reads,
    price_tokens,
    read_billed_tokens,
)

TODAY = date(2026, 11, 15)
D = Decimal


def model(id: str) -> Model:
    found = find_model(id)
    assert found is not None
    return found


def usage(**more: object) -> dict[str, object]:
    return {
        "input_tokens": 10,
        "cache_read_input_tokens": 1000,
        "cache_creation_input_tokens": 300,
        "cache_creation": {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 200},
        "output_tokens": 50,
        **more,
    }


def test_each_kind_of_token_is_a_line_with_its_rate():
    assert compute_priced_usage(usage(), model("claude-opus-5"), on=TODAY) == PricedUsage(
        (
            PriceLine("input", 10, D(5)),
            PriceLine("cache_read", 1000, D("0.5")),
            PriceLine("cache_write_5m", 100, D("6.25")),
            PriceLine("cache_write_1h", 200, D(10)),
            PriceLine("output", 50, D(25)),
        )
    )
    assert compute_priced_usage(usage(), model("claude-opus-5"), on=TODAY).dollars == D("0.004425")


def test_modifiers_multiply():
    plain = compute_priced_usage(usage(), model("claude-opus-5"), on=TODAY).dollars
    opus = model("claude-opus-5")
    assert compute_priced_usage(usage(inference_geo="us"), opus, on=TODAY).dollars == plain * D("1.1")
    assert compute_priced_usage(usage(service_tier="batch"), opus, on=TODAY).dollars == plain * D("0.5")
    assert compute_priced_usage(usage(speed="fast"), opus, on=TODAY).dollars == plain * 2
    everything = usage(speed="fast", inference_geo="us", service_tier="batch")
    assert compute_priced_usage(everything, opus, on=TODAY).dollars == plain * 2 * D("1.1") * D("0.5")


def test_older_models_have_no_surcharge_for_the_region():
    old = model("claude-opus-4-5")
    assert compute_priced_usage(usage(inference_geo="us"), old, on=TODAY) == compute_priced_usage(
        usage(), old, on=TODAY
    )


def test_writes_without_a_breakdown_are_5m_writes():
    flat = {"input_tokens": 0, "cache_creation_input_tokens": 1000, "output_tokens": 0}
    assert compute_priced_usage(flat, model("claude-opus-5"), on=TODAY).lines == (
        PriceLine("cache_write_5m", 1000, D("6.25")),
    )


def test_compactions_are_paid_though_top_level_usage_leaves_them_out():
    """The measured example of api-facts 2.4."""
    compaction = {"type": "compaction", "input_tokens": 48, "cache_read_input_tokens": 2615}
    compaction |= {"cache_creation_input_tokens": 50_090, "output_tokens": 160}
    message = {"type": "message", "input_tokens": 2, "cache_read_input_tokens": 2615}
    message |= {"cache_creation_input_tokens": 210, "output_tokens": 32}
    whole = compute_priced_usage(
        {**message, "iterations": [compaction, message]}, model("claude-opus-5-5"), on=TODAY
    )
    assert [(line.iteration, line.kind, line.tokens) for line in whole.lines] == [
        ("compaction", "input", 48),
        ("compaction", "cache_read", 2615),
        ("compaction", "cache_write_5m", 50_090),
        ("compaction", "output", 160),
        ("message", "input", 2),
        ("message", "cache_read", 2615),
        ("message", "cache_write_5m", 210),
        ("message", "output", 32),
    ]
    assert whole.dollars == D(50 * 4 + 50_300 * 5 + 192 * 20) / 10**6 + D(5230) * D("0.2") / 10**6


def test_the_price_step_of_haiku_5_5_counts_the_whole_prompt_and_re_rates_the_output():
    haiku = model("claude-haiku-5-5")
    low = {"input_tokens": 1, "cache_read_input_tokens": 99_999, "output_tokens": 1_000_000}
    high = {**low, "input_tokens": 2}
    assert compute_priced_usage(low, haiku, on=TODAY).lines[-1].dollars == D("0.5")
    assert compute_priced_usage(high, haiku, on=TODAY).lines[-1].dollars == D("2.5")


def test_searches_are_paid_by_the_thousand():
    searched = {"input_tokens": 0, "output_tokens": 0, "server_tool_use": {"web_search_requests": 3}}
    assert compute_priced_usage(searched, model("claude-opus-5"), on=TODAY).dollars == D("0.03")


def test_the_price_in_dollars_is_the_sum_of_the_lines():
    rates = Rates(*(Decimal(rate) for rate in (5, 3, 7, 11, 25)))
    tokens = BilledTokens(input=1, read=20, write_5m=300, write_1h=4_000, output=50_000)
    lines = price_tokens(tokens, rates)
    assert len(lines) == 5
    assert price_in_dollars(tokens, rates) == PricedUsage(lines).dollars > 0
    assert price_in_dollars(BilledTokens(), rates) == 0


def test_what_calls_read_again_is_priced_by_each_call_s_own_rate():
    known = [model("claude-opus-5"), model("claude-haiku-4-5")]
    rates = [each.rates(on=TODAY, prompt_tokens=0).read for each in known]
    assert price_reads(2_000_000, [(each, TODAY) for each in known]) == 2 * sum(rates) > 0
    assert price_reads(2_000_000, []) is None


def test_searches_are_a_line_of_their_own_behind_those_of_the_tokens():
    searched = {"output_tokens": 4, "server_tool_use": {"web_search_requests": 3}}
    assert compute_priced_usage(searched, model("claude-opus-5"), on=TODAY).lines == (
        PriceLine("output", 4, D(25), "message"),
        PriceLine("web_search", 3, D(10_000), "message"),
    )


def test_lines_are_those_of_a_message_unless_the_caller_says_otherwise():
    rates = Rates(*(Decimal(rate) for rate in (5, 3, 7, 11, 25)))
    assert price_tokens(BilledTokens(input=1, read=2), rates) == (
        PriceLine("input", 1, D(5), "message"),
        PriceLine("cache_read", 2, D(7), "message"),
    )
    assert [each.iteration for each in price_tokens(BilledTokens(1), rates, iteration="compaction")] == [
        "compaction"
    ]


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        ({}, BilledTokens()),
        (
            {"input_tokens": 1, "cache_read_input_tokens": 2, "output_tokens": 3},
            BilledTokens(input=1, read=2, output=3),
        ),
        ({"cache_creation_input_tokens": 7}, BilledTokens(write_5m=7)),
        (
            {"cache_creation_input_tokens": 7, "cache_creation": {"ephemeral_1h_input_tokens": 3}},
            BilledTokens(write_5m=4, write_1h=3),
        ),
        (
            {"cache_creation_input_tokens": 7, "cache_creation": {"ephemeral_1h_input_tokens": 9}},
            BilledTokens(write_1h=7),
        ),
        ({"cache_creation_input_tokens": 7, "cache_creation": [9]}, BilledTokens(write_5m=7)),
        ({"input_tokens": -1, "output_tokens": "9", "cache_read_input_tokens": None}, BilledTokens()),
        ({"input_tokens": 0, "output_tokens": 1}, BilledTokens(output=1)),
    ],
)
def test_usage_is_read_kind_by_kind_and_what_is_no_count_is_none(reported, expected):
    assert read_billed_tokens(reported) == expected
    assert expected.prompt == expected.input + expected.read + expected.write_5m + expected.write_1h


@pytest.mark.parametrize("iterations", [None, [], "none", {"type": "compaction"}])
def test_usage_without_a_list_of_iterations_is_that_of_one_message(iterations):
    bill = compute_priced_usage(
        {"input_tokens": 4, "iterations": iterations}, model("claude-opus-5"), on=TODAY
    )
    assert bill.lines == (PriceLine("input", 4, D(5), "message"),)


def test_an_iteration_without_a_type_is_a_message_and_one_that_is_no_object_costs_nothing():
    parts = [{"input_tokens": 4}, "what", {"type": "compaction", "output_tokens": 2}]
    bill = compute_priced_usage({"input_tokens": 9, "iterations": parts}, model("claude-opus-5"), on=TODAY)
    assert bill.lines == (
        PriceLine("input", 4, D(5), "message"),
        PriceLine("output", 2, D(25), "compaction"),
    )


def test_a_model_without_a_price_does_not_take_part_in_the_price_of_reads():
    free = replace(model("claude-opus-5"), prices=())
    assert price_reads(1_000_000, [(free, TODAY), (model("claude-opus-5"), TODAY)]) == D("0.5")
    assert price_reads(1_000_000, [(free, TODAY)]) is None


def test_the_rates_of_a_model_can_be_multiplied_one_and_all():
    more = Rates(D(1), D(2), D(3), D(4), D(5)).times(D("1.5"))
    assert more == Rates(D("1.5"), D(3), D("4.5"), D(6), D("7.5"))
