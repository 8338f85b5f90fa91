"""Who may ask for an hour, and that nothing in the key changes in mid-session."""

import msgspec
import pytest

from everturn.measure.capabilities import ANTHROPIC, BEDROCK, PLAIN, Capabilities
from everturn.view.key_parameters import (
    KeyParameters,
    LatchedParameters,
    TtlChoice,
    TtlSettings,
    choose_ttl,
    latch_parameters,
    to_request_fields,
)

ELIGIBLE = TtlSettings(eligible=True)
SHORT_ONLY = Capabilities(caching=True, ttls=("5m",), max_breakpoints=4)


@pytest.mark.spec("PC-9")
@pytest.mark.parametrize(
    ("source", "ttl"),
    [
        ("main", "1h"),
        ("main:resumed", "1h"),
        ("sdk", "1h"),
        ("agent:explore", "1h"),
        ("sdk2", "5m"),
        ("agent", "5m"),
        ("domain", "5m"),
        ("", "5m"),
        ("MAIN", "5m"),
    ],
)
def test_an_hour_is_for_sources_on_the_list(source: str, ttl: str):
    found = choose_ttl(source, "conversation", ELIGIBLE, ANTHROPIC)
    words = (
        f"source {source!r} may ask for an hour"
        if ttl == "1h"
        else f"source {source!r} is not in the list of sources for one hour"
    )
    assert found == TtlChoice(ttl, words)


@pytest.mark.spec("PC-9")
@pytest.mark.parametrize(
    ("purpose", "settings", "able", "why"),
    [
        ("fork", ELIGIBLE, ANTHROPIC, "a fork is over before an hour could pay off"),
        ("conversation", TtlSettings(), ANTHROPIC, "the account is not eligible for an hour"),
        ("conversation", ELIGIBLE, SHORT_ONLY, "the provider supports only five minutes"),
        ("conversation", ELIGIBLE, PLAIN, "the provider supports only five minutes"),
        (
            "conversation",
            TtlSettings(True, ("x*",)),
            ANTHROPIC,
            "source 'main' is not in the list of sources for one hour",
        ),
    ],
)
def test_everybody_else_gets_five_minutes_and_a_reason(purpose, settings, able, why):
    assert choose_ttl("main", purpose, settings, able) == TtlChoice("5m", why)


@pytest.mark.spec("PC-18")
@pytest.mark.parametrize(
    ("settings", "able", "expected"),
    [
        (ELIGIBLE, BEDROCK, TtlChoice("5m", "on Bedrock one hour must be enabled (ttl.bedrock_1h)")),
        (TtlSettings(bedrock_1h=True), BEDROCK, TtlChoice("1h", "source 'main' may ask for an hour")),
        (
            TtlSettings(bedrock_1h=True, in_overage=True),
            BEDROCK,
            TtlChoice("1h", "source 'main' may ask for an hour"),
        ),
        (
            TtlSettings(bedrock_1h=True),
            ANTHROPIC,
            TtlChoice("5m", "the account is not eligible for an hour"),
        ),
        (
            TtlSettings(eligible=True, in_overage=True),
            ANTHROPIC,
            TtlChoice("5m", "the account is in overage"),
        ),
    ],
)
def test_an_hour_on_bedrock_is_asked_for_and_an_account_in_overage_keeps_five_minutes(
    settings, able, expected
):
    assert choose_ttl("main", "conversation", settings, able) == expected


@pytest.mark.spec("PC-18")
def test_overage_that_begins_in_the_middle_of_a_session_changes_nothing():
    latched = KeyParameters(choose_ttl("main", "conversation", ELIGIBLE, ANTHROPIC))
    in_overage = TtlSettings(eligible=True, in_overage=True)
    wanted = KeyParameters(choose_ttl("main", "conversation", in_overage, ANTHROPIC))
    assert latch_parameters(latched, wanted) == LatchedParameters(latched, ("lifetime stays 1h",))


FIRST = KeyParameters(
    TtlChoice("1h", "eligible"),
    betas=("a",),
    thinking={"type": "enabled", "budget_tokens": 4000},
    effort="high",
    speed="fast",
    tool_choice={"type": "auto"},
    extra={"service": 1},
)
OTHERS = {
    "lifetime": (TtlChoice("5m", "no longer eligible"), "lifetime stays 1h"),
    "betas": (("a", "b"), "betas stays ('a',)"),
    "thinking": (None, "thinking stays {'type': 'enabled', 'budget_tokens': 4000}"),
    "effort": ("low", "effort stays high"),
    "speed": ("", "speed stays fast"),
    "tool_choice": ({"type": "none"}, "tool_choice stays {'type': 'auto'}"),
    "extra": ({}, "extra stays {'service': 1}"),
}


@pytest.mark.spec("PC-10")
def test_every_field_of_the_key_has_a_case_below():
    assert set(OTHERS) == set(KeyParameters.__struct_fields__)


@pytest.mark.spec("PC-10")
@pytest.mark.parametrize("field", OTHERS)
def test_what_the_first_request_had_holds_for_the_session(field: str):
    value, said = OTHERS[field]
    wanted = msgspec.structs.replace(FIRST, **{field: value})
    assert latch_parameters(None, FIRST) == LatchedParameters(FIRST)
    assert latch_parameters(FIRST, wanted) == LatchedParameters(FIRST, (said,))
    # And again: a refusal is no step towards the change.
    assert latch_parameters(latch_parameters(FIRST, wanted).parameters, wanted) == LatchedParameters(
        FIRST, (said,)
    )


@pytest.mark.spec("PC-10")
def test_eligibility_that_flips_changes_nothing_and_another_reason_is_no_change():
    asked = msgspec.structs.replace(FIRST, lifetime=choose_ttl("main", "conversation", ELIGIBLE, ANTHROPIC))
    assert latch_parameters(FIRST, asked) == LatchedParameters(FIRST)
    flipped = msgspec.structs.replace(
        FIRST, lifetime=choose_ttl("main", "conversation", TtlSettings(), ANTHROPIC)
    )
    assert latch_parameters(FIRST, flipped).parameters.lifetime.ttl == "1h"


def test_parameters_are_spelled_as_fields_of_the_request():
    assert to_request_fields(FIRST) == {
        "service": 1,
        "thinking": {"type": "enabled", "budget_tokens": 4000},
        "speed": "fast",
        "tool_choice": {"type": "auto"},
        "output_config": {"effort": "high"},
    }
    assert to_request_fields(KeyParameters(TtlChoice("5m", ""))) == {}


def test_a_format_and_an_effort_stand_beside_each_other():
    both = msgspec.structs.replace(FIRST, extra={"output_config": {"format": {"type": "json"}}})
    assert to_request_fields(both)["output_config"] == {"format": {"type": "json"}, "effort": "high"}
    alone = KeyParameters(TtlChoice("5m", ""), extra={"output_config": {"format": {"type": "json"}}})
    assert to_request_fields(alone) == {"output_config": {"format": {"type": "json"}}}
