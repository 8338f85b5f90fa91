"""Names of policies and their switches."""

import pytest

from everturn.decide.policy import POLICIES
from everturn.errors import UsageError
from everturn.measure.thresholds import compute_thresholds
from everturn.replay.policies import REPLAY_POLICIES, parse_policy


@pytest.mark.spec("RP-8")
def test_every_baseline_is_shipped_and_has_words_about_it():
    wanted = {
        "none", "sliding-window", "clear-keep-3", "when-cold", "masking", "summarize-85", "recorded",
        "claude-code",
    }  # fmt: skip
    assert wanted <= set(REPLAY_POLICIES)
    assert all(each.options.policy == name for name, each in REPLAY_POLICIES.items())
    assert all(policy.about for policy in POLICIES.values())


@pytest.mark.spec("RP-8")
@pytest.mark.parametrize("name", REPLAY_POLICIES)
def test_each_can_be_combined_with_both_lifetimes_and_with_refreshing(name):
    found = parse_policy(f"{name}+1h+refresh")
    assert (found.name, found.ttl, found.refresh) == (f"{name}+1h+refresh", "1h", True)
    assert (found.options, found.compacts) == (REPLAY_POLICIES[name].options, REPLAY_POLICIES[name].compacts)
    assert parse_policy(f"{name}+refresh+1h") == found
    assert parse_policy(f" {name}+5m ") == REPLAY_POLICIES[name]


@pytest.mark.spec("RP-8")
def test_clearing_keeps_three_results_at_a_hundred_thousand_tokens_as_the_api_does():
    settings = REPLAY_POLICIES["clear-keep-3"].options.micro.clear_at
    assert (settings.keep, settings.trigger) == (3, 100_000)


@pytest.mark.spec("RP-8")
def test_summarizing_begins_at_85_percent_of_the_whole_window():
    options = REPLAY_POLICIES["summarize-85"].options
    assert compute_thresholds(200_000, 64_000, options.thresholds).auto == 170_000
    assert options.steps == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nothing", "Unknown policy 'nothing'. Choose one of: none, recorded"),
        ("none+2h", "Invalid switches in 'none+2h'"),
        ("none+refresh+refresh-blind", "and +refresh or +refresh-blind"),
        ("none+5m+1h", "Invalid switches in 'none+5m+1h'"),
        ("", "Unknown policy ''."),
    ],
)
def test_what_cannot_be_read_is_said_with_what_could_be(text, words):
    with pytest.raises(UsageError) as problem:
        parse_policy(text)
    assert words in str(problem.value)
