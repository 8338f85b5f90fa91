"""Dollars: the price of every kind for every model, the steps, the modifiers, and the ledger of it all."""

import pytest
from conformance.api import FIVE, HOUR, Api, Json, long, text, user

pytestmark = pytest.mark.spec("TW-3")
MILLION = 1_000_000
PRICES = {  # input, 5m write, 1h write, read, output
    "claude-fable-5-2": (8, 10, 16, 0.20, 40),
    "claude-mythos-5-2": (8, 10, 16, 0.20, 40),
    "claude-fable-5-1": (10, 12.5, 20, 0.25, 50),
    "claude-fable-5": (10, 12.5, 20, 1.00, 50),
    "claude-opus-5-5": (4, 5, 8, 0.20, 20),
    "claude-opus-5": (5, 6.25, 10, 0.50, 25),
    "claude-opus-4-8": (5, 6.25, 10, 0.50, 25),
    "claude-opus-4-7": (5, 6.25, 10, 0.50, 25),
    "claude-opus-4-6": (5, 6.25, 10, 0.50, 25),
    "claude-sonnet-5-5": (2, 2.5, 4, 0.10, 10),
    "claude-sonnet-5": (2, 2.5, 4, 0.20, 10),
    "claude-sonnet-4-6": (3, 3.75, 6, 0.30, 15),
    "claude-haiku-5-5": (0.10, 0.125, 0.20, 0.01, 0.50),
    "claude-haiku-4-5": (1, 1.25, 2, 0.10, 5),
}
TURNS = [user(long("a", 20_000, marker=HOUR), long("b", 8000, marker=FIVE), "tail " * 50)]


def dollars_of(usage: Json, prices: tuple[float, ...]) -> float:
    parts = usage["cache_creation"]
    amounts = (
        usage["input_tokens"],
        parts["ephemeral_5m_input_tokens"],
        parts["ephemeral_1h_input_tokens"],
        usage["cache_read_input_tokens"],
        usage["output_tokens"],
    )
    return sum(n * price for n, price in zip(amounts, prices, strict=True)) / MILLION


@pytest.mark.parametrize(("model", "prices"), PRICES.items())
def test_each_kind_of_token_has_the_models_price(api: Api, model: str, prices: tuple[float, ...]):
    cold = api.usage(*TURNS, model=model)
    warm = api.usage(*TURNS, model=model)
    assert cold["cache_creation"]["ephemeral_1h_input_tokens"] > 0
    assert cold["cache_creation"]["ephemeral_5m_input_tokens"] > 0
    assert warm["cache_read_input_tokens"] == cold["cache_creation_input_tokens"]
    assert [e["dollars"] for e in api.ledger()] == pytest.approx(
        [dollars_of(cold, prices), dollars_of(warm, prices)], rel=1e-9
    )


def test_the_lines_of_a_bill_make_up_its_sum(api: Api):
    api.usage(*TURNS)
    api.usage(*TURNS)
    for entry in api.ledger():
        assert entry["dollars"] == pytest.approx(sum(line["dollars"] for line in entry["lines"]))
        for line in entry["lines"]:
            assert line["dollars"] == pytest.approx(line["tokens"] * line["dollars_per_mtok"] / MILLION)


def test_the_ledger_repeats_the_usage_of_the_answer(api: Api):
    usages = [api.usage(*TURNS), api.usage(*TURNS)]
    assert [e["usage"] for e in api.ledger()] == usages


def sized(api: Api, tokens: int) -> list[object]:
    """A request of exactly that many tokens on Haiku 5.5, found by halving."""
    low, high = 1, 400_000
    while low < high:
        middle = (low + high) // 2
        low, high = (
            (middle + 1, high)
            if api.count(user("w" * middle), model="claude-haiku-5-5") < tokens
            else (low, middle)
        )
    turns = [user("w" * low)]
    assert api.count(*turns, model="claude-haiku-5-5") == tokens
    return turns


@pytest.mark.parametrize(
    ("tokens", "prices"),
    [(100_000, (0.10, 0.125, 0.20, 0.01, 0.50)), (100_001, (0.50, 0.625, 1.00, 0.05, 2.50))],
)
def test_haiku_5_5_has_a_step_above_100_000_prompt_tokens(api: Api, tokens: int, prices: tuple[float, ...]):
    usage = api.usage(*sized(api, tokens), model="claude-haiku-5-5")
    assert usage["input_tokens"] == tokens
    assert api.ledger()[-1]["dollars"] == pytest.approx(dollars_of(usage, prices))


def test_the_step_counts_what_is_read_and_written_too(api: Api):
    turns = [{"role": "user", "content": [{**sized(api, 100_001)[0]["content"][0], "cache_control": FIVE}]}]
    high = (0.50, 0.625, 1.00, 0.05, 2.50)
    for _ in range(2):
        usage = api.usage(*turns, model="claude-haiku-5-5")
        assert usage["input_tokens"] < 5
        assert api.ledger()[-1]["dollars"] == pytest.approx(dollars_of(usage, high))


@pytest.mark.parametrize(("day", "read"), [("2026-10-06T23:59:59Z", 0.20), ("2026-10-07T00:00:00Z", 0.10)])
def test_sonnet_5_5_reads_by_the_date_of_the_call(api: Api, day: str, read: float):
    api.control("clock", {"set": day})
    api.usage(*TURNS, model="claude-sonnet-5-5")
    api.control("clock", {"set": day})
    usage = api.usage(*TURNS, model="claude-sonnet-5-5")
    assert usage["cache_read_input_tokens"] > 0
    assert api.ledger()[-1]["dollars"] == pytest.approx(dollars_of(usage, (2, 2.5, 4, read, 10)))


def test_inference_in_the_us_costs_a_tenth_more_in_every_kind(api: Api):
    for _ in range(2):
        usage = api.usage(*TURNS, inference_geo="us")
        more = tuple(p * 1.1 for p in PRICES["claude-opus-5"])
        assert usage["inference_geo"] == "us"
        assert api.ledger()[-1]["dollars"] == pytest.approx(dollars_of(usage, more))


@pytest.mark.parametrize(
    ("model", "prices"),
    [
        ("claude-opus-5-5", (8, 10, 16, 0.40, 40)),
        ("claude-opus-5", (10, 12.5, 20, 1.00, 50)),
        ("claude-opus-4-8", (10, 12.5, 20, 1.00, 50)),
    ],
)
def test_fast_mode_has_a_base_of_its_own_with_the_same_multipliers(api: Api, model: str, prices):
    for _ in range(2):
        usage = api.usage(*TURNS, model=model, speed="fast", betas="fast-mode-2026-02-01")
        assert usage["speed"] == "fast"
        assert api.ledger()[-1]["dollars"] == pytest.approx(dollars_of(usage, prices))


def test_count_tokens_is_free(api: Api):
    api.count("hi")
    assert [(e["endpoint"], e["dollars"]) for e in api.ledger()] == [("count_tokens", 0)]


def test_thinking_is_billed_as_output(api: Api):
    api.script({"content": [{"type": "thinking", "thinking": "hm " * 100}, text("yes")]})
    usage = api.usage("hi", max_tokens=1000)
    thought = usage["output_tokens_details"]["thinking_tokens"]
    assert 0 < thought < usage["output_tokens"]
    assert api.ledger()[-1]["dollars"] == pytest.approx(dollars_of(usage, PRICES["claude-opus-5"]))


def test_a_refused_request_costs_nothing_and_is_listed(api: Api):
    api.refused(user(text("")))
    (entry,) = api.ledger()
    assert (entry["status"], entry["dollars"], entry["lines"]) == (400, 0, [])
    assert entry["usage"]["input_tokens"] == entry["usage"]["output_tokens"] == 0
    assert entry["error"]["type"] == "invalid_request_error"
