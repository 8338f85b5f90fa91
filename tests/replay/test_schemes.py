"""Names of schemes and their switches."""

import pytest

from everturn.errors import UsageError
from everturn.measure.thresholds import limits
from everturn.replay.schemes import SCHEMES, scheme


@pytest.mark.spec("RP-8")
def test_every_baseline_is_shipped_and_has_words_about_it():
    wanted = {
        "none", "sliding-window", "clear-keep-3", "when-cold", "masking", "summarize-85", "recorded",
        "claude-code",
    }  # fmt: skip
    assert wanted <= set(SCHEMES)
    assert all(each.policy.about and each.policy.name == name for name, each in SCHEMES.items())


@pytest.mark.spec("RP-8")
@pytest.mark.parametrize("name", SCHEMES)
def test_each_can_be_combined_with_both_lifetimes_and_with_refreshing(name):
    found = scheme(f"{name}+1h+refresh")
    assert (found.name, found.ttl, found.refresh) == (f"{name}+1h+refresh", "1h", True)
    assert (found.policy, found.compacts) == (SCHEMES[name].policy, SCHEMES[name].compacts)
    assert scheme(f"{name}+refresh+1h") == found
    assert scheme(f" {name}+5m ") == SCHEMES[name]


@pytest.mark.spec("RP-8")
def test_clearing_keeps_three_results_at_a_hundred_thousand_tokens_as_the_api_does():
    settings = SCHEMES["clear-keep-3"].policy.micro.clear_at
    assert (settings.keep, settings.trigger) == (3, 100_000)


@pytest.mark.spec("RP-8")
def test_summarizing_begins_at_85_percent_of_the_whole_window():
    assert limits(200_000, 64_000, SCHEMES["summarize-85"].policy.thresholds).auto == 170_000
    assert SCHEMES["summarize-85"].policy.steps == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nothing", "There is no policy 'nothing'. Choose one of: none, recorded"),
        ("none+2h", "'none+2h' cannot be read"),
        ("none+refresh+refresh-blind", "and +refresh or +refresh-blind"),
        ("none+5m+1h", "'none+5m+1h' cannot be read"),
        ("", "There is no policy ''."),
    ],
)
def test_what_cannot_be_read_is_said_with_what_could_be(text, words):
    with pytest.raises(UsageError) as problem:
        scheme(text)
    assert words in str(problem.value)
