"""What a value has by default: where a caller, a file of an earlier version or a provider says nothing."""

from collections.abc import Iterable
from inspect import signature
from typing import Any

import msgspec

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


def defaults(made: type, names: Iterable[str]) -> dict[str, Any]:
    if not issubclass(made, msgspec.Struct):
        return {name: signature(made).parameters[name].default for name in names}
    fields = {each.name: each for each in msgspec.structs.fields(made)}
    return {name: default_of(fields[name]) for name in names}


def default_of(field: msgspec.structs.FieldInfo) -> Any:
    return field.default if field.default is not msgspec.NODEFAULT else field.default_factory()


def test_what_is_not_given_has_these_values():
    assert {made: defaults(made, expected) for made, expected in DEFAULTS.items()} == DEFAULTS
