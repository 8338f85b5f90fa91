"""What a value has by default: where a caller, a file of an earlier version or a provider says nothing."""

from collections.abc import Iterable
from inspect import signature
from typing import Any

import msgspec

from everturn.wire.anthropic import Request
from everturn.wire.claude_code_reader import Transcript, TranscriptLine
from everturn.wire.claude_code_writer import LineContext
from everturn.wire.overflow import Overflow

# Defaults that are values of their own are left to the tests of those.
DEFAULTS: dict[type, dict[str, Any]] = {
    Request: {"system": (), "tools": (), "settings": {}},
    TranscriptLine: {"records": (), "type": ""},
    Transcript: {"flaws": (), "end_sum": 0},
    LineContext: {"cwd": "", "version": "", "git_branch": ""},
    Overflow: {"tokens": 0, "limit": 0},
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
