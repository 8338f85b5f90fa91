"""The table of models: complete, found under every id, priced by date and prompt size."""

from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from everturn.errors import InputError
from everturn.measure import model_table
from everturn.measure.model import Model, Price, Rates
from everturn.measure.model_entries import add_entries
from everturn.measure.model_table import (
    DEFAULT_MODEL_TABLE,
    MODELS,
    Guess,
    ModelTable,
    find_model,
    find_named,
    has_known_price,
    model_or_default,
)

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


@pytest.mark.spec("RP-17")
@pytest.mark.parametrize(
    ("name", "measured_as"),
    [
        ("us.anthropic.claude-opus-4-6-v1:0", "claude-opus-4-6"),
        ("anthropic/claude-opus-4.5", "claude-opus-4-5"),
        ("claude-sonnet-4@20250514", "claude-sonnet-4-0"),
        ("claude-opus-5-5[1m]", "claude-opus-5-5"),
        # A version that is not in the table is not an older one whose name it begins with.
        ("claude-opus-4-9", "claude-opus-5-5"),
    ],
)
def test_a_model_under_the_name_of_another_provider_is_measured_as_itself_and_said_so(name, measured_as):
    guess = model_or_default(name)
    assert guess.model.id == measured_as
    assert guess.guessed == f"{name!r} is not in the table of models; measured as {measured_as}"


# ── rows of a user ───────────────────────────────────────────────────────────────────────────────


def extended(**entries: dict[str, Any]) -> ModelTable:
    return DEFAULT_MODEL_TABLE.extended({name.replace("_", "-"): fields for name, fields in entries.items()})


@pytest.mark.spec("CF-6")
def test_a_new_model_is_like_the_one_it_is_based_on_but_for_what_the_entry_says():
    table = extended(my_opus={"based_on": "claude-opus-5", "window": 500_000, "aliases": ["mine"]})
    opus = find_model("claude-opus-5")
    assert opus is not None
    mine = replace(opus, id="my-opus", display_name="my-opus", window=500_000, aliases=("mine",))
    assert (table.find("my-opus"), table.find("mine")) == (mine, mine)
    assert table.find("claude-opus-5") == opus
    assert table.find_or_guess("my-opus") == Guess(mine)
    # Nobody else sees it.
    assert (find_model("my-opus"), DEFAULT_MODEL_TABLE.find("my-opus")) == (None, None)


@pytest.mark.spec("CF-6")
def test_an_entry_overrides_the_row_of_its_name_under_all_of_its_names():
    table = DEFAULT_MODEL_TABLE.extended({"claude-haiku-4-5-20251001": {"max_output": 10_000}})
    before = find_model("claude-haiku-4-5")
    assert before is not None
    expected = replace(before, max_output=10_000)
    assert [table.find(name) for name in ("claude-haiku-4-5", "claude-haiku-4-5-20251001")] == [expected] * 2


@pytest.mark.spec("CF-6")
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"input_price": 3, "output_price": 15}, "3 3.75 6 0.300 15"),
        ({"input_price": 0.1}, "0.1 0.125 0.2 0.010 25"),
        ({"output_price": 30}, "5 6.25 10 0.50 30"),
        (
            {"input_price": 2, "cache_read_price": 0.5, "cache_write_5m_price": 2, "cache_write_1h_price": 0},
            "2 2 0 0.5 25",
        ),
        ({"input_price": 0, "output_price": 0}, "0 0 0 0 0"),
    ],
)
def test_prices_that_are_not_given_follow_the_input_price_or_the_base(fields, expected):
    made = extended(mine={"based_on": "claude-opus-5", **fields}).find("mine")
    assert made is not None
    assert (made.prices, made.fast) == ((Price(rates(expected)),), None)


@pytest.mark.spec("CF-6")
def test_a_model_of_another_maker_gives_its_limits_and_prices():
    numbers = {"window": 400_000, "max_output": 100_000, "input_price": 1.25, "output_price": 10}
    made = extended(gpt_9=numbers).find("gpt-9")
    assert made is not None
    assert (made.id, made.window, made.max_output, made.prices[0].rates.output) == (
        "gpt-9", 400_000, 100_000, Decimal(10),
    )  # fmt: skip


@pytest.mark.spec("CF-6")
def test_entries_may_be_based_on_each_other_in_any_order_and_tables_may_be_extended_again():
    table = extended(b={"based_on": "a", "max_output": 5}, a={"based_on": "claude-opus-5", "window": 7})
    again = table.extended({"c": {"based_on": "b", "min_cache": 9}, "a": {"window": 8}})
    found = {name: again.find(name) for name in ("a", "b", "c")}
    assert {name: (m.window, m.max_output, m.min_cache) for name, m in found.items() if m} == {
        "a": (8, 128_000, 512),
        "b": (7, 5, 512),
        "c": (7, 5, 9),
    }


@pytest.mark.spec("CF-6")
@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"windw": 5}, "models.\"mine\": unknown field 'windw'. Did you mean window?"),
        ({"window": "big"}, "models.\"mine\".window = 'big', allowed is a whole number, 1 or more."),
        ({"window": 0}, 'models."mine".window = 0, allowed is a whole number, 1 or more.'),
        ({"window": True}, 'models."mine".window = True, allowed is a whole number, 1 or more.'),
        (
            {"input_price": -1},
            'models."mine".input_price = -1, allowed is a number, 0 or more (dollars per million tokens).',
        ),
        (
            {"input_price": float("nan")},
            'models."mine".input_price = nan, allowed is a number, 0 or more (dollars per million tokens).',
        ),
        ({"chars_per_token": 0}, 'models."mine".chars_per_token = 0, allowed is a number above 0.'),
        ({"compacts": 1}, 'models."mine".compacts = 1, allowed is true or false.'),
        ({"aliases": "x"}, "models.\"mine\".aliases = 'x', allowed is a list of texts."),
        ({"based_on": ""}, "models.\"mine\".based_on = '', allowed is a text."),
        (
            {"based_on": "claude-opus-55"},
            "models.\"mine\".based_on = 'claude-opus-55', which is not in the table. "
            "Did you mean claude-opus-5-5?",
        ),
        (
            {"based_on": "zzz"},
            "models.\"mine\".based_on = 'zzz', which is not in the table. "
            f"Known models: {', '.join(model.id for model in MODELS)}.",
        ),
        (
            {"window": 5, "input_price": 1},
            'models."mine" is a new model: give based_on = "the name of a known model", or also give '
            "max_output, output_price.",
        ),
    ],
)
def test_a_wrong_entry_is_refused_with_key_value_and_what_is_allowed(entry, problem):
    with pytest.raises(InputError) as raised:
        DEFAULT_MODEL_TABLE.extended({"mine": entry}, origin="config.toml")
    assert str(raised.value) == f"config.toml: {problem}"


@pytest.mark.spec("CF-6")
def test_all_problems_are_told_at_once_and_circles_are_found():
    with pytest.raises(InputError) as raised:
        extended(a={"window": 0, "x": 1}, b=7)  # type: ignore[arg-type]
    assert len(str(raised.value).splitlines()) == 3
    with pytest.raises(InputError) as raised:
        extended(a={"based_on": "b"}, b={"based_on": "a"})
    assert str(raised.value) == "models.\"b\".based_on = 'a', which is based on 'b' itself."


def test_models_offer_no_effort_three_four_or_all_five():
    found = {len(model.efforts): model.efforts for model in MODELS}
    assert found == {
        0: (),
        3: ("low", "medium", "high"),
        4: ("low", "medium", "high", "max"),
        5: ("low", "medium", "high", "xhigh", "max"),
    }


@pytest.mark.spec("CF-6")
def test_every_field_of_an_entry_becomes_the_value_of_its_name():
    fields: dict[str, Any] = {
        "display_name": "Mine", "aliases": ("one", "two"), "window": 1, "max_output": 2, "min_cache": 3,
        "chars_per_token": 0.5, "keeps_thinking": False, "binds_thinking": True, "refuses_overflow": True,
        "sharp_images": False, "us_surcharge": False, "compacts": False, "system_messages": False,
    }  # fmt: skip
    base = replace(found("claude-opus-5"), id="mine", lifecycle="active", retires=None)
    made = extended(mine={"based_on": "claude-opus-5", **fields, "aliases": ["one", "two"]}).find("mine")
    assert made == replace(base, **fields)


@pytest.mark.spec("CF-6")
def test_a_model_that_is_based_on_a_retired_one_is_not_retired_itself():
    base = found("claude-sonnet-4-5")
    assert (base.lifecycle, base.retires) == ("deprecated", date(2026, 11, 30))
    made = extended(mine={"based_on": "claude-sonnet-4-5"}).find("mine")
    own = {"id": "mine", "display_name": "mine", "aliases": (), "lifecycle": "active", "retires": None}
    assert made == replace(base, **own)


@pytest.mark.spec("CF-6")
@pytest.mark.parametrize(
    ("field", "accepted", "refused"),
    [
        ("window", [1, 10**7], [0, -1, 1.0, True, "1", None, float("inf")]),
        ("input_price", [0, 0.1, Decimal("2.5")], [-0.1, True, "1", float("nan"), float("inf")]),
        ("chars_per_token", [0.1, 1, Decimal(3)], [0, -1, False, "1", float("nan")]),
        ("compacts", [True, False], [0, 1, "true", None]),
        ("display_name", ["a"], ["", "  ", 7, None]),
        ("aliases", [[], ["a", "b"], ("a",)], ["a", [1], {"a"}, None]),
    ],
)
def test_a_field_accepts_the_values_of_its_kind_and_no_others(field, accepted, refused):
    for value in accepted:
        assert extended(mine={"based_on": "claude-opus-5", field: value}).find("mine") is not None
    for value in refused:
        with pytest.raises(InputError):
            extended(mine={"based_on": "claude-opus-5", field: value})


@pytest.mark.spec("CF-6")
def test_an_entry_may_be_based_on_one_that_stands_before_it():
    table = extended(a={"based_on": "claude-opus-5", "window": 7}, b={"based_on": "a"}, c={"based_on": "a"})
    assert [found(name, table).window for name in ("a", "b", "c")] == [7, 7, 7]


@pytest.mark.spec("CF-6")
def test_an_entry_may_name_itself_as_its_base_if_the_table_has_it():
    table = DEFAULT_MODEL_TABLE.extended({"claude-opus-5": {"based_on": "claude-opus-5", "window": 9}})
    assert table.find("claude-opus-5") == replace(found("claude-opus-5"), window=9)


@pytest.mark.spec("CF-6")
def test_an_alias_that_is_based_on_its_own_model_is_a_model_of_its_own():
    entry = {"based_on": "claude-haiku-4-5", "max_output": 9}
    table = DEFAULT_MODEL_TABLE.extended({"claude-haiku-4-5-20251001": entry})
    base = found("claude-haiku-4-5")
    id = "claude-haiku-4-5-20251001"
    own = replace(base, id=id, display_name=id, aliases=(), max_output=9)
    assert (table.find(id), table.find("claude-haiku-4-5")) == (own, base)


@pytest.mark.spec("CF-6")
def test_problems_of_entries_without_an_origin_are_told_as_they_are_and_once():
    with pytest.raises(InputError) as raised:
        add_entries({"a": {"based_on": "no"}, "b": {"based_on": "a"}, "c": {"zzzzz": 1}}, DEFAULT_MODEL_TABLE)
    assert str(raised.value) == (
        "models.\"c\": unknown field 'zzzzz'. Fields are based_on, display_name, aliases, window, "
        "max_output, min_cache, input_price, output_price, cache_read_price, cache_write_5m_price, "
        "cache_write_1h_price, chars_per_token, keeps_thinking, binds_thinking, refuses_overflow, "
        "sharp_images, us_surcharge, compacts, system_messages."
    )


def test_the_last_price_whose_conditions_are_met_applies_and_speed_goes_before_it():
    one, two, fast = (rates(f"{at} {at} {at} {at} {at}") for at in (1, 2, 3))
    prices = (Price(one), Price(two, above_prompt_tokens=10, since=date(2026, 5, 1)))
    made = replace(found("claude-opus-5"), prices=prices, fast=fast)
    before, since = date(2026, 4, 30), date(2026, 5, 1)
    asked = [(before, 11), (since, 10), (since, 11), (date(2026, 5, 2), 12)]
    assert [made.rates(on=on, prompt_tokens=tokens) for on, tokens in asked] == [one, one, two, two]
    assert made.rates(on=since, prompt_tokens=11, speed="fast") == fast
    slow = replace(made, fast=None)
    assert slow.rates(on=since, prompt_tokens=0, speed="fast") == one


@pytest.mark.parametrize(
    ("name", "measured_as"),
    [
        ("a-new-haiku", "claude-haiku-5-5"),
        ("mythos-9", "claude-mythos-5-2"),
        ("fable", "claude-fable-5-2"),
        ("gpt-9", "claude-opus-5-5"),
        ("", "claude-opus-5-5"),
    ],
)
def test_an_unknown_name_is_measured_as_the_newest_model_of_its_family_or_the_newest_opus(name, measured_as):
    assert model_or_default(name).model.id == measured_as


def found(name: str, table: ModelTable = DEFAULT_MODEL_TABLE) -> Model:
    model = table.find(name)
    assert model is not None
    return model


@pytest.mark.spec("CF-6")
def test_rows_that_are_added_are_found_everywhere_in_the_process(monkeypatch):
    monkeypatch.setattr(model_table, "_table", DEFAULT_MODEL_TABLE)
    model_table.add_models({"mine": {"based_on": "claude-opus-5", "window": 7}}, origin="config.toml")
    added = find_model("mine")
    assert added is not None
    assert (added.window, has_known_price("mine"), find_named("x/mine")) == (7, True, added)
    with pytest.raises(InputError, match=r"^config.toml: "):
        model_table.add_models({"mine": {"window": 0}}, origin="config.toml")
    model_table.add_models({})
    assert (find_model("mine"), has_known_price("mine"), find_named("mine")) == (None, False, None)
