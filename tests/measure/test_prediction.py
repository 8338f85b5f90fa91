"""Predictions and what came of them: the arithmetic, and what a surprise does to our picture of the cache."""

import pytest

from everturn.history.records import CacheCreation, Usage
from everturn.measure.prediction import (
    Forecast,
    Prediction,
    PredictionCheck,
    check_prediction,
    prediction_from_usage,
)
from everturn.measure.prefix_cache import Breakpoint, PrefixCache, PromptLayout

SIZE = 100


def prompt(blocks: int, *markers: int, ttl: str = "5m") -> PromptLayout:
    return PromptLayout(
        scope="w",
        keys=range(blocks),
        ends=[SIZE * (at + 1) for at in range(blocks)],
        positions=range(blocks),
        markers=[Breakpoint(at, ttl) for at in markers],
        total=SIZE * blocks + 3,
    )


def usage(read: int, write_5m: int, write_1h: int, plain: int) -> Usage:
    return Usage(
        input_tokens=plain,
        cache_creation_input_tokens=write_5m + write_1h,
        cache_read_input_tokens=read,
        cache_creation=CacheCreation(write_5m, write_1h),
    )


def asked(forecast: Forecast, request: PromptLayout, now: float = 0.0) -> Prediction:
    """A call that is answered as predicted."""
    found = forecast.predict(request, now)
    settled = forecast.settle(usage(*found.tokens), now)
    assert settled == PredictionCheck(
        "as predicted", found, prediction_from_usage(usage(*found.tokens)), "reported as predicted"
    )
    return found


@pytest.mark.spec("PC-8")
def test_a_prediction_says_what_is_read_written_and_plain_and_where_the_hit_ends():
    forecast = Forecast()
    assert asked(forecast, prompt(3, 2)) == Prediction(0, 300, 0, 3)
    assert asked(forecast, prompt(5, 2, 4)) == Prediction(300, 200, 0, 3, hit=2)
    assert asked(forecast, prompt(9, 4, 6, ttl="1h")) == Prediction(500, 0, 200, 203, hit=4)


def test_asking_again_before_the_answer_changes_nothing():
    forecast = Forecast()
    asked(forecast, prompt(3, 2))
    first = forecast.predict(prompt(5, 4), 1.0)
    assert forecast.predict(prompt(5, 4), 2.0) == first
    assert asked(forecast, prompt(5, 4), 3.0) == first


def test_an_answer_to_nothing_predicted_settles_nothing():
    forecast = Forecast()
    assert forecast.settle(Usage(), 0.0) is None
    asked(forecast, prompt(3, 2))
    assert forecast.settle(Usage(), 0.0) is None


def test_usage_without_a_breakdown_is_taken_as_five_minute_writes():
    assert prediction_from_usage(Usage(3, 500, 900, 70)) == Prediction(900, 500, 0, 3)
    assert prediction_from_usage(Usage(3, 500, 900, 70, CacheCreation(100, 400))) == Prediction(
        900, 100, 400, 3
    )


PREDICTED = Prediction(900, 100, 0, 3, hit=8)


@pytest.mark.spec("PC-8")
@pytest.mark.parametrize(
    ("seen", "verdict", "missed", "why"),
    [
        ((900, 100, 0, 3), "as predicted", 0, "reported as predicted"),
        (
            (500, 500, 0, 3),
            "read less",
            400,
            "400 tokens that should have been read were not: the entry was evicted early",
        ),
        (
            (1000, 0, 0, 3),
            "read more",
            0,
            "100 more tokens were read: an entry that is not ours was found",
        ),
        (
            (900, 0, 100, 3),
            "written otherwise",
            0,
            "900 tokens were read as predicted, but the rest was not written as requested",
        ),
        (
            (950, 100, 0, 3),
            "other total",
            0,
            "1,053 tokens billed, 1,003 expected: the provider counts differently",
        ),
        (
            (0, 1100, 0, 3),
            "read less",
            900,
            "900 tokens that should have been read were not: the entry was evicted early",
        ),
    ],
)
def test_what_is_reported_is_compared_and_a_difference_explained(seen, verdict, missed, why):
    found = check_prediction(PREDICTED, usage(*seen))
    assert found == PredictionCheck(verdict, PREDICTED, Prediction(*seen), why)
    assert found.missed == missed


def test_what_the_provider_lost_is_lost_in_our_picture_too():
    """All entries are gone; the next call must not expect any of them, only what this one wrote."""
    forecast = Forecast()
    asked(forecast, prompt(5, 1, 4))
    assert forecast.predict(prompt(8, 1, 7), 200.0) == Prediction(500, 300, 0, 3, hit=4)
    settled = forecast.settle(usage(0, 800, 0, 3), 200.0)
    assert settled is not None
    assert (settled.verdict, settled.missed) == ("read less", 500)
    # Written again at 200 s, the entry at the first marker lives until 500 s, not until 300 s.
    assert asked(forecast, prompt(3, 1, 2), 450.0) == Prediction(200, 100, 0, 3, hit=1)
    assert asked(forecast, prompt(9, 1, 7, 8), 450.0) == Prediction(800, 100, 0, 3, hit=7)


def test_losing_the_last_entry_leaves_those_before_it():
    forecast = Forecast()
    asked(forecast, prompt(5, 1, 4))
    forecast.predict(prompt(8, 1, 7), 10.0)
    forecast.settle(usage(200, 600, 0, 3), 10.0)
    # A branch from before the lost entry: it is really gone, the one before it is not.
    assert asked(forecast, prompt(6, 5), 20.0) == Prediction(200, 400, 0, 3, hit=1)


def test_forecasts_of_one_workspace_share_what_was_written():
    cache = PrefixCache()
    asked(Forecast(cache), prompt(3, 2))
    assert Forecast(cache).predict(prompt(5, 4), 1.0).read == 300


def test_an_entry_that_was_read_instead_of_a_lost_one_stays_where_no_breakpoint_writes_it_again():
    forecast = Forecast()
    asked(forecast, prompt(5, 1, 4))
    forecast.predict(prompt(8, 7), 10.0)
    forecast.settle(usage(200, 600, 0, 3), 10.0)
    assert asked(forecast, prompt(6, 5), 20.0) == Prediction(200, 400, 0, 3, hit=1)
