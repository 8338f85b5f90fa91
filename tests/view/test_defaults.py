"""What a value has by default: where a caller, a file of an earlier version or a provider says nothing."""

from typing import Any

from struct_defaults import defaults

from everturn.view.breakpoints import Breakpoints
from everturn.view.flatten import Flat
from everturn.view.key_parameters import KeyParameters, LatchedParameters, TtlSettings
from everturn.view.system_prompt import PromptSection

# Defaults that are values of their own are left to the tests of those.
DEFAULTS: dict[type, dict[str, Any]] = {
    Breakpoints: {"places": (), "why": (), "reached": -1},
    Flat: {"repairs": ()},
    TtlSettings: {"eligible": False, "bedrock_1h": False, "in_overage": False},
    KeyParameters: {
        "betas": (),
        "thinking": None,
        "effort": "",
        "speed": "",
        "tool_choice": None,
        "extra": {},
    },
    LatchedParameters: {"refused": ()},
    PromptSection: {"breaks_cache_because": ""},
}


def test_what_is_not_given_has_these_values():
    assert {made: defaults(made, expected) for made, expected in DEFAULTS.items()} == DEFAULTS
