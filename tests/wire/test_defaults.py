"""What a value has by default: where a caller, a file of an earlier version or a provider says nothing."""

from typing import Any

from struct_defaults import defaults

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


def test_what_is_not_given_has_these_values():
    assert {made: defaults(made, expected) for made, expected in DEFAULTS.items()} == DEFAULTS
