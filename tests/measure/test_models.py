"""The table of models: complete, found under every id, priced by date and prompt size."""

from datetime import date
from decimal import Decimal

import pytest

from everturn.measure.model import Rates
from everturn.measure.model_table import MODELS, find_model, model_or_default

TODAY = date(2026, 11, 15)

# The price list of api-facts 1.7, as printed: input, 5m write, 1h write, read, output.
PRICES = {
    "claude-fable-5-2": "8 10 16 0.20 40",
    "claude-mythos-5-2": "8 10 16 0.20 40",
    "claude-fable-5-1": "10 12.5 20 0.25 50",
    "claude-mythos-5-1": "10 12.5 20 0.25 50",
    "claude-fable-5": "10 12.5 20 1.00 50",
    "claude-mythos-5": "10 12.5 20 1.00 50",
    "claude-opus-5-5": "4 5 8 0.20 20",
    "claude-opus-5": "5 6.25 10 0.50 25",
    "claude-opus-4-8": "5 6.25 10 0.50 25",
    "claude-opus-4-7": "5 6.25 10 0.50 25",
    "claude-opus-4-6": "5 6.25 10 0.50 25",
    "claude-opus-4-5": "5 6.25 10 0.50 25",
    "claude-sonnet-5-5": "2 2.5 4 0.10 10",
    "claude-sonnet-5": "2 2.5 4 0.20 10",
    "claude-sonnet-4-6": "3 3.75 6 0.30 15",
    "claude-sonnet-4-5": "3 3.75 6 0.30 15",
    "claude-haiku-5-5": "0.10 0.125 0.20 0.01 0.50",
    "claude-haiku-4-5": "1 1.25 2 0.10 5",
}
# Window, longest answer, shortest cached prefix (api-facts 1.5, 8).
LIMITS = {
    "claude-fable-5-2": (1_000_000, 128_000, 512),
    "claude-opus-5-5": (1_000_000, 128_000, 512),
    "claude-opus-5": (1_000_000, 128_000, 512),
    "claude-opus-4-8": (1_000_000, 128_000, 1024),
    "claude-opus-4-7": (1_000_000, 128_000, 2048),
    "claude-opus-4-6": (1_000_000, 128_000, 4096),
    "claude-sonnet-5-5": (1_000_000, 128_000, 1024),
    "claude-sonnet-5": (1_000_000, 128_000, 1024),
    "claude-sonnet-4-6": (1_000_000, 128_000, 1024),
    "claude-haiku-5-5": (1_000_000, 128_000, 512),
    "claude-haiku-4-5": (200_000, 64_000, 4096),
    "claude-opus-4-5": (200_000, 64_000, 4096),
    "claude-sonnet-4-5": (200_000, 64_000, 1024),
    "claude-mythos-preview": (1_000_000, 128_000, 2048),
}


def rates(text: str) -> Rates:
    price, write_5m, write_1h, read, output = map(Decimal, text.split())
    return Rates(price, output, read, write_5m, write_1h)


@pytest.mark.parametrize("id", PRICES)
def test_every_model_has_the_printed_price(id: str):
    model = find_model(id)
    assert model is not None
    assert model.rates(on=TODAY, prompt_tokens=1000) == rates(PRICES[id])


@pytest.mark.parametrize("id", LIMITS)
def test_every_model_has_the_printed_limits(id: str):
    model = find_model(id)
    assert model is not None
    assert (model.window, model.max_output, model.min_cache) == LIMITS[id]


def test_the_read_price_of_sonnet_5_5_goes_by_the_date_of_the_call():
    sonnet = find_model("claude-sonnet-5-5")
    assert sonnet is not None
    reads = [sonnet.rates(on=date(2026, 10, day), prompt_tokens=0).read for day in (6, 7)]
    assert reads == [Decimal("0.20"), Decimal("0.10")]


def test_haiku_5_5_costs_five_times_as_much_above_100_000_prompt_tokens():
    haiku = find_model("claude-haiku-5-5")
    assert haiku is not None
    assert haiku.rates(on=TODAY, prompt_tokens=100_000) == rates("0.10 0.125 0.20 0.01 0.50")
    assert haiku.rates(on=TODAY, prompt_tokens=100_001) == rates("0.50 0.625 1.00 0.05 2.50")


def test_fast_speed_has_rates_of_its_own_with_the_models_read_multiplier():
    opus = find_model("claude-opus-5-5")
    assert opus is not None
    assert opus.rates(on=TODAY, prompt_tokens=0, speed="fast") == rates("8 10 16 0.40 40")


@pytest.mark.parametrize(
    ("dated", "short"),
    [
        ("claude-haiku-4-5-20251001", "claude-haiku-4-5"),
        ("claude-opus-4-5-20251101", "claude-opus-4-5"),
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("claude-opus-4-1-20250805", "claude-opus-4-1"),
        ("claude-opus-4-20250514", "claude-opus-4-0"),
        ("claude-sonnet-4-20250514", "claude-sonnet-4-0"),
    ],
)
def test_a_dated_id_names_the_same_model(dated: str, short: str):
    assert find_model(dated) is find_model(short) is not None


def test_no_id_names_two_models():
    names = [name for model in MODELS for name in (model.id, *model.aliases)]
    assert len(names) == len(set(names))


def test_an_unknown_model_is_not_found_but_can_be_measured_as_a_stated_guess():
    assert find_model("claude-sonnet-9") is None
    guess = model_or_default("claude-sonnet-9")
    assert (guess.model.id, guess.guessed) == (
        "claude-sonnet-5-5",
        "'claude-sonnet-9' is not in the table of models; measured as claude-sonnet-5-5",
    )
    assert model_or_default("claude-opus-5").guessed == ""
